"""A measured plan in words, the same on the terminal and on the page."""

from __future__ import annotations

from ..audit.planning.setting import Setting
from ..audit.planning.utility_plan import Arm, MeanAccuracy, UtilityPlan
from .rounding import DOWN, UP, at_most, number, percent, plain

ARMS = {
    "random_allocation": "random allocation, certified noise",
    "poisson": "Poisson sampling, certified noise",
    "closed_form": "closed form",
}


def target_words(plan: UtilityPlan) -> str:
    if "epsilon" in plan.target:
        return plain(f"epsilon {number(plan.target['epsilon'])} at delta {number(plan.target['delta'], 3)}")
    return plain(f"attack accuracy at most {percent(plan.target['accuracy'], UP)}")


def setting_words(plan: UtilityPlan) -> str:
    s, winner = plan.winner.setting, plan.winner
    size = plan.source.records / s.steps_per_epoch
    return plain(
        f"{s.steps_per_epoch} steps an epoch (about {number(size, 3)} records a step), {s.epochs} epochs, clipping "
        f"norm {number(s.clipping_norm)}, learning rate {number(s.learning_rate)}, noise multiplier "
        f"{at_most(winner.noise_multiplier)}"
    )


def accuracy_words(found: MeanAccuracy) -> str:
    """Mean and interval in percent."""
    interval = "" if found.low is None or found.high is None else f" [{_percent(found.low, DOWN)}, {_end(found.high)}]"
    return plain(f"{percent(found.mean)}{interval}")


def points_words(found: MeanAccuracy) -> str:
    """A difference in points, with its interval."""
    if found.low is None or found.high is None:
        return f"{100 * found.mean:.1f} points"
    low, high = (f"{100 * end:.1f}" for end in (found.low, found.high))
    return f"{100 * found.mean:.1f} points [{low}, {high}]"


def arm_words(plan: UtilityPlan, arm: Arm) -> str:
    name = ARMS.get(arm.name, arm.name)
    if arm.reason or arm.accuracy is None or arm.lost is None:
        return f"{name}: no run, the closed form promises nothing ({arm.reason})"
    told = f"{name}: test accuracy {accuracy_words(arm.accuracy)} over {len(arm.accuracy.values)} fresh seeds"
    noise = (arm.mechanism or {}).get("noise_multiplier")
    told += "" if not isinstance(noise, float) else plain(f", noise multiplier {at_most(noise)}")
    return told if arm is plan.chosen else f"{told}; loses {points_words(arm.lost)}"


def shape_words(setting: Setting) -> str:
    return plain(f"{setting.epochs} x {setting.steps_per_epoch} steps, learning rate {number(setting.learning_rate)}")


def effort_words(plan: UtilityPlan) -> str:
    e = plan.effort
    rounds = ", ".join(f"{settings} settings for {turns}/{e.rounds[-1][1]}" for settings, turns in e.rounds)
    return (
        f"searched {len(plan.points)} settings in {e.search_steps} optimiser steps x models ({rounds} of their runs, "
        f"{e.search_seeds} seeds each), a full grid takes {e.full_grid_steps}; fresh runs took {e.fresh_steps}"
    )


def price_words(plan: UtilityPlan) -> str:
    p = plan.price
    if plan.source.public:
        geometric = (
            ""
            if p.geometric_epsilon is None
            else f", and the best of a geometric number of runs with mean {p.geometric_mean_runs}, settings drawn "
            f"uniformly, epsilon at most {plain(at_most(p.geometric_epsilon, 3))} at delta {p.delta:.3g}"
        )
        return (
            "choosing was done on public rows and costs the private ones nothing; on private rows this search would "
            f"cost epsilon up to {plain(at_most(p.composed_epsilon, 4))} ({p.trainings} trainings){geometric}"
        )
    delta = "above 1, that is, nothing is promised" if p.composed_delta is None else f"{p.composed_delta:.3g}"
    return (
        f"choosing spent privacy budget: {p.trainings} trainings, each ({p.epsilon:.3g}, {p.delta:.3g})-DP, compose to "
        f"epsilon up to {plain(at_most(p.composed_epsilon, 4))} at delta {delta}, before the chosen run; the "
        "accuracies were measured on rows that have no protection at all"
    )


def _percent(value: float, direction: str) -> str:
    return percent(value, direction).split("\u00a0")[0]


def _end(value: float) -> str:
    return percent(value, UP)
