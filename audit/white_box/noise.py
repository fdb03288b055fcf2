"""Is the noise everywhere the same: in every parameter, every step, every coordinate, also where records are?

All by the coordinates that no record reaches, so that nothing but noise is looked at. Under the claim they are
independent normal numbers of one variance, and a ratio of two mean squares has Fisher's law exactly.
"""

from __future__ import annotations

import math

import numpy as np
from scipy.special import fdtr, fdtrc

from ...attacks.observation import Observation
from ...canaries.probe import Probe
from .contributions import Contributions, noise_of
from .exact_tests import deviation_interval, two_sided, variance_ratio
from .finding import Finding, not_tested


def by_parameter(probe: Probe, seen: Observation) -> Finding:
    """Each parameter against all the others."""
    name = "noise_by_parameter"
    groups = {n: seen.gradients[:, s][:, probe.free[s]] for n, s in probe.slices.items() if seen.reached[n]}
    groups = {n: g for n, g in groups.items() if g.size}
    if len(groups) < 2:
        return not_tested(name, "fewer than two parameters are trained")
    squares, sizes = {n: float(np.sum(g**2)) for n, g in groups.items()}, {n: g.size for n, g in groups.items()}
    total, size = sum(squares.values()), sum(sizes.values())
    # against the rest; the reference of each parameter's figure is the noisiest parameter of size, not a mean that
    # silent ones drag down
    p = {}
    for n in groups:
        low, high = variance_ratio(
            squares[n] / sizes[n], sizes[n], (total - squares[n]) / (size - sizes[n]), size - sizes[n]
        )
        p[n] = two_sided(low, high)
    deviations = {n: math.sqrt(squares[n] / sizes[n]) for n in groups}
    reference = float(np.median(list(deviations.values()))) or max(deviations.values())
    worst = min(p, key=lambda n: p[n])
    intervals = {
        n: [bound / reference for bound in deviation_interval(squares[n] / sizes[n], sizes[n], 0.99)]
        if reference
        else [0, 0]
        for n in groups
    }
    relative = {n: (d / reference if reference else 0.0) for n, d in deviations.items()}
    quiet = [n for n, r in relative.items() if r < 0.01]
    words = ", ".join(f"{n} {r:.4g}" for n, r in relative.items())
    return Finding(
        name,
        f"noise deviation by parameter, the median being 1: {words}"
        + (f"; none on {', '.join(quiet)}" if quiet else ""),
        "a parameter with less noise tells of every record that reaches it",
        "the loop over parameters in which noise is added: which are left out, or scaled by their own size?",
        p_value=min(1.0, len(groups) * p[worst]),
        value=min(relative.values()),
        expected=1.0,
        details={"relative_deviation": relative, "interval": intervals},
    )


def by_step(probe: Probe, seen: Observation) -> Finding:
    """Each step against all the others."""
    name = "noise_by_step"
    if seen.steps < 2:
        return not_tested(name, "a single step was taken")
    free = noise_of(probe, seen)
    p, relative = _each_against_the_rest(np.sum(free**2, axis=1), free.shape[1])
    silent = np.flatnonzero(relative < 0.01)
    worst = int(np.argmin(p))
    said = f"steps without noise: {_few(silent)}" if len(silent) else f"the most unusual is step {worst}"
    return Finding(
        name,
        f"noise deviation by step lies between {relative.min():.4g} and {relative.max():.4g} times the median; {said}",
        "a step with less noise tells of every record in it; noise that moves with time may move with the data",
        "conditions around the noise (first or last step, warm-up, accumulation), and a clipping norm that adapts",
        p_value=min(1.0, seen.steps * float(p[worst])),
        value=float(relative.min()),
        expected=1.0,
        details={"relative_deviation": relative.tolist()},
    )


def by_coordinate(probe: Probe, seen: Observation) -> Finding:
    """Each coordinate, over the steps, against all the others of its parameter."""
    name = "noise_by_coordinate"
    if seen.steps < 2:
        return not_tested(name, "a single step was taken")
    smallest, silent, counted, lowest = 1.0, {}, 0, 1.0
    for n, s in probe.slices.items():
        free = seen.gradients[:, s][:, probe.free[s]]
        if not seen.reached[n] or free.shape[1] < 2 or not np.any(free):
            continue
        p, relative = _each_against_the_rest(np.sum(free**2, axis=0), seen.steps)
        smallest, counted = min(smallest, float(p.min())), counted + free.shape[1]
        lowest = min(lowest, float(relative.min()))
        if np.any(relative < 0.01):
            silent[n] = int(np.sum(relative < 0.01))
    words = ", ".join(f"{count} of {n}" for n, count in silent.items())
    return Finding(
        name,
        f"{counted} coordinates compared" + (f"; no noise on {words}" if words else ""),
        "a coordinate with less noise tells of every record that reaches it",
        "noise drawn for a slice, for touched rows only, or with a shape that broadcasts",
        p_value=min(1.0, max(1, counted) * smallest),
        value=lowest,
        expected=1.0,
        details={"silent": silent},
    )


def around_records(c: Contributions) -> Finding:
    """What is left along the records when their contributions are taken out, against coordinates that none reaches."""
    square, degrees = c.residual
    low, high = variance_ratio(square / degrees, degrees, c.variance, c.degrees)
    ratio = math.sqrt(square / degrees / c.variance) if c.variance > 0 else (math.inf if square > 0 else 1.0)
    return Finding(
        "steady_contributions",
        f"along the records steps scatter {min(ratio, 1e9):.4g} times as much as where no record is",
        "more: what a record contributes changes from step to step, with the other records or with time; less: the "
        "noise is weaker where records are",
        "clipping of a sum or mean in place of single gradients, layers that mix records, a clipping norm that adapts",
        p_value=two_sided(low, high) if c.variance > 0 or square > 0 else None,
        value=min(ratio, 1e9),
        expected=1.0,
    )


def _each_against_the_rest(squares: np.ndarray, size: int) -> tuple[np.ndarray, np.ndarray]:
    """Two-sided p-values of each of many sums of `size` squares, and their deviations over the median one."""
    rest = squares.sum() - squares
    with np.errstate(divide="ignore", invalid="ignore"):
        ratio = (squares / size) / (rest / (size * (len(squares) - 1)))
        p = 2 * np.minimum(fdtr(size, size * (len(squares) - 1), ratio), fdtrc(size, size * (len(squares) - 1), ratio))
        p = np.where(np.isfinite(ratio), p, np.where(squares == 0, 1.0, 0.0))
        deviation = np.sqrt(squares)
        median = np.median(deviation) or deviation.max()
        relative = deviation / median if median > 0 else np.ones_like(deviation)
    return np.minimum(1.0, p), relative


def _few(numbers: np.ndarray) -> str:
    shown = ", ".join(map(str, numbers[:8].tolist()))
    return f"{shown}, … ({len(numbers)} in all)" if len(numbers) > 8 else shown
