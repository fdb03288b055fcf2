"""The universe of rows: which rows models may train on, which are always in, and whose membership is attacked.

Written once, for training, shadow models, repeated runs and evaluation: the natural rows whose source is no canary,
then all m canaries.
"""

from __future__ import annotations

import hashlib
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from ..canaries import CanarySet, remaining_rows
from ..foundation import InputError
from .training.data import Data

if TYPE_CHECKING:
    from .attack.candidates import Candidates


@dataclass(frozen=True, eq=False)
class Universe:
    """The rows that models are trained on and attacked on.

    x (N, …), y (N,): rows a model may train on, in the order that a user's train(indices, seed) indexes.
    always (N,) bool: rows in every training set. audited (n,) int64: the rows whose membership is attacked.
    population_x, population_y: rows outside every training set, may be empty. fingerprint: hash of all that.
    """

    x: np.ndarray
    y: np.ndarray
    always: np.ndarray
    audited: np.ndarray
    population_x: np.ndarray
    population_y: np.ndarray
    classes: int
    fingerprint: str
    kind: str

    def expected_size(self, fraction: float) -> float:
        """Expected training-set size: the public constant of the recipe's divisor."""
        return float(self.always.sum() + fraction * (~self.always).sum())


def universe(data: Data, canaries: CanarySet | None = None) -> Universe:
    """Training rows of the data set, each audited; or its rows around canaries, which alone are audited."""
    if canaries is not None:
        if canaries.x.shape[1:] != data.input_shape:
            raise InputError(f"canaries have shape {canaries.x.shape[1:]}, the rows of {data.name} {data.input_shape}")
        if canaries.data_fingerprint and canaries.data_fingerprint != data.fingerprint:
            raise InputError(
                f"the canaries were crafted from other data than {data.name}: give the data they belong to"
            )
        stay = remaining_rows(canaries, len(data.y))
        x, y = np.concatenate([data.x[stay], canaries.x]), np.concatenate([data.y[stay], canaries.y])
        always = np.arange(len(y)) < stay.sum()
        fingerprint = hashlib.sha256(f"{data.fingerprint} {canaries.sha256}".encode()).hexdigest()
        population, kind = (data.x_test, data.y_test), "canaries"
    else:
        x, y, always = data.x, data.y, np.zeros(len(data.y), dtype=bool)
        fingerprint, population, kind = data.fingerprint, (data.x_test, data.y_test), "training rows"
    return Universe(x, y, always, np.flatnonzero(~always), *population, len(data.classes), fingerprint, kind)


def universe_of(rows: Candidates) -> Universe:
    """The rows whose membership in a user's model is attacked: a shadow may be trained on any of them."""
    always = np.zeros(len(rows.y), dtype=bool)
    audited = np.arange(len(rows.y))
    population = rows.population_x, rows.population_y
    return Universe(rows.x, rows.y, always, audited, *population, len(rows.classes), rows.fingerprint, "given rows")
