"""Small SVG charts as text: drawn without a library, coloured by CSS classes, one tooltip per mark.

Every text that came from outside is escaped. Colours are the classes ``c-NAME`` of report.css, so that light and dark
mode need no second drawing.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

from markupsafe import Markup, escape

__all__ = ["Point", "Series", "line_chart", "stacked_bars", "ticks", "whiskers"]

WIDTH, HEIGHT = 560, 240
LEFT, RIGHT, TOP, BOTTOM = 52, 14, 12, 30
MAX_POINTS = 400
MAX_BARS = 120

Show = Callable[[float], str]


@dataclass(frozen=True, slots=True)
class Point:
    """A value at a step, with an interval or band around it where there is one."""

    x: float
    y: float
    low: float | None = None
    high: float | None = None
    text: str = ""
    """The tooltip."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Series:
    """Points of one kind."""

    name: str
    points: Sequence[Point]
    color: str
    """Name of a colour class."""
    mark: str = "line"
    """``line`` (with a band where there are bounds), ``dot`` or ``diamond`` (with whiskers)."""


def ticks(low: float, high: float, count: int = 5) -> list[float]:
    """About ``count`` round numbers from at most ``low`` to at least ``high``.

    >>> ticks(0, 0.93)
    [0.0, 0.2, 0.4, 0.6, 0.8, 1.0]
    """
    if high - low <= 1e-9 * max(1.0, abs(low)):
        high = low + max(1.0, abs(low))
    raw = (high - low) / count
    power = 10.0 ** math.floor(math.log10(raw))
    step = next(power * factor for factor in (1, 2, 2.5, 5, 10) if power * factor >= raw * 0.999)
    first, last = math.floor(low / step + 1e-9), math.ceil(high / step - 1e-9)
    return [round(index * step, 12) for index in range(first, last + 1)]


def line_chart(
    series: Sequence[Series], *, show: Show, label: str, y_range: tuple[float, float] | None = None
) -> Markup:
    """Values over steps, from zero unless some lie below.

    ``show`` prints a value of the y axis; ``label`` describes the chart to a screen reader.
    """
    series = [_thin(one) for one in series if one.points]
    if not series:
        return Markup("")
    points = [point for one in series for point in one.points]
    ys = [y for point in points for y in (point.y, point.low, point.high) if y is not None]
    low, high = y_range or (min(0.0, *ys), max(ys))
    y_ticks = ticks(low, high)
    frame = _Frame(min(p.x for p in points), max(p.x for p in points), y_ticks[0], y_ticks[-1])
    parts = [_grid(frame, y_ticks, show), _steps(frame)]
    for one in series:
        parts.append(_line(frame, one) if one.mark == "line" else _marks(frame, one))
    return _svg(parts, label)


def stacked_bars(
    rows: Sequence[tuple[int, Mapping[str, float]]], *, order: Mapping[str, str], show: Show, unit: str, label: str
) -> Markup:
    """One bar per step, cut into parts.

    Args:
        rows: step and its parts. Beyond ``MAX_BARS`` steps neighbours share a bar, which shows their mean.
        order: part to colour class, from the bottom up.
    """
    bars = _pool([(step, parts) for step, parts in rows if sum(parts.values()) > 0])
    if not bars:
        return Markup("")
    y_ticks = ticks(0, max(sum(parts.values()) for _, parts in bars))
    frame = _Frame(bars[0][0] - 0.5, bars[-1][0] + 0.5, 0, y_ticks[-1])
    spacing = (WIDTH - LEFT - RIGHT) / max(1, bars[-1][0] - bars[0][0] + 1) * _stride(bars)
    width = min(36.0, max(1.5, spacing * 0.72))
    parts = [_grid(frame, y_ticks, show)]
    for step, values in bars:
        floor = 0.0
        for name, color in order.items():
            value = values.get(name, 0)
            if value <= 0:
                continue
            top, base = frame.y(floor + value), frame.y(floor)
            gap = 1.0 if base - top > 3 else 0.0
            parts.append(
                f'<rect class="fill c-{color}" x="{frame.x(step) - width / 2:.1f}" y="{top:.1f}" width="{width:.1f}" '
                f'height="{max(0.5, base - top - gap):.1f}"><title>step {step:g} · {escape(name.replace("_", " "))}: '
                f"{escape(show(value))} {escape(unit)}</title></rect>"
            )
            floor += value
    parts.append(_steps(frame, bars[0][0], bars[-1][0]))
    return _svg(parts, label)


def whiskers(rows: Sequence[tuple[str, Point, str]], *, show: Show, y_range: tuple[float, float], label: str) -> Markup:
    """Values with their intervals under each other on one axis: ``(name, point, colour)`` per row."""
    left, right, pitch = 70 + 9 * max((len(name) for name, _, _ in rows), default=0), 20, 40
    height = pitch * len(rows) + 34
    axis = ticks(*y_range, 4)
    low, span = axis[0], axis[-1] - axis[0]

    def x(value: float) -> float:
        return left + (value - low) / span * (WIDTH - left - right)

    parts = []
    for tick in axis:
        parts.append(f'<line class="grid" x1="{x(tick):.1f}" x2="{x(tick):.1f}" y1="6" y2="{height - 26}"/>')
        parts.append(f'<text class="tick mid" x="{x(tick):.1f}" y="{height - 8}">{escape(show(tick))}</text>')
    for index, (name, point, color) in enumerate(rows):
        y = 6 + pitch * index + pitch / 2
        parts.append(f'<text class="name" x="0" y="{y + 5:.1f}">{escape(name)}</text>')
        parts.append(f'<text class="value end" x="{left - 18}" y="{y + 5:.1f}">{escape(show(point.y))}</text>')
        bounds = ""
        if point.low is not None and point.high is not None:
            bounds = f'<line class="bar c-{color}" x1="{x(point.low):.1f}" x2="{x(point.high):.1f}" y1="{y}" y2="{y}"/>'
        parts.append(
            f"<g>{bounds}<circle class='dot c-{color}' cx='{x(point.y):.1f}' cy='{y}' r='7'/>"
            f"<title>{escape(point.text)}</title></g>"
        )
    return _svg(parts, label, height)


