"""Accuracy and epsilon of attacks against what theory allows, along noise, epochs or steps.

The certified curve is a smooth line through many points, and what lies above it is shaded: no attack gets there. All
runs of a training together are a marker with its interval and class; single runs are faint dots. Accuracy stands on a
plain axis, epsilon on a logarithmic one, where lower bounds of zero lie on the floor.
"""

from __future__ import annotations

import math

import numpy as np
from matplotlib.figure import Figure

from . import drawing
from .comparison import Family, Line, Point
from .drawing import FORBIDDEN, INK, MUTED
from .rounding import number

AXIS_LABELS = {"noise_multiplier": "noise multiplier σ", "epochs": "epochs E", "steps_per_epoch": "steps per epoch M"}
Y_LABELS = {"attack_accuracy": "attack accuracy (coin flip: 50 %)", "epsilon": "ε: proved, and allowed"}
FLOOR = 1e-2  # of the axis of epsilon
MANY = 12  # markers of a series; with more, intervals are drawn thinner


def draw_comparison(family: Family, line: Line | None, quantity: str, width: int = 700, height: int = 430) -> Figure:
    narrow, points = width < 500, family.of(quantity)
    low, high = _ends(points, line, family.axis)
    with drawing.style():
        figure, axes = drawing.new_figure(width, height)
        axes.set_xscale("log")
        axes.set_xlim(low, high)
        if quantity == "epsilon":
            axes.set_yscale("log")
        bottom, top = _heights(points, line, quantity)
        axes.set_ylim(bottom, top)
        if quantity == "attack_accuracy":
            axes.axhline(0.5, color=MUTED, linewidth=0.8)
        if line is not None:
            _theory(axes, line, top)
        series = list(dict.fromkeys(point.series for point in points))
        for place, name in enumerate(series):
            _series(axes, [p for p in points if p.series == name], place, len(series), family.axis, bottom)
        drawing.log_axis(axes.xaxis, subs=(1.0, 2.0, 5.0))
        if quantity == "epsilon":
            drawing.log_axis(axes.yaxis)
        else:
            drawing.percent_axis(axes.yaxis)
        axes.set_xlabel(AXIS_LABELS[family.axis])
        axes.set_ylabel(Y_LABELS[quantity])
        _, labels = axes.get_legend_handles_labels()
        columns = 1 if narrow else min(2, len(labels))
        figure.legend(loc="outside upper left", ncols=columns, **drawing.TIGHT_LEGEND)
    return figure


def describe_comparison(family: Family, quantity: str) -> str:
    """The figure in words, for those who cannot see it; single runs are left to the csv."""
    told = []
    for point in [p for p in family.of(quantity) if p.run is None][:40]:
        span = "" if point.upper is None else f", interval {number(point.lower)} to {number(point.upper)}"
        bound = "" if point.bound[2] is None else f", allowed at most {number(point.bound[2])}"
        told.append(f"{point.series} at {number(point.at(family.axis))}: {number(point.value)}{span}{bound}.")
    what = "Attack accuracy" if quantity == "attack_accuracy" else "Lower bounds on ε"
    return f"{what} against {AXIS_LABELS[family.axis]}, {family.name}. " + " ".join(told)


def _theory(axes: drawing.Axes, line: Line, top: float) -> None:
    axes.fill_between(line.values, line.upper, max(top, 1.2), color=FORBIDDEN, alpha=0.07, linewidth=0)
    axes.plot(line.values, line.upper, color=INK, linewidth=1.8, label="upper bound, exact value (certified)")
    if not np.isnan(line.closed_form).all():
        axes.plot(
            *(line.values, line.closed_form),
            **{"color": MUTED, "linewidth": 1.2, "linestyle": (0, (5, 2)), "label": "upper bound, closed form"},
        )


def _series(axes: drawing.Axes, points: list[Point], place: int, of: int, axis: str, floor: float) -> None:
    single = [p for p in points if p.run is not None]
    together = [p for p in points if p.run is None]
    shift = 1.0 + 0.03 * (place - (of - 1) / 2)  # series stand side by side, or their intervals would hide each other
    if single:
        axes.scatter(
            [p.at(axis) * shift for p in single],
            [max(p.value, floor) for p in single],
            **{"s": 9, "color": drawing.colour(place), "alpha": 0.35, "linewidths": 0, "zorder": 3, "clip_on": False},
            label=f"{points[0].series}: each run (class {_classes(single)})",
        )
    if together:
        values = [max(p.value, floor) for p in together]
        ends = [(p.value if p.lower is None else p.lower, p.value if p.upper is None else p.upper) for p in together]
        span = [
            [max(0.0, v - max(low, floor)) for v, (low, _) in zip(values, ends, strict=True)],
            [max(0.0, high - v) for v, (_, high) in zip(values, ends, strict=True)],
        ]
        runs = "all runs" if single else "each audit"
        axes.errorbar(
            *([p.at(axis) * shift for p in together], values, span),
            **{"color": drawing.colour(place), "marker": drawing.marker(place), "linestyle": "none", "zorder": 4},
            **{"markersize": 7 if len(together) <= MANY else 4, "linewidth": 1.6 if len(together) <= MANY else 0.7},
            capsize=3 if len(together) <= MANY else 0,
            label=f"{points[0].series}: {runs} (class {_classes(together)})",
        )


def _classes(points: list[Point]) -> str:
    return ", ".join(dict.fromkeys(p.validity for p in points))


def _ends(points: tuple[Point, ...], line: Line | None, axis: str) -> tuple[float, float]:
    if line is not None:
        return float(line.values[0]), float(line.values[-1])
    at = [point.at(axis) for point in points]
    return min(at) / 1.5, max(at) * 1.5


def _heights(points: tuple[Point, ...], line: Line | None, quantity: str) -> tuple[float, float]:
    finite = [p.value for p in points] + [p.upper for p in points if p.upper is not None]
    if quantity == "epsilon":
        allowed = [] if line is None else line.upper[np.isfinite(line.upper)].tolist()
        least = min([v for v in [*finite, *allowed] if v > FLOOR], default=1.0)
        most = max([v for v in [*finite, *allowed] if math.isfinite(v)], default=1.0)
        return max(FLOOR, least / 2), max(most * 1.5, 1.0)
    allowed = [0.5] if line is None else line.upper.tolist()
    lowest = min([0.48, *finite, *(p.lower for p in points if p.lower is not None and p.run is None)])
    highest = max([*allowed, *finite])
    return max(-0.02, lowest - 0.02), min(1.02, highest + 0.04)
