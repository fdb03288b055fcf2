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
from .rows import Universe
from .training.engine import train_many
from .training.models import build_model
from .training.sequential import train_sequentially
from .training.settings import TrainingSettings


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
