"""One-run auditing against a trade-off curve: Mahloujifar, Melis, Chaudhuri 2024, arXiv:2410.22235.

If training is f-DP in one canary, then "v or more of r guesses are right" has probability at most tau whenever the
recursion below certifies it. With the curve of (epsilon, delta) the statement is class A; with the curve of a
claimed mechanism, or of a family such as Gaussian, it is class B: it speaks of that curve only.

Notation of the paper: g(y) = f(1 - y) for a symmetric convex curve f (the inverse of 1 - f). Start from
x = tau v/m (right guesses), h = tau (r - v)/m (wrong ones); for i = v-1 ... 0

    h' = max(h, g(x)),    x <- min(1, x + i/(r - i) (h' - h)),    h <- h';        certified iff x + h > r/m.

All directions of rounding are safe: g is lowered by 1e-12 relative, x by 1e-15 a step, so that what is certified in
floating point is certified. Once h stops growing nothing changes any more, and x + h only grows: both end the
recursion early, after about sqrt(r log(1/tau)) steps. Questions are answered for whole vectors at once.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Protocol

import numpy as np
from numpy.typing import ArrayLike
from scipy.special import logit, ndtr, ndtri

from ...foundation import InputError
from .gaussian_dp import gaussian_epsilon
from .one_run import LARGEST_EPSILON, check_confidence, check_counts, check_delta
from .rates import clopper_pearson_lower

SMALLEST_LOG_P_VALUE = -80.0
LARGEST_MU = 40.0
_FAN = 512  # points of one parallel section search
_BLOCK = 8  # steps between two looks at what is decided

Inverse = Callable[[np.ndarray, np.ndarray], np.ndarray]  # g(y; parameter), element by element


class Curve(Protocol):
    """A certified lower trade-off curve: convex, non-increasing, its own inverse."""

    def inverse_complement(self, y: Any) -> Any:
        """g(y) = f(1 - y), without cancellation for tiny y."""
        ...


def f_dp_p_value(claim: Any, correct: int, guesses: int, canaries: int) -> float:
    """Class B: the p-value of "training was what the claim says", from v right guesses among r of m canaries.

    `claim` is a mechanism (its certified lower curve is used) or a trade-off curve. Rounded up; at least e^-80.
    """
    check_counts(correct, guesses, canaries)
    return float(f_dp_p_values(claim, [correct], [guesses], canaries)[0])


def f_dp_p_values(
    claim: Any, correct: ArrayLike, guesses: ArrayLike, canaries: int, tolerance: float = 1e-6
) -> np.ndarray:
    """The same for vectors of counts over one canary set; `tolerance` of the logarithm, always rounded up."""
    curve = trade_off_curve(claim)
    correct, guesses = np.broadcast_arrays(np.asarray(correct, float), np.asarray(guesses, float))

    def certified(log_tau: np.ndarray, item: np.ndarray) -> np.ndarray:
        return is_certified(
            lambda y, _: curve.inverse_complement(y), 0.0, correct[item], guesses[item], canaries, np.exp(log_tau)
        )

    # The smallest certified tau: search downwards, so "True" is the upper part; mirror it.
    found = _last_true(lambda x, item: certified(-x, item), np.zeros(correct.size), -SMALLEST_LOG_P_VALUE, tolerance)
    return np.where(np.isnan(found), 1.0, np.exp(-np.nan_to_num(found)))


def f_dp_epsilon(correct: int, guesses: int, canaries: int, delta: float = 0.0, confidence: float = 0.95) -> float:
    """Class A: lower bound on epsilon at delta, by the recursion with the curve of (epsilon, delta)."""
    check_counts(correct, guesses, canaries)
    return float(f_dp_epsilons([correct], [guesses], canaries, delta, confidence)[0])


def f_dp_epsilons(
    correct: ArrayLike, guesses: ArrayLike, canaries: int, delta: float = 0.0, confidence: float = 0.95
) -> np.ndarray:
    """The same for vectors of counts; every entry is a bound at `confidence` of its own."""
    check_delta(delta)
    alpha = 1 - check_confidence(confidence)
    correct, guesses = np.broadcast_arrays(np.asarray(correct, float), np.asarray(guesses, float))
    # Randomised response is (epsilon, delta)-DP, so no valid bound exceeds the binomial one.
    limit = clopper_pearson_lower(correct, guesses, confidence)
    with np.errstate(divide="ignore"):
        high = np.clip(logit(limit), 0.0, LARGEST_EPSILON)
    inverse = epsilon_delta_inverse(delta)
    found = _last_true(
        lambda x, item: is_certified(inverse, np.exp(-x), correct[item], guesses[item], canaries, alpha),
        np.zeros(correct.size),
        high,
        1e-7,
    )
    return np.nan_to_num(found, nan=0.0)


def gaussian_family_mu(correct: int, guesses: int, canaries: int, confidence: float = 0.95) -> float:
    """Class B inside the Gaussian family: lower bound on mu such that training is not mu-GDP."""
    check_counts(correct, guesses, canaries)
    return float(gaussian_family_mus([correct], [guesses], canaries, confidence)[0])


def gaussian_family_mus(correct: ArrayLike, guesses: ArrayLike, canaries: int, confidence: float = 0.95) -> np.ndarray:
    alpha = 1 - check_confidence(confidence)
    correct, guesses = np.broadcast_arrays(np.asarray(correct, float), np.asarray(guesses, float))
    found = _last_true(
        lambda x, item: is_certified(gaussian_inverse, x, correct[item], guesses[item], canaries, alpha),
        np.zeros(correct.size),
        LARGEST_MU,
        1e-6,
    )
    return np.nan_to_num(found, nan=0.0)


def gaussian_family_epsilon(correct: int, guesses: int, canaries: int, delta: float, confidence: float = 0.95) -> float:
    """Class B inside the Gaussian family: the epsilon at delta of the mu above. Wrong outside the family."""
    check_delta(delta)
    return gaussian_epsilon(gaussian_family_mu(correct, guesses, canaries, confidence), delta)


def is_certified(
    inverse: Inverse, parameter: ArrayLike, correct: ArrayLike, guesses: ArrayLike, canaries: int, tau: ArrayLike
) -> np.ndarray:
    """Whether P[at least `correct` of `guesses` right] <= tau is certified; everything broadcasts to one vector."""
    parts = np.broadcast_arrays(*(np.asarray(part, float) for part in (parameter, correct, guesses, tau)), np.zeros(1))[
        :4
    ]
    theta, v, r, tau = (part.ravel().astype(float) for part in parts)
    x, h = tau * v / canaries, tau * (r - v) / canaries
    target = r / canaries * (1 + 1e-15)
    certified = np.zeros(v.size, bool)
    grown = np.ones(v.size)
    where: np.ndarray = np.arange(v.size)
    i = v - 1
    while where.size:
        # A step past the end, or after h stopped, changes nothing: no mask is needed inside the block.
        for _ in range(_BLOCK):
            at = np.maximum(i, 0.0)
            raised = np.maximum(h, inverse(x, theta) * (1 - 1e-12))
            grown = raised - h
            x = np.minimum(1.0, x + at / (r - at) * grown) * (1 - 1e-15)
            h = raised
            i = i - 1
        reached = x + h > target
        certified[where[reached]] = True
        going = ~reached & (grown > 0) & (i >= 0)
        if not going.all():
            where, theta, r, x, h, i, target = (part[going] for part in (where, theta, r, x, h, i, target))
    return certified


def epsilon_delta_inverse(delta: float) -> Inverse:
    """g of the (epsilon, delta) curve, the parameter being e^-epsilon.

    The steep line 1 - delta - e^epsilon (1 - y) is positive only where its terms are at most 1: 1e-15 covers rounding.
    """

    def inverse(y: np.ndarray, slope: np.ndarray) -> np.ndarray:
        return np.maximum(np.maximum((y - delta) * slope, (1 - delta - 1e-15) - (1 - y) / slope), 0.0)

    return inverse


def gaussian_inverse(y: np.ndarray, mu: np.ndarray) -> np.ndarray:
    return ndtr(ndtri(np.minimum(y, 1 - 1e-16)) - mu)


def trade_off_curve(claim: Any) -> Curve:
    """The certified lower curve of a mechanism, or the curve itself. Errors: InputError."""
    if hasattr(claim, "trade_off_curve"):
        claim = claim.trade_off_curve()
    if not hasattr(claim, "inverse_complement"):
        raise InputError(f"claim must be a mechanism or a trade-off curve, got {type(claim).__name__}")
    return claim


def epsilon_delta_of(claim: Any) -> tuple[float, float] | None:
    """(epsilon, delta) where that is all the claim says, else None."""
    record = claim.record() if hasattr(claim, "record") else {}
    return (float(record["epsilon"]), float(record["delta"])) if set(record) == {"epsilon", "delta"} else None


def _last_true(
    holds: Callable[[np.ndarray, np.ndarray], np.ndarray], low: np.ndarray, high: ArrayLike, tolerance: float
) -> np.ndarray:
    """For each item, the largest found x in [low, high] where a monotone "True, then False" still holds; NaN if none.

    `holds(x, item)` takes points and the items they belong to. Every round cuts the brackets by the fan.
    """
    items = low.size
    low, high = low.astype(float), np.broadcast_to(np.asarray(high, float), low.shape).copy()
    fan = max(8, _FAN // max(1, items // 4))
    found = np.full(items, np.nan)
    first = True
    open_ = np.ones(items, bool)
    while open_.any():
        item = np.flatnonzero(open_)
        steps = np.linspace(0, 1, fan) if first else np.linspace(0, 1, fan + 2)[1:-1]
        points = low[item, None] + (high - low)[item, None] * steps
        answer = holds(points.ravel(), np.repeat(item, fan)).reshape(points.shape)
        # Monotone in exact arithmetic; the first False decides, so rounding cannot push the answer outwards.
        held = np.where(answer.all(axis=1), fan, np.argmin(answer, axis=1))
        rows = np.arange(item.size)
        last, next_ = points[rows, np.maximum(held - 1, 0)], points[rows, np.minimum(held, fan - 1)]
        high[item] = np.where(held < fan, next_, high[item])
        low[item] = np.where(held > 0, last, low[item])
        if first:
            found[item] = np.where(held > 0, last, np.nan)
            high[np.isnan(found)] = low[np.isnan(found)]
        else:
            found[item] = low[item]
        first = False
        open_ = high - low > tolerance * np.maximum(1.0, high)
    return found
