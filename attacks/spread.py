"""How wide the shadow values of an example scatter: the estimate that decides LiRA's power at few shadows.

per_example   sqrt(mean (v - mean)²) of the example itself, ddof 0: the paper's, needs about 64 shadows
pooled        one value a side: root mean square of v - centre over all examples, models and views of that side
shrunk        the example's own variance drawn towards the pool, as far as the data say that variances are alike
fixed_raw     the textbook's "fixed variance": the spread of all values about one grand mean, far too wide, because it
              holds the spread between examples; for comparison

"shrunk" is the empirical Bayes variance of Smyth (2004, Stat. Appl. Genet. Mol. Biol. 3(1)): the variances of the
examples come from a scaled inverse chi-square with nu degrees of freedom around s0², both fitted by the moments of
the log variances. With a flat prior for the centre, the next value of a side of n values is then exactly Student t:

    degrees of freedom nu + n - 1,  location mean,  scale² = (nu s0² + S) / (nu + n - 1) · (n + 1) / n

S the sum of squared deviations. BaVarIA (arXiv:2603.11799) makes the same point, variance estimation is the bottleneck
at few shadows, with conjugate priors whose constants it fixes; here there is no constant to choose.

Only examples without trouble of their own enter the pool: a bad row never moves another one through it.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from scipy.special import betaln, digamma, log_ndtr, polygamma, stdtr

from ..foundation import InputError
from .moments import Moments

VARIANCES = ("per_example", "pooled", "shrunk", "fixed_raw")


@dataclass(frozen=True)
class Predictive:
    """What the next value of a side looks like: location, scale and degrees of freedom (inf: normal), (n, views)."""

    location: np.ndarray
    scale: np.ndarray
    freedom: np.ndarray | float
    fitted: dict[str, float | None]

    def standardised(self, value: np.ndarray) -> np.ndarray:
        return (value - self.location) / self.scale

    def log_density(self, value: np.ndarray) -> np.ndarray:
        z = self.standardised(value)
        if np.isscalar(self.freedom):
            return -0.5 * (z * z + np.log(2 * np.pi)) - np.log(self.scale)
        nu = np.asarray(self.freedom)
        # betaln keeps its digits where the difference of two log-gammas has lost them (large nu).
        return -0.5 * (nu + 1) * np.log1p(z * z / nu) - betaln(nu / 2, 0.5) - 0.5 * np.log(nu) - np.log(self.scale)

    def negative_log_survival(self, value: np.ndarray) -> np.ndarray:
        z = self.standardised(value)
        if np.isscalar(self.freedom):
            return -log_ndtr(-z)
        with np.errstate(divide="ignore"):
            return -np.log(stdtr(self.freedom, -z))


def predictive(moments: Moments, pool: np.ndarray, variance: str) -> Predictive:
    """The predictive of a side. pool (n,) bool: the examples whose values may be pooled.

    A constant side, or one of a single value, takes the pooled scale where the variant has none of its own.
    Errors: InputError if the pool holds no example with two values.
    """
    if variance not in VARIANCES:
        raise InputError(f"variance must be one of {', '.join(VARIANCES)}, got {variance!r}")
    rows = np.flatnonzero(pool & (moments.count >= 2).all(axis=1))
    if len(rows) == 0:
        raise InputError("no example has two usable shadow values on this side: train more shadow models")
    count, squares, centre = moments.count[rows], moments.squares[rows], moments.centre[rows]
    about_centre = squares + count * (moments.mean[rows] - centre) ** 2
    pooled = float(np.sqrt(about_centre.sum() / count.sum()))
    if variance == "shrunk":
        return _shrunk(moments, count, squares)
    if variance == "per_example":
        with np.errstate(invalid="ignore", divide="ignore"):
            own = np.sqrt(moments.squares / moments.count)
        scale = np.where((moments.count < 2) | moments.constant, pooled, own)
    elif variance == "pooled":
        scale = np.full_like(moments.mean, pooled)
    else:
        grand = (moments.mean[rows] * count).sum() / count.sum()
        total = (squares + count * (moments.mean[rows] - grand) ** 2).sum()
        scale = np.full_like(moments.mean, float(np.sqrt(total / count.sum())))
    return Predictive(moments.centre, scale, np.inf, {"pooled_standard_deviation": pooled})


def _shrunk(moments: Moments, count: np.ndarray, squares: np.ndarray) -> Predictive:
    nu, prior = prior_variance(count - 1, squares)
    n = moments.count
    with np.errstate(invalid="ignore", divide="ignore"):
        widening = (n + 1) / n  # the centre is estimated from n values too
        if np.isinf(nu):
            freedom, variance = np.inf, prior * widening
        else:
            freedom = nu + n - 1
            variance = (nu * prior + np.nan_to_num(moments.squares)) / freedom * widening
    fitted = {
        "prior_degrees_of_freedom": None if np.isinf(nu) else nu,
        "prior_standard_deviation": float(np.sqrt(prior)),
    }
    return Predictive(moments.centre, np.sqrt(variance), freedom, fitted)


def prior_variance(freedom: np.ndarray, squares: np.ndarray) -> tuple[float, float]:
    """(nu, s0²) by the moments of the log variances; nu = inf where the variances differ no more than chance has it.

    freedom, squares: any one shape, degrees of freedom n - 1 >= 1 and sums of squared deviations.
    """
    usable = (freedom >= 1) & (squares > 0)
    d, sums = freedom[usable].astype(np.float64), squares[usable]
    if len(d) == 0:
        raise InputError("all shadow values of this side are constant: they say nothing about the models' scatter")
    half = d / 2
    logs = np.log(sums / d) - digamma(half) + np.log(half)
    excess = logs.var() - polygamma(1, half).mean()
    if excess <= 0:
        return np.inf, float(sums.sum() / d.sum())
    nu = 2 * inverse_trigamma(float(excess))
    return nu, float(np.exp(logs.mean() + digamma(nu / 2) - np.log(nu / 2)))


def inverse_trigamma(value: float) -> float:
    """x with trigamma(x) = value > 0: Newton on 1/trigamma, nearly linear (Smyth 2004, appendix)."""
    x = 0.5 + 1 / value
    for _ in range(50):
        trigamma = float(polygamma(1, x))
        step = trigamma * (1 - trigamma / value) / float(polygamma(2, x))
        x += step
        if abs(step) <= 1e-12 * x:
            break
    return x
