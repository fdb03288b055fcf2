"""Schemes with two ends of different origin: k out of t, truncated Poisson, fixed-size samples, shuffled batches."""

import itertools
import json
import math

import numpy as np
import pytest

from coalmine.audit.bounds import (
    BalancedAllocation,
    FixedSizeSampling,
    Gaussian,
    Interval,
    PoissonSampling,
    RandomAllocation,
    ShuffledBatches,
    TruncatedPoisson,
    mechanism_from_record,
)
from coalmine.audit.bounds.bracketed import FromLaws
from coalmine.audit.bounds.fixed_size_sampling import BothSides
from coalmine.foundation import InputError

ALL = [
    BalancedAllocation(40, 3, 2, 1.5),
    TruncatedPoisson(1000, 0.02, 30, 50, 1.0),
    FixedSizeSampling(20, 1000, 50, 2.0),
    ShuffledBatches(40, 2, 1.2),
    ShuffledBatches(40, 2, 1.2, "replace_one"),
]


@pytest.mark.parametrize("scheme", ALL, ids=lambda m: m.name)
def test_every_scheme_answers_every_question(scheme):
    assert mechanism_from_record(json.loads(json.dumps(scheme.record()))) == scheme
    accuracy, epsilon = scheme.accuracy(), scheme.epsilon(1e-5)
    assert 0.5 < accuracy.lower <= accuracy.upper <= scheme.accuracy_bound()
    assert 0 < epsilon.lower <= epsilon.upper
    rates = scheme.true_positive_rate([0.01, 0.1])
    assert np.all(np.asarray(rates.lower) > [0.01, 0.1])
    curve = scheme.trade_off_curve()
    assert np.all(1 - curve(np.array([0.01, 0.1])) >= np.asarray(rates.lower) - 1e-12)
    assert scheme.delta(0.3).lower <= scheme.delta(0.3).upper
    assert "certified" in scheme.certainty


def product_grid(m, reach, points):
    z = np.linspace(-6, reach, points)
    w = np.exp(-z * z / 2)
    w /= w.sum()
    return math.prod(np.meshgrid(*[w] * m, indexing="ij")).ravel(), np.meshgrid(*[z] * m, indexing="ij")


def density(axes, placements, t):
    total = 0.0
    for counts in placements:
        total = total + np.exp(sum(c * t * x - (c * t) ** 2 / 2 for c, x in zip(counts, axes, strict=True))).ravel()
    return total / len(placements)


@pytest.mark.parametrize("sigma", [0.6, 1.0, 2.5])
@pytest.mark.parametrize(("t", "k"), [(2, 1), (3, 2), (3, 1), (2, 2)])
def test_k_out_of_t_holds_its_pair_by_brute_force(t, k, sigma):
    weight, axes = product_grid(t, 6 + 1 / sigma, 501 if t == 2 else 131)
    chosen = [tuple(int(i in c) for i in range(t)) for c in itertools.combinations(range(t), k)]
    ratio = density(axes, chosen, 1 / sigma)
    for epsilon in (0.0, 0.5):
        exact = float((weight * np.maximum(0, ratio - math.exp(epsilon))).sum())
        found = BalancedAllocation(t, k, 1, sigma).delta(epsilon, "remove")
        assert found.lower - 1e-3 <= exact <= found.upper + 1e-3
        # for one step the sum of the ratios is sufficient, for more it is nearly so
        assert found.lower >= (0.98 if k == 1 else 0.9) * exact - 1e-3


def test_one_out_of_t_is_random_allocation_and_all_is_full_batch():
    one, same = BalancedAllocation(50, 1, 3, 1.2), RandomAllocation(50, 3, 1.2)
    assert one.epsilon(1e-5).upper == same.epsilon(1e-5).upper
    assert one.epsilon(1e-5).lower == pytest.approx(same.epsilon(1e-5).lower, rel=2e-3)
    full = BalancedAllocation(20, 20, 1, 6.0).epsilon(1e-5)
    assert full.overlaps(Gaussian(6.0, 20).epsilon(1e-5)) and full.width < 0.01 * full.upper


@pytest.mark.parametrize("sigma", [0.8, 1.5, 4.0])
def test_shuffled_batches_show_their_pair_and_no_more(sigma):
    weight, axes = product_grid(2, 6 + 2 / sigma, 701)
    p, q = (density(axes, [(c, 0), (0, c)], 1 / sigma) for c in (2, 1))
    for epsilon in (0.0, 0.5, 1.5):
        exact = float((weight * np.maximum(0, p - math.exp(epsilon) * q)).sum())
        found = ShuffledBatches(2, 1, sigma).delta(epsilon, "remove")
        assert 0.9 * exact - 1e-3 <= found.lower <= exact + 1e-3 and found.upper == 1.0


def test_a_poisson_claim_for_a_shuffled_run_is_refuted():
    claim = PoissonSampling(1 / 100, 1000, 1.4262)
    run = ShuffledBatches(100, 10, 1.4262)
    assert run.epsilon(1e-5).lower > 2 * claim.epsilon(1e-5).upper
    assert ShuffledBatches(100, 10, 1.4262, "replace_one").epsilon(1e-5).lower > run.epsilon(1e-5).lower


