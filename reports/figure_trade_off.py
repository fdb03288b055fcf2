"""Trade-off plot: the errors that an attack makes against the errors that the claim says it must make.

Linear axes, where the distance between the measured curve and the coin flip's diagonal is the attack's advantage.
Expected error rates below the claimed curve f are impossible if the claim holds.
"""

from __future__ import annotations

import numpy as np
from matplotlib.figure import Figure

from ..audit.verdict.result import AuditResult
from . import drawing
from .drawing import FORBIDDEN, INK, MUTED
from .theory import trade_off


def draw_trade_off(audit: AuditResult, place: int = 0, width: int = 410, height: int = 360) -> Figure:
    """Errors: ValueError for an audit without a ROC; the page asks first."""
    if audit.roc is None:
        raise ValueError(f"audit {audit.label!r} holds no ROC curve")
    claimed = trade_off(audit.claim, 1e-3)
    with drawing.style():
        figure, axes = drawing.new_figure(width, height)
        axes.set_xlim(0, 1)
        axes.set_ylim(0, 1)
        axes.plot([0, 1], [1, 0], color=MUTED, linewidth=0.9, linestyle=(0, (4, 3)), label="coin flip")
        if claimed is not None:
            rates, errors = claimed.false_positive_rate, claimed.false_negative_rate
            axes.fill_between(rates, 0, errors, color=FORBIDDEN, alpha=0.1, linewidth=0, label="forbidden by the claim")
            axes.plot(rates, errors, color=INK, linewidth=1.1)
        false_positive_rate = np.asarray(audit.roc.false_positive_rate)
        false_negative_rate = 1.0 - np.asarray(audit.roc.true_positive_rate)
        axes.plot(
            *(false_positive_rate, false_negative_rate),
            **{"color": drawing.colour(place), "linewidth": 1.8, "label": "this attack"},
        )
        axes.set_xlabel("false-positive rate")
        axes.set_ylabel("false-negative rate")
        figure.legend(*axes.get_legend_handles_labels(), loc="outside upper left", ncols=2, **drawing.TIGHT_LEGEND)
    return figure


def describe_trade_off(audit: AuditResult) -> str:
    forbidden = "" if audit.claim is None else " The error rates that the claim forbids are shaded, below its curve."
    return f"False-negative rate against false-positive rate of {audit.label}, on linear axes.{forbidden}"
