"""The smallest noise for a target, and the largest number of epochs for given noise, certified from both sides.

Everything asked of a mechanism falls as σ grows and rises with E, so a search by sign is sound. A candidate is accepted
only if the *upper* end of its interval meets the target; that nothing much smaller would do is certified by an interval
whose *lower* end misses the target at σ·(1 − tolerance). Between the two the exact answer lies.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from functools import cache
from typing import Any

from ...foundation import InputError
from . import closed_form
from .interval import Interval
from .mechanism import Mechanism
from .parameters import check_delta, positive, whole_number, within
from .random_allocation import RandomAllocation

SMALLEST, LARGEST = 1e-3, 1e6  # noise multipliers between which is searched
SMALLEST_TOLERANCE = 1e-10  # below it, σ and σ·(1 − tolerance) are told apart by a few doubles only
MOST_DESCENTS = 40


@dataclass(frozen=True)
class Target:
    """What the noise must achieve: `measure` of the mechanism at most `limit`. `scale` turns a gap into a width."""

    description: dict[str, float]
    limit: float
    measure: Callable[[Mechanism, float], Interval]  # (mechanism, relative width)


@dataclass(frozen=True)
class Calibration:
    """noise_multiplier meets the target: certificate.upper ≤ limit. At noise_multiplier·(1 − tolerance) it is missed:
    misses.lower > limit, where `two_sided`; otherwise `reason` says why that could not be certified.

    closed_form_noise_multiplier is what the closed form asks for; None where the target has none.
    """

    noise_multiplier: float
    tolerance: float
    target: dict[str, float]
    certificate: Interval
    misses: Interval
    two_sided: bool
    closed_form_noise_multiplier: float | None
    reason: str | None

    @property
    def noise_saved(self) -> float | None:
        """1 − σ/σ_closed_form."""
        if self.closed_form_noise_multiplier is None:
            return None
        return 1 - self.noise_multiplier / self.closed_form_noise_multiplier

    def record(self) -> dict[str, Any]:
        return {
            "noise_multiplier": self.noise_multiplier,
            "tolerance": self.tolerance,
            "target": self.target,
            "certificate": self.certificate.record(),
            "misses": {"noise_multiplier": self.noise_multiplier * (1 - self.tolerance), **self.misses.record()},
            "two_sided": self.two_sided,
            "reason": self.reason,
            "closed_form_noise_multiplier": self.closed_form_noise_multiplier,
            "noise_saved": self.noise_saved,
        }


def make_target(
    accuracy: float | None = None,
    true_positive_rate: float | None = None,
    false_positive_rate: float | None = None,
    epsilon: float | None = None,
    delta: float | None = None,
) -> Target:
    """Exactly one of: accuracy; true_positive_rate at false_positive_rate; epsilon at delta. Errors: InputError."""
    given = [accuracy is not None, true_positive_rate is not None, epsilon is not None]
    if sum(given) != 1:
        raise InputError(
            "give exactly one target: accuracy, or true_positive_rate with false_positive_rate, or epsilon with delta"
        )
    if accuracy is not None:
        limit = within("accuracy", accuracy, 0.5, 1, "0.5 is a coin flip (infinite noise), 1 needs no noise")
        gain = limit - 0.5
        return Target({"accuracy": limit}, limit, lambda mechanism, width: mechanism.accuracy(max(1e-12, width * gain)))
    if true_positive_rate is not None:
        if false_positive_rate is None:
            raise InputError("true_positive_rate needs false_positive_rate: the rate at which it is to hold")
        alpha = within("false_positive_rate", false_positive_rate, 0, 1, "a rate")
        tau = within("true_positive_rate", true_positive_rate, alpha, 1, "above false_positive_rate, below 1")

        def rate(mechanism: Mechanism, width: float) -> Interval:
            return mechanism.true_positive_rate(alpha, relative_width=width * (tau - alpha) / tau)

        return Target({"true_positive_rate": tau, "false_positive_rate": alpha}, tau, rate)
    if delta is None:
        raise InputError("epsilon needs delta: commonly below 1/records")
    limit = positive("epsilon", epsilon)
    probability = check_delta(delta)
    if probability == 0:
        raise InputError("delta 0 is met by no Gaussian noise: give a delta above 0, commonly below 1/records")

    def excess(mechanism: Mechanism, width: float) -> Interval:
        return mechanism.epsilon(probability, relative_width=width)

    return Target({"epsilon": limit, "delta": probability}, limit, excess)


def calibrate(
    family: Callable[[float], Mechanism],
    target: Target,
    tolerance: float | None = None,
    bracket: tuple[float, float] | None = None,
    closed_form_noise_multiplier: float | None = None,
) -> Calibration:
    """family: σ ↦ mechanism. Find and certify; `bracket` is where to start, not a promise.

    tolerance: relative, by default 1e-4 for an accuracy and 1e-3 otherwise, which take a second or two.
    """
    if tolerance is None:
        tolerance = 1e-4 if "accuracy" in target.description else 1e-3
    tolerance = within(
        "tolerance", tolerance, SMALLEST_TOLERANCE, 0.5, "1e-4 certifies four digits of noise", ends=True
    )

    @cache
    def rough(sigma: float) -> float:
        """ln(measured/limit) on a moderate grid: where to look."""
        return _log_ratio(target.measure(family(sigma), 2e-3).midpoint, target)

    low, high = bracket or (0.3, 3.0)
    while rough(high) > 0:
        low, high = high, 2 * high
        if high > LARGEST:
            raise InputError(f"target {_words(target)} is not reached with noise_multiplier up to {LARGEST:g}")
    while rough(low) <= 0:
        low, high = low / 2, low
        if low < SMALLEST:
            raise InputError(f"target {_words(target)} is met with less noise than {SMALLEST:g}: ask for less accuracy")
    sigma = _root(lambda s: _log_ratio(target.measure(family(s), tolerance).midpoint, target), low, high, rough)

    # The certificates: from the root's neighbourhood outwards, until the two sides stand tolerance apart or no nearer.
    width = tolerance / 4
    for stretch in (0.3, 0.5, 1.0, 4.0, 16.0, 64.0, 256.0):
        meeting = sigma * (1 + stretch * tolerance)
        certificate = target.measure(family(meeting), width)
        if certificate.upper <= target.limit:
            break
    else:
        raise InputError(f"target {_words(target)} cannot be certified: it lies below what rounding leaves to be seen")
    # Budget that is left is used: as long as a little less noise is certified to meet the target too, it is taken.
    below = meeting * (1 - tolerance)
    misses = target.measure(family(below), width)
    for _ in range(MOST_DESCENTS):
        if misses.upper > target.limit:
            break
        meeting, certificate, below = below, misses, below * (1 - tolerance)
        misses = target.measure(family(below), width)
    reason = None if misses.lower > target.limit else _undecided(below, misses, certificate, target)
    return Calibration(
        meeting,
        tolerance,
        target.description,
        certificate,
        misses,
        reason is None,
        closed_form_noise_multiplier,
        reason,
    )


def _undecided(below: float, misses: Interval, certificate: Interval, target: Target) -> str:
    """Why it is not certified that noise `below` misses the target; how much of the target the certificate uses."""
    if misses.upper <= target.limit:
        return (
            f"noise_multiplier {below:.9g} still meets the target ({misses.upper:.9g}): the search ended before the "
            "smallest was found; ask for a larger tolerance"
        )
    why = f" ({misses.remark})" if misses.remark else ""
    return (
        f"at noise_multiplier {below:.9g} the interval [{misses.lower:.9g}, {misses.upper:.9g}]{why} contains the "
        f"target {target.limit:.9g}; the noise returned is certified at {certificate.upper:.9g}: ask for a larger "
        "tolerance"
    )


def calibrate_random_allocation(
    steps_per_epoch: int, epochs: int, target: Target, tolerance: float | None = None
) -> Calibration:
    """The bracket of arXiv:2610.09651 for accuracy: the sum statistic's σ below, the closed form's above."""
    m, e = whole_number("steps_per_epoch", steps_per_epoch), whole_number("epochs", epochs)
    known = target.description
    formula = None
    if "accuracy" in known:
        formula = closed_form.noise_multiplier_for_accuracy(m, e, known["accuracy"])
    elif known.get("false_positive_rate", 1.0) <= 0.5:
        c = closed_form.chi_square_of_true_positive_rate(known["true_positive_rate"], known["false_positive_rate"])
        formula = closed_form.noise_multiplier_of_chi_square(m, e, c)
    bracket = (0.6 * formula, formula) if formula is not None else None
    return calibrate(lambda sigma: RandomAllocation(m, e, sigma), target, tolerance, bracket, formula)


def largest_epochs(
    steps_per_epoch: int, noise_multiplier: float, target: Target, most: int = 1_000_000
) -> tuple[int, Interval, Interval]:
    """The largest E that certifiably meets the target, its interval, and that of E + 1.

    Where the interval of E + 1 has its lower end above the target, E is the exact answer.
    """
    m, sigma = whole_number("steps_per_epoch", steps_per_epoch), positive("noise_multiplier", noise_multiplier)

    @cache
    def found(epochs: int) -> Interval:
        """As narrow as it takes to see on which side of the target it lies, within reason."""
        interval = Interval(0.0, math.inf)
        for width in (1e-2, 1e-4, 1e-5, 1e-6):
            interval = target.measure(RandomAllocation(m, epochs, sigma), width)
            if interval.upper <= target.limit or interval.lower > target.limit:
                break
        return interval

    if found(1).upper > target.limit:
        raise InputError(
            f"noise_multiplier {sigma:g} does not meet {_words(target)} for even one epoch of {m} steps: raise it"
        )
    low, high = 1, 2
    while found(high).upper <= target.limit:
        low, high = high, 2 * high
        if high > most:
            raise InputError(f"more than {most} epochs meet {_words(target)}: no limit worth naming")
    while high - low > 1:
        middle = (low + high) // 2
        low, high = (middle, high) if found(middle).upper <= target.limit else (low, middle)
    return low, found(low), found(high)


def _log_ratio(value: float, target: Target) -> float:
    """Sign and size of a miss. Accuracy is measured from 1/2, a TPR from its FPR."""
    base = 0.5 if "accuracy" in target.description else target.description.get("false_positive_rate", 0.0)
    if value == math.inf:
        return 50.0
    return max(-50.0, math.log(max(value - base, 1e-300) / (target.limit - base)))


def _root(fine: Callable[[float], float], low: float, high: float, rough: Callable[[float], float]) -> float:
    """The zero of a decreasing function in ln σ: secant steps kept inside the bracket, coarse first, then fine."""
    x0, x1 = math.log(low), math.log(high)
    y0, y1 = rough(low), rough(high)
    guess = (x0 + x1) / 2
    for turn in range(40):
        guess = x0 + (x1 - x0) * y0 / (y0 - y1) if y0 > y1 else (x0 + x1) / 2
        if turn % 4 == 3 or not x0 < guess < x1:
            guess = (x0 + x1) / 2
        value = rough(math.exp(guess))
        x0, y0, x1, y1 = (guess, value, x1, y1) if value > 0 else (x0, y0, guess, value)
        if abs(value) < 5e-4 or x1 - x0 < 1e-3:
            break
    # two Newton steps on the fine grid, with the slope found on the coarse one
    x, slope = guess, min(-0.3, (rough(math.exp(guess + 0.02)) - rough(math.exp(guess - 0.02))) / 0.04)
    for _ in range(2):
        x -= fine(math.exp(x)) / slope
    return math.exp(x)


def _words(target: Target) -> str:
    return " at ".join(f"{name} {value:g}" for name, value in target.description.items())
