"""report.html: one self-contained page about a run, made from nothing but the files in its directory.

No script, no outside resource; everything that models, tools and users wrote is escaped. Works on a run that is going
on, was aborted, or has lost files: what is missing is said.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

from jinja2 import Environment, PackageLoader, StrictUndefined
from markupsafe import Markup

from art_core.disk import write_whole

from . import charts
from .adapters import accounts
from .charts import Point, Series
from .comparison import COLUMNS, cells, difference
from .costs import COST_COLUMNS, costs
from .examples import as_text, choose, views
from .formats import duration, number
from .ledger import FATES, MEANINGS, SOURCES, Ledger
from .losses import loss_chart, loss_tiles, loss_verdict
from .run_files import PIECES, RunFiles, is_supervised, read_run
from .tokens import make_pieces
from .verdict import Verdict, shown, verdict

__all__ = ["write_report"]

MAX_ROWS = 200

FATE_COLORS = {
    "trained": "blue",
    "no_spread": "grey",
    "stale": "yellow",
    "failed": "red",
    "unscored": "orange",
    "not_selected": "violet",
    "superseded": "magenta",
    "over_long": "aqua",
    "not_trainable": "dark",
    "carried_out": "pale",
}
STAGE_COLORS = {"rollout": "blue", "train": "orange", "reload": "aqua", "checkpoint": "violet"}


def write_report(run_dir: Path, decode: Callable[[Sequence[int]], str] | None = None) -> Path:
    """Write ``report.html`` into the run directory.

    Args:
        run_dir: see docs/run-directory.md.
        decode: token ids to text. Given once (by the run itself), the texts of the ids that are shown are kept in
            ``pieces.json``, and later reports need no tokenizer.

    Raises:
        InputError: ``run_dir`` is not a run directory.
    """
    run = read_run(run_dir)
    examples = choose(run)
    if decode is not None:
        run.pieces = make_pieces(decode, examples.sequences())
        write_whole(run_dir / PIECES, json.dumps(run.pieces.to_dict(), ensure_ascii=False))
    elif run.pieces is None and any(True for _ in examples.trajectories()):
        run.notes.append(f"{PIECES} is missing; rollouts are shown as messages, without their tokens.")
    supervised = is_supervised(run)
    result = loss_verdict(run) if supervised else verdict(run.summary, run.eval_rows)
    ledger = _ledger(run)
    page = (
        _environment()
        .get_template("report.html.jinja")
        .render(
            name=run_dir.resolve().name,
            model=run.summary.get("base_model") or dict(run.settings).get("base_model", ""),
            stop=run.summary.get("stop_text", ""),
            best_step=run.summary.get("best_step"),
            verdict=result,
            whiskers=_whiskers(run, result),
            over_warm_start=_over_warm_start(run),
            tiles=loss_tiles(run) if supervised else _tiles(run, ledger),
            charts=[loss_chart(run)] if supervised and run.sft_rows else _charts(run),
            ledger=ledger,
            ledger_chart=_ledger_chart(run),
            adapters=accounts(run.train_rows),
            compared=[cells(entry) for entry in run.summary.get("compare") or ()],
            compared_columns=COLUMNS,
            costs=costs([*run.train_rows, *run.eval_rows], run.written),
            cost_columns=COST_COLUMNS,
            table=run.train_rows[-MAX_ROWS:],
            hidden_rows=max(0, len(run.train_rows) - MAX_ROWS),
            examples=examples,
            prompt=run.pieces.text(examples.prompt.ids) if run.pieces and examples.prompt else "",
            pieces=run.pieces,
            settings=run.settings,
            notes=run.notes,
        )
    )
    path = run_dir / "report.html"
    write_whole(path, page)
    return path


def _environment() -> Environment:
    environment = Environment(
        loader=PackageLoader("art_core.observe", "."),
        autoescape=True,
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
    )
    environment.filters |= {
        "words": lambda name: str(name).replace("_", " "),
        "number": number,
        "percent": lambda value: "–" if value is None else shown("success", value),
        "as_text": as_text,
    }
    environment.globals |= {"views": views, "meanings": MEANINGS, "sources": SOURCES, "fate_colors": FATE_COLORS}
    return environment


def _measured(run: RunFiles, result: Verdict) -> list[tuple[str, Mapping[str, Any] | None, str]]:
    """What was measured on test scenarios, in the order of the run."""
    warm = (run.summary.get("warm_start") or {}).get("measured")
    return [("Before", result.before, "grey"), ("Warm start", warm, "orange"), ("After", result.after, "blue")]


def _over_warm_start(run: RunFiles) -> str:
    """What training added to the warm start alone, in a sentence; empty without one."""
    gain = (run.summary.get("warm_start") or {}).get("gain")
    return "" if not gain else f"Training after the warm start changed {gain['measure']} by {difference(gain)}."


def _whiskers(run: RunFiles, result: Verdict) -> Markup:
    rows = []
    for name, row, color in _measured(run, result):
        if row and row.get(result.measure) is not None:
            point = _point(0, row[result.measure], row.get("ci95"), f"{name}, n = {row.get('n', '?')}", result.measure)
            rows.append((name, point, color))
    if not rows:
        return Markup("")
    values = [v for _, point, _ in rows for v in (point.y, point.low, point.high) if v is not None]
    bounds = (0.0, 1.0) if result.measure == "success" else (min(values), max(values))
    return charts.whiskers(
        rows, show=_axis(result.measure), y_range=bounds, label=f"{result.measure} before and after, with intervals"
    )


def _tiles(run: RunFiles, ledger: Ledger) -> list[tuple[str, str]]:
    """Label and value of the key figures; what is not known is left out."""
    rows = run.train_rows
    tiles = [("training steps", number(len(rows)))] if rows else []
    if ledger["sampled"].rollouts:
        tiles += [
            ("rollouts sampled", number(ledger["sampled"].rollouts)),
            ("tokens sampled", number(ledger["sampled"].tokens)),
            ("tokens trained", number(ledger["trained"].tokens)),
        ]
    if forks := sum(sum((row.get("forks") or {}).values()) for row in rows):
        tiles.append(("turns that did not extend their ids", number(forks)))
    times = [row.get("time_s") or 0 for row in (*rows, *run.eval_rows)]
    if times:
        tiles.append(("running time", duration(max(times))))
    return tiles


def _ledger(run: RunFiles) -> Ledger:
    """The account of the whole run: as stored in the summary, or the sum over the steps."""
    record = run.summary.get("ledger")
    if isinstance(record, Mapping) and record:
        return Ledger.from_dict(record)
    steps = (Ledger.from_dict(row["ledger"]) for row in run.train_rows if row.get("ledger"))
    return sum(steps, Ledger()).settled()


def _axis(measure: str) -> Callable[[float], str]:
    return (lambda value: f"{100 * value:.0f} %") if measure == "success" else (lambda value: f"{value:g}")


def _point(x: float, y: float, bounds: Any, text: str, measure: str) -> Point:
    low, high = bounds if isinstance(bounds, Sequence) and len(bounds) == 2 and None not in bounds else (None, None)
    told = f"{text}: {shown(measure, y)}"
    if low is not None and high is not None:
        told += f", 95 % interval {shown(measure, low)} to {shown(measure, high)}"
    return Point(x, y, low, high, told)


def _charts(run: RunFiles) -> list[dict[str, Any]]:
    """Title, legend and drawing of each chart that has data."""
    drawn = [
        _curve(run, "Reward", "reward", "reward_mean", None),
        _curve(run, "Success rate", "success", "success", (0.0, 1.0)),
        _curriculum(run),
        _throughput(run),
        _stages(run),
    ]
    return [chart for chart in drawn if chart["svg"]]


def _curve(run: RunFiles, title: str, measure: str, column: str, y_range: tuple[float, float] | None) -> dict[str, Any]:
    train = [
        Point(row["step"], row[column], text=f"step {row['step']}, training: {shown(measure, row[column])}")
        for row in run.train_rows
        if row.get(column) is not None
    ]
    series = [Series(name="training rollouts", points=train, color="blue")]
    for split, color, mark in (("validation", "orange", "dot"), ("test", "violet", "diamond")):
        points = [
            _point(
                row["step"],
                row[measure],
                row.get("ci95") if row.get("measure", "success") == measure else None,
                f"step {row['step']}, {split}, weights {row.get('version', '?')}, n = {row.get('n', '?')}",
                measure,
            )
            for row in run.eval_rows
            if row.get("split") == split and row.get(measure) is not None
        ]
        series.append(Series(name=f"held out: {split}", points=points, color=color, mark=mark))
    legend = [(one.name, one.color, one.mark) for one in series if one.points]
    svg = charts.line_chart(series, show=_axis(measure), y_range=y_range, label=f"{title} over training steps")
    return {"title": title, "legend": legend, "svg": svg}


def _curriculum(run: RunFiles) -> dict[str, Any]:
    """What choosing scenarios by their pass rate came to; no drawing for a run that did not."""
    teaching, rare = [], []
    for row in run.train_rows:
        told, rollouts = row.get("curriculum"), (row.get("ledger") or {}).get("rollouts") or {}
        if not isinstance(told, Mapping) or not rollouts.get("sampled"):
            continue
        share = 1 - rollouts.get("no_spread", 0) / rollouts["sampled"]
        teaching.append(
            Point(row["step"], share, text=f"step {row['step']}: {shown('success', share)} of the rollouts")
        )
        if told.get("seen"):
            share = told["rarely"] / told["seen"]
            rare.append(
                Point(row["step"], share, text=f"step {row['step']}: {told['rarely']} of {told['seen']} scenarios")
            )
    series = [
        Series(name="rollouts whose siblings scored differently", points=teaching, color="blue"),
        Series(name="seen scenarios that come rarely", points=rare, color="orange"),
    ]
    svg = charts.line_chart(series, show=_axis("success"), y_range=(0, 1), label="Curriculum over training steps")
    return {"title": "Curriculum", "legend": [(s.name, s.color, s.mark) for s in series if s.points], "svg": svg}


def _throughput(run: RunFiles) -> dict[str, Any]:
    points = [
        Point(row["step"], row["tokens_per_s"], text=f"step {row['step']}: {row['tokens_per_s']:,.0f} tokens/s")
        for row in run.train_rows
        if row.get("tokens_per_s") is not None
    ]
    top = max((point.y for point in points), default=1.0)
    series = [Series(name="tokens per second", points=points, color="aqua")]
    svg = charts.line_chart(series, show=lambda v: f"{v:,.0f}", y_range=(0, top), label="Tokens per second over steps")
    return {"title": "Sampled tokens per second", "legend": [], "svg": svg}


def _stages(run: RunFiles) -> dict[str, Any]:
    rows = [
        (row["step"], {stage: row.get(f"seconds_{stage}") or 0.0 for stage in STAGE_COLORS}) for row in run.train_rows
    ]
    svg = charts.stacked_bars(
        rows, order=STAGE_COLORS, show=lambda v: f"{v:,.4g}", unit="s", label="Seconds per stage and step"
    )
    used = [stage for stage in STAGE_COLORS if any(parts[stage] for _, parts in rows)]
    legend = [(stage, STAGE_COLORS[stage], "bar") for stage in used]
    return {"title": "Seconds per step", "legend": legend, "svg": svg}


def _ledger_chart(run: RunFiles) -> dict[str, Any]:
    rows = [
        (row["step"], {fate: (row["ledger"].get("tokens") or {}).get(fate, 0) for fate in FATES})
        for row in run.train_rows
        if row.get("ledger")
    ]
    svg = charts.stacked_bars(
        rows, order=FATE_COLORS, show=lambda v: f"{v:,.0f}", unit="tokens", label="Fate of tokens per step"
    )
    used = [fate for fate in FATES if any(parts[fate] for _, parts in rows)]
    return {
        "title": "Tokens per step by fate",
        "legend": [(fate.replace("_", " "), FATE_COLORS[fate], "bar") for fate in used],
        "svg": svg,
    }
