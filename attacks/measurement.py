"""What is kept of a trained model: phi of the audited rows and of a population, and how many labels it gets right.

A value that pickles: worker processes measure the models that they train, so that no model has to travel.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from torch import nn

from .phi import hinge, phi
from .query import IDENTITY, View, query_batches


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
        own = self.ask(model, self.x, self.y, self.views)
        measured = {
            "phi": own["phi"],
            "correct": own["correct"],
            "population": np.zeros(0, np.float32),
            "population_correct": np.zeros(0, bool),
        }
        if len(self.population_y):
            outside = self.ask(model, self.population_x, self.population_y)
            measured["population"] = outside["phi"][:, 0]
            measured["population_correct"] = outside["correct"]
        return measured

    def ask(
        self, model: nn.Module, x: np.ndarray, y: np.ndarray, views: tuple[View, ...] = (IDENTITY,)
    ) -> dict[str, np.ndarray]:
        """phi and hinge (n, views) float32, predicted (n,) and correct (n,), batch by batch: no array of all logits."""
        n = len(y)
        asked = {
            "phi": np.empty((n, len(views)), np.float32),
            "hinge": np.empty((n, len(views)), np.float32),
            "predicted": np.empty(n, np.int64),
        }
        for rows, logits in query_batches(model, x, views, self.batch_size, self.device):
            labels = y[rows, None]
            asked["phi"][rows] = phi(logits, labels)
            asked["hinge"][rows] = hinge(logits, labels)
            asked["predicted"][rows] = _predicted(logits[:, 0])
        return asked | {"correct": asked["predicted"] == y}


def _predicted(logits: np.ndarray) -> np.ndarray:
    return (logits[:, 0] > 0).astype(np.int64) if logits.shape[1] == 1 else logits.argmax(axis=1)
