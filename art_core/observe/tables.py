"""Tables and a progress line for verbs that answer a question and are done.

A terminal keeps its width and colours; anything else gets plain text of a fixed width. Only the words of a verdict are coloured.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from typing import TextIO

from rich import box
from rich.console import Console
from rich.table import Table
from rich.text import Text

__all__ = ["print_table", "working"]

WIDTH = 100
_STYLES = {"ok": "green", "pass": "green", "warning": "yellow", "warn": "yellow", "problem": "red", "fail": "red"}


def print_table(
    title: str,
    columns: Sequence[str],
    groups: Iterable[Sequence[Sequence[str]]],
    *,
    numbers: Iterable[int] = (),
    out: TextIO | None = None,
) -> None:
    """Print a table; a line is drawn between groups of rows, and cells that are a verdict are coloured.

    Args:
        numbers: columns that are set to the right.
        out: standard output unless given.
    """
    right = set(numbers)
    table = Table(title=Text(title), title_justify="left", title_style="bold", box=box.SIMPLE_HEAD, pad_edge=False)
    for index, column in enumerate(columns):
        table.add_column(column, justify="right" if index in right else "left", overflow="fold")
    for rows in groups:
        for row in rows:
            table.add_row(*(Text(cell, style=_STYLES.get(cell, "")) for cell in row))
        table.add_section()
    _console(out or sys.stdout).print(table)


@contextmanager
def working(err: TextIO | None = None) -> Iterator[Callable[[str], None]]:
    """Give a function that tells what is being done: redrawn in place on a terminal, a line each elsewhere.

    Args:
        err: standard error unless given.
    """
    console = _console(err or sys.stderr)
    if not console.is_terminal:
        yield lambda text: console.print(Text(f"{text} ..."))
        return
    with console.status("") as status:
        yield lambda text: status.update(Text(text))


def _console(stream: TextIO) -> Console:
    terminal = Console(file=stream, highlight=False, emoji=False, markup=False)
    if terminal.is_terminal:
        return terminal
    return Console(file=stream, highlight=False, emoji=False, markup=False, width=WIDTH, color_system=None)
