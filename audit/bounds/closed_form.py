"""Closed forms for random allocation (Ertan and van Dijk, arXiv:2610.09651) and what they are compared with.

M = steps_per_epoch, E = epochs, σ = noise_multiplier, v = e^{1/σ²} − 1. The pair of one run has chi-square
divergence exactly c with 1 + c = (1 + v/M)^E (their Proposition 3.1). From c alone,

    TV ≤ U(c),  U(c) = √c/2 for c ≤ 1 and c/(1+c) for c ≥ 1        (their Theorem 3.3; no bound from c is smaller)
    accuracy = 1/2 + TV/2 ≤ 1/2 + U(c)/2.

Functions named *_bound never lie on the wrong side of the exact value (up to a few units in the last place of the
double they return); *_lower_bound never above it; *_limit is an approximation and says nothing certain. Scalars
cost about a microsecond, arrays broadcast. σ here is on the sum of clipped gradients, divided by the clipping norm,
under add/remove adjacency.
"""

from __future__ import annotations

import math
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray
from scipy.special import ndtr

from ...foundation import InputError

Array = NDArray[Any]
Number = float | Array

_PLAIN = (int, float)
_LARGEST_EXPONENT = 709.0  # e^709 is the last power of e with an integer exponent that a double holds
BERRY_ESSEEN_CONSTANT = 0.4748  # Shevtsova 2011, identical summands


# ---------------------------------------------------------------------------------------------- chi-square divergence


def log_one_plus_chi_square(steps_per_epoch: Any, epochs: Any, noise_multiplier: Any) -> Any:
    """ln(1 + c) = E·ln(1 + v/M), finite for every σ > 1e-154."""
    if type(noise_multiplier) in _PLAIN and type(steps_per_epoch) in _PLAIN and type(epochs) in _PLAIN:
        if not (noise_multiplier > 0 and steps_per_epoch >= 1 and epochs >= 1):
            _refuse(steps_per_epoch, epochs, noise_multiplier)
        inverse_square = 1.0 / noise_multiplier / noise_multiplier
        if steps_per_epoch == 1:
            return epochs * inverse_square
        if inverse_square > 30.0:  # 1 + v/M = (1 − 1/M) + e^{1/σ²}/M, by logarithms
            exponent = inverse_square - math.log(steps_per_epoch)
            rest = math.log1p(-1.0 / steps_per_epoch)
            top = max(exponent, rest)
            return epochs * (top + math.log1p(math.exp(-abs(exponent - rest))))
        return epochs * math.log1p(math.expm1(inverse_square) / steps_per_epoch)
    m, e, sigma = (np.asarray(x, dtype=float) for x in (steps_per_epoch, epochs, noise_multiplier))
    if not (np.all(sigma > 0) and np.all(m >= 1) and np.all(e >= 1)):
        _refuse(steps_per_epoch, epochs, noise_multiplier)
    with np.errstate(over="ignore", divide="ignore"):
        inverse_square = 1.0 / sigma / sigma
        one_epoch = np.log1p(np.expm1(np.minimum(inverse_square, 30.0)) / m)
        if np.any(inverse_square > 30.0):
            steep = np.logaddexp(np.log1p(-1.0 / m), inverse_square - np.log(m))
            one_epoch = np.where(inverse_square > 30.0, steep, one_epoch)
        return e * np.where(m == 1, inverse_square, one_epoch)


def chi_square(steps_per_epoch: Any, epochs: Any, noise_multiplier: Any) -> Any:
    """c = χ²(with record ‖ without); inf where it exceeds what a double holds."""
    exponent = log_one_plus_chi_square(steps_per_epoch, epochs, noise_multiplier)
    if type(exponent) is float or type(exponent) is int:
        return math.expm1(exponent) if exponent < _LARGEST_EXPONENT else math.inf
    return np.where(exponent < _LARGEST_EXPONENT, np.expm1(np.minimum(exponent, _LARGEST_EXPONENT)), np.inf)


def sharp_total_variation(c: Any) -> Any:
    """U(c): the largest total variation of any pair with chi-square divergence c."""
    if type(c) in _PLAIN:
        return math.sqrt(c) / 2 if c <= 1 else (1.0 / (1.0 + 1.0 / c) if c < math.inf else 1.0)
    c = np.asarray(c, dtype=float)
    return np.where(c <= 1, np.sqrt(np.minimum(c, 1.0)) / 2, 1.0 / (1.0 + 1.0 / np.maximum(c, 1.0)))


