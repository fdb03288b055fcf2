"""The IN centre drawn towards what the OUT centre foretells: the other half of few-shadow estimation.

With four IN values the error of their mean costs as much as that of their variance. Across examples the IN centre
follows the OUT centre closely (a trained-on example is fitted well however hard it was), so that empirical Bayes helps:

    IN mean  =  a + b · OUT mean + u,      Var u = tau² + b² v_out / n_out + v_in / n_in

a, b by least squares over the examples without trouble of their own, tau² by moments; v the (shrunk) variances. An
example's IN centre is the precision-weighted mean of its own IN mean and of the line, with kappa = v_in / (tau² +
b² v_out / n_out) pseudo-observations on the line: the normal-inverse-gamma update of BaVarIA (arXiv:2603.11799) with a
prior mean that differs between examples. As n_in grows the example's own mean takes over.
"""

from __future__ import annotations

import numpy as np

from .moments import Moments
from .spread import Predictive

FEWEST_EXAMPLES = 30  # below, the line is noise: the plain mean is used


def regressed(
    inside: Moments, outside: Moments, within: Predictive, without: Predictive, pool: np.ndarray
) -> Predictive:
    """`within` (IN, with the plain mean) re-centred. pool (n,) bool: the examples that may determine the line."""
    rows = pool & (inside.count >= 2).all(axis=1) & (outside.count >= 2).all(axis=1)
    if rows.sum() < FEWEST_EXAMPLES:
        return within
    n_in, n_out = inside.count, outside.count
    with np.errstate(invalid="ignore", divide="ignore"):
        v_in = within.scale**2 * n_in / (n_in + 1)  # the predictive scale without the centre's own error
        error_out = without.scale**2 / (n_out + 1)
    x, y = outside.mean[rows].ravel(), inside.mean[rows].ravel()
    if np.ptp(x) == 0:
        return within
    slope = float(np.cov(x, y, ddof=0)[0, 1] / x.var())
    intercept = float(y.mean() - slope * x.mean())
    noise = slope**2 * error_out[rows] + v_in[rows] / n_in[rows]
    tau2 = max(float(np.mean((y - intercept - slope * x) ** 2) - noise.mean()), 1e-3 * float(np.mean(noise)))
    with np.errstate(invalid="ignore", divide="ignore"):
        kappa = v_in / (tau2 + slope**2 * error_out)
        line = intercept + slope * outside.mean
        centre = (kappa * line + n_in * np.nan_to_num(inside.mean)) / (kappa + n_in)
        scale = np.sqrt(v_in * (1 + 1 / (kappa + n_in)))
    fitted = {**within.fitted, "centre_slope": slope, "centre_intercept": intercept, "centre_variance": tau2}
    return Predictive(centre, scale, within.freedom, fitted)
