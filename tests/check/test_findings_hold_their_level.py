"""On noise that is as claimed, each finding's p-value is uniform or larger: by simulation, without a trainer.

The observations are made from the probe's own directions, with the contribution of a record known only through them.
"""

from __future__ import annotations

import numpy as np
import pytest
from scipy.stats import binom

from coalmine.attacks.observation import Observation
from coalmine.audit.bounds import FixedBins, PoissonSampling, RandomAllocation
from coalmine.audit.white_box import noise, repetition
from coalmine.audit.white_box.contributions import measure
from coalmine.audit.white_box.divisor import find_divisor
from coalmine.audit.white_box.finding import Finding
from coalmine.audit.white_box.noise_multiplier import find_multiplier
from coalmine.audit.white_box.records import find_contributions
from coalmine.audit.white_box.runs import Run
from coalmine.audit.white_box.sampler import Batches, find_sampler
from coalmine.canaries.probe import make_probe

PROBE = make_probe(60, 0)
M, E = 6, 4
REPEATS = 60


def observation(rng: np.random.Generator, rows: np.ndarray, sigma: float = 1.0, poisson: bool = False) -> Observation:
    if poisson:
        use = (rng.random((M * E, len(rows))) < 1 / M).astype(int)
    else:
        use = (rng.integers(0, M, (E, 1, len(rows))) == np.arange(M)[:, None]).reshape(M * E, -1).astype(int)
    whole = np.zeros((M * E, 60), int)
    whole[:, rows] = use
    contribution = PROBE.directions * np.minimum(1.0, PROBE.lengths)[:, None]
    g = whole @ contribution + sigma * rng.standard_normal((M * E, PROBE.gradients.shape[1]))
    return Observation(0.05 * g, whole, dict.fromkeys(PROBE.slices, True), "reported", 0.0)


def p_values(make, repeats: int = REPEATS) -> np.ndarray:
    found: list[Finding] = [make(np.random.default_rng(seed), seed) for seed in range(repeats)]
    return np.array([f.p_value for f in found], float)


def every(rng, seed):
    return observation(rng, np.arange(60))


CASES = {
    "noise_multiplier": lambda rng, seed: find_multiplier(measure(PROBE, every(rng, seed)), None, 1.0, 0.99),
    "noise_by_parameter": lambda rng, seed: noise.by_parameter(PROBE, every(rng, seed)),
    "noise_by_step": lambda rng, seed: noise.by_step(PROBE, every(rng, seed)),
    "noise_by_coordinate": lambda rng, seed: noise.by_coordinate(PROBE, every(rng, seed)),
    "steady_contributions": lambda rng, seed: noise.around_records(measure(PROBE, every(rng, seed))),
    "contributions": lambda rng, seed: find_contributions(measure(PROBE, every(rng, seed)), "no replays"),
    "noise_repeated": lambda rng, seed: repetition.repeated(PROBE, [every(rng, seed), every(rng, seed)]),
    "noise_shared": lambda rng, seed: repetition.shared(PROBE, every(rng, seed), seed),
    "noise_correlated": lambda rng, seed: repetition.correlated(PROBE, every(rng, seed), seed),
    "noise_shape": lambda rng, seed: repetition.shape(PROBE, every(rng, seed), seed),
    "divisor": lambda rng, seed: divisor(rng, seed),
    "sampler, random allocation": lambda rng, seed: sampler(rng, seed, RandomAllocation(M, E, 1.0)),
    "sampler, Poisson": lambda rng, seed: sampler(rng, seed, PoissonSampling(1 / M, M * E, 1.0)),
}


def divisor(rng, seed):
    main, fewer = every(rng, seed), observation(rng, np.arange(40))
    runs = Run(np.arange(60), main), [Run(np.arange(40), fewer)]
    return find_divisor(PROBE, *runs, measure(PROBE, main), None, seed)


def sampler(rng, seed, claim):
    poisson = isinstance(claim, PoissonSampling)
    runs = [observation(rng, rows, poisson=poisson) for rows in (np.arange(60), np.arange(40))]
    rows = (np.arange(60), np.arange(40))
    return find_sampler([Batches.of(PROBE, o.use, r) for o, r in zip(runs, rows, strict=True)], claim, seed, 0.99)


@pytest.mark.parametrize("name", CASES)
def test_p_values_are_valid(name):
    p = p_values(CASES[name])
    assert np.all((p >= 0) & (p <= 1))
    for level in (0.01, 0.05, 0.2):
        count = int(np.sum(p <= level))
        assert binom.sf(count - 1, len(p), level) > 1e-4, f"{count} of {len(p)} p-values below {level}"


def test_the_multiplier_s_interval_covers():
    """At 80 %, where 60 repeats tell."""
    covered = 0
    for seed in range(REPEATS):
        finding = find_multiplier(measure(PROBE, every(np.random.default_rng(seed), seed)), None, 1.0, 0.8)
        low, high = finding.interval
        covered += low <= 1.0 <= high
    assert binom.cdf(covered, REPEATS, 0.8) > 1e-4 and binom.sf(covered - 1, REPEATS, 0.8) > 1e-4


@pytest.mark.parametrize("sigma", [0.75, 1.3])
def test_a_quarter_of_noise_more_or_less_is_seen_without_replays(sigma):
    found = find_multiplier(
        measure(PROBE, observation(np.random.default_rng(0), np.arange(60), sigma)), None, 1.0, 0.99
    )
    assert found.p_value < 0.05 and found.value == pytest.approx(sigma, rel=0.15)
    assert found.if_wrong == ("violated" if sigma < 1 else "differs")


def test_fixed_bins_are_told_from_fresh_allocation():
    rng = np.random.default_rng(3)
    step = rng.integers(0, M, 60)
    use = np.tile((step == np.arange(M)[:, None]).astype(int), (E, 1))
    batches = [Batches.of(PROBE, use, np.arange(60))] * 2
    assert find_sampler(batches, FixedBins(M, E, 1.0), 0, 0.99).p_value > 0.01
    assert find_sampler(batches, RandomAllocation(M, E, 1.0), 0, 0.99).p_value < 1e-3
