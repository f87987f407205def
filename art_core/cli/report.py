"""``art report``: make a run's page again from its files."""

from __future__ import annotations

from pathlib import Path

from cyclopts import App

from art_core.observe.report import write_report

__all__ = ["app"]

_EXAMPLE = """
```console
$ art report runs/support
```
"""

app = App(name="report", help="Write a run's report.html again.", help_epilogue=_EXAMPLE)


@app.default
def report(run: Path, /) -> None:
    """Write `report.html` into a run's directory, finished or not, and print its path.

    Parameters
    ----------
    run
        The run's directory.
    """
    print(write_report(run))