@dataclass(frozen=True, slots=True)
class _Frame:
    """The plot area: data to pixels."""

    x0: float
    x1: float
    y0: float
    y1: float

    def x(self, value: float) -> float:
        share = (value - self.x0) / (self.x1 - self.x0) if self.x1 > self.x0 else 0.5
        return LEFT + 8 + share * (WIDTH - LEFT - RIGHT - 16)

    def y(self, value: float) -> float:
        share = (value - self.y0) / (self.y1 - self.y0)
        return HEIGHT - BOTTOM - min(1.0, max(0.0, share)) * (HEIGHT - TOP - BOTTOM)


def _svg(parts: Sequence[str], label: str, height: int = HEIGHT) -> Markup:
    head = f'<svg class="chart" viewBox="0 0 {WIDTH} {height}" role="img" aria-label="{escape(label)}">'
    return Markup(head + "".join(parts) + "</svg>")


def _grid(frame: _Frame, y_ticks: Sequence[float], show: Show) -> str:
    parts = []
    for tick in y_ticks:
        y = frame.y(tick)
        kind = "axis" if tick == frame.y0 else "grid"
        parts.append(f'<line class="{kind}" x1="{LEFT}" x2="{WIDTH - RIGHT}" y1="{y:.1f}" y2="{y:.1f}"/>')
        parts.append(f'<text class="tick end" x="{LEFT - 8}" y="{y + 4:.1f}">{escape(show(tick))}</text>')
    return "".join(parts)


def _steps(frame: _Frame, first: float | None = None, last: float | None = None) -> str:
    low, high = (frame.x0 if first is None else first), (frame.x1 if last is None else last)
    values = [tick for tick in ticks(low, high, 6) if low <= tick <= high and tick == int(tick)] or [low]
    marks = [f'<text class="tick mid" x="{frame.x(v):.1f}" y="{HEIGHT - 10}">{v:g}</text>' for v in values]
    return "".join(marks)


def _line(frame: _Frame, series: Series) -> str:
    points = series.points
    path = " ".join(f"{frame.x(p.x):.1f},{frame.y(p.y):.1f}" for p in points)
    band = ""
    if len(points) > 1 and all(p.low is not None and p.high is not None for p in points):
        upper = [f"{frame.x(p.x):.1f},{frame.y(p.high or 0.0):.1f}" for p in points]
        lower = [f"{frame.x(p.x):.1f},{frame.y(p.low or 0.0):.1f}" for p in reversed(points)]
        band = f'<polygon class="band c-{series.color}" points="{" ".join(upper + lower)}"/>'
    kind = "dot" if len(points) <= 40 else "hit"  # many dots would hide the line; they only carry the tooltips
    dots = "".join(
        f'<circle class="{kind} c-{series.color}" cx="{frame.x(p.x):.1f}" cy="{frame.y(p.y):.1f}" r="3"><title>{escape(p.text)}</title></circle>'
        for p in points
    )
    return f'{band}<polyline class="line c-{series.color}" points="{path}"/>{dots}'


def _marks(frame: _Frame, series: Series) -> str:
    parts = []
    for p in series.points:
        x, y = frame.x(p.x), frame.y(p.y)
        whisker = ""
        if p.low is not None and p.high is not None:
            whisker = (
                f'<line class="whisker c-{series.color}" x1="{x:.1f}" x2="{x:.1f}" '
                f'y1="{frame.y(p.low):.1f}" y2="{frame.y(p.high):.1f}"/>'
            )
        shape = f'<circle class="dot c-{series.color}" cx="{x:.1f}" cy="{y:.1f}" r="5"/>'
        if series.mark == "diamond":
            shape = f'<path class="dot c-{series.color}" d="M{x:.1f} {y - 7:.1f}l7 7l-7 7l-7 -7z"/>'
        parts.append(f"<g>{whisker}{shape}<title>{escape(p.text)}</title></g>")
    return "".join(parts)


def _thin(series: Series) -> Series:
    """At most MAX_POINTS of the points, the last one among them."""
    stride = math.ceil(len(series.points) / MAX_POINTS)
    if stride <= 1:
        return series
    kept = [*series.points[::stride], series.points[-1]]
    return Series(name=series.name, points=kept, color=series.color, mark=series.mark)


def _pool(rows: Sequence[tuple[int, Mapping[str, float]]]) -> list[tuple[float, Mapping[str, float]]]:
    """Neighbouring steps pooled so that at most MAX_BARS bars remain; a pooled bar is the mean of its steps."""
    size = math.ceil(len(rows) / MAX_BARS)
    if size <= 1:
        return list(rows)
    bars: list[tuple[float, Mapping[str, float]]] = []
    for start in range(0, len(rows), size):
        chunk = rows[start : start + size]
        names = {name for _, parts in chunk for name in parts}
        mean = {name: sum(parts.get(name, 0) for _, parts in chunk) / len(chunk) for name in names}
        bars.append((chunk[len(chunk) // 2][0], mean))
    return bars


def _stride(bars: Sequence[tuple[float, Mapping[str, float]]]) -> float:
    """The smallest distance between two bars, in steps."""
    return min((two[0] - one[0] for one, two in itertools.pairwise(bars)), default=1.0)
