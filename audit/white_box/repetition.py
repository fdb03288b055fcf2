"""Is every number of the noise drawn once: over steps, over coordinates, over runs; independent and normal?

Directions of independent spherical noise have a cosine whose law is known exactly, so that the largest of all pairs
needs a union bound only. Weak dependence that no single pair shows is looked for by flipping signs of whole steps,
which leaves independent symmetric noise as it was.
"""

from __future__ import annotations

import math
from collections.abc import Sequence

import numpy as np
from scipy.special import ndtr

from ...attacks.observation import Observation
from ...canaries.probe import Probe
from ...foundation import numpy_stream
from .contributions import moving, noise_of
from .exact_tests import correlation_tail, monte_carlo_of_largest, two_sided_ratio
from .finding import Finding, not_tested

SHAPE_SAMPLE = 4_000
DISTINCT_SAMPLE = 50_000
COARSE = 0.8  # of values distinct: float32 noise has nearly all, float16 well below
MOST_COORDINATES = 4_000


def repeated(probe: Probe, runs: Sequence[Observation]) -> Finding:
    """The noise of any two steps, of one run or of two runs with different seeds."""
    name = "noise_repeated"
    parts = [unit(noise_of(probe, run)) for run in runs]
    owners = np.concatenate([np.full(len(part), i) for i, part in enumerate(parts)])
    steps = np.concatenate([np.arange(len(part)) for part in parts])
    all_steps = np.concatenate(parts)
    alive = np.any(all_steps != 0, axis=1)
    all_steps, owners, steps = all_steps[alive], owners[alive], steps[alive]
    if len(all_steps) < 2:
        return not_tested(name, "fewer than two steps have noise")
    cosine = all_steps @ all_steps.T
    np.fill_diagonal(cosine, 0.0)
    i, j = np.unravel_index(int(np.argmax(np.abs(cosine))), cosine.shape)
    pairs = len(all_steps) * (len(all_steps) - 1) / 2
    p = min(1.0, pairs * float(correlation_tail(cosine[i, j], all_steps.shape[1])))
    same = int(np.sum(np.abs(np.triu(cosine)) > 0.99))
    where = "of one run" if owners[i] == owners[j] else "of two runs with different seeds"
    return Finding(
        name,
        f"the most alike of {pairs:.0f} pairs of steps correlate by {cosine[i, j]:.3g} (steps {steps[min(i, j)]} and "
        f"{steps[max(i, j)]} {where})" + (f"; {same} pairs are equal up to sign or scale" if same else ""),
        "noise that returns can be subtracted: two steps with the same noise show their difference bare",
        "a generator or key that is made anew (each step, each epoch, each run with a fixed seed), or a cached draw",
        p_value=p,
        value=float(cosine[i, j]),
        expected=0.0,
        details={"equal_pairs": same},
    )


def shared(probe: Probe, seen: Observation, seed: int) -> Finding:
    """The noise of any two coordinates over the steps, and a part common to all coordinates."""
    name = "noise_shared"
    if seen.steps < 3:
        return not_tested(name, "fewer than three steps were taken")
    free = noise_of(probe, seen)
    names = np.concatenate([np.full(s.stop - s.start, n) for n, s in probe.slices.items()])[
        probe.free & moving(probe, seen)
    ]
    alive = np.flatnonzero(np.any(free != 0, axis=0))
    if len(alive) < 2:
        return not_tested(name, "fewer than two coordinates have noise")
    if len(alive) > MOST_COORDINATES:
        alive = np.sort(numpy_stream(seed, "check/coordinates").choice(alive, MOST_COORDINATES, replace=False))
    columns = unit(free[:, alive].T)
    cosine = np.abs(columns @ columns.T)
    np.fill_diagonal(cosine, 0.0)
    i, j = np.unravel_index(int(np.argmax(cosine)), cosine.shape)
    pairs = len(alive) * (len(alive) - 1) / 2
    p_pair = min(1.0, pairs * float(correlation_tail(cosine[i, j], seen.steps)))
    equal = int(np.sum(np.triu(cosine) > 0.99))
    # a common part: the coordinates' sum, over its own variance under independence
    count = free.shape[1]
    total = free.sum(axis=1)
    between, within = float(np.sum(total**2)) / count, float(np.sum(free**2)) - float(np.sum(total**2)) / count
    p_common = two_sided_ratio(
        between / seen.steps, seen.steps, within / (seen.steps * (count - 1)), seen.steps * (count - 1)
    )
    return Finding(
        name,
        f"the most alike of {pairs:.0f} pairs of coordinates correlate by {cosine[i, j]:.3g} "
        f"({names[alive[i]]}, {names[alive[j]]})"
        + (f"; {equal} pairs are equal up to sign or scale" if equal else "")
        + f"; their sum is {math.sqrt(between / seen.steps / max(1e-300, np.mean(free**2))):.4g} times what is due",
        "noise that two parameters share can be subtracted",
        "one seed or key used for several parameters, noise of a smaller shape that broadcasts",
        p_value=min(1.0, 2 * min(p_pair, p_common)),
        value=float(cosine[i, j]),
        expected=0.0,
        details={"equal_pairs": equal, "p_pair": p_pair, "p_common": p_common},
    )


