"""A training recipe: everything that decides a training but its data, its members and its seed.

It travels to other processes (model by name, settings by value), and its record names shards of finished work.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any

import numpy as np
from torch import nn

from ... import __version__
from .engine import train_many
from .models import build_model
from .settings import TrainingSettings


@dataclass(frozen=True)
class Recipe:
    """Model (a name of build_model), input shape, number of classes, settings, device; `chunk` models are stacked."""

    model: str
    input_shape: tuple[int, ...]
    classes: int
    settings: TrainingSettings
    device: str = "cpu"
    chunk: int = 8

    def build(self, seed: int) -> nn.Module:
        return build_model(self.model, self.input_shape, self.classes, seed)

    def trainer(self, x: np.ndarray, y: np.ndarray) -> partial[list[nn.Module]]:
        """train_many(membership (K, n) bool, seeds (K,)) -> K models over the rows x, y; it can be pickled."""
        return partial(_train, self, x, y)

    def record(self) -> dict[str, Any]:
        return {
            "model": self.model,
            "input_shape": list(self.input_shape),
            "classes": self.classes,
            "settings": self.settings.record(),
            "coalmine_version": __version__,
        }


def _train(
    recipe: Recipe, x: np.ndarray, y: np.ndarray, membership: np.ndarray, seeds: Sequence[int]
) -> list[nn.Module]:
    return train_many(recipe.build, x, y, membership, seeds, recipe.settings, recipe.device, recipe.chunk)
