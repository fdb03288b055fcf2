"""The prior variance of the shrunk estimate as a smooth function of the centre ("limma-trend").

Shadow values of hard examples scatter more than those of easy ones, so one prior for all draws every example to the
wrong place. As in Smyth (2004, Stat. Appl. Genet. Mol. Biol. 3(1)) and Law et al. (2014, Genome Biology 15:R29), the
log variances, corrected for their degrees of freedom d = n - 1, are regressed on the centre,

    log(S / d) - digamma(d / 2) + log(d / 2)  =  f(centre) + noise of variance trigamma(d / 2) + trigamma(nu / 2)

f is a natural cubic spline of three degrees of freedom with knots at quantiles, constant outside of them, fitted by
least squares weighted with 1 / trigamma(d / 2); nu comes from the variance that the residuals have in excess of
trigamma(d / 2), infinite where there is none. Without a trend f is a constant, and this is `spread.prior_variance`.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from scipy.special import digamma, polygamma

from .spread import inverse_trigamma

KNOTS = (0.02, 0.35, 0.65, 0.98)


@dataclass(frozen=True)
class Trend:
    """Prior degrees of freedom (inf: the variances differ by the trend alone) and the prior variance of any centre."""

    freedom: float
    knots: np.ndarray
    coefficients: np.ndarray

    def variance(self, centre: np.ndarray) -> np.ndarray:
        logs = (_basis(centre.ravel(), self.knots) @ self.coefficients).reshape(centre.shape)
        if np.isinf(self.freedom):
            return np.exp(logs)
        return np.exp(logs + digamma(self.freedom / 2) - np.log(self.freedom / 2))


def fit_trend(centre: np.ndarray, freedom: np.ndarray, squares: np.ndarray) -> Trend:
    """From the examples' centres, degrees of freedom n - 1 >= 1 and sums of squared deviations > 0, all (n,)."""
    knots = np.unique(np.quantile(centre, KNOTS, method="inverted_cdf"))
    half = freedom / 2
    logs = np.log(squares / freedom) - digamma(half) + np.log(half)
    sampling = polygamma(1, half)
    weight = 1 / sampling
    basis = _basis(centre, knots)
    root = np.sqrt(weight)
    coefficients = np.linalg.lstsq(basis * root[:, None], logs * root, rcond=None)[0]
    excess = (weight * ((logs - basis @ coefficients) ** 2 - sampling)).sum() / weight.sum()
    return Trend(2 * inverse_trigamma(float(excess)) if excess > 0 else np.inf, knots, coefficients)


def _basis(x: np.ndarray, knots: np.ndarray) -> np.ndarray:
    """(n, functions): 1, x and one natural cubic spline function for each knot between the outer ones."""
    span = knots[-1] - knots[0]
    if span <= 0:
        return np.ones((len(x), 1))
    at = (np.clip(x, knots[0], knots[-1]) - knots[0]) / span
    where = (knots - knots[0]) / span

    def cubic(knot: float) -> np.ndarray:
        return np.maximum(at - knot, 0) ** 3 / (1 - knot)

    curves = [cubic(knot) - cubic(where[-2]) for knot in where[:-2]]
    return np.stack([np.ones_like(at), at, *curves], axis=1)
