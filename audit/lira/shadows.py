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

from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from torch import nn

from ... import __version__
from ...attacks.measurement import Measurement
from ...attacks.query import view_list
from ...attacks.shadow_arrays import ShadowArrays
from ...attacks.shadows import Shadows, plan_shadows, run_shadows, shard_path
from ...foundation import InputError
from ..choices import VIEWS
from ..recipe import Recipe
from ..rows import Universe
from ..work import Work


@dataclass(frozen=True)
class Plan:
    """How many shadow models, of which each is trained on an example with probability `fraction`; how many models of
    the recipe itself are attacked where no target is given; with how many views models are asked."""

    shadows: int = 16
    targets: int = 1
    fraction: float = 0.5
    views: int = 1

    def __post_init__(self) -> None:
        if self.views not in VIEWS:
            raise InputError(f"views must be one of {', '.join(map(str, VIEWS))}, got {self.views}")


@dataclass(frozen=True, eq=False)
class Asked:
    """A user's target, and who of the audited rows it was trained on, (n,) bool, where that is known."""

    module: nn.Module
    member: np.ndarray | None = None
    name: str = "the given checkpoint"


def shadow_arrays(
    rows: Universe, recipe: Recipe, work: Work, plan: Plan, target: Asked | None = None, device: str | None = None
) -> ShadowArrays | None:
    """Train what is missing and collect phi. None where work.span leaves part of it to other jobs.

    Without a target, `plan.targets` models are trained by the recipe with coins of their own, outside the shadows'
    design.
    """
    views = view_list(VIEWS[plan.views])
    x, y = rows.x[rows.audited], rows.y[rows.audited]
    measure = Measurement(x, y, rows.population_x, rows.population_y, views, device=device)
    shadow_plan = planned(rows, recipe, work, plan)
    measured = _measured(shadow_plan, recipe, measure, work)
    hinge = predicted = None
    if target is not None:
        if target.member is not None and target.member.shape != (len(rows.audited),):
            raise InputError(f"target_member must be bool ({len(rows.audited)},), got shape {target.member.shape}")
        own = {name: values[None] for name, values in measure(target.module).items()}
        asked = measure.ask(target.module, x, y, views)
        hinge, predicted = asked["hinge"][None], asked["predicted"][None]
        member = None if target.member is None else target.member[None].astype(bool)
        which = target.name
    else:
        plan_of_targets = planned(rows, recipe, work, plan, "target")
        own = _measured(plan_of_targets, recipe, measure, work)
        member, which = plan_of_targets.keep[:, rows.audited], f"{plan.targets} trained by the same recipe"
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
        target_hinge=hinge,
        target_predicted=predicted,
        shadow_correct=measured["correct"],
        labels=y,
        origin={
            **_identity(rows, recipe, plan),
            "universe": rows.kind,
            "rows": len(rows.y),
            "audited": len(rows.audited),
            "target": which,
            "fraction": plan.fraction,
            "shadows_asked": plan.shadows,
            "seed": work.seed,
        },
    )


def planned(rows: Universe, recipe: Recipe, work: Work, plan: Plan, stream: str = "shadow") -> Shadows:
    """Coins, seeds and the hash of the shadows, or of the recipe's own targets (stream "target")."""
    return plan_shadows(
        plan.shadows if stream == "shadow" else plan.targets,
        rows=len(rows.y),
        seed=work.seed,
        identity=_identity(rows, recipe, plan),
        fraction=plan.fraction,
        always=rows.always if rows.always.any() else None,
        stream=stream,
    )


def on_disk(shadows: Shadows, work: Work) -> int:
    """How many of the shadows were trained by an earlier call and will be read."""
    starts = range(0, len(shadows), work.chunk)
    folder = Path(work.folder).resolve()
    spans = [(start, min(start + work.chunk, len(shadows))) for start in starts]
    return sum(stop - start for start, stop in spans if shard_path(folder, shadows.key, start, stop).exists())


def _identity(rows: Universe, recipe: Recipe, plan: Plan) -> dict[str, Any]:
    return {
        "data": rows.fingerprint,
        "views": [str(view) for view in view_list(VIEWS[plan.views])],
        "coalmine": __version__,
        **recipe.identity,
    }


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
