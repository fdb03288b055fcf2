"""Models to look through, trained by the injected recipe: base models on the pool, replicas with some canaries too."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Protocol, runtime_checkable

import numpy as np
import torch
from torch import Tensor, nn

from ..foundation import numpy_stream
from ..foundation.classification import classification_loss
from .pool import Pool

if TYPE_CHECKING:
    from .unrolled import InnerTraining


class TrainMany(Protocol):
    """Trains model k on the rows of (x, y) that membership[k] marks, by the recipe of the audit to come."""

    def __call__(
        self, x: np.ndarray, y: np.ndarray, membership: np.ndarray, seeds: Sequence[int]
    ) -> list[nn.Module]: ...


@runtime_checkable
class ShortenedTraining(Protocol):
    """A TrainMany that can also stop early and tell what it would have done from there: what a truncated derivative
    and shorter replicas need. `coalmine.audit.craft.Trainer` is one."""

    @property
    def epochs(self) -> int: ...

    def shortened(self, epochs: int) -> TrainMany:
        """The same recipe, ended after so many epochs."""
        ...

    def plain_sgd(self, epochs: int) -> InnerTraining:
        """`epochs` more of it, as SGD that can be differentiated. Errors: InputError where it clips or adds noise."""
        ...


def model_seeds(seed: int, purpose: str, count: int) -> list[int]:
    """Seeds of models, from the crafting's own stream."""
    return [int(value) for value in numpy_stream(seed, f"craft/models/{purpose}").integers(2**62, size=count)]


def base_models(pool: Pool, train_many: TrainMany, seed: int, count: int = 4) -> list[nn.Module]:
    """`count` models trained on all of the pool, from the crafting's own stream."""
    return train_many(pool.x, pool.y, np.ones((count, len(pool)), bool), model_seeds(seed, "base", count))


def replicas(
    pool: Pool,
    stay: np.ndarray,
    canaries: Tensor,
    labels: np.ndarray,
    masks: Tensor,
    train_many: TrainMany,
    seeds: Sequence[int],
) -> list[nn.Module]:
    """R models on the pool's rows that `stay` (n,) marks and on canaries (m, …) as they are now, each with those of its
    mask, masks (R, m) of 0 and 1."""
    natural = int(stay.sum())
    included = masks.cpu().numpy() > 0
    return train_many(
        np.concatenate([pool.x[stay], canaries.cpu().numpy()]),
        np.concatenate([pool.y[stay], labels]),
        np.concatenate([np.ones((len(masks), natural), bool), included], axis=1),
        seeds,
    )


def mean_loss(models: list[nn.Module], x: np.ndarray, y: np.ndarray, chunk: int = 4096) -> np.ndarray:
    """(n,) cross-entropy averaged over the models."""
    device = next(models[0].parameters()).device
    total = np.zeros(len(y))
    with torch.no_grad():
        for model in models:
            model.eval()
            for start in range(0, len(y), chunk):
                rows = torch.tensor(x[start : start + chunk], device=device)
                labels = torch.tensor(y[start : start + chunk], device=device)
                total[start : start + chunk] += classification_loss(model(rows), labels).cpu().numpy()
    return total / len(models)
