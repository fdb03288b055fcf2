"""How one model is trained on its members of a universe: by the stacked engine, or by the user's own function."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from functools import partial
from typing import Any

import numpy as np
from torch import nn

from ..attacks.shadows import TrainMany
from ..attacks.user_training import UserTraining
from .feeding import Feeding
from .rows import Universe
from .training.engine import batch_normalisation, train_many
from .training.models import build_model
from .training.sequential import train_sequentially
from .training.settings import TrainingSettings


@dataclass(frozen=True, eq=False)
class Recipe:
    """How one model is trained on its members of the universe: by the stacked engine, or by the user's function."""

    train_many: TrainMany
    identity: dict[str, Any]
    settings: TrainingSettings | None = None


@dataclass(frozen=True)
class _Build:
    """seed -> the untrained model behind its feeding; found by name in every process."""

    model: str
    input_shape: tuple[int, ...]
    classes: int
    may_couple: bool
    feeding: Feeding

    def __call__(self, seed: int) -> nn.Module:
        fed = self.feeding.shape(self.input_shape)
        network = build_model(self.model, fed, self.classes, seed, may_couple=self.may_couple)
        return self.feeding.wrap(network, self.input_shape).train()


def engine_recipe(
    rows: Universe,
    model: str,
    settings: TrainingSettings,
    chunk: int = 8,
    device: str = "cpu",
    feeding: Feeding = Feeding(),  # noqa: B008 — frozen
) -> Recipe:
    """The stacked engine on a model that `build_model` knows, or one model after another where it cannot be stacked.

    Two models are trained for one step on four rows to find out; identity["training"] says which it is, and why.
    Without clipping no per-example gradient is needed, so that BatchNorm passes: such models are trained one by one.
    Errors: InputError for a model that cannot be trained, before any long work.
    """
    build = _Build(model, rows.x.shape[1:], rows.classes, settings.clipping_norm is None, feeding)
    train = partial(train_many, build, rows.x, rows.y, settings=settings, device=device, chunk=chunk)
    how = "stacked"
    probe = replace(settings, steps_per_epoch=1, epochs=1, sampler="full_batch")
    try:
        train_many(build, rows.x[:4], rows.y[:4], np.ones((2, 4), bool), (0, 1), probe, device, chunk=2)
    except (RuntimeError, NotImplementedError, TypeError) as error:  # what torch.func says of code it cannot map
        train = partial(train_sequentially, build, rows.x, rows.y, settings=settings, device=device)
        how = f"one model after another: {str(error).splitlines()[0]}"
    if how == "stacked" and batch_normalisation(build(0)) is not None:
        how = "one model after another: BatchNorm mixes the examples of a batch"
    fed = {"feeding": feeding.to_json()} if feeding.to_json() else {}
    return Recipe(_Train(train), {"model": model, "settings": settings.record(), "training": how, **fed}, settings)


def user_recipe(name: str, folder: str = "") -> Recipe:
    """The user's train(indices, seed) -> module. Its source file's hash is part of the identity of every shard."""
    training = UserTraining(name, folder)
    return Recipe(training, {"train": name, "code": training.code_hash()})


@dataclass(frozen=True)
class _Train:
    train: Callable[..., list[nn.Module]]

    def __call__(self, membership: np.ndarray, seeds: Sequence[int]) -> list[nn.Module]:
        return self.train(membership=membership, seeds=seeds)
