"""ROC on log-log axes, where leaks live: true-positive rate at small false-positive rates.

Drawn with it: the coin flip, the region that the claimed trade-off curve forbids (expected rates above 1 − f(α)),
the operating points that the audit reports with their class C intervals, and the audit's band where it has one.
A log axis has no zero: what happens at a false-positive rate of zero is drawn at the left edge.
"""

from __future__ import annotations

import numpy as np
from matplotlib.figure import Figure

from ..audit.verdict.curves import Roc
from ..audit.verdict.result import AuditResult
from . import drawing
from .drawing import FORBIDDEN, INK, MUTED
from .rounding import number
from .theory import TradeOff, trade_off


def draw_roc(audit: AuditResult, place: int = 0, width: int = 410, height: int = 360) -> Figure:
    """Errors: ValueError for an audit without a ROC; the page asks first."""
    roc = _roc(audit)
    least = smallest_rate(audit)
    claimed = trade_off(audit.claim, least)
    ink = drawing.colour(place)
    with drawing.style():
        figure, axes = drawing.new_figure(width, height)
        axes.set_xscale("log")
        axes.set_yscale("log")
        axes.set_xlim(least, 1.0)
        axes.set_ylim(least, 1.06)
        axes.plot([least, 1], [least, 1], color=MUTED, linewidth=0.9, linestyle=(0, (4, 3)), label="coin flip")
        if claimed is not None:
            _forbidden(axes, claimed, least)
        if roc.band is not None:
            axes.fill_between(
                np.maximum(roc.band.false_positive_rate, least),
                np.maximum(roc.band.lower, least / 10),
                np.maximum(roc.band.upper, least / 10),
                **{"color": ink, "alpha": 0.14, "linewidth": 0, "label": f"band (class {roc.band.validity})"},
            )
        false_positive_rate, true_positive_rate = _thinned(roc, least)
        axes.plot(
            *(false_positive_rate, true_positive_rate),
            **{"color": ink, "linewidth": 1.8, "label": "this attack", "zorder": 3},
        )
        _operating_points(axes, roc, least, ink, drawing.marker(place))
        drawing.log_axis(axes.xaxis)
        drawing.log_axis(axes.yaxis)
        axes.set_xlabel("false-positive rate")
        axes.set_ylabel("true-positive rate")
        figure.legend(*axes.get_legend_handles_labels(), loc="outside upper left", ncols=2, **drawing.TIGHT_LEGEND)
    return figure


def describe_roc(audit: AuditResult) -> str:
    roc = _roc(audit)
    points = [
        f"true-positive rate {number(p.true_positive_rate)} at false-positive rate {number(p.false_positive_rate)}"
        for p in roc.operating_points
        if p.true_positive_rate is not None
    ]
    area = "" if roc.auc is None else f" Area under the curve {number(roc.auc)} (class {roc.validity})."
    forbidden = "" if audit.claim is None else " The region that the claim forbids is shaded."
    return f"ROC of {audit.label} on logarithmic axes.{area} {'; '.join(points)}{'.' if points else ''}{forbidden}"


def smallest_rate(audit: AuditResult) -> float:
    """Where the axes begin: a decade edge at or below one non-member's share, at least 10⁻⁶."""
    non_members = max(audit.counts.non_members, 10)
    return float(10.0 ** -min(6, int(np.ceil(np.log10(non_members)))))


def _forbidden(axes: drawing.Axes, claimed: TradeOff, least: float) -> None:
    most = np.maximum(1.0 - claimed.false_negative_rate, least / 10)
    rates = np.maximum(claimed.false_positive_rate, least / 10)
    axes.fill_between(rates, most, 2.0, color=FORBIDDEN, alpha=0.1, linewidth=0, label="forbidden by the claim")
    axes.plot(rates, most, color=INK, linewidth=1.1)


def _thinned(roc: Roc, least: float) -> tuple[np.ndarray, np.ndarray]:
    """The curve without corners that fall on the same spot of the drawing; a diagonal (a block of ties) is bent.

    A straight line between two corners is no straight line on log axes, so it gets points in between.
    """
    corners = np.array([roc.false_positive_rate, roc.true_positive_rate], dtype=float)
    start, end = corners[:, :-1], corners[:, 1:]
    diagonal = np.all(end > start, axis=0)
    share = np.where(diagonal, np.geomspace(1e-4, 1.0, 25)[:, None], 1.0)
    filled = (start + share[:, None] * (end - start)).transpose(1, 2, 0).reshape(2, -1)
    curve = np.concatenate([corners[:, :1], filled], axis=1)
    spot = np.round(np.log10(np.maximum(curve, least / 10)) / -np.log10(least) * 4000)
    new = np.any(np.diff(spot, axis=1) != 0, axis=0)
    keep = np.concatenate([[True], new]) | np.concatenate([new, [True]])
    false_positive_rate, true_positive_rate = np.maximum(curve[:, keep], [[least], [least / 10]])
    return false_positive_rate, true_positive_rate


def _operating_points(axes: drawing.Axes, roc: Roc, least: float, ink: str, marker: str) -> None:
    label = f"interval (class {roc.validity})"
    for point in roc.operating_points:
        rate, value = point.false_positive_rate, point.true_positive_rate
        if value is None or rate < least:
            continue
        low, high = point.interval or (None, None)
        low, high = max(least / 10, value if low is None else low), value if high is None else high
        value = max(value, least / 10)
        axes.errorbar(
            *([rate], [value]),
            yerr=[[max(0.0, value - low)], [max(0.0, high - value)]],
            **{"color": ink, "marker": marker, "markersize": 5, "linewidth": 1.2, "capsize": 3, "zorder": 4},
            label=label,
        )
        label = "_nolegend_"


def _roc(audit: AuditResult) -> Roc:
    if audit.roc is None or len(audit.roc.false_positive_rate) < 2:
        raise ValueError(f"audit {audit.label!r} holds no ROC curve")
    return audit.roc