# -------------------------------------------------------------------------------------------- bounds and their inverses


def accuracy_bound(steps_per_epoch: Any, epochs: Any, noise_multiplier: Any) -> Any:
    """Bound: no attack guesses membership (prior 1/2) more often right than 1/2 + U(c)/2."""
    return 0.5 + sharp_total_variation(chi_square(steps_per_epoch, epochs, noise_multiplier)) / 2


def one_line_bound(steps_per_epoch: Any, epochs: Any, noise_multiplier: Any) -> Any:
    """Bound in the published one-line form, 1/2 + √c/4 clamped to 1: equal for c ≤ 1, weaker above."""
    c = chi_square(steps_per_epoch, epochs, noise_multiplier)
    if type(c) is float:
        return min(1.0, 0.5 + math.sqrt(c) / 4)
    return np.minimum(1.0, 0.5 + np.sqrt(c) / 4)


def chi_square_of_accuracy(accuracy: Any) -> Any:
    """The c at which the bound equals `accuracy`: 4λ² for λ ≤ 1/2, λ/(1 − λ) above, λ = 2·accuracy − 1."""
    if type(accuracy) in _PLAIN:
        if not 0.5 <= accuracy < 1:
            raise InputError(f"accuracy must lie in [0.5, 1), got {accuracy!r}: 1 needs no noise, below 0.5 is free")
        gain = 2.0 * accuracy - 1.0
        return 4 * gain * gain if gain <= 0.5 else gain / (2.0 * (1.0 - accuracy))
    accuracy = np.asarray(accuracy, dtype=float)
    if not np.all((accuracy >= 0.5) & (accuracy < 1)):
        raise InputError("accuracy must lie in [0.5, 1): 1 needs no noise, below 0.5 is free")
    gain = 2.0 * accuracy - 1.0
    return np.where(gain <= 0.5, 4 * gain * gain, gain / (2.0 * (1.0 - accuracy)))


def noise_multiplier_of_chi_square(steps_per_epoch: Any, epochs: Any, c: Any) -> Any:
    """σ = [ln(1 + M((1+c)^{1/E} − 1))]^{−1/2}; inf for c = 0."""
    if type(c) in _PLAIN and type(steps_per_epoch) in _PLAIN and type(epochs) in _PLAIN:
        if not (steps_per_epoch >= 1 and epochs >= 1):
            _refuse(steps_per_epoch, epochs, 1.0)
        return math.inf if c <= 0 else 1.0 / math.sqrt(_log_growth(steps_per_epoch, math.log1p(c) / epochs))
    m, e, c = (np.asarray(x, dtype=float) for x in (steps_per_epoch, epochs, c))
    if not (np.all(m >= 1) and np.all(e >= 1)):
        _refuse(steps_per_epoch, epochs, 1.0)
    with np.errstate(divide="ignore", over="ignore"):
        exponent = np.log1p(c) / e
        growth = np.where(
            exponent > 30, np.log(m) + exponent, np.log1p(m * np.expm1(np.minimum(exponent, _LARGEST_EXPONENT)))
        )
        return 1.0 / np.sqrt(growth)


def noise_multiplier_for_accuracy(steps_per_epoch: Any, epochs: Any, accuracy: Any) -> Any:
    """The σ at which the bound equals `accuracy` (Corollary 3.4): enough noise, up to about a third too much."""
    return noise_multiplier_of_chi_square(steps_per_epoch, epochs, chi_square_of_accuracy(accuracy))


def largest_epochs_for_accuracy(steps_per_epoch: int, noise_multiplier: float, accuracy: float) -> int:
    """The largest E for which the bound meets `accuracy`; 0 if one epoch is too many."""
    allowed = math.log1p(chi_square_of_accuracy(accuracy))
    one_epoch = log_one_plus_chi_square(steps_per_epoch, 1, noise_multiplier)
    if one_epoch == 0:
        raise InputError(f"noise_multiplier {noise_multiplier!r} is so large that every number of epochs is allowed")
    return math.floor(allowed / one_epoch * (1 + 4e-16))


def smallest_steps_for_accuracy(epochs: int, noise_multiplier: float, accuracy: float) -> int:
    """The smallest M for which the bound meets `accuracy`."""
    growth = math.expm1(math.log1p(chi_square_of_accuracy(accuracy)) / epochs)
    inverse_square = 1.0 / noise_multiplier / noise_multiplier
    if growth <= 0:
        raise InputError("accuracy 0.5 is met by no number of steps: ask for more than 0.5")
    if inverse_square - math.log(growth) > 300:
        raise InputError(f"noise_multiplier {noise_multiplier!r} is too small for any number of steps: raise it")
    return max(1, math.ceil(math.expm1(inverse_square) / growth * (1 - 4e-16)))