@pytest.mark.parametrize(("q", "sigma"), [(0.01, 1.0), (0.2, 2.0), (0.7, 3.0), (0.999, 1.5)])
def test_a_fixed_size_step_has_the_profile_of_the_theorem(q, sigma):
    law = FromLaws(BothSides(PoissonSampling(q, 1, sigma / 2)))
    for epsilon in (0.0, 0.3, 1.0, 2.0):
        exact = q * float(Gaussian(sigma / 2).delta(math.log1p(math.expm1(epsilon) / q)).upper)
        for side in ("remove", "add"):
            found = law.delta(epsilon, side, "upper")
            assert exact * (1 - 1e-9) <= found <= exact * 1.02 + 1e-6
    mirrored = -math.expm1(-0.5) + math.exp(-0.5) * law.delta(0.5, "remove", "upper")
    assert law.delta(-0.5, "remove", "upper") == pytest.approx(mirrored, rel=2e-3)


def test_fixed_size_samples_simulated():
    # two records of ten, all gradients along one line: the others -1, the record +1, its replacement -1
    n, b, steps, sigma, runs = 10, 2, 4, 2.5, 400_000
    generator = np.random.default_rng(5)
    present = generator.random((runs, steps)) < b / n
    clean = generator.standard_normal((runs, steps))
    losses = []
    for shift in (0.0, 2 / sigma):
        z = clean + shift * present
        losses.append(np.log1p(b / n * np.expm1(2 * z / sigma - 2 / sigma**2)).sum(axis=1))
    scheme = FixedSizeSampling(b, n, steps, sigma)
    for epsilon in (0.0, 0.7):
        sample = np.maximum(0, -np.expm1(epsilon - losses[1]))
        error = 4.5 * sample.std() / math.sqrt(runs)
        found = scheme.delta(epsilon)
        assert found.upper >= sample.mean() - error and found.lower >= sample.mean() - error - 1e-4


@pytest.mark.parametrize(
    ("setting", "theirs"),
    [
        # pld.from_truncated_subsampled_gaussian_mechanism(n, q, B, sigma).self_compose(steps), dp-accounting 0.6.0
        ((10000, 0.01, 110, 1000, 1.0), (7.681989202947302, 0.34074659643317684)),
        ((10000, 0.01, 130, 1000, 1.0), (3.68407498723117, 0.1643041385826898)),
        ((500, 0.1, 60, 100, 2.0), (3.7828627603804423, 0.2802381552108209)),
    ],
)
def test_truncated_poisson_is_never_wider_than_dp_accounting(setting, theirs):
    scheme = TruncatedPoisson(*setting)
    assert scheme.epsilon(1e-5).upper <= theirs[0]
    assert scheme.delta(0.0).upper <= theirs[1]
    free = PoissonSampling(setting[1], setting[3], setting[4])
    assert scheme.epsilon(1e-5).upper >= free.epsilon(1e-5).lower >= scheme.epsilon(1e-5).lower * (1 - 2e-3)


def test_truncation_simulated():
    n, q, b, sigma, runs = 30, 0.2, 7, 2.0, 500_000
    generator = np.random.default_rng(8)
    others = generator.binomial(n - 1, q, runs)
    there = generator.random(runs) < q
    kept = there & (generator.random(runs) < b / np.maximum(others + 1, b))
    scheme = TruncatedPoisson(n, q, b, 1, sigma)
    filled = others >= b
    assert scheme.truncation_probability == pytest.approx(filled.mean(), abs=4 / math.sqrt(runs))
    assert scheme.kept_rate == pytest.approx(kept[filled].mean(), abs=4 / math.sqrt(filled.sum()))
    # every other gradient -1: the sums themselves, and the best threshold on them
    without = -np.minimum(others, b) + sigma * generator.standard_normal(runs)
    sums = -np.minimum(others, b - kept) + kept + sigma * generator.standard_normal(runs)
    cuts = np.linspace(-12, 8, 200)
    reached = max((sums > c).mean() - (without > c).mean() for c in cuts)
    assert reached <= scheme.delta(0.0).upper + 6 / math.sqrt(runs)


def test_far_from_the_limit_truncation_changes_nothing():
    scheme, free = TruncatedPoisson(10000, 0.01, 200, 1000, 1.0), PoissonSampling(0.01, 1000, 1.0)
    assert scheme.epsilon(1e-5).overlaps(free.epsilon(1e-5))
    assert scheme.accuracy().overlaps(Interval(free.accuracy().lower, free.accuracy().upper))


def test_refusals():
    for build, words in (
        (lambda: BalancedAllocation(4, 5, 1, 1.0), "selected must be at most"),
        (lambda: FixedSizeSampling(11, 10, 1, 1.0), "batch_size must be at most"),
        (lambda: ShuffledBatches(4, 1, 1.0, "swap"), "neighbours must be"),
        (lambda: TruncatedPoisson(10, 1.0, 5, 1, 1.0), "sampling_rate"),
    ):
        with pytest.raises(InputError, match=words):
            build()
