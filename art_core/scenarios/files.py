"""Writes scenarios as JSON lines that ``load_scenarios`` reads back equal, for people to look at and edit."""

from __future__ import annotations

import json
import re
from collections.abc import Iterable
from pathlib import Path

from art_core.disk import append_line, write_whole
from art_core.errors import InputError
from art_core.scenario import Scenario

__all__ = ["append_scenario", "write_scenarios"]


def write_scenarios(path: str | Path, scenarios: Iterable[Scenario]) -> int:
    """Write one scenario a line and say how many; the file appears whole or not at all.

    Raises:
        InputError: an id occurs twice, a scenario is not JSON, or the file cannot be written.
    """
    path = Path(path)
    lines: dict[str, str] = {}
    for scenario in scenarios:
        if scenario.id in lines:
            raise InputError(f"scenario id {scenario.id!r} occurs twice; ids must be unique")
        lines[scenario.id] = _line(scenario)
    try:
        write_whole(path, (f"{line}\n" for line in lines.values()))
    except OSError as error:
        raise InputError(f"cannot write {str(path)!r}: {error.strerror}") from error
    return len(lines)


def append_scenario(path: Path, scenario: Scenario) -> None:
    """Write one more line, into a file that is made if there is none.

    Raises:
        InputError: the scenario is not JSON, or the file cannot be written.
    """
    try:
        append_line(path, _line(scenario))
    except OSError as error:
        raise InputError(f"cannot write {str(path)!r}: {error.strerror}") from error


def _line(scenario: Scenario) -> str:
    """
    Raises:
        InputError: it is not JSON.
    """
    try:
        return _one_line(json.dumps(scenario.to_record(), ensure_ascii=False, allow_nan=False))
    except (TypeError, ValueError) as error:
        raise InputError(f"scenario {scenario.id!r} cannot be written as JSON: {error}") from error


def _one_line(text: str) -> str:
    """The characters that some readers take for the end of a line, escaped."""
    return re.sub("[\x85\u2028\u2029]", lambda found: f"\\u{ord(found[0]):04x}", text)
