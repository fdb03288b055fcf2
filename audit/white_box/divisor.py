"""Is a step scaled by a public constant, or by something that the records decide?

A divisor that follows the realised batch or the size of the data set moves contribution and noise together, so that
neither betrays it within a step; comparing steps of different batches and runs of different sizes does.
"""

from __future__ import annotations

import math
from collections.abc import Sequence

import numpy as np
from scipy.special import stdtr

from ...canaries.probe import Probe
from ...foundation import numpy_stream
from .contributions import Contributions, noise_of
from .exact_tests import monte_carlo, ratio_interval, two_sided_ratio
from .finding import Finding, not_tested
from .runs import Run


def find_divisor(
    probe: Probe, main: Run, others: Sequence[Run], c: Contributions, divisor: float | None, seed: int
) -> Finding:
    """divisor: its absolute value, where replays without noise show it."""
    name = "divisor"
    noise = noise_of(probe, main.seen)
    if not np.any(noise) or (main.seen.source == "weights" and main.seen.steps < 2):
        return not_tested(name, "there is no noise whose scale could be compared")
    p: dict[str, float] = {}
    said = []
    moved = False
    for other in others:
        there = noise_of(probe, other.seen)
        if there.size == 0:
            continue
        mine, theirs = float(np.mean(noise**2)), float(np.mean(there**2))
        n, m = len(main.rows), len(other.rows)
        key = f"{m} rows against {n}"
        p[key] = two_sided_ratio(theirs, there.size, mine, noise.size)
        ratio = math.sqrt(theirs / mine)
        low, high = (math.sqrt(r) for r in ratio_interval(theirs / mine, there.size, noise.size, 0.99))
        said.append(
            f"with {m} rows a step is {ratio:.4g} [{low:.4g}, {high:.4g}] times as large as with {n} "
            f"({n}/{m} = {n / m:.4g})"
        )
        moved = moved or p[key] < 1e-4
    sizes = main.seen.batch_sizes.astype(float)
    if np.ptp(sizes) > 0 and main.seen.steps > 3:
        generator = numpy_stream(seed, "check/divisor")
        energy = np.sum(noise**2, axis=1)
        centred = sizes - sizes.mean()
        value = float(energy @ centred)
        p["noise and batch size"] = monte_carlo([value], lambda: [float(energy @ generator.permutation(centred))])[0]
        slope = value / float(centred @ centred) * sizes.mean() / float(energy.mean()) / 2
        said.append(f"noise deviation grows as batch size to the power {slope:.3g}")
    if c.batch_slope is not None:
        slope, t = c.batch_slope
        p["contribution and batch size"] = float(2 * stdtr(c.degrees, -abs(t)))
        said.append(f"a contribution grows as batch size to the power {slope:.3g}")
    if not p:
        return not_tested(name, "batches and data sets of one size only")
    worst = min(p, key=lambda k: p[k])
    absolute = "" if divisor is None else f"; the divisor is {divisor:.6g}"
    return Finding(
        name,
        "; ".join(said) + absolute,
        "a scale that depends on how many records there are, or are drawn, tells whether a record is among them",
        "the divisor: expected batch size as a constant float, from public numbers; not len(dataset), len(loader), "
        "the size of the batch, or a mean over it",
        p_value=min(1.0, len(p) * p[worst]),
        value=divisor,
        details={"p_values": p, "divisor": divisor},
    )
