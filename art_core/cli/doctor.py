"""``art doctor``: what this machine has, and whether the numbers of a model can be trusted on it."""

from __future__ import annotations

import json
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Literal

from cyclopts import App, Parameter

from art_core.errors import InputError
from art_core.loop.config import TrainConfig
from art_core.loop.machine import examine
from art_core.loop.subject import find_subject
from art_core.observe.formats import duration
from art_core.observe.tables import print_table, working

if TYPE_CHECKING:
    from art_core.loop.numerics import Drift, NumericsReport
    from art_core.training.numerics import Figure

__all__ = ["app"]

_EXAMPLE = """
```console
$ art doctor
$ art doctor --numerics smollm2-135m --precision float32
```
"""

app = App(name="doctor", help="Check this machine, and a model's numbers on it.", help_epilogue=_EXAMPLE)


@app.default
def doctor(
    *,
    numerics: str | None = None,
    precision: Literal["auto", "float32", "bfloat16"] | None = None,
    out: Path | None = None,
    json_output: Annotated[bool, Parameter(name="--json", negative="")] = False,
) -> int:
    """Tell what is here and what is missing; with `--numerics`, whether sampler and trainer compute the same.

    The exit code is 1 if there is a problem or a check failed.

    Parameters
    ----------
    numerics
        A run's directory, or a model: five checks of its numbers on this machine, in about a minute.
    precision
        Of the checks. Default: that of the run, which is measured (`auto`) unless it was set.
    out
        Directory that runs are put in. Default: runs.
    json_output
        Print one JSON object.
    """
    if numerics is None:
        if precision is not None:
            raise InputError(f"--precision {precision} has no effect without --numerics RUN or --numerics MODEL")
        return _machine(out or Path(TrainConfig().out), json_output)
    if out is not None:
        raise InputError(f"--out {out} has no effect with --numerics, which writes nothing")
    return _numerics(numerics, precision, json_output)


def _machine(runs: Path, json_output: bool) -> int:
    with working() as say:
        say("looking at this machine")
        findings = examine(runs)
    bad = any(finding.state == "problem" for finding in findings)
    if json_output:
        print(json.dumps({"ok": not bad, "findings": [finding.to_dict() for finding in findings]}, ensure_ascii=False))
    else:
        rows = [(f.name, f.state, f"{f.found}\n→ {f.cure}" if f.cure else f.found) for f in findings]
        print_table("This machine", ("", "", "found"), [rows])
    return int(bad)


def _numerics(target: str, precision: str | None, json_output: bool) -> int:
    subject = find_subject(target)
    with working() as say:
        say("importing torch")
        from art_core.loop.numerics import measure_numerics  # here, because it loads torch

        report = measure_numerics(subject, precision or subject.config.computed_in, say=say)
    if json_output:
        print(json.dumps(report.to_dict(), ensure_ascii=False, allow_nan=False))
    else:
        _show(report)
    return int(bool(report.failed))


def _show(report: NumericsReport) -> None:
    print(f"{report.subject}, in {report.precision} on {report.device}, temperature {report.temperature:g}")
    groups: list[list[tuple[str, ...]]] = [
        [
            (
                check.name if number == 0 else "",
                check.status if number == 0 else "",
                *_cells(figure),
            )
            for number, figure in enumerate(check.figures)
        ]
        or [(check.name, check.status, "", "", "", "")]
        for check in report.checks
    ]
    if report.gap_to_float32 is not None:
        groups.append(_drift(report.gap_to_float32))
    columns = ("check", "", "figure", "measured", "bound", "noise floor")
    print_table("", columns, groups, numbers=(3, 4, 5))
    for check in report.checks:
        print(f"{check.name}: {check.note}.")
    if report.gap_to_float32 is not None:
        print(f"gap to float32: what {report.precision} alone changes, for your information; part of the noise floor.")
    verdict = f"failed: {', '.join(report.failed)}; see docs/numerics.md" if report.failed else "no check failed"
    print(f"\n{verdict} ({duration(report.seconds)})")


def _drift(gap: Drift) -> list[tuple[str, ...]]:
    """The rows about the precision alone, which are no check."""
    return [
        ("gap to float32", "", "mean gap", _number(gap.mean, "nats"), "", ""),
        ("", "", "largest gap", _number(gap.largest, "nats"), "", ""),
        ("", "", "gradient", _number(gap.gradient, "share"), "", ""),
    ]


def _cells(figure: Figure) -> tuple[str, str, str, str]:
    mark = "" if figure.within else " ✗"
    relation = "≥" if figure.at_least else "≤"
    bound = "" if figure.bound is None else f"{relation} {_number(figure.bound, figure.unit)}"
    floor = "" if figure.floor is None else _number(figure.floor, figure.unit)
    return figure.name, _number(figure.value, figure.unit) + mark, bound, floor


def _number(value: float, unit: str) -> str:
    if unit == "share":
        return f"{100 * value:.3g} %"
    return f"{value:.2e}" if value and abs(value) < 1e-3 else f"{value:.3g}"
