"""What each kind of record adds to a step: least squares on the known directions, with exact Gaussian errors.

A step is g_t = Σ_kinds a_k D_kt + noise, D_kt the sum of the unit gradients of the rows of kind k in the batch. Where
every gradient is longer than the clipping norm, a_k = clipping norm / divisor for all kinds, whatever their lengths.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from scipy.special import stdtr

from ...attacks.observation import Observation
from ...canaries.probe import Probe

REFERENCE = ("solo", "choir")


@dataclass(frozen=True, eq=False)
class Contributions:
    """kinds; values (K,) a_k; spread (K, K): their covariance over the noise variance; variance and degrees: of the
    noise on coordinates that no record reaches; residual: what the fit leaves on the others."""

    kinds: tuple[str, ...]
    values: np.ndarray
    spread: np.ndarray
    variance: float
    degrees: int
    residual: tuple[float, int]  # sum of squares, degrees of freedom
    batch_slope: tuple[float, float] | None  # relative change of a contribution per relative change of batch size, t

    @property
    def reference(self) -> tuple[float, float]:
        """a of ordinary records (solo and choir), weighted by precision, and its variance over the noise variance."""
        weights = self.reference_weights
        return float(weights @ self.values), float(weights @ self.spread @ weights)

    @property
    def reference_weights(self) -> np.ndarray:
        places = [i for i, kind in enumerate(self.kinds) if kind in REFERENCE]
        precision = np.linalg.pinv(self.spread[np.ix_(places, places)])
        weights = np.zeros(len(self.kinds))
        weights[places] = precision.sum(axis=1) / precision.sum()
        return weights

    def contrast(self, weights: np.ndarray) -> tuple[float, float, float]:
        """Value of weights·a, P[T ≤ t], P[T ≥ t] where it is truly zero."""
        value = float(weights @ self.values)
        deviation = math.sqrt(self.variance * float(weights @ self.spread @ weights))
        if deviation == 0:
            return value, float(value >= 0), float(value <= 0)
        t = value / deviation
        return value, float(stdtr(self.degrees, t)), float(stdtr(self.degrees, -t))


def family(kind: str) -> str:
    """solo/first -> solo; the rungs of the ladder stay apart."""
    return kind if kind.startswith("ladder") else kind.partition("/")[0]


def moving(probe: Probe, seen: Observation) -> np.ndarray:
    """(P,) bool: coordinates of parameters that the trainer moves at all."""
    mask = np.zeros(len(probe.free), bool)
    for name, place in probe.slices.items():
        mask[place] = seen.reached[name]
    return mask


def noise_of(probe: Probe, seen: Observation) -> np.ndarray:
    """(T, coordinates) of what the trainer moves and no record reaches: noise alone."""
    return seen.gradients[:, probe.free & moving(probe, seen)]


def measure(probe: Probe, seen: Observation) -> Contributions:
    """Least squares over all steps and all coordinates that a record reaches."""
    used = ~probe.free & moving(probe, seen)
    g = seen.gradients[:, used]
    families = np.array([family(str(kind)) for kind in probe.kind])
    present = seen.use.sum(axis=0) > 0
    kinds = tuple(sorted({str(f) for f in families[present] if f != "null"}))
    designs = [
        (seen.use[:, families == kind].astype(float) @ probe.directions[np.ix_(families == kind, used)])
        for kind in kinds
    ]
    values, spread, rest = _least_squares(designs, g)
    sizes = seen.batch_sizes.astype(float)
    slope = None
    free = noise_of(probe, seen)
    variance, degrees = float(np.mean(free**2)), free.size
    long = [i for i, kind in enumerate(kinds) if not kind.startswith("ladder")]
    if len(long) and np.ptp(sizes) > 0 and len(g) > 2:
        change = (sizes - sizes.mean()) / sizes.mean()
        scaled = sum(values[i] * designs[i] for i in long) * change[:, None]
        more_values, more_spread, _ = _least_squares([*designs, scaled], g)
        deviation = math.sqrt(variance * more_spread[-1, -1])
        slope = (float(more_values[-1]), float(more_values[-1]) / deviation if deviation > 0 else math.inf)
    residual = (float(np.sum(rest**2)), max(1, rest.size - len(kinds)))
    return Contributions(kinds, values, spread, variance, degrees, residual, slope)


def _least_squares(designs: Sequence[np.ndarray], g: np.ndarray) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    normal = np.array([[np.sum(a * b) for b in designs] for a in designs])
    spread = np.linalg.pinv(normal, hermitian=True)
    values = spread @ np.array([np.sum(d * g) for d in designs])
    fitted = np.tensordot(values, np.array(designs), axes=1)
    return values, spread, g - fitted
