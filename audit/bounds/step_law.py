"""The law of one step's ratio X = exp(Z/σ − 1/(2σ²)) on the cells [kh, (k+1)h) of a lattice, both sides of a bound.

Under Q (record absent) Z is standard normal, so P(X ≤ x) = Φ(z), E[X; X ≤ x] = Φ(z − 1/σ) with
z = σ ln x + 1/(2σ), and the second is also P(X ≤ x) where the record is in the step (law P).
"""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy.special import ndtri

from .normal_tail import normal_tails
from .rounding import EXTENDED, LONG_UNIT, UNIT

Array = NDArray[Any]


@dataclass(frozen=True)
class Cells:
    """Masses of the cells between `edges` (n + 1,), n cells.

    absent (n,): P_Q(X in cell);  present (n,): P_P(X in cell) = E_Q[X; cell];
    error: how far the partial sums of either may be from the truth, at any edge, measured from the nearer end, for
    `absent` also after multiplication by the edge, for `present` also after division by it. Cells are differences of
    values at edges, so errors at inner edges cancel in every partial sum: `error` does not grow with their number.
    relative_absent, relative_present: the same for partial sums from the lower end, relative to themselves.
    """

    edges: Array
    absent: Array
    present: Array
    error: float
    relative_absent: float
    relative_present: float

    def below(self, cell: int) -> Cells:
        """The first `cell` cells alone."""
        return replace(self, edges=self.edges[: cell + 1], absent=self.absent[:cell], present=self.present[:cell])


def step_cells(edges: Array, noise_multiplier: float, extended: bool = False) -> Cells:
    """edges: increasing, exact doubles. Of a cell that begins below 0 the part above 0 counts: X > 0.

    extended: masses in long double, where that is wider, and an error of its size.
    """
    number, unit = (np.longdouble, LONG_UNIT) if extended and EXTENDED else (np.float64, UNIT)
    shift = 1 / number(noise_multiplier)
    with np.errstate(divide="ignore"):
        logs = np.log(np.maximum(edges, 0.0).astype(number))
    z = noise_multiplier * logs + shift / 2
    finite = np.isfinite(z)
    z_error = np.where(finite, 4 * unit * (np.abs(noise_multiplier * np.where(finite, logs, 0.0)) + shift), 0.0)
    absent, tails, absent_error, relative_absent = _differences(z, z_error)
    w = z - shift
    w_error = z_error + unit * (np.where(finite, np.abs(w), 0.0) + shift)
    present, _, present_error, relative_present = _differences(w, w_error)
    with np.errstate(invalid="ignore"):
        scaled = np.where(tails > 0, absent_error * np.maximum(1.0, edges), 0.0)
    positive = edges > 0
    steep = present_error[positive] / np.minimum(1.0, edges[positive])
    error = float(np.max(scaled)) + float(np.max(steep, initial=0.0)) + 4 * unit
    return Cells(edges, absent, present, error, relative_absent + 4 * unit, relative_present + 4 * unit)


def _differences(z: Array, z_error: Array) -> tuple[Array, Array, Array, float]:
    """Φ(z_{k+1}) − Φ(z_k), by Φ on the left of 0 and by 1 − Φ on the right; min(Φ, 1 − Φ); its absolute error; the
    largest ratio of that error to Φ."""
    below, above, error = normal_tails(z, z_error)
    masses = np.where(z[:-1] < 0, below[1:] - below[:-1], above[:-1] - above[1:])
    reached = below > 0
    relative = float(np.max(error[reached] / below[reached], initial=0.0))
    return np.maximum(masses, 0.0), np.minimum(below, above), error, relative


def spread(cells: Cells) -> tuple[Array, Array]:
    """The upper law: each cell's mass split between its two ends so that its mean is kept ("connect the dots").

    Returns masses on the n + 1 edges, and by how much (n,) clipping a share to [0, mass] may have raised the mean:
    rounding makes it necessary where a cell's mass is of the order of the rounding itself. See `clip_cost`.
    """
    width = np.diff(cells.edges)
    excess = cells.present - cells.edges[:-1] * cells.absent
    wanted = excess / width
    share = np.clip(wanted, 0.0, cells.absent)
    masses = np.zeros(len(cells.edges), dtype=cells.absent.dtype)
    masses[:-1] += cells.absent - share
    masses[1:] += share
    return masses, np.maximum(share - wanted, 0.0).astype(float) * width


def clip_cost(raised: Array, ratio: Array, copies: int) -> float:
    """What `raised` can take from a functional of a mean of `copies` ratios, `ratio` the value at a cell's right edge.

    With d_c the rise in cell c and x_c its right edge, E(x − ratio)₊ lacks at most D = Σ d_c anywhere, and at most
    Σ_{x_c ≤ x} d_c ≤ x·R, R = Σ d_c/x_c, at an edge x; in between no more, since that is linear in x. A functional of
    slope s in one of the ratios is (A − s·ratio)₊: for "add" A ≤ 1, so that it lacks at most s·(A/s)·R ≤ R however
    steep it is, and so for each of the copies; for "remove" s is the other copies' ratio over `copies`, of mean 1, so
    that all together lack at most D.
    """
    rises = raised > 0
    relative = float(np.sum(raised[rises] / ratio[rises]))
    return max(float(np.sum(raised)), copies * relative) * (1 + 1e-9)


def edge_of_absent_tail(tail: float, noise_multiplier: float, upper: bool = False) -> float:
    """ln of the x below (above) which X lies with probability `tail` under Q."""
    shift = 1.0 / noise_multiplier
    return shift * float(ndtri(tail)) * (-1 if upper else 1) - shift * shift / 2


def edge_of_present_tail(tail: float, noise_multiplier: float) -> float:
    """ln of the x beyond which X lies with probability `tail` under P."""
    shift = 1.0 / noise_multiplier
    return shift * (shift - float(ndtri(tail))) - shift * shift / 2


def trimmed(value: float) -> float:
    """`value` rounded to 20 significant bits, so that its multiples up to 2³³ are exact doubles."""
    mantissa, exponent = math.frexp(value)
    return math.ldexp(round(mantissa * 2**20), exponent - 20)
