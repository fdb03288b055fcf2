"""The shadow-model attack from end to end: data and a recipe, or a user's model, in; scores and metrics out.

    whose membership       examples of a data set, each in a shadow's training set by its own coin, or
                           the canaries of a set, with all other rows always in
    who is attacked        models of the same recipe with coins of their own (--targets), or the user's checkpoint

What it yields are metrics of an attack. They are no bound on epsilon: a model's membership drawn before any coins
existed supports none, and metrics of one run carry no validity class. For canaries with coins, the scores file goes
into `coalmine audit`, which concludes.

Random streams: "shadow/<i>" for shadows and "target/<i>" for targets of the recipe, from one seed.
"""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
from torch import nn

from .. import __version__
from ..attacks.measurement import Measurement
from ..attacks.query import IDENTITY, View
from ..attacks.shadow_arrays import ShadowArrays
from ..attacks.shadows import Shadows, TrainMany, plan_shadows, run_shadows
from ..attacks.user_training import UserTraining
from ..canaries import CanarySet, remaining_rows
from ..foundation import InputError
from .training.data import Data
from .training.engine import train_many
from .training.models import build_model
from .training.sequential import train_sequentially
from .training.settings import TrainingSettings


@dataclass(frozen=True, eq=False)
class Universe:
    """The rows that models are trained on and attacked on.

    x (N, …), y (N,): rows a model may train on, in the order that a user's train(indices, seed) indexes.
    always (N,) bool: rows in every training set. audited (n,) int64: the rows whose membership is attacked.
    population_x, population_y: rows outside every training set, may be empty. fingerprint: hash of all that.
    """

    x: np.ndarray
    y: np.ndarray
    always: np.ndarray
    audited: np.ndarray
    population_x: np.ndarray
    population_y: np.ndarray
    classes: int
    fingerprint: str
    kind: str

    def expected_size(self, fraction: float) -> float:
        """Expected training-set size: the public constant of the recipe's divisor."""
        return float(self.always.sum() + fraction * (~self.always).sum())


def universe(data: Data, canaries: CanarySet | None = None, test_rows_too: bool = False) -> Universe:
    """Training rows of the data set; with test_rows_too its test rows behind them; or its rows around canaries.

    test_rows_too is for a user's model trained on all training rows: its non-members are the test rows.
    """
    none_x, none_y = data.x[:0], data.y[:0]
    if canaries is not None:
        if canaries.x.shape[1:] != data.input_shape:
            raise InputError(f"canaries have shape {canaries.x.shape[1:]}, the rows of {data.name} {data.input_shape}")
        if canaries.data_fingerprint and canaries.data_fingerprint != data.fingerprint:
            raise InputError(
                f"the canaries were crafted from other data than {data.name}: give the data they belong to"
            )
        stay = remaining_rows(canaries, len(data.y))
        x, y = np.concatenate([data.x[stay], canaries.x]), np.concatenate([data.y[stay], canaries.y])
        always = np.arange(len(y)) < stay.sum()
        fingerprint = hashlib.sha256(f"{data.fingerprint} {canaries.sha256}".encode()).hexdigest()
        population, kind = (data.x_test, data.y_test), "canaries"
    elif test_rows_too:
        x, y = np.concatenate([data.x, data.x_test]), np.concatenate([data.y, data.y_test])
        always = np.zeros(len(y), dtype=bool)
        fingerprint, population, kind = f"{data.fingerprint}+test", (none_x, none_y), "training and test rows"
    else:
        x, y, always = data.x, data.y, np.zeros(len(data.y), dtype=bool)
        fingerprint, population, kind = data.fingerprint, (data.x_test, data.y_test), "training rows"
    return Universe(x, y, always, np.flatnonzero(~always), *population, len(data.classes), fingerprint, kind)


@dataclass(frozen=True, eq=False)
class Recipe:
    """How one model is trained on its members of the universe: by the stacked engine, or by the user's function."""

    train_many: TrainMany
    identity: dict[str, Any]
    settings: TrainingSettings | None = None


def engine_recipe(
    rows: Universe, model: str, settings: TrainingSettings, chunk: int = 8, device: str = "cpu"
) -> Recipe:
    """The stacked engine on a model that `build_model` knows, or one model after another where it cannot be stacked.

    Two models are trained for one step on four rows to find out; identity["training"] says which it is, and why.
    Errors: InputError for a model that cannot be trained, before any long work.
    """
    build = partial(build_model, model, rows.x.shape[1:], rows.classes)
    train = partial(train_many, build, rows.x, rows.y, settings=settings, device=device, chunk=chunk)
    how = "stacked"
    probe = replace(settings, steps_per_epoch=1, epochs=1, sampler="full_batch")
    try:
        train_many(build, rows.x[:4], rows.y[:4], np.ones((2, 4), bool), (0, 1), probe, device, chunk=2)
    except (RuntimeError, NotImplementedError, TypeError) as error:  # what torch.func says of code it cannot map
        train = partial(train_sequentially, build, rows.x, rows.y, settings=settings, device=device)
        how = f"one model after another: {str(error).splitlines()[0]}"
    return Recipe(_Train(train), {"model": model, "settings": settings.record(), "training": how}, settings)


def user_recipe(name: str, folder: str = "") -> Recipe:
    """The user's train(indices, seed) -> module. Its source file's hash is part of the identity of every shard."""
    training = UserTraining(name, folder)
    return Recipe(training, {"train": name, "code": training.code_hash()})


@dataclass(frozen=True)
class _Train:
    train: Callable[..., list[nn.Module]]

    def __call__(self, membership: np.ndarray, seeds: Sequence[int]) -> list[nn.Module]:
        return self.train(membership=membership, seeds=seeds)


@dataclass(frozen=True)
class Work:
    """Where and how the models are trained: shards in `folder`; see `run_shadows`."""

    folder: Path
    seed: int = 0
    chunk: int = 8
    jobs: int = 1
    backend: str = "loky"
    span: tuple[int, int] | None = None
    advance: Callable[[], None] | None = field(default=None, compare=False)


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
