"""Put the member canaries into the training data: every source row leaves, members come."""

from __future__ import annotations

import warnings
from collections.abc import Callable
from typing import Any

import numpy as np
import torch
from torch.utils.data import Dataset

from ..foundation import InputError
from .canary_set import CanarySet, sources_sha256
from .coins import Coins


def remaining_rows(canaries: CanarySet, rows: int) -> np.ndarray:
    """(rows,) bool: the training rows that stay. A source row leaves whether its canary is a member or not:
    were it to stay, the "excluded" canary would still be trained on.

    rows: of the data set that the canaries were crafted from. Errors: InputError where the set says another number.
    Sets of older versions do not say; of them only what cannot be true is refused.
    """
    sources = canaries.sources()
    if len(sources) and canaries.source_rows not in (None, rows):
        raise InputError(
            f"the canaries were crafted from data with {canaries.source_rows} rows, the training data has {rows}: "
            "their row numbers would take out the wrong rows; use the data the set was crafted from (of a source that "
            "holds rows out for testing, those that it keeps)"
        )
    if len(sources) and sources[-1] >= rows:
        raise InputError(
            f"canaries come from row {sources[-1]}, the training data has {rows} rows: use the data the set was "
            "crafted from"
        )
    stay = np.ones(rows, dtype=bool)
    stay[sources] = False
    return stay


class InjectedDataset(Dataset[tuple[Any, Any]]):
    """Training rows without the canaries' sources, then the member canaries, in order."""

    def __init__(self, dataset: Any, rows: np.ndarray, x: torch.Tensor, y: torch.Tensor, transform: Any) -> None:
        self.dataset, self.rows, self.x, self.y, self.transform = dataset, rows, x, y, transform
        label = dataset[int(rows[0])][1] if len(rows) else y.new_tensor(0)
        self._tensor_labels = isinstance(label, torch.Tensor)  # a loader cannot stack ints with tensors

    def __len__(self) -> int:
        return len(self.rows) + len(self.y)

    def __getitem__(self, index: int) -> tuple[Any, Any]:
        if not -len(self) <= index < len(self):
            raise IndexError(index)
        index %= len(self)
        if index < len(self.rows):
            return self.dataset[int(self.rows[index])]
        x, y = self.x[index - len(self.rows)], self.y[index - len(self.rows)]
        return (self.transform(x) if self.transform else x), (y if self._tensor_labels else int(y))


def inject(
    dataset: Any,
    canaries: CanarySet,
    coins: Coins,
    transform: Callable[[torch.Tensor], Any] | None = None,
) -> InjectedDataset:
    """The data set of an audited run: the rows of `dataset` without any canary's source, plus the member canaries.

    dataset    map-style, yields (input, label), the data the canaries were crafted from
    transform  applied to a canary's float32 tensor; needed where `dataset` transforms its inputs (normalise, augment):
               canaries must pass through the same

    Without a transform the rows of `dataset` are what the canaries are: the source rows are then held against the hash
    that the set keeps of them. Warns where an older set says neither how many rows its data had nor their hash.

    Errors: InputError when the coins are of another set, or the shapes or the rows do not fit the data.
    """
    coins.check(canaries)
    if len(canaries.sources()) and canaries.source_rows is None:
        warnings.warn(
            "the canary set does not say how many rows its data had: that this is the data cannot be checked",
            stacklevel=2,
        )
    rows = np.flatnonzero(remaining_rows(canaries, len(dataset)))
    member = torch.from_numpy(coins.member.copy())
    injected = InjectedDataset(
        dataset,
        rows,
        torch.from_numpy(canaries.x.copy())[member],
        torch.from_numpy(canaries.y.copy())[member],
        transform,
    )
    if len(rows) and len(injected.y):
        natural, canary = injected[0][0], injected[len(rows)][0]
        if np.shape(natural) != np.shape(canary):
            raise InputError(
                f"a canary has shape {tuple(np.shape(canary))}, a training row {tuple(np.shape(natural))}: "
                "give the transform that the data set applies"
            )
    if transform is None and canaries.source_sha256:
        found = sources_sha256(np.asarray(dataset[int(row)][0]) for row in canaries.sources())
        if found != canaries.source_sha256:
            raise InputError(
                "the rows that the canaries were made from are not those of this data set: their hashes differ. Use "
                "the data the set was crafted from; if the data set transforms its inputs (normalises, augments), give "
                "the same transform"
            )
    return injected