def true_positive_rate_bound(c: Any, false_positive_rate: ArrayLike) -> Any:
    """Bound: TPR ≤ α + √(c α(1−α)) at FPR α ≤ 1/2 (Proposition B.2), and ≤ α + U(c) everywhere."""
    alpha = np.asarray(false_positive_rate, dtype=float)
    with np.errstate(invalid="ignore"):
        rise = np.where(alpha * (1 - alpha) > 0, np.sqrt(np.multiply(c, alpha * (1 - alpha))), 0.0)
    result = np.minimum(1.0, alpha + np.minimum(rise, sharp_total_variation(c)))
    return float(result) if result.ndim == 0 else result


def chi_square_of_true_positive_rate(true_positive_rate: float, false_positive_rate: float) -> float:
    """The c at which that bound equals a target TPR τ > α: (τ−α)²/(α(1−α))."""
    tau, alpha = true_positive_rate, false_positive_rate
    if not (0 < alpha <= 0.5 and alpha < tau < 1):
        raise InputError(
            f"a target needs 0 < false_positive_rate <= 0.5 and false_positive_rate < true_positive_rate < 1, "
            f"got false_positive_rate {alpha!r} and true_positive_rate {tau!r}"
        )
    return (tau - alpha) ** 2 / (alpha * (1 - alpha))


def group_total_variation_bound(total_variation: Any, records: int) -> Any:
    """Bound for a group of k records: TV_k ≤ min(1, k·TV) (triangle inequality)."""
    if type(total_variation) in _PLAIN:
        return min(1.0, records * total_variation)
    return np.minimum(1.0, records * np.asarray(total_variation, dtype=float))


def renyi_pinsker_accuracy_bound(steps_per_epoch: Any, epochs: Any, noise_multiplier: Any) -> Any:
    """Bound by Pinsker and Rényi divergence of order 2: TV ≤ √(ln(1+c)/2). For comparison; 25 to 39 % more noise."""
    exponent = log_one_plus_chi_square(steps_per_epoch, epochs, noise_multiplier)
    return np.minimum(1.0, 0.5 + np.sqrt(np.asarray(exponent) / 2) / 2)[()]


def epsilon_delta_accuracy_bound(epsilon: float, delta: float) -> float:
    """Bound for any (ε, δ)-DP mechanism: (e^ε + δ)/(1 + e^ε), attained by one (Kulynych et al., arXiv:2407.02191)."""
    shrink = math.exp(-epsilon)
    return (1.0 + delta * shrink) / (1.0 + shrink)


# ----------------------------------------------------------------------------------- lower bounds, limit, earlier bound


def sum_statistic_lower_bound(steps_per_epoch: Any, epochs: Any, noise_multiplier: Any) -> Any:
    """Lower bound on TV, every M, E: 2Φ(√(E/M)/(2σ)) − 1, what the attack on the sum of all steps gains (App. B.3)."""
    root = np.sqrt(np.asarray(epochs, dtype=float) / np.asarray(steps_per_epoch, dtype=float))
    return _gaussian_total_variation(root / np.asarray(noise_multiplier, dtype=float))[()]


def one_epoch_lower_bound(steps_per_epoch: int, noise_multiplier: float) -> float:
    """Lower bound on TV for E = 1 (App. C.4): v^{3/2}/(2√(μ₄ + 3(M−1)v²)), by logarithms where e^{6/σ²} overflows."""
    x = 1.0 / noise_multiplier / noise_multiplier
    if x > 100:  # μ₄ = e^{6x}(1 − 4e^{−3x} + …) ≤ e^{6x}, v ≤ e^x: an upper bound of the denominator, exact to 1e-43
        log_inner = np.logaddexp(6 * x, math.log(3) + math.log(max(steps_per_epoch - 1, 1e-300)) + 2 * x)
        return math.exp(1.5 * (x + math.log1p(-math.exp(-x))) - math.log(2) - float(log_inner) / 2)
    v = math.expm1(x)
    mu4 = v * v * (v**4 + 6 * v**3 + 15 * v**2 + 16 * v + 3)  # e^{6x} − 4e^{3x} + 6e^{x} − 3 with e^x = 1 + v
    return v**1.5 / (2 * math.sqrt(mu4 + 3 * (steps_per_epoch - 1) * v * v))


