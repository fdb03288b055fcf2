"""The attack with shadow models: train what is missing, ask the target, check that it was fed rightly, conclude."""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np

from ...attacks.measurement import Measurement
from ...attacks.shadow_arrays import ShadowArrays
from ...foundation import InputError
from ..attack.attack import origin, row_warnings, shown
from ..attack.candidates import Candidates
from ..attack.conclude import DRAW_COINS, Conclusion, Known, conclude
from ..attack.fed import check_fed, check_gap, fed_warnings
from ..attack.result import OwnAccuracy
from ..attack.target import Target
from ..recipe import Recipe
from ..rows import Universe, universe_of
from ..work import Work
from .shadows import Asked, Plan, shadow_arrays


@dataclass(frozen=True)
class Choice:
    """Which attack is written, chosen before any coin is seen; what the user's log says of the target's accuracy on
    its own training rows; how to get from the metrics to a bound."""

    attack: str = "lira_online"
    training_accuracy: float | None = None
    next_step: str = DRAW_COINS


def lira(
    rows: Candidates, recipe: Recipe, work: Work, plan: Plan, target: Target, choice: Choice = Choice(),
    device: str | None = None,
) -> Conclusion | None:  # fmt: skip
    """Attack a user's target on rows whose membership he knows. None where work.span leaves part to other jobs.

    Errors: InputError for a target that was fed otherwise than it was trained, before any shadow is trained, and for a
    list of members that is not the target's, which only shadows can show.
    """
    check_attack(choice.attack, len(rows.population_y))
    predicted = Measurement(rows.x, rows.y, rows.x[:0], rows.y[:0], device=device).ask(target.module, rows.x, rows.y)[
        "predicted"
    ]
    accuracy = check_fed(target, rows, predicted, choice.training_accuracy, device)
    asked = Asked(target.module, rows.member, target.name)
    arrays = shadow_arrays(universe_of(rows), recipe, work, plan, asked, device)
    if arrays is None:
        return None
    check_gap(accuracy, shadow_gaps(arrays))
    known = Known(
        inputs=(rows.x, rows.y),
        shown=shown(rows),
        accuracy=accuracy,
        warnings=(
            *row_warnings(rows),
            *fed_warnings(target, predicted[rows.member], rows.y[rows.member], accuracy),
        ),
        next_step=choice.next_step,
    )
    return conclude(with_origin(arrays, origin(target, rows)), choice.attack, known, work.seed)


def lira_of_canaries(
    rows: Universe, recipe: Recipe, work: Work, plan: Plan, target: Asked, choice: Choice, accuracy: OwnAccuracy | None,
    device: str | None = None,
) -> Conclusion | None:  # fmt: skip
    """Attack the membership of canaries in a user's target; all other rows are always in."""
    check_attack(choice.attack, len(rows.population_y))
    arrays = shadow_arrays(rows, recipe, work, plan, target, device)
    if arrays is None:
        return None
    known = Known(accuracy=accuracy, next_step=choice.next_step)
    return conclude(arrays, choice.attack, known, work.seed)


def lira_of_recipe(
    rows: Universe, recipe: Recipe, work: Work, plan: Plan, choice: Choice, device: str | None = None
) -> Conclusion | None:
    """Attack models of the recipe itself, with coins of their own."""
    check_attack(choice.attack, len(rows.population_y))
    arrays = shadow_arrays(rows, recipe, work, plan, device=device)
    if arrays is None:
        return None
    natural = not rows.always.any()
    inputs = (rows.x[rows.audited], rows.y[rows.audited]) if natural else None
    return conclude(arrays, choice.attack, Known(inputs=inputs, next_step=choice.next_step), work.seed)


def check_attack(attack: str, population: int) -> None:
    if attack in ("rmia_offline", "attack_p") and population == 0:
        raise InputError(
            f"--attack {attack} needs rows that no model was trained on and nobody asks about, the test rows: here "
            "they are the non-members, or the data has none. Give data with test rows and --target-members, or choose "
            "another attack"
        )


def shadow_gaps(arrays: ShadowArrays) -> np.ndarray:
    """(S,): each shadow's accuracy on its own rows minus that on the others, of the audited rows."""
    assert arrays.shadow_correct is not None
    inside, right = arrays.keep, arrays.shadow_correct
    usable = inside.any(axis=1) & ~inside.all(axis=1)
    inside, right = inside[usable], right[usable]
    return (right & inside).sum(axis=1) / inside.sum(axis=1) - (right & ~inside).sum(axis=1) / (~inside).sum(axis=1)


def with_origin(arrays: ShadowArrays, facts: dict[str, object]) -> ShadowArrays:
    return replace(arrays, origin={**arrays.origin, **facts})
