"""Guess rules: how many canaries are guessed and how that number was found, with the correction that it needs.

| rule | guesses | correction |
|---|---|---|
| grid | counts on a fixed grid, as many "member" as "non-member" | union bound over the grid (the default) |
| fixed | k+ highest and k- lowest, named before the coins are opened | none |
| all | every canary, upper half "member" | none |
| sign | every canary, by the sign of a log-likelihood ratio | none |
| split | the count that is best on a random half of the canaries, used on the other half | half of the canaries |
| calibrated | counts on the grid, one joint boundary of exact size; (epsilon, delta) only | in the boundary |
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np
from numpy.typing import ArrayLike

from ...foundation import InputError, numpy_stream
from .class_a import class_a_epsilons
from .guesses import TIE_SEED, guess_by_sign, guess_grid, order_guesses
from .roc import check_scores
from .tallies import Tally


@dataclass(frozen=True)
class GuessRule(ABC):
    """What a rule is called, which counts it tests, and the right guesses once the coins are opened."""

    name: ClassVar[str]

    @abstractmethod
    def tally(self, scores: ArrayLike, members: ArrayLike, alpha: float = 0.05) -> Tally:
        """(m,) scores, (m,) bool -> right guesses. alpha shapes the grid only. Errors: InputError."""

    def perfect(self, canaries: int, alpha: float = 0.05) -> Tally:
        """The tally of m canaries with every guess right: what the audit could report at most. Errors: InputError."""
        return Tally.of(canaries, canaries, canaries)

    def all_guessed(self, scores: ArrayLike, members: ArrayLike) -> tuple[int, int]:
        """(correct, guesses) when every canary is guessed: upper half "member" unless the rule says otherwise."""
        ordered = order_guesses(scores, members)
        return int(ordered.correct(ordered.canaries)), ordered.canaries

    @property
    def numbers(self) -> tuple[int | None, int | None]:
        """The highest and lowest guesses that were named beforehand, where some were."""
        return None, None

    def record(self) -> dict[str, Any]:
        named = dict(zip(("highest", "lowest"), self.numbers, strict=True))
        return {"name": self.name} | {key: number for key, number in named.items() if number is not None}


@dataclass(frozen=True)
class Grid(GuessRule):
    name: ClassVar[str] = "grid"
    joint: ClassVar[bool] = False  # one boundary for all counts, in place of a union bound

    def tally(self, scores: ArrayLike, members: ArrayLike, alpha: float = 0.05) -> Tally:
        ordered = order_guesses(scores, members)
        grid = guess_grid(ordered.canaries, alpha)
        return Tally(ordered.canaries, grid, ordered.correct(grid), self.joint)

    def perfect(self, canaries: int, alpha: float = 0.05) -> Tally:
        grid = guess_grid(canaries, alpha)
        return Tally(canaries, grid, grid.copy(), self.joint)


@dataclass(frozen=True)
class Calibrated(Grid):
    name: ClassVar[str] = "calibrated"
    joint: ClassVar[bool] = True


@dataclass(frozen=True)
class Fixed(GuessRule):
    """Errors: InputError for numbers that are not whole, negative, or both zero."""

    highest: int
    lowest: int
    name: ClassVar[str] = "fixed"

    def __post_init__(self) -> None:
        numbers = (self.highest, self.lowest)
        if any(k is None or isinstance(k, bool) or k != int(k) or k < 0 for k in numbers) or not any(numbers):
            raise InputError(f"guess_rule fixed needs whole numbers of highest and lowest guesses, got {numbers}")

    def tally(self, scores: ArrayLike, members: ArrayLike, alpha: float = 0.05) -> Tally:
        ordered = order_guesses(scores, members)
        guesses = self._guesses(ordered.canaries)
        # Where fewer scores are defined than guesses are asked for, the missing guesses count as wrong.
        high = min(self.highest, ordered.defined)
        low = min(self.lowest, ordered.defined - high)
        return Tally.of(ordered.canaries, guesses, int(ordered.correct_of(high, low)))

    def perfect(self, canaries: int, alpha: float = 0.05) -> Tally:
        guesses = self._guesses(canaries)
        return Tally.of(canaries, guesses, guesses)

    @property
    def numbers(self) -> tuple[int | None, int | None]:
        return self.highest, self.lowest

    def _guesses(self, canaries: int) -> int:
        if self.highest + self.lowest > canaries:
            raise InputError(
                f"guess_rule fixed asks for {self.highest} + {self.lowest} guesses of {canaries} canaries: "
                "lower the numbers"
            )
        return self.highest + self.lowest


@dataclass(frozen=True)
class All(GuessRule):
    name: ClassVar[str] = "all"

    def tally(self, scores: ArrayLike, members: ArrayLike, alpha: float = 0.05) -> Tally:
        correct, guesses = self.all_guessed(scores, members)
        return Tally.of(guesses, guesses, correct)


@dataclass(frozen=True)
class Sign(All):
    name: ClassVar[str] = "sign"

    def all_guessed(self, scores: ArrayLike, members: ArrayLike) -> tuple[int, int]:
        return guess_by_sign(scores, members)


@dataclass(frozen=True)
class Split(GuessRule):
    """Half of the canaries, by a public permutation, choose the guess count; their coins are spent by that."""

    name: ClassVar[str] = "split"

    def tally(self, scores: ArrayLike, members: ArrayLike, alpha: float = 0.05) -> Tally:
        scores, members = check_scores(scores, members)
        shuffled = numpy_stream(TIE_SEED, "split").permutation(scores.size)
        chooser, tester = np.sort(shuffled[: scores.size // 2]), np.sort(shuffled[scores.size // 2 :])
        if (
            chooser.size < 2
            or tester.size < 2
            or any(not 0 < members[part].sum() < part.size for part in (chooser, tester))
        ):
            raise InputError(
                "guess_rule split needs members and non-members in both halves: use more canaries or the grid"
            )
        look = order_guesses(scores[chooser], members[chooser])
        grid = guess_grid(chooser.size, alpha)
        values = class_a_epsilons(look.correct(grid), grid, chooser.size, 0.0, 1 - alpha)
        guesses = max(1, round(grid[int(np.argmax(values))] * tester.size / chooser.size))
        use = order_guesses(scores[tester], members[tester])
        guesses = min(guesses, tester.size)
        return Tally.of(tester.size, guesses, int(use.correct(guesses)))

    def perfect(self, canaries: int, alpha: float = 0.05) -> Tally:
        tested = canaries - canaries // 2
        return Tally.of(tested, tested, tested)


RULES: dict[str, type[GuessRule]] = {rule.name: rule for rule in (Grid, Fixed, All, Sign, Split, Calibrated)}


def guess_rule(name: str = "grid", highest: int | None = None, lowest: int | None = None) -> GuessRule:
    """The rule of that name; `highest` and `lowest` belong to `fixed`. Errors: InputError."""
    if name not in RULES:
        raise InputError(f"guess_rule {name!r} is not known: choose one of {', '.join(RULES)}")
    if name == Fixed.name:
        return Fixed(highest, lowest)  # type: ignore[arg-type]  # None is refused there, with the reason
    if (highest, lowest) != (None, None):
        raise InputError(f"numbers of guesses belong to guess_rule fixed, not to {name}")
    return RULES[name]()