def gaussian_limit(steps_per_epoch: Any, epochs: Any, noise_multiplier: Any) -> Any:
    """Limit, not a bound: TV → 2Φ(√(E·v/M)/2) − 1 as M → ∞ with E/M fixed (Theorem 3.5). No guarantee at finite M."""
    sigma = np.asarray(noise_multiplier, dtype=float)
    with np.errstate(over="ignore", divide="ignore"):
        v = np.expm1(1.0 / sigma / sigma)
        mu = np.sqrt(np.asarray(epochs, dtype=float) / np.asarray(steps_per_epoch, dtype=float)) * np.sqrt(v)
    return _gaussian_total_variation(mu)[()]


def berry_esseen_total_variation(steps_per_epoch: int, epochs: int, noise_multiplier: float) -> float:
    """The earlier closed form (van Dijk and Ertan, arXiv:2605.06259), reconstructed; for comparison only.

    E·(2Bρ₃/(v^{3/2}√M) + √(v/(2πM))), ρ₃ = E|X − 1|³, for M ≥ 3 and σ ≥ √(3/ln M); inf where it does not apply.
    """
    if steps_per_epoch < 3 or noise_multiplier < math.sqrt(3 / math.log(steps_per_epoch)):
        return math.inf
    v = math.expm1(1.0 / noise_multiplier / noise_multiplier)
    skew = 2 * BERRY_ESSEEN_CONSTANT * _third_absolute_moment(noise_multiplier) / (v**1.5 * math.sqrt(steps_per_epoch))
    return epochs * (skew + math.sqrt(v / (2 * math.pi * steps_per_epoch)))


def berry_esseen_noise_multiplier(steps_per_epoch: int, epochs: int, accuracy: float) -> float:
    """The σ that the earlier closed form asks for; the smallest of its domain if that already suffices."""
    target = 2 * accuracy - 1
    low = math.sqrt(3 / math.log(steps_per_epoch)) if steps_per_epoch >= 3 else math.inf
    if not low < math.inf:
        return math.inf
    if berry_esseen_total_variation(steps_per_epoch, epochs, low * (1 + 1e-12)) <= target:
        return low
    high = 2 * low
    while berry_esseen_total_variation(steps_per_epoch, epochs, high) > target:
        high *= 2
        if high > 1e8:  # the skewness term does not vanish with σ: for E > 1 or small M no noise is enough
            return math.inf
    for _ in range(100):
        middle = math.sqrt(low * high)
        if berry_esseen_total_variation(steps_per_epoch, epochs, middle) > target:
            low = middle
        else:
            high = middle
    return high


def _third_absolute_moment(noise_multiplier: float) -> float:
    """ρ₃ = E|X − 1|³ in closed form: E(X−1)³ on both sides of X = 1, from partial moments of the lognormal."""
    t = 1.0 / noise_multiplier
    powers = (-1.0, 3.0, -3.0, 1.0)
    if t < 0.02:  # nearly Gaussian: X − 1 ≈ tZ, where the alternating sum below would cancel
        return 2 * math.sqrt(2 / math.pi) * t**3 * (1 + 5 * t * t)
    above = sum(a * math.exp(k * (k - 1) * t * t / 2) * float(ndtr(k * t - t / 2)) for k, a in enumerate(powers))
    below = sum(a * math.exp(k * (k - 1) * t * t / 2) * float(ndtr(t / 2 - k * t)) for k, a in enumerate(powers))
    return above - below


def _gaussian_total_variation(mu: Any) -> Any:
    """2Φ(μ/2) − 1 with its relative accuracy for small μ."""
    from scipy.special import erf

    return erf(mu / (2 * math.sqrt(2)))


def _log_growth(steps_per_epoch: float, exponent: float) -> float:
    """ln(1 + M(e^x − 1)), without overflow."""
    if exponent > 30:
        return math.log(steps_per_epoch) + exponent + math.log1p(math.exp(-exponent) * (1 / steps_per_epoch - 1))
    return math.log1p(steps_per_epoch * math.expm1(exponent))


def _refuse(steps_per_epoch: Any, epochs: Any, noise_multiplier: Any) -> None:
    raise InputError(
        "closed forms need steps_per_epoch >= 1, epochs >= 1 and noise_multiplier > 0, got "
        f"steps_per_epoch {steps_per_epoch!r}, epochs {epochs!r}, noise_multiplier {noise_multiplier!r}"
    )
