"""Canaries for an audit to come: the data, the model and the recipe that will be audited, handed to the crafting.

`canaries` knows nothing of this package; what trains its base models and replicas is injected from here. Every seed
comes from the crafting's own streams, so that no audited run shares a coin, an initial weight or a noise draw with it.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import torch
from torch import nn

from ..foundation import InputError
from .training.engine import BuildModel, train_many
from .training.settings import TrainingSettings


@dataclass(frozen=True)
class Trainer:
    """Trains models by one recipe on whatever rows it is given: the `train_many` that crafting and evaluation take.

    settings.public_size stands for the data-set size in the divisor, whoever is included.
    """

    build: BuildModel
    settings: TrainingSettings
    device: str | torch.device = "cpu"
    chunk: int = 8

    def __call__(self, x: np.ndarray, y: np.ndarray, membership: np.ndarray, seeds: Sequence[int]) -> list[nn.Module]:
        """K models, model k on the rows (n, …), (n,) that membership[k] (n,) marks. Errors: InputError."""
        if membership.shape != (len(seeds), len(x)):
            raise InputError(f"membership has shape {membership.shape}, expected {(len(seeds), len(x))}")
        return train_many(self.build, x, y, membership, seeds, self.settings, self.device, self.chunk)
