"""What is kept of a trained model: phi of the audited rows and of a population, and how many labels it gets right.

A value that pickles: worker processes measure the models that they train, so that no model has to travel.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from torch import nn

from .phi import phi
from .query import IDENTITY, View, query_logits


@dataclass(frozen=True, eq=False)
class Measurement:
    """Callable: model -> {"phi" (n, views) float32, "correct" (n,) bool, "population" (Z,), "population_correct" (Z,)}.

    x (n, …), y (n,): the audited rows. population_x, population_y: rows outside every training set, one view; may be
    empty. phi is kept in float32: it is a logarithm, and does not saturate there.
    """

    x: np.ndarray
    y: np.ndarray
    population_x: np.ndarray
    population_y: np.ndarray
    views: tuple[View, ...] = (IDENTITY,)
    batch_size: int = 512
    device: str | None = None

    def __call__(self, model: nn.Module) -> dict[str, np.ndarray]:
        how: dict[str, Any] = {"batch_size": self.batch_size, "device": self.device}
        logits = query_logits(model, self.x, views=self.views, **how)
        measured = {
            "phi": phi(logits, self.y[:, None]).astype(np.float32),
            "correct": _predicted(logits[:, 0]) == self.y,
            "population": np.zeros(0, np.float32),
            "population_correct": np.zeros(0, bool),
        }
        if len(self.population_y):
            outside = query_logits(model, self.population_x, **how)[:, 0]
            measured["population"] = phi(outside, self.population_y).astype(np.float32)
            measured["population_correct"] = _predicted(outside) == self.population_y
        return measured


def _predicted(logits: np.ndarray) -> np.ndarray:
    return (logits[:, 0] > 0).astype(np.int64) if logits.shape[1] == 1 else logits.argmax(axis=1)