def correlated(probe: Probe, seen: Observation, seed: int) -> Finding:
    """Weak correlation between neighbouring steps, at lag 1 and 2, and of all steps together."""
    name = "noise_correlated"
    if seen.steps < 8:
        return not_tested(name, "fewer than eight steps were taken")
    free = noise_of(probe, seen)
    gram = free @ free.T
    generator = numpy_stream(seed, "check/signs")

    def statistics(signs: np.ndarray) -> list[float]:
        flipped = gram * np.outer(signs, signs)
        return [float(np.trace(flipped, lag)) for lag in (1, 2)] + [float(flipped.sum())]

    observed = statistics(np.ones(seen.steps))
    p, _ = monte_carlo_of_largest(observed, lambda: statistics(generator.choice([-1.0, 1.0], seen.steps)))
    scale = float(np.trace(gram)) or 1.0
    return Finding(
        name,
        f"noise of neighbouring steps correlates by {observed[0] / scale:.3g}, of the next but one by "
        f"{observed[1] / scale:.3g}",
        "correlated noise cancels over steps, or adds up: the claim composes independent steps",
        "momentum or averaging applied before the noise is read, noise carried over from the step before",
        p_value=p,
        value=observed[0] / scale,
        expected=0.0,
    )


def shape(probe: Probe, seen: Observation, seed: int) -> Finding:
    """Normal or not: tails (kurtosis), skewness, distance from the normal law; against normal samples of the same size
    and an unknown scale. A coarse grid of values is a fact of its own; weights that moved are too coarse to tell."""
    name = "noise_shape"
    free = noise_of(probe, seen)
    scale = np.sqrt(np.mean(free**2, axis=0))
    values = free[:, scale > 0].ravel()
    if len(values) < 200:
        return not_tested(name, "too little noise to judge its shape")
    generator = numpy_stream(seed, "check/shape")
    many = values[:DISTINCT_SAMPLE]
    distinct = len(np.unique(many)) / len(many)
    if len(values) > SHAPE_SAMPLE:
        values = generator.choice(values, SHAPE_SAMPLE, replace=False)
    observed = _shape_of(values)
    coarse = distinct < COARSE and seen.source != "weights"
    p, _ = monte_carlo_of_largest(observed, lambda: _shape_of(generator.standard_normal(len(values))))
    return Finding(
        name,
        f"kurtosis {observed[0]:.4g} (normal: 3), skewness {observed[1]:.3g}, {distinct:.0%} of values distinct",
        "the bounds hold for normal noise: other noise, or a coarse grid, has other tails",
        "the distribution that is drawn from, its precision (float16, bfloat16), clamping after the noise",
        p_value=p,
        broken=coarse,
        value=observed[0],
        expected=3.0,
        details={"sample": len(values), "distinct": distinct},
    )


def _shape_of(values: np.ndarray) -> list[float]:
    standard = np.sort(values) / math.sqrt(float(np.mean(values**2)))
    cumulative = ndtr(standard)
    n = len(standard)
    distance = max(float(np.max(np.arange(1, n + 1) / n - cumulative)), float(np.max(cumulative - np.arange(n) / n)))
    return [float(np.mean(standard**4)), float(np.mean(standard**3)), distance]


def unit(rows: np.ndarray) -> np.ndarray:
    norms = np.linalg.norm(rows, axis=1, keepdims=True)
    return np.divide(rows, norms, out=np.zeros_like(rows), where=norms > 0)
