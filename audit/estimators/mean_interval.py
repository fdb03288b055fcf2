"""Student's t interval of a mean: for independent groups whose values are about normal. Approximate, and named so."""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike
from scipy.special import stdtrit

from ...foundation import InputError
from .one_run import check_confidence


@dataclass(frozen=True)
class MeanInterval:
    """mean ± half_width; no half width (None) from a single value."""

    mean: float
    half_width: float | None

    @property
    def lower(self) -> float | None:
        return None if self.half_width is None else self.mean - self.half_width

    @property
    def upper(self) -> float | None:
        return None if self.half_width is None else self.mean + self.half_width


def mean_interval(values: ArrayLike, confidence: float = 0.95) -> MeanInterval:
    """(n,) independent values -> their mean, with the half width of the two-sided t interval. Errors: InputError."""
    check_confidence(confidence)
    array = np.asarray(values, dtype=np.float64)
    if array.ndim != 1 or array.size == 0 or not np.isfinite(array).all():
        raise InputError(f"values must be one or more finite numbers, got {values!r}")
    if array.size == 1:
        return MeanInterval(float(array[0]), None)
    error = float(array.std(ddof=1)) / math.sqrt(array.size)
    return MeanInterval(float(array.mean()), t_quantile(confidence, array.size - 1) * error)


def t_quantile(confidence: float, degrees_of_freedom: int) -> float:
    """The half width, in standard errors, of a two-sided interval at `confidence`."""
    return float(stdtrit(degrees_of_freedom, 0.5 + confidence / 2))
