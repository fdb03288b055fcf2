"""The headline figure: what theory allows an attack, and what the attack achieved.

The curve is the upper bound on attack accuracy at prior 1/2 (the closed form, and the exact value where it was
computed) along the claim's noise multiplier, or along ε for a bare (ε, δ); each audit is a point at its claimed
value with its class C interval. A point above the curve is no verdict: that is the p-value's business.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from matplotlib.figure import Figure
from matplotlib.ticker import MultipleLocator

from ..audit.verdict.estimate import Estimate
from ..audit.verdict.result import AuditResult
from . import drawing
from .drawing import FORBIDDEN, INK, MUTED
from .rounding import at_most, number
from .theory import AccuracyCurve, accuracy_curve, parameter_of
from .words import curve_name

AXIS_LABELS = {"noise_multiplier": "noise multiplier σ of the claim", "epsilon": "ε of the claim"}
_NO_PRIVACY = 0.985
# How far the axis reaches beyond the smallest and the largest claimed value: far towards less privacy, where the curve
# tells how little noise would allow what the attack achieved.
_REACH = {"noise_multiplier": (1 / 8, 2.5), "epsilon": (1 / 2.5, 8.0)}


@dataclass(frozen=True)
class Headline:
    """The audits that share an axis, with the curves of their claims (one for all that claim the same)."""

    parameter: str
    audits: tuple[tuple[int, AuditResult, Estimate], ...]  # place among all audits of the page: colour and marker
    curves: tuple[tuple[str, AccuracyCurve], ...]
    low: float
    high: float


def headlines(audits: Sequence[AuditResult]) -> tuple[Headline, ...]:
    """At most one figure for each parameter; audits without a claim, or without an accuracy, are left out."""
    found = []
    for parameter in AXIS_LABELS:
        points = []
        for place, audit in enumerate(audits):
            accuracy = audit.estimate("attack_accuracy")
            if parameter_of(audit.claim) == parameter and accuracy is not None:
                points.append((place, audit, accuracy))
        if not points:
            continue
        claimed = [_claimed(audit, parameter) for _, audit, _ in points]
        low, high = min(claimed) * _REACH[parameter][0], max(claimed) * _REACH[parameter][1]
        curves: dict[str, AccuracyCurve] = {}
        for _, audit, _ in points:
            assert audit.claim is not None
            name = curve_name(audit.claim, parameter)
            curve = None if name in curves else accuracy_curve(audit.claim, low, high)
            if curve is not None:
                curves[name] = curve
        low, high = _view(tuple(curves.values()), low, high, claimed)
        found.append(Headline(parameter, tuple(points), tuple(curves.items()), low, high))
    return tuple(found)


def draw_headline(headline: Headline, width: int = 700, height: int = 400) -> Figure:
    narrow = width < 500
    with drawing.style():
        figure, axes = drawing.new_figure(width, height)
        axes.set_xscale("log")
        axes.set_xlim(headline.low, headline.high)
        top = _top(headline)
        axes.set_ylim(_bottom(headline), top)
        axes.axhline(0.5, color=MUTED, linewidth=0.8)
        _curves(axes, headline)
        for claimed in sorted({_claimed(audit, headline.parameter) for _, audit, _ in headline.audits}):
            axes.axvline(claimed, color=MUTED, linewidth=0.8, linestyle=(0, (2, 3)), zorder=1)
        for turn, point in enumerate(headline.audits):
            _point(axes, headline, turn, point, narrow)
        short = headline.high / headline.low < 15
        drawing.log_axis(axes.xaxis, subs=(1.0, 1.5, 2.0, 3.0, 4.0, 6.0, 8.0) if short else (1.0, 2.0, 5.0))
        axes.yaxis.set_major_locator(MultipleLocator(0.1 if top > 0.75 else 0.05))
        drawing.percent_axis(axes.yaxis)
        axes.set_xlabel(AXIS_LABELS[headline.parameter])
        axes.set_ylabel("attack accuracy (coin flip: 50 %)")
        handles, labels = axes.get_legend_handles_labels()
        columns = 1 if narrow else min(2, len(labels))
        figure.legend(handles, labels, loc="outside upper left", ncols=columns, **drawing.TIGHT_LEGEND)
    return figure


def describe_headline(headline: Headline) -> str:
    """The figure in words, for those who cannot see it."""
    parts = []
    for place, audit, accuracy in headline.audits:
        claimed = _claimed(audit, headline.parameter)
        ends = accuracy.interval
        span = "" if ends is None else f", interval {number(ends[0])} to {number(ends[1])}"
        promised = audit.claim.accuracy.promised if audit.claim and audit.claim.accuracy else None
        bound = "" if promised is None else f"; the claim allows at most {at_most(promised)}"
        parts.append(
            f"{audit.label} ({_MARKER_WORDS[drawing.marker(place)]}): at {headline.parameter} {number(claimed)} the "
            f"attack's accuracy is {number(accuracy.value)}{span} (class {accuracy.validity}){bound}."
        )
    kinds = "; ".join(name for name, _ in headline.curves) or "no curve: theory knows no mechanism of this name"
    return f"Upper bound on attack accuracy against {headline.parameter}, for {kinds}. " + " ".join(parts)


def _curves(axes: drawing.Axes, headline: Headline) -> None:
    for turn, (name, curve) in enumerate(headline.curves):
        style = ("-", (0, (6, 2)), (0, (1, 1.5)), (0, (6, 2, 1, 2)))[turn % 4]
        exact = curve.exact_values.size > 0
        truly = (curve.exact_values, curve.exact_upper) if exact else (curve.values, curve.bound)
        if len(headline.curves) == 1:  # what is forbidden is what lies above the smallest proven bound
            axes.fill_between(*truly, 1.2, color=FORBIDDEN, alpha=0.07, linewidth=0)
        if curve.values.size:
            kind = "upper bound" if curve.formula_is_exact else "upper bound, closed form"
            look: Any = {"color": MUTED, "linewidth": 1.1} if exact else {"color": INK, "linewidth": 1.8}
            dashes = (0, (5, 2)) if exact and style == "-" else style
            axes.plot(curve.values, curve.bound, **look, linestyle=dashes, label=f"{kind}: {name}")
        if exact:
            alone = "" if curve.values.size else f": {name}"
            axes.plot(*truly, color=INK, linewidth=1.8, linestyle=style, label=f"upper bound, exact value{alone}")


def shares_a_claimed_value(headline: Headline) -> bool:
    claimed = [_claimed(audit, headline.parameter) for _, audit, _ in headline.audits]
    return len(set(claimed)) < len(claimed)


def _point(
    axes: drawing.Axes, headline: Headline, turn: int, point: tuple[int, AuditResult, Estimate], narrow: bool
) -> None:
    place, audit, accuracy = point
    claimed = _claimed(audit, headline.parameter)
    twins = [t for t, (_, a, _) in enumerate(headline.audits) if _claimed(a, headline.parameter) == claimed]
    # Audits of the same claim stand side by side, or their intervals would hide each other.
    at = claimed * (1.035 if not narrow else 1.06) ** (2 * twins.index(turn) - (len(twins) - 1))
    assert accuracy.value is not None
    low, high = accuracy.interval or (None, None)
    low, high = accuracy.value if low is None else low, accuracy.value if high is None else high
    axes.errorbar(
        [at],
        [accuracy.value],
        yerr=[[max(0.0, accuracy.value - low)], [max(0.0, high - accuracy.value)]],
        color=drawing.colour(place),
        marker=drawing.marker(place),
        markersize=7,
        linewidth=1.8,
        capsize=4,
        zorder=4,
        label=f"{drawing.shortened(audit.label)} (class {accuracy.validity})",
    )


def _view(curves: tuple[AccuracyCurve, ...], low: float, high: float, claimed: list[float]) -> tuple[float, float]:
    """Leave out the stretch where every curve says "no privacy", but never come near a claimed value."""
    told = [curve.values[curve.bound < _NO_PRIVACY] for curve in curves if curve.values.size]
    told = [values for values in told if values.size]
    if not told or len(told) < len(curves):
        return low, high
    low = max(low, min(min(values[0] for values in told), min(claimed) / 1.5))
    return low, min(high, max(max(values[-1] for values in told), max(claimed) * 1.5))


def _top(headline: Headline) -> float:
    """High enough for every interval and for every curve at its claimed value, never so high that they lie flat."""
    highest = [0.5]
    for _, curve in headline.curves:
        highest.append(curve.bound[curve.values >= curve.claimed].max(initial=0.5))
        highest.append(curve.exact_upper[curve.exact_values >= curve.claimed].max(initial=0.5))
    for _, _, accuracy in headline.audits:
        high = accuracy.interval[1] if accuracy.interval else None
        highest.append(max(accuracy.value or 0.5, high or 0.5))
    return min(1.01, 0.5 + max(0.15, 1.5 * (max(highest) - 0.5)))


def _bottom(headline: Headline) -> float:
    lows = [accuracy.interval[0] for _, _, accuracy in headline.audits if accuracy.interval]
    lowest = min([accuracy.value or 0.5 for _, _, accuracy in headline.audits] + [low for low in lows if low])
    return min(0.48, lowest - 0.02)


def _claimed(audit: AuditResult, parameter: str) -> float:
    assert audit.claim is not None
    return float(audit.claim.record[parameter])


_MARKER_WORDS = {
    "o": "circle",
    "s": "square",
    "D": "diamond",
    "^": "triangle up",
    "v": "triangle down",
    "P": "plus",
    "X": "cross",
}
