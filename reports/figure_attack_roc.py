"""ROC of the strongest attacks on log-log axes, where leaks live: true positives at small false-positive rates."""

from __future__ import annotations

import numpy as np
from matplotlib.figure import Figure

from ..audit.attack.result import Attack, AttackResult
from . import drawing
from .attack_words import attack_name
from .drawing import MUTED
from .rounding import number

SHOWN = 3


def strongest(result: AttackResult, most: int = SHOWN) -> list[Attack]:
    """The chosen attack and those of the largest AUC, one of several that rank alike."""
    found: list[Attack] = []
    ordered = sorted(
        (one for one in result.attacks if one.metrics is not None and one.curve is not None),
        key=lambda one: (one.name != result.attack, -(one.metrics.auc if one.metrics else 0)),
    )
    for one in ordered:
        if len(found) < most and not any(one.curve == other.curve for other in found):
            found.append(one)
    return found


def draw_attack_roc(result: AttackResult, width: int = 640, height: int = 430) -> Figure:
    shown = strongest(result)
    least = smallest_rate(result)
    with drawing.style():
        figure, axes = drawing.new_figure(width, height)
        axes.set_xscale("log")
        axes.set_yscale("log")
        axes.set_xlim(least, 1.0)
        axes.set_ylim(least, 1.06)
        axes.plot([least, 1], [least, 1], color=MUTED, linewidth=0.9, linestyle=(0, (4, 3)), label="chance")
        for place, one in enumerate(shown):
            assert one.curve is not None and one.metrics is not None
            fpr = np.maximum(np.array(one.curve.false_positive_rate), least)
            tpr = np.maximum(np.array(one.curve.true_positive_rate), least / 10)
            ink = drawing.colour(place)
            label = f"{attack_name(one.name)}{' (chosen)' if one.name == result.attack else ''}"
            axes.plot(fpr, tpr, color=ink, linewidth=2.0 if place == 0 else 1.4, label=label, zorder=3 - place * 0.1)
            for point in one.metrics.tpr_at_fpr:
                if point.true_positive_rate is None or point.interval is None or place:
                    continue
                low, high = point.interval
                middle = max(point.true_positive_rate, least)
                axes.errorbar(
                    point.false_positive_rate,
                    middle,
                    yerr=[[max(middle - max(low, least), 0)], [max(high - middle, 0)]],
                    color=ink,
                    marker=drawing.marker(place),
                    markersize=6,
                    capsize=3,
                    linewidth=1.2,
                    zorder=4,
                )
        drawing.log_axis(axes.xaxis)
        drawing.log_axis(axes.yaxis)
        axes.set_xlabel("false alarms: share of other rows that are called members")
        axes.set_ylabel("share of training rows found")
        figure.legend(
            *axes.get_legend_handles_labels(), loc="outside upper left", ncols=2 if width > 450 else 1,
            **drawing.TIGHT_LEGEND,
        )  # fmt: skip
    return figure


def describe_attack_roc(result: AttackResult) -> str:
    """For whoever does not see it."""
    told = [
        f"{attack_name(one.name)}: area under the curve {number(one.metrics.auc, 3)}"
        for one in strongest(result)
        if one.metrics is not None
    ]
    return "Receiver operating curves on logarithmic axes. " + "; ".join(told) + "."


def smallest_rate(result: AttackResult) -> float:
    """Where the axes begin: a little below one non-member."""
    assert result.metrics is not None
    return min(0.1, 0.7 / max(result.metrics.non_members, 1))
