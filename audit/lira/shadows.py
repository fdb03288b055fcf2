"""The shadow-model attack's trainings: data and a recipe, or a user's model, in; arrays of phi out.

    whose membership       examples of a data set, each in a shadow's training set by its own coin, or
                           the canaries of a set, with all other rows always in
    who is attacked        models of the same recipe with coins of their own (--targets), or the user's checkpoint

What it yields are metrics of an attack. They are no bound on epsilon: a model's membership drawn before any coins
existed supports none, and metrics of one run carry no validity class. For canaries with coins, the scores file goes
into `coalmine audit`, which concludes.

Random streams: "shadow/<i>" for shadows and "target/<i>" for targets of the recipe, from one seed.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial

import numpy as np
from torch import nn

from ... import __version__
from ...attacks.measurement import Measurement
from ...attacks.query import IDENTITY, View
from ...attacks.shadow_arrays import ShadowArrays
from ...attacks.shadows import Shadows, plan_shadows, run_shadows
from ...foundation import InputError
from ..recipe import Recipe
from ..rows import Universe
from ..work import Work


def shadow_arrays(
    rows: Universe,
    recipe: Recipe,
    work: Work,
    shadows: int,
    *,
    targets: int = 1,
    target: nn.Module | None = None,
    target_member: np.ndarray | None = None,
    fraction: float = 0.5,
    views: Sequence[View] = (IDENTITY,),
    device: str | None = None,
) -> ShadowArrays | None:
    """Train what is missing and collect phi. None where work.span leaves part of it to other jobs.

    target: the user's trained model, with target_member (n,) bool over the audited rows where known; left out,
    `targets` models are trained by the recipe with coins of their own, outside the shadows' design.
    """
    measure = Measurement(
        rows.x[rows.audited], rows.y[rows.audited], rows.population_x, rows.population_y, tuple(views), device=device
    )
    identity = {
        "data": rows.fingerprint,
        "views": [str(view) for view in views],
        "coalmine": __version__,
        **recipe.identity,
    }
    always = rows.always if rows.always.any() else None
    plan = partial(plan_shadows, rows=len(rows.y), seed=work.seed, identity=identity, fraction=fraction, always=always)
    shadow_plan = plan(shadows)
    measured = _measured(shadow_plan, recipe, measure, work)
    if target is not None:
        if target_member is not None and target_member.shape != (len(rows.audited),):
            raise InputError(f"target_member must be bool ({len(rows.audited)},), got shape {target_member.shape}")
        own = {name: values[None] for name, values in measure(target).items()}
        member = None if target_member is None else target_member[None].astype(bool)
        which = "the given checkpoint"
    else:
        plan_of_targets = plan(targets, stream="target")
        own = _measured(plan_of_targets, recipe, measure, work)
        member, which = plan_of_targets.keep[:, rows.audited], f"{targets} trained by the same recipe"
    if measured is None or own is None:
        return None
    keep = shadow_plan.keep[:, rows.audited]
    population = len(rows.population_y) > 0
    return ShadowArrays(
        shadow_phi=measured["phi"],
        keep=keep,
        target_phi=own["phi"],
        target_member=member,
        population_shadow=measured["population"] if population else None,
        population_target=own["population"] if population else None,
        shadow_accuracy=_held_out_accuracy(measured, keep, population),
        target_accuracy=_held_out_accuracy(own, member, population),
        origin={
            **identity,
            "universe": rows.kind,
            "rows": len(rows.y),
            "audited": len(rows.audited),
            "target": which,
            "fraction": fraction,
            "shadows_asked": shadows,
            "seed": work.seed,
        },
    )


def _measured(plan: Shadows, recipe: Recipe, measure: Measurement, work: Work) -> dict[str, np.ndarray] | None:
    return run_shadows(
        plan,
        recipe.train_many,
        measure,
        work.folder,
        chunk=work.chunk,
        jobs=work.jobs,
        backend=work.backend,
        span=work.span,
        advance=work.advance,
    )


def _held_out_accuracy(
    measured: dict[str, np.ndarray], member: np.ndarray | None, population: bool
) -> np.ndarray | None:
    """(models,): on the population where there is one, else on each model's own non-members."""
    if population:
        return measured["population_correct"].mean(axis=1)
    if member is None:
        return None
    outside = ~member
    with np.errstate(invalid="ignore"):
        return (measured["correct"] & outside).sum(axis=1) / outside.sum(axis=1)
