"""The figures of a measured plan: the utility graph, and what the same budget buys under each accounting."""

from __future__ import annotations

from typing import Any

from matplotlib.figure import Figure

from ..audit.planning.utility_plan import Point, UtilityPlan
from . import drawing
from .drawing import MUTED, PAPER, RULE
from .plan_words import ARMS, accuracy_words, points_words
from .rounding import number, plain


def draw_graph(plan: UtilityPlan, narrow: bool = False) -> Figure:
    """Validation accuracy against the epochs trained, a colour and marker for each sample size, a panel for each C."""
    norms = sorted({p.setting.clipping_norm for p in plan.points})
    shapes = sorted({p.setting.steps_per_epoch for p in plan.points})
    with drawing.style():
        size = (380, 120 + 230 * len(norms)) if narrow else (max(420, 60 + 240 * len(norms)), 360)
        figure = Figure(figsize=(size[0] / 72, size[1] / 72), layout="constrained")
        grid: Any = figure.subplots(
            *((len(norms), 1) if narrow else (1, len(norms))), sharex=True, sharey=True, squeeze=False
        )
        for panel, (axes, norm) in enumerate(zip(grid.flat, norms, strict=True)):
            axes.grid(True, color=RULE)
            axes.set_axisbelow(True)
            axes.tick_params(length=0, which="both", pad=5)
            axes.set_title(f"clipping norm {number(norm)}", fontsize=11, color=MUTED, loc="left")
            for place, steps in enumerate(shapes):
                label = f"about {number(plan.source.records / steps, 3)} records a step" if panel == 0 else None
                chosen = [
                    p for p in plan.points if (p.setting.clipping_norm, p.setting.steps_per_epoch) == (norm, steps)
                ]
                _series(axes, chosen, place, label)
            drawing.percent_axis(axes.yaxis)
            if narrow or panel == 0:
                axes.set_ylabel("validation accuracy")
            if not narrow or panel == len(norms) - 1:
                axes.set_xlabel("epochs trained")
        axes = grid.flat[0]
        axes.set_xscale("log")
        ticks = sorted({p.setting.epochs for p in plan.points} | {1, 2, 5})
        axes.set_xticks(ticks, [str(tick) for tick in ticks])
        axes.minorticks_off()
        s = plan.winner.setting
        at = grid.flat[norms.index(s.clipping_norm)]
        at.plot(
            [plan.winner.epochs_done], [plan.winner.accuracy.mean], "o", markersize=15, markerfacecolor="none",
            markeredgecolor=drawing.INK, markeredgewidth=1.4, zorder=5,
        )  # fmt: skip
        handles, labels = axes.get_legend_handles_labels()
        figure.legend(
            handles, labels, loc="outside upper left", ncols=1 if narrow else len(labels), **drawing.TIGHT_LEGEND
        )
    return figure


def _series(axes: Any, points: list[Point], place: int, label: str | None) -> None:
    colour, marker = drawing.colour(place), drawing.marker(place)
    early = [p for p in points if not p.whole]
    whole = [p for p in points if p.whole]
    axes.plot(
        [p.epochs_done for p in early], [p.accuracy.mean for p in early], linestyle="none", marker=marker, markersize=4,
        markerfacecolor=PAPER, markeredgecolor=colour, markeredgewidth=1,
    )  # fmt: skip
    lows = [p.accuracy.mean - (p.accuracy.mean if p.accuracy.low is None else p.accuracy.low) for p in whole]
    highs = [(p.accuracy.mean if p.accuracy.high is None else p.accuracy.high) - p.accuracy.mean for p in whole]
    axes.errorbar(
        [p.epochs_done for p in whole], [p.accuracy.mean for p in whole], yerr=[lows, highs], linestyle="none",
        marker=marker, markersize=6.5, color=colour, linewidth=1.4, capsize=3, label=label, zorder=4,
    )  # fmt: skip


def describe_graph(plan: UtilityPlan) -> str:
    whole = [p for p in plan.points if p.whole]
    best = plan.winner.setting
    return (
        f"{len(plan.points)} settings, {len(whole)} of them run to their end. The chosen one, circled: clipping norm "
        f"{plain(number(best.clipping_norm))}, {best.epochs} epochs of {best.steps_per_epoch} steps, validation "
        f"accuracy {accuracy_words(plan.winner.accuracy)}."
    )


def draw_arms(plan: UtilityPlan, narrow: bool = False) -> Figure:
    """Test accuracy over fresh seeds, one row for each way of accounting: every seed, the mean and its interval."""
    arms = [arm for arm in plan.arms if arm.accuracy is not None]
    with drawing.style():
        figure, axes = drawing.new_figure(380 if narrow else 620, 90 + 54 * len(arms))
        for place, arm in enumerate(arms):
            found, y = arm.accuracy, len(arms) - 1 - place
            assert found is not None
            axes.plot(found.values, [y + 0.18] * len(found.values), "|", color=MUTED, markersize=7)
            ends = found.low, found.high
            error = None if ends[0] is None or ends[1] is None else [[found.mean - ends[0]], [ends[1] - found.mean]]
            axes.errorbar(
                [found.mean], [y], xerr=error, color=drawing.colour(place), marker=drawing.marker(place), markersize=7,
                linewidth=1.8, capsize=4,
            )  # fmt: skip
        names = [ARMS.get(arm.name, arm.name) for arm in reversed(arms)]
        axes.set_yticks(range(len(arms)), [name.replace(", ", ",\n") if narrow else name for name in names])
        axes.set_ylim(-0.6, len(arms) - 0.4)
        axes.grid(False, axis="y")
        drawing.percent_axis(axes.xaxis)
        axes.set_xlabel("test accuracy")
    return figure


def describe_arms(plan: UtilityPlan) -> str:
    told = []
    for arm in plan.arms:
        if arm.accuracy is None or arm.lost is None:
            told.append(f"{ARMS.get(arm.name, arm.name)}: no run.")
            continue
        lost = "" if arm is plan.chosen else f", {points_words(arm.lost)} less than the plan"
        told.append(f"{ARMS.get(arm.name, arm.name)}: {accuracy_words(arm.accuracy)}{lost}.")
    return " ".join(told)
