"""What the report of supervised fine-tuning shows: the verdict on the held-out loss, the key figures and the curve."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from . import charts
from .charts import Point, Series
from .formats import duration
from .run_files import RunFiles
from .verdict import Verdict

__all__ = ["loss_chart", "loss_tiles", "loss_verdict"]


def loss_verdict(run: RunFiles) -> Verdict:
    """Whether what was held out became likelier, and no more than that."""
    before = run.summary.get("before") or _first(run, "before")
    after = run.summary.get("after")
    if not before or not after:
        headline = "This run has no validation before and after."
        return _verdict("none", headline, "Nothing can be said about rows it was not trained on.")
    one, two = before["loss"], after["loss"]
    word, tone = ("fell", "gain") if two < one else ("rose", "loss") if two > one else ("stayed", "open")
    headline = f"The loss on held-out rows {word} from {one:.3f} to {two:.3f}."
    evidence = (
        f"Mean negative log-likelihood in nats over {after['tokens']:,} tokens of {after['n']:,} rows that were not trained "
        f"on, after with the adapter of step {run.summary.get('best_step')}. It says how well they are imitated, not how well "
        "a task is done."
    )
    return _verdict(tone, headline, evidence)


def loss_tiles(run: RunFiles) -> list[tuple[str, str]]:
    """Label and value of the key figures."""
    rows = run.sft_rows
    tiles = [("training steps", f"{len(rows):,}"), ("tokens trained", f"{sum(row['tokens'] for row in rows):,}")]
    for name, count in (run.summary.get("rows") or {}).items():
        tiles.append((f"{name} rows", f"{count:,}"))
    times = [row.get("time_s") or 0 for row in (*rows, *run.sft_eval_rows)]
    return [*tiles, ("running time", duration(max(times)))] if times else tiles


def loss_chart(run: RunFiles) -> dict[str, Any]:
    """Title, legend and drawing of the loss over steps."""
    series = [
        Series(name="training rows", points=_points(run.sft_rows, "training"), color="blue"),
        Series(name="held-out rows", points=_points(run.sft_eval_rows, "held out"), color="orange", mark="dot"),
    ]
    legend = [(one.name, one.color, one.mark) for one in series if one.points]
    svg = charts.line_chart(series, show=lambda v: f"{v:g}", y_range=None, label="Loss over training steps")
    return {"title": "Loss", "legend": legend, "svg": svg}


def _points(rows: list[dict[str, Any]], name: str) -> list[Point]:
    return [
        Point(row["step"], row["loss"], text=f"step {row['step']}, {name}: {row['loss']:.3f} nats")
        for row in rows
        if row.get("loss") is not None
    ]


def _first(run: RunFiles, label: str) -> Mapping[str, Any] | None:
    return next((row for row in run.sft_eval_rows if row.get("label") == label), None)


def _verdict(tone: Any, headline: str, evidence: str) -> Verdict:
    return Verdict(tone=tone, headline=headline, evidence=evidence, measure="reward", before=None, after=None)
