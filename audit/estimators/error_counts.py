"""Errors of a fixed rule, counted once for every estimator: the upper half of the scores is guessed "member"."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike

from .guesses import order_guesses
from .rates import clopper_pearson
from .roc import check_scores


@dataclass(frozen=True)
class ErrorCounts:
    """Non-members guessed "member" and members guessed "non-member", of how many.

    fixed_threshold: chosen without these scores. One that is read off them, like their middle, ties the two errors
    together: every member missed there is a non-member called.
    """

    false_positives: int
    non_members: int
    false_negatives: int
    members: int
    fixed_threshold: bool = True

    @property
    def counts(self) -> tuple[int, int, int, int]:
        """As clopper_pearson_epsilon and its kin take them: errors of each kind, of how many."""
        return self.false_positives, self.non_members, self.false_negatives, self.members

    @property
    def balanced_accuracy(self) -> float:
        """The mean of the shares of members and of non-members that are guessed rightly."""
        return 1 - (self.false_positives / self.non_members + self.false_negatives / self.members) / 2

    def balanced_accuracy_interval(self, confidence: float = 0.95) -> tuple[float, float]:
        """From Clopper-Pearson limits of both shares at the whole confidence. Class C.

        Their distances from the shares are added in squares where the threshold is fixed (Zou and Donner 2008) and
        plainly where it is not.
        """
        hits, clears = self.members - self.false_negatives, self.non_members - self.false_positives
        shares = np.array([hits / self.members, clears / self.non_members])
        low, high = clopper_pearson([hits, clears], [self.members, self.non_members], confidence)
        middle = float(shares.mean())
        add = np.hypot if self.fixed_threshold else np.add
        return middle - float(add(*(shares - low))) / 2, middle + float(add(*(high - shares))) / 2


def errors_at_the_middle(scores: ArrayLike, members: ArrayLike) -> ErrorCounts:
    """(m,) scores, (m,) bool -> errors when the upper half is guessed "member"; ties by the public permutation.

    An undefined score (NaN) is an error of its kind. Errors: InputError.
    """
    scores, members = check_scores(scores, members)
    ordered = order_guesses(scores, members)
    high, low = (ordered.defined + 1) // 2, ordered.defined // 2
    undefined = np.isnan(scores)
    return ErrorCounts(
        false_positives=high - int(ordered.right_high[high]) + int((undefined & ~members).sum()),
        non_members=int((~members).sum()),
        false_negatives=low - int(ordered.right_low[low]) + int((undefined & members).sum()),
        members=int(members.sum()),
        fixed_threshold=False,
    )


def errors_at_threshold(scores: ArrayLike, members: ArrayLike, threshold: float) -> ErrorCounts:
    """Errors of "member iff score >= threshold", the threshold fixed without these labels; NaN is an error."""
    scores, members = check_scores(scores, members)
    called = scores >= threshold  # False for NaN: a member without a score is missed
    cleared = ~called & ~np.isnan(scores)
    return ErrorCounts(
        false_positives=int((~members & ~cleared).sum()),
        non_members=int((~members).sum()),
        false_negatives=int((members & ~called).sum()),
        members=int(members.sum()),
    )
