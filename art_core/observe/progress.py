"""What a person sees while a run goes on: a live display on a terminal, plain lines everywhere else.

Nothing here decides or measures anything; every number shown was passed in. Lines fit into 100 columns. In JSON mode
standard output holds one JSON object at the end and nothing else; progress goes to standard error.
"""

from __future__ import annotations

import json
import sys
import threading
import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any, TextIO

from rich import box
from rich.console import Console
from rich.progress import BarColumn, SpinnerColumn, TaskID, TextColumn
from rich.progress import Progress as Bars
from rich.table import Table
from rich.text import Text

from art_core.messages import ToolSpec
from art_core.trajectory.trajectory import Trajectory

from .formats import duration, interval, number, percent, signed
from .ledger import MEANINGS, Ledger

__all__ = ["Progress"]

WIDTH = 100


class Progress:
    """Told what happens, shows it. Every method may be called from any thread and never blocks on a reader of events.

    The order of calls is ``run_started``, ``tools``, ``evaluating`` / ``evaluated``, then per step ``step_started``,
    ``rollout_done``..., ``training``..., ``step_done``, at the end ``finished`` and always ``close``.
    """

    def __init__(
        self,
        *,
        quiet: bool = False,
        as_json: bool = False,
        out: TextIO | None = None,
        err: TextIO | None = None,
        live: bool | None = None,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        """
        Args:
            quiet: show no progress; the end result and warnings only.
            as_json: progress to ``err``; ``finished`` writes the summary to ``out`` as one JSON object.
            out: standard output unless given. ``err``: standard error unless given.
            live: redraw a bar in place; None: where the stream is a terminal.
        """
        self._out, err = out or sys.stdout, err or sys.stderr
        self._quiet, self._json, self._clock = quiet, as_json, clock
        stream = err if as_json else self._out
        self._console, self._error = _console(stream, live), _console(err)
        self._live = self._console.is_terminal if live is None else live
        self._lock = threading.RLock()
        self._bars: Bars | None = None
        self._bar: TaskID | None = None
        self._steps = 0
        self._max_seconds: float | None = None
        self._began = clock()
        self._step_seconds: list[float] = []
        self._step_began = clock()

    @property
    def as_json(self) -> bool:
        """Whether standard output is for one JSON object."""
        return self._json

    def run_started(
        self,
        *,
        title: str,
        facts: Mapping[str, Any],
        steps: int,
        max_seconds: float | None = None,
    ) -> None:
        """Show the header.

        Args:
            title: what is trained, in a few words.
            facts: label to value, shown in order: model, method, scenarios, run directory ...
            steps: how many optimizer steps are planned. ``max_seconds``: when the run stops by itself.
        """
        self._steps, self._max_seconds, self._began = steps, max_seconds, self._clock()
        self._step_seconds.clear()
        table = Table.grid(padding=(0, 2))
        table.add_column(style="dim", no_wrap=True)
        table.add_column(overflow="fold")
        for label, value in facts.items():
            table.add_row(Text(label), Text(str(value)))
        self._show("", Text(title, style="bold"), table, "")

    def tools(self, tools: Sequence[ToolSpec], *, source: str = "") -> None:
        """Show the tools as they were discovered; ``source`` is the server or framework they came from."""
        title = f"Tools as discovered{f' from {source}' if source else ''} ({len(tools)})"
        table = _table(title, "tool", "arguments", "what it does")
        for tool in tools:
            first_line = tool.description.strip().partition("\n")[0]
            table.add_row(Text(tool.name), Text(_arguments(tool.parameters)), Text(first_line))
        self._show(table, "")

    def note(self, text: str) -> None:
        """One line of information."""
        self._show(Text(text, style="dim"))

    def warn(self, text: str) -> None:
        """One line that must be seen: shown in quiet mode too, on standard error there."""
        line = Text.assemble(("warning: ", "yellow"), text)
        with self._lock:
            (self._error if self._quiet else self._console).print(line, soft_wrap=True)

    def evaluating(self, label: str, total: int) -> None:
        """An evaluation of ``total`` rollouts begins; ``label`` is ``before``, ``after`` or ``step 5``."""
        self._phase(f"evaluating ({label})", total)

    def evaluated(self, row: Mapping[str, Any]) -> None:
        """Show an ``eval`` row of the metrics."""
        self._end_phase()
        label = row.get("label", "")
        name = f"step {row.get('step')}" if label == "step" else label
        cells = [f"eval {name:<7}", f"{row.get('split', '')}, {row.get('n', 0)} rollouts"]
        bounds = _measured_interval(row)
        if row.get("success") is not None:
            cells.append(f"success {percent(row['success']):>5} {bounds}".rstrip())
            bounds = ""
        cells.append(f"reward {number(row.get('reward'))} {bounds}".rstrip())
        self._show(" │ ".join(cells))

    def step_started(self, step: int, rollouts: int) -> None:
        """Optimizer step ``step`` (counted from 1) begins with ``rollouts`` rollouts."""
        self._step_began = self._clock()
        self._phase(f"step {step}/{self._steps} · rollouts", rollouts)

    def rollout_done(self, trajectory: Trajectory | None = None) -> None:
        """One more rollout of the running step or evaluation ended."""
        with self._lock:
            if self._bars is not None and self._bar is not None:
                self._bars.advance(self._bar)
                task = self._bars.tasks[0]
                self._bars.update(self._bar, count=f"{task.completed:.0f}/{task.total:.0f}")

    def training(self, done: int, total: int) -> None:
        """``done`` of ``total`` parts of the running step's training are through; shown as a percentage."""
        with self._lock:
            if self._bars is None or self._bar is None:
                return
            text = self._bars.tasks[0].description.partition(" · ")[0] + " · training"
            self._bars.update(self._bar, description=text, completed=done, total=total, count=percent(done / total))

    def step_done(self, row: Mapping[str, Any]) -> None:
        """Show the ``train`` row of the metrics as one line."""
        self._end_phase()
        self._step_seconds.append(self._clock() - self._step_began)
        step = int(row["step"])
        cells = [
            f"step {step:>{len(str(self._steps))}}/{self._steps}",
            f"reward {number(row.get('reward_mean'))}",
            f"success {percent(row.get('success')):>5}",
            f"trained {row.get('trained_tokens', 0):>6,} tok",
            f"{row.get('tokens_per_s') or 0:>5,.0f} tok/s",
            f"grad {number(row.get('grad_norm'), 2)}",
        ]
        if left := self._left(step):
            cells.append(left)
        self._show(" │ ".join(cells))

    def sft_step_done(self, row: Mapping[str, Any]) -> None:
        """Show an ``sft`` row of the metrics as one line."""
        self._step_seconds.append(float(row["seconds"]))
        step = int(row["step"])
        cells = [
            f"step {step:>{len(str(self._steps))}}/{self._steps}",
            f"epoch {row['epoch']}",
            f"loss {number(row.get('loss'))}",
            f"trained {row['tokens']:>6,} tok",
            f"grad {number(row.get('grad_norm'), 2)}",
        ]
        if left := self._left(step):
            cells.append(left)
        self._show(" │ ".join(cells))

    def sft_evaluated(self, row: Mapping[str, Any]) -> None:
        """Show an ``sft_eval`` row of the metrics."""
        name = "before" if row["label"] == "before" else f"step {row['step']}"
        self._show(f"eval {name:<7} │ {row['n']} held-out rows │ loss {number(row.get('loss'))}")

    def ledger(self, ledger: Ledger, *, title: str = "Where every rollout and token went") -> None:
        """Show an account."""
        table = _table(title, "", "rollouts", "tokens", "", numbers=(1, 2))
        for name, rollouts, tokens in ledger.rows():
            table.add_row(name.replace("_", " "), f"{rollouts:,}", f"{tokens:,}", Text(MEANINGS[name], style="dim"))
        self._show("", table)

    def finished(self, summary: Mapping[str, Any], *, run_dir: Path | None = None, report: Path | None = None) -> None:
        """Show the result: the before/after table, where things are; in JSON mode the summary itself."""
        self._end_phase()
        if summary.get("ledger") and not self._quiet:
            self.ledger(Ledger.from_dict(summary["ledger"]))
        with self._lock:
            if not (self._quiet and self._json):
                self._console.print(*_result(summary), sep="\n")
                for label, path in (("run", run_dir), ("report", report)):
                    if path is not None:
                        self._console.print(Text.assemble((f"{label:<7}", "dim"), str(path)), soft_wrap=True)
            if self._json:
                self._out.write(json.dumps(summary, ensure_ascii=False) + "\n")
                self._out.flush()

    def close(self) -> None:
        """Leave the terminal as it was. May be called twice."""
        self._end_phase()

    def _show(self, *parts: Any) -> None:
        if not self._quiet:
            with self._lock:
                self._console.print(*(Text(part) if isinstance(part, str) else part for part in parts), sep="\n")

    def _phase(self, text: str, total: int) -> None:
        self._end_phase()
        if not self._live or self._quiet:
            return
        with self._lock:
            columns = (
                SpinnerColumn(),
                TextColumn("{task.description}"),
                BarColumn(),
                TextColumn("{task.fields[count]}"),
            )
            self._bars = Bars(*columns, console=self._console, transient=True)
            self._bar = self._bars.add_task(text, total=total, count=f"0/{total}")
            self._bars.start()

    def _end_phase(self) -> None:
        with self._lock:
            if self._bars is not None:
                self._bars.stop()
            self._bars = self._bar = None

    def _left(self, step: int) -> str:
        recent = self._step_seconds[-5:]
        left = sum(recent) / len(recent) * (self._steps - step)
        if self._max_seconds is not None:
            left = min(left, self._max_seconds - (self._clock() - self._began))
        return f"~{duration(left)} left" if left > 0 else ""


def _console(stream: TextIO, live: bool | None = None) -> Console:
    """A terminal keeps its width and colours; anything else gets plain text of a fixed width."""
    terminal = Console(file=stream, highlight=False, emoji=False, markup=False, force_terminal=live or None)
    if terminal.is_terminal:
        return terminal
    return Console(file=stream, highlight=False, emoji=False, markup=False, width=WIDTH, color_system=None)


def _table(title: str, *columns: str, numbers: Iterable[int] = ()) -> Table:
    table = Table(title=Text(title), title_justify="left", title_style="bold", box=box.SIMPLE_HEAD, pad_edge=False)
    right = set(numbers)
    for index, column in enumerate(columns):
        table.add_column(column, justify="right" if index in right else "left", overflow="fold")
    return table


def _arguments(schema: Mapping[str, Any]) -> str:
    """``city, unit?``: the arguments of a tool, optional ones with a question mark."""
    required = set(schema.get("required") or ())
    names = schema.get("properties") or {}
    return ", ".join(name if name in required else f"{name}?" for name in names) or "none"


def _measured_interval(row: Mapping[str, Any]) -> str:
    """The interval of an evaluation, printed like the figure it belongs to."""
    return interval(row.get("ci95"), number if row.get("measure") == "reward" else percent)


def _result(summary: Mapping[str, Any]) -> list[Any]:
    if summary.get("kind") == "sft":
        return _losses(summary)
    warm = summary.get("warm_start") or {}
    measured = {"before": summary.get("before"), "warm start": warm.get("measured"), "after": summary.get("after")}
    rows = [(label, row) for label, row in measured.items() if row]
    if not rows:
        return [Text("The run ended without an evaluation on test scenarios.")]
    table = _table("Held-out test scenarios", "", "success", "reward", "95 % interval", "n", numbers=(1, 2, 3, 4))
    for label, row in rows:
        figures = (percent(row.get("success")), number(row.get("reward")), _measured_interval(row), str(row.get("n")))
        table.add_row(label, *figures)
    gain = summary.get("gain") or {}
    if gain.get("difference") is not None:
        show = signed(gain.get("measure"))
        figures = (show(gain["difference"]), "", interval(gain.get("ci95"), show), str(gain.get("n")))
        if gain.get("measure") != "success":
            figures = ("", *figures[:1], *figures[2:])
        table.add_section()
        table.add_row("paired difference", *figures)
    told = (summary.get("measured_by") or {}).get(gain.get("measure"))
    return [Text(""), table, *([Text(f"Measured by {told}.", style="dim")] if told else [])]


def _losses(summary: Mapping[str, Any]) -> list[Any]:
    rows = [(label, summary[label]) for label in ("before", "after") if summary.get(label)]
    if not rows:
        return [Text("The run ended without a validation.")]
    table = _table("Held-out rows", "", "loss", "rows", "tokens", numbers=(1, 2, 3))
    for label, row in rows:
        table.add_row(label, number(row["loss"]), f"{row['n']:,}", f"{row['tokens']:,}")
    return [Text(""), table]
