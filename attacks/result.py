"""What every attack returns: a score and a status per example, never a silent gap.

Higher score = more likely a member, everywhere. A score is NaN exactly where its status says that it is undefined,
so that no metric can drop a row without counting it. One example's trouble never changes another example's score.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from ..foundation import InputError

OK = "ok"
TOO_FEW_IN = "too_few_in"
TOO_FEW_OUT = "too_few_out"
ZERO_VARIANCE = "zero_variance"
MISSING_VALUES = "missing_values"
NON_FINITE_TARGET = "non_finite_target"
STATUSES = (OK, TOO_FEW_IN, TOO_FEW_OUT, ZERO_VARIANCE, MISSING_VALUES, NON_FINITE_TARGET)

_MEANING = {
    TOO_FEW_IN: "too few shadow models trained with the example",
    TOO_FEW_OUT: "too few shadow models trained without the example",
    ZERO_VARIANCE: "the shadow values of a side are constant; the pooled variance stands in",
    MISSING_VALUES: "some shadow values are missing or not finite and were left out for this example",
    NON_FINITE_TARGET: "the target model's own value is missing or not finite",
}


@dataclass(frozen=True)
class AttackScores:
    """Scores (n,) float64, status (n,) one of STATUSES, details: the attack's name and every knob that it used.

    A status other than "ok" is a remark where the score is a number (a fallback was used, as the status says)
    and the reason where it is NaN.
    """

    scores: np.ndarray
    status: np.ndarray
    details: Mapping[str, Any] = field(default_factory=dict)

    def __post_init__(self) -> None:
        if self.scores.ndim != 1 or self.status.shape != self.scores.shape:
            raise InputError(
                f"scores and status must be (n,) arrays of one length, got {self.scores.shape} and {self.status.shape}"
            )
        if np.any((self.status == OK) & np.isnan(self.scores)):
            raise ValueError("an undefined score has the status 'ok': a bug of the attack")

    def __len__(self) -> int:
        return len(self.scores)

    @property
    def name(self) -> str:
        return str(self.details.get("attack", "unnamed"))

    @property
    def defined(self) -> np.ndarray:
        """Which examples have a score, (n,) bool."""
        return ~np.isnan(self.scores)

    @property
    def distinct(self) -> int:
        """Number of distinct defined scores: few mean ties, and ties cost power at small false positive rates."""
        return len(np.unique(self.scores[self.defined]))

    def counts(self) -> dict[str, int]:
        """How many examples have each status, and how many have no score."""
        return {
            **{status: int(np.sum(self.status == status)) for status in STATUSES},
            "undefined": int(np.sum(~self.defined)),
        }

    def remarks(self) -> list[str]:
        """One sentence for each status that occurs, for people."""
        lines = []
        for status, meaning in _MEANING.items():
            marked = self.status == status
            if marked.any():
                without = int(np.sum(marked & ~self.defined))
                lines.append(f"{marked.sum()} of {len(self)} examples ({without} of them without a score): {meaning}")
        return lines


def status_array(n: int) -> np.ndarray:
    """All "ok", wide enough for the longest status."""
    return np.full(n, OK, dtype=f"<U{max(map(len, STATUSES))}")


def mark(status: np.ndarray, rows: Any, reason: str) -> None:
    """Give `reason` to the rows that have none yet: the first reason found is the one that is told."""
    status[rows & (status == OK)] = reason
