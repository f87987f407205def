"""The file that written scenarios are kept in, and beside it the file of those that were refused: nothing that was paid for is lost.

scenarios.jsonl ─► to be trained on; a line each, appended as they are written
scenarios.refused.jsonl ─► not usable, each with ``metadata["refused"]``: why
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path

from art_core.errors import InputError
from art_core.scenario import Scenario, load_scenarios
from art_core.scenarios.files import append_scenario, write_scenarios

from .brief import Brief

__all__ = ["TRIED", "Shelf"]

TRIED = "dry_run"
"""In a scenario's metadata: what became of its dry run."""


@dataclass(slots=True, kw_only=True)
class Shelf:
    """Both files, as they stand on disk."""

    path: Path
    kept: list[Scenario] = field(default_factory=list)
    refused: list[Scenario] = field(default_factory=list)

    @classmethod
    def open(cls, path: Path, brief: Brief) -> Shelf:
        """What was written before, from the same brief.

        Raises:
            InputError: the file holds scenarios of another origin.
        """
        shelf = cls(path=path)
        shelf.refused = _read(shelf.refused_path)
        gone = {scenario.id for scenario in shelf.refused}
        shelf.kept = [scenario for scenario in _read(path) if scenario.id not in gone]
        for scenario in shelf.kept:
            written = scenario.metadata.get("written")
            if not isinstance(written, Mapping) or written.get("brief") != brief.key:
                raise InputError(
                    f"{str(path)!r} holds scenarios of another origin ({scenario.id!r}); to train on them as they are, give "
                    f"--scenarios {path}; to write new ones, another file"
                )
        return shelf

    @property
    def refused_path(self) -> Path:
        return self.path.with_suffix(f".refused{self.path.suffix}")

    @property
    def all(self) -> list[Scenario]:
        """Everything that was ever written."""
        return [*self.kept, *self.refused]

    @property
    def untried(self) -> list[Scenario]:
        """Those that have not been through a dry run."""
        return [scenario for scenario in self.kept if TRIED not in scenario.metadata]

    def add(self, scenario: Scenario) -> None:
        """Keep one more."""
        append_scenario(self.path, scenario)
        self.kept.append(scenario)

    def settle(self, tried: Mapping[str, Scenario], refused: Mapping[str, str]) -> None:
        """Replace those that were ``tried``, by id, and move the ``refused`` away, by id with the reason."""
        for scenario in self.kept:
            if scenario.id in refused:
                told = replace(scenario, metadata={**scenario.metadata, "refused": refused[scenario.id]})
                append_scenario(self.refused_path, told)
                self.refused.append(told)
        self.kept = [tried.get(scenario.id, scenario) for scenario in self.kept if scenario.id not in refused]
        write_scenarios(self.path, self.kept)


def _read(path: Path) -> list[Scenario]:
    if not path.is_file() or not path.read_text(encoding="utf-8").strip():
        return []
    return load_scenarios(path)
