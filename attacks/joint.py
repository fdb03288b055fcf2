"""Both centres of an example at once, by empirical Bayes: what one side says about the other, and the others about it.

With four values a side the errors of the means cost as much as those of the variances. Across examples the two centres
are closely related (a trained-on example is fitted well however hard it was; a mislabelled one is hard without it), and
that relation can be learned from all examples together:

    (IN mean, OUT mean)  ~  N(mu, diag(v_in / n_in, v_out / n_out)),      mu  ~  a mixture of bivariate normals

The mixture is fitted by the EM algorithm for values with known noise (extreme deconvolution: Bovy, Hogg & Roweis 2011,
Ann. Appl. Stat. 5(2), arXiv:0905.2979), with up to three components, because the relation bends and mislabelled
examples stand apart. v are the variances shrunk towards their `trend` in the OUT centre, first as observed, then once
more with what the mixture made of it. An example's centres have the posterior of this model given its two means, so
that IN sharpens OUT and OUT sharpens IN, and its next value on a side is predicted by

    sum over components of posterior weight · Student t(location m_c, scale² v + V_c, nu + n - 1 degrees of freedom)

m_c, V_c: posterior mean and variance of the centre in component c. As n grows V_c falls to v / n and m_c tends to the
example's own mean: the Student t of `spread`. Only the examples in `pool` determine trend and mixture.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np

from .moments import Moments
from .spread import Predictive
from .trend import Trend, fit_trend

FEWEST_EXAMPLES = 100  # below, neither trend nor mixture can be told from noise: the plain centre is used
EXAMPLES_A_COMPONENT = 100
MOST_COMPONENTS = 3
EM_STEPS = 60
MOST_FITTED = 5_000  # examples and views that the mixture is fitted to: evenly along the OUT means
FLOOR = 1e-6  # of a component's variances, relative to the variance of all means: no component collapses to a point


@dataclass(frozen=True)
class Mixture:
    """Of K bivariate normals over (IN centre, OUT centre): weight (K,), mean (K, 2), covariance (K, 2, 2)."""

    weight: np.ndarray
    mean: np.ndarray
    covariance: np.ndarray

    def posterior(self, observed: np.ndarray, noise: np.ndarray) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        """observed and noise variances (n, 2): log weights (n, K), centres (n, K, 2), covariances (n, K, 3).

        The three entries of a covariance: in-in, out-out, in-out.
        """
        a, b, c = self.covariance[:, 0, 0], self.covariance[:, 1, 1], self.covariance[:, 0, 1]
        u, v = noise[:, :1], noise[:, 1:]
        determinant = (a + u) * (b + v) - c**2
        x, y = observed[:, :1] - self.mean[:, 0], observed[:, 1:] - self.mean[:, 1]
        # rows of covariance · (covariance + noise)^-1
        in_in, in_out = (a * (b + v) - c**2) / determinant, c * u / determinant
        out_out, out_in = (b * (a + u) - c**2) / determinant, c * v / determinant
        centre = np.stack(
            [self.mean[:, 0] + in_in * x + in_out * y, self.mean[:, 1] + out_in * x + out_out * y], axis=2
        )
        covariance = np.stack([in_in * u, out_out * v, in_out * v], axis=2)
        quadratic = ((b + v) * x**2 + (a + u) * y**2 - 2 * c * x * y) / determinant
        evidence: np.ndarray = np.log(self.weight) - 0.5 * (quadratic + np.log(determinant))
        return evidence - np.logaddexp.reduce(evidence, axis=1, keepdims=True), centre, covariance


def fit_mixture(observed: np.ndarray, noise: np.ndarray, components: int) -> Mixture:
    """EM from slices of the OUT means. observed, noise (n, 2), n > 0; the same rows twice give the same mixture."""
    floor = FLOOR * np.diag(observed.var(axis=0) + noise.mean(axis=0))
    edges = np.quantile(observed[:, 1], np.arange(1, components) / components, method="inverted_cdf")
    share = (np.searchsorted(edges, observed[:, 1])[:, None] == np.arange(components)).astype(np.float64)
    centre = np.repeat(observed[:, None], components, axis=1)
    covariance = np.zeros((len(observed), components, 3))
    mixture = _maximise(share, centre, covariance, floor)
    for _ in range(EM_STEPS):
        log_weight, centre, covariance = mixture.posterior(observed, noise)
        mixture = _maximise(np.exp(log_weight), centre, covariance, floor)
    return mixture


def _maximise(share: np.ndarray, centre: np.ndarray, covariance: np.ndarray, floor: np.ndarray) -> Mixture:
    total = share.sum(axis=0) + np.finfo(np.float64).tiny
    mean = (share[:, :, None] * centre).sum(axis=0) / total[:, None]
    x, y = np.moveaxis(centre - mean, 2, 0)
    second = covariance + np.stack([x * x, y * y, x * y], axis=2)
    a, b, c = ((share[:, :, None] * second).sum(axis=0) / total[:, None]).T
    matrices = np.stack([np.stack([a, c], axis=1), np.stack([c, b], axis=1)], axis=1) + floor
    return Mixture(total / total.sum(), mean, matrices)


@dataclass(frozen=True)
class JointPredictive:
    """What the next value of a side looks like: log weight, location, scale (n, views, K), freedom (n, views, 1)."""

    log_weight: np.ndarray
    locations: np.ndarray
    scales: np.ndarray
    freedom: np.ndarray | float
    fitted: dict[str, float | None]

    @property
    def location(self) -> np.ndarray:
        """(n, views): the mean."""
        return (np.exp(self.log_weight) * self.locations).sum(axis=2)

    def log_density(self, value: np.ndarray) -> np.ndarray:
        each = Predictive(self.locations, self.scales, self.freedom, {}).log_density(value[:, :, None])
        return np.logaddexp.reduce(self.log_weight + each, axis=2)


def joint(
    inside: Moments, outside: Moments, pool: np.ndarray
) -> tuple[JointPredictive, JointPredictive, dict[str, list[float]]] | None:
    """IN and OUT predictive and the mixture in words; None if `pool` (n,) bool holds too few examples.

    An example without a value on a side has NaN on both.
    """
    pool = pool & (inside.count >= 2).all(axis=1) & (outside.count >= 2).all(axis=1)
    pool &= (inside.squares > 0).all(axis=1) & (outside.squares > 0).all(axis=1)
    if pool.sum() < FEWEST_EXAMPLES:
        return None
    components = int(np.clip(pool.sum() // EXAMPLES_A_COMPONENT, 1, MOST_COMPONENTS))
    # in units of a power of two near the spread: the same digits for any unit, and no over- or underflow
    unit = 2.0 ** np.round(np.log2(max(float(np.std(outside.mean[pool])), np.finfo(np.float64).tiny)))
    sides = tuple(replace(m, mean=m.mean / unit, squares=m.squares / unit**2) for m in (inside, outside))
    shape = inside.mean.shape
    observed = np.stack([side.mean.ravel() for side in sides], axis=1)
    usable = np.repeat(pool, shape[1])
    given = (sides[0], sides[1]), observed, usable, components
    first = _fit(*given, hardness=observed[:, 1])
    second = _fit(*given, hardness=first.hardness)
    mixture = second.mixture
    fitted = {
        "weights": mixture.weight.tolist(),
        "in": (unit * mixture.mean[:, 0]).tolist(),
        "out": (unit * mixture.mean[:, 1]).tolist(),
        "variance_in": (unit**2 * mixture.covariance[:, 0, 0]).tolist(),
        "variance_out": (unit**2 * mixture.covariance[:, 1, 1]).tolist(),
        "covariance": (unit**2 * mixture.covariance[:, 0, 1]).tolist(),
    }
    return second.side(0, inside.count, unit), second.side(1, outside.count, unit), fitted


@dataclass(frozen=True)
class _Fit:
    """One pass: per side the trend and the variances (n,), the mixture, and its posterior of every example."""

    trends: list[Trend]
    variances: list[np.ndarray]
    mixture: Mixture
    log_weight: np.ndarray
    centre: np.ndarray
    covariance: np.ndarray

    @property
    def hardness(self) -> np.ndarray:
        """(n,): the OUT centre."""
        return (np.exp(self.log_weight) * self.centre[:, :, 1]).sum(axis=1)

    def side(self, k: int, count: np.ndarray, unit: float) -> JointPredictive:
        shape, prior = (*count.shape, -1), self.trends[k].freedom
        scale = np.sqrt(self.variances[k][:, None] + self.covariance[:, :, k])
        pooled = np.isinf(prior)
        return JointPredictive(
            self.log_weight.reshape(shape),
            unit * self.centre[:, :, k].reshape(shape),
            unit * scale.reshape(shape),
            np.inf if pooled else (prior + count - 1)[:, :, None],
            {"prior_degrees_of_freedom": None if pooled else prior},
        )


def _fit(
    sides: tuple[Moments, Moments], observed: np.ndarray, usable: np.ndarray, components: int, hardness: np.ndarray
) -> _Fit:
    """Variances by their trend in `hardness`, then the mixture of the centres."""
    trends, variances, noise = [], [], []
    with np.errstate(divide="ignore", invalid="ignore"):
        for moments in sides:
            count, squares = moments.count.ravel(), moments.squares.ravel()
            trend = fit_trend(hardness[usable], count[usable] - 1, squares[usable])
            variance = trend.variance(hardness)
            if not np.isinf(trend.freedom):
                variance = (trend.freedom * variance + squares) / (trend.freedom + count - 1)
            trends.append(trend)
            variances.append(variance)
            noise.append(variance / count)
        spread = np.stack(noise, axis=1)
        along = np.flatnonzero(usable)[np.argsort(observed[usable, 1], kind="stable")]
        some = along[:: -(-len(along) // MOST_FITTED)]
        mixture = fit_mixture(observed[some], spread[some], components)
        return _Fit(trends, variances, mixture, *mixture.posterior(observed, spread))
