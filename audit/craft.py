"""Canaries for an audit to come: the data, the model and the recipe that will be audited, handed to the crafting.

`canaries` knows nothing of this package; what trains its base models and replicas is injected from here. Every seed
comes from the crafting's own streams, so that no audited run shares a coin, an initial weight or a noise draw with it.
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import torch
from torch import nn

from ..canaries.canary_set import CanarySet
from ..canaries.crafting import WITH_MODELS, craft
from ..canaries.refinement import Refinement
from ..canaries.unrolled import InnerTraining
from ..foundation import InputError
from ..foundation.tensor_file import content_sha256
from .training.data import Data
from .training.engine import BuildModel, train_many
from .training.models import build_model
from .training.settings import TrainingSettings

RECIPE = ("steps_per_epoch", "epochs", "learning_rate", "momentum", "noise_multiplier", "clipping_norm")


SCALES_APART = 100.0  # largest over smallest standard deviation of a table's columns


@dataclass(frozen=True)
class Trainer:
    """Trains models by one recipe on whatever rows it is given: the `train_many` that crafting and evaluation take.

    settings.public_size stands for the data-set size in the divisor, whoever is included. model: its name, if any.
    """

    build: BuildModel
    settings: TrainingSettings
    device: str | torch.device = "cpu"
    chunk: int = 8
    model: str | None = None

    def __call__(self, x: np.ndarray, y: np.ndarray, membership: np.ndarray, seeds: Sequence[int]) -> list[nn.Module]:
        """K models, model k on the rows (n, …), (n,) that membership[k] (n,) marks. Errors: InputError."""
        if membership.shape != (len(seeds), len(x)):
            raise InputError(f"membership has shape {membership.shape}, expected {(len(seeds), len(x))}")
        # frozen sets are read-only, which torch cannot wrap
        rows, labels = np.array(x), np.array(y)
        return train_many(self.build, rows, labels, membership, seeds, self.settings, self.device, self.chunk)

    @property
    def epochs(self) -> int:
        return self.settings.epochs

    def shortened(self, epochs: int) -> Trainer:
        """The same recipe, ended after `epochs` epochs."""
        return replace(self, settings=replace(self.settings, epochs=epochs))

    def plain_sgd(self, epochs: int) -> InnerTraining:
        """`epochs` of this recipe as SGD that can be differentiated. Errors: InputError under clipping, where the
        derivative would be that of another training."""
        s = self.settings
        if s.clipping_norm is not None:
            raise InputError("the recipe clips gradients: a derivative through plain SGD is not its derivative")
        return InnerTraining(epochs, s.steps_per_epoch, s.learning_rate, s.momentum, s.public_size)

    def identity(self) -> str:
        """Differs between recipes: the settings and the hash of a fresh model's weights."""
        weights = {name: p.detach().cpu().numpy() for name, p in self.build(0).named_parameters()}
        return json.dumps([self.settings.record(), content_sha256(weights)])


def recipe(
    data: Data,
    model: str,
    steps_per_epoch: int,
    epochs: int,
    learning_rate: float,
    momentum: float = 0.0,
    sampler: str = "random_allocation",
    noise_multiplier: float = 0.0,
    clipping_norm: float | None = None,
    device: str | torch.device = "cpu",
) -> Trainer:
    """The trainer of a model named as for `coalmine train`, on data of this shape. Errors: InputError."""
    shape, classes = data.input_shape, len(data.classes)
    build_model(model, shape, classes, 0)  # a name that cannot be built is told before any training
    settings = TrainingSettings(
        steps_per_epoch=steps_per_epoch,
        epochs=epochs,
        learning_rate=learning_rate,
        public_size=float(len(data.y)),
        noise_multiplier=noise_multiplier,
        clipping_norm=clipping_norm,
        sampler=sampler,
        momentum=momentum,
    )
    return Trainer(lambda seed: build_model(model, shape, classes, seed), settings, device, model=model)


def craft_for(
    data: Data,
    method: str,
    count: int,
    seed: int,
    trainer: Trainer | None = None,
    refinement: Refinement | None = None,
    **options: Any,
) -> CanarySet:
    """`canaries.craft` on this data. metagradient takes its inner training from the trainer's settings,
    clipped_influence its clipping norm."""
    if method == "metagradient" and trainer is not None:
        options |= {"build": trainer.build, "inner": trainer.plain_sgd(trainer.epochs)}
    if method in ("ibis", "clipped_influence") and trainer is not None:
        options |= {"device": trainer.device}
    if method == "ibis" and trainer is not None:
        options |= {"recipe": trainer.identity()}
    if method == "clipped_influence" and trainer is not None:
        options |= {"clipping_norm": trainer.settings.clipping_norm}
    canaries = craft(
        method,
        data.x,
        data.y,
        len(data.classes),
        data.value_range,
        count,
        seed,
        data_fingerprint=data.fingerprint,
        train_many=trainer,
        refinement=refinement,
        **options,
    )
    if trainer is None or method not in WITH_MODELS:
        return canaries
    return replace(canaries, parameters=canaries.parameters | {"recipe": _stated(trainer.settings, trainer.model)})


def recipe_differences(canaries: CanarySet, settings: TrainingSettings, model: str | None) -> list[str]:
    """How the recipe that a set was crafted through differs from this one, as "momentum 0.9, now 0"; nothing where the
    set states none."""
    crafted = canaries.parameters.get("recipe")
    if not isinstance(crafted, dict):
        return []
    now = _stated(settings, model)
    return [
        f"{name} {crafted[name]}, now {now[name]}" for name in now if name in crafted and crafted[name] != now[name]
    ]


def _stated(settings: TrainingSettings, model: str | None) -> dict[str, Any]:
    stated = {name: getattr(settings, name) for name in RECIPE}
    return stated if model is None else {"model": model, **stated}


def craft_warnings(data: Data, count: int) -> list[str]:
    """What will disappoint, told before long work: columns of very different scales, more canaries than data bear."""
    found = []
    if data.value_range is None and data.x.ndim == 2:
        spread = data.x.std(axis=0)
        spread = spread[spread > 0]
        if len(spread) and spread.max() > SCALES_APART * spread.min():
            found.append(
                f"the columns of {data.name} have standard deviations from {spread.min():.2g} to {spread.max():.2g}: "
                "models on such rows learn little, and canaries through them mean little; standardise the columns"
            )
    if count > len(data.y) / 2:
        found.append(
            f"{count} canaries beside {len(data.y)} rows: their members are a large part of the training data and "
            "change the model that is audited; fewer canaries, or more rows, tell more"
        )
    return found
