"""A fitted scikit-learn estimator as a module that can be asked for logits: for scores, shadows and repeated runs.

scores = score_canaries(as_module(forest, classes=10), canaries)
def train(indices, seed): return as_module(RandomForestClassifier(random_state=seed).fit(x[indices], y[indices]), 10)
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import torch
from torch import Tensor, nn

from ...foundation import InputError


def as_module(estimator: Any, classes: int | Sequence[str]) -> nn.Module:
    """rows (n, …) -> logits (n, classes), float64: log-probabilities, or decision values where there are none.

    classes: how many, or their names. The estimator was fitted on flattened rows and labels 0 … classes − 1, or on the
    names of the classes, in whatever order it holds them; a class that it never saw is ruled out.
    Probabilities of exactly 0 have no logarithm and stand at the smallest double: forests and trees, which give many,
    have tied scores, not undefined ones. Errors: InputError.
    """
    if not hasattr(estimator, "classes_"):
        raise InputError(f"estimator {type(estimator).__name__} is not a fitted classifier: call fit first")
    if not (hasattr(estimator, "predict_proba") or hasattr(estimator, "decision_function")):
        raise InputError(f"estimator {type(estimator).__name__} has neither predict_proba nor decision_function")
    names: tuple[str, ...] = () if isinstance(classes, int) else tuple(map(str, classes))
    classes = classes if isinstance(classes, int) else len(classes)
    seen = np.asarray(estimator.classes_)
    by_name = {name: number for number, name in enumerate(names)}
    if seen.ndim == 1 and (own := [str(label) for label in seen.tolist()]) and set(own) <= set(by_name):
        seen = np.array([by_name[label] for label in own])
    if seen.dtype.kind not in "iu" or seen.min() < 0 or seen.max() >= classes:
        raise InputError(
            f"estimator was fitted on the labels {', '.join(map(str, seen[:5].tolist()))}…: fit it on 0 … {classes - 1}"
            + (f", or on {', '.join(names[:5])}" if names else "")
        )
    return _Estimator(estimator, seen.astype(np.int64), classes)


class _Estimator(nn.Module):
    def __init__(self, estimator: Any, seen: np.ndarray, classes: int) -> None:
        super().__init__()
        self.estimator, self.seen, self.classes = estimator, seen, classes

    def forward(self, x: Tensor) -> Tensor:
        rows = x.detach().cpu().numpy().reshape(len(x), -1)
        if hasattr(self.estimator, "predict_proba"):
            probability = np.asarray(self.estimator.predict_proba(rows), np.float64)
            values = np.log(np.maximum(probability, np.finfo(np.float64).tiny))
            floor = np.log(np.finfo(np.float64).tiny)
        else:
            values = np.asarray(self.estimator.decision_function(rows), np.float64)
            if values.ndim == 1:  # two classes: one decision value, positive for the second
                values = np.stack([-values / 2, values / 2], axis=1)
            floor = -np.inf
        logits = np.full((len(rows), self.classes), floor)
        logits[:, self.seen] = values
        return torch.from_numpy(logits)
