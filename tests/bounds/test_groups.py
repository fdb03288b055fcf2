"""Groups of records and replaced records: brute force, published formulas, other programs' values."""

import itertools
import math

import numpy as np
import pytest

from coalmine.audit.bounds import (
    Composition,
    EpsilonDelta,
    FixedBins,
    Gaussian,
    GroupPrivacy,
    Interval,
    PoissonSampling,
    RandomAllocation,
    mechanism_from_record,
)
from coalmine.audit.bounds.mixture import GaussianMixture
from coalmine.foundation import InputError

CASES = [(1, True), (2, False), (3, False), (2, True)]


def epoch(m, sigma, records, replaced, grid):
    """(weights under N(0, I), dP/dN, dQ/dN) of one epoch on a product grid; the concrete pair of the docstring."""
    reach = 5.5 + records / sigma  # P and Q are this far from N(0, I) along an axis
    z = np.linspace(-reach if replaced else -5.5, reach, grid)
    w = np.exp(-z * z / 2)
    w /= w.sum()
    axes = np.meshgrid(*[z] * m, indexing="ij")
    weight = math.prod(np.meshgrid(*[w] * m, indexing="ij")).ravel()
    t = 1 / sigma

    def density(sign):
        total = 0.0
        for places in itertools.product(range(m), repeat=records):
            counts = [sign * places.count(i) * t for i in range(m)]
            total = total + np.exp(sum(c * x - c * c / 2 for c, x in zip(counts, axes, strict=True))).ravel()
        return total / m**records

    return weight, density(1), density(-1) if replaced else np.ones(weight.shape)


def truth(m, epochs, sigma, records, replaced, epsilons):
    """δ_remove at each ε, E_P (1 − e^ε Q/P)₊, for E = 1 or 2."""
    weight, p, q = epoch(m, sigma, records, replaced, {1: 20001, 2: 601 if epochs == 1 else 301, 3: 101}[m])
    if epochs == 1:
        return [float((weight * np.maximum(0, p - math.exp(e) * q)).sum()) for e in epsilons]
    order = np.argsort(p / q)
    ratio = (p / q)[order]
    cumulated = [np.concatenate(([0.0], np.cumsum((weight * law)[order]))) for law in (p, q)]
    found = []
    for e in epsilons:
        cut = np.searchsorted(ratio, math.exp(e) * q / p)
        tails = [law[-1] - law[cut] for law in cumulated]
        found.append(float((weight * (p * tails[0] - math.exp(e) * q * tails[1])).sum()))
    return found


@pytest.mark.parametrize(("records", "replaced"), CASES)
@pytest.mark.parametrize("sigma", [0.5, 0.8, 1.3, 4.0])
@pytest.mark.parametrize(("m", "epochs"), [(2, 1), (3, 1), (2, 2)])
def test_brackets_hold_the_concrete_pair_by_brute_force(m, epochs, sigma, records, replaced):
    epsilons = [0.0, 0.5, 2.0]
    group = GroupPrivacy(RandomAllocation(m, epochs, sigma), records, "replace_one" if replaced else "add_remove")
    exact = truth(m, epochs, sigma, records, replaced, epsilons)
    for epsilon, value in zip(epsilons, exact, strict=True):
        found = group.delta(epsilon, "remove")
        # the grid's own error, second order in its step: an eighth of step^2 times the density at the kink
        assert found.upper >= value - 2e-3 and found.lower <= value + 2e-3
        # the statistic keeps most of what there is to see; least in the tail of replaced records
        assert found.lower >= (0.6 if replaced else 0.85) * value - 5e-3


@pytest.mark.parametrize("sigma", [0.5, 1.0, 3.0])
def test_the_statistic_is_sufficient_for_one_step_and_for_one_record(sigma):
    # M = 1 is the Gaussian mechanism, in closed form
    assert GroupPrivacy(RandomAllocation(1, 2, sigma), 3).exact == Gaussian(sigma / 3, 2)
    from coalmine.audit.bounds.group import GroupStatistic
    from coalmine.audit.bounds.refine import profile_of

    one = RandomAllocation(20, 2, sigma)
    lower = profile_of(GroupStatistic(Composition([one]), 1, False), 0.0125)
    for side, name in ((lower.remove, "remove"), (lower.add, "add")):
        found = one.delta(0.3, name)
        assert 0.97 * found.lower <= side.delta_lower(0.3) <= found.upper


def test_gaussian_groups_and_replaced_records_have_their_closed_form():
    assert GroupPrivacy(Gaussian(3.0, 5), 2).exact == Gaussian(1.5, 5)
    assert GroupPrivacy(Gaussian(3.0, 5), 2, "replace_one").exact == Gaussian(0.75, 5)
    one = RandomAllocation(50, 2, 1.0)
    assert GroupPrivacy(one).exact is one
    # rate 1 - 1e-9 is full batch but for the steps left out
    found = GaussianMixture.of_poisson(1 - 1e-9, 3, 4.0, 2, 2).epsilon(1e-5, "remove")
    assert found.midpoint == pytest.approx(Gaussian(1.0, 3).epsilon(1e-5).midpoint, rel=1e-3)


def test_poisson_mixtures_against_dp_accounting():
    # pld.from_gaussian_mechanism(1.0, sampling_prob=.01, neighboring_relation=REPLACE_ONE).self_compose(1000) and
    # from_mixture_gaussian_mechanism(1.0, [0, 1, 2], [.9801, .0198, .0001]).self_compose(1000), interval 1e-4, 0.6.0
    replaced = GroupPrivacy(PoissonSampling(0.01, 1000, 1.0), 1, "replace_one")
    assert replaced.epsilon(1e-5).lower <= 2.843445811703821
    assert replaced.epsilon(1e-5).upper == pytest.approx(2.843445811703821, rel=1e-3)
    assert replaced.accuracy().upper <= 0.6321763481450728 + 1e-6
    assert replaced.accuracy().lower <= 0.6321763481450728
    pair = GroupPrivacy(PoissonSampling(0.01, 1000, 1.0), 2)
    assert pair.epsilon(1e-5).lower <= 3.9790897452699907
    assert pair.epsilon(1e-5).upper == pytest.approx(3.9790897452699907, rel=1e-3)


@pytest.mark.parametrize("records", [2, 3])
def test_one_record_twice_bounds_the_exact_group_of_poisson(records):
    """The chain, which random allocation needs, on a scheme whose truth is known."""
    from coalmine.audit.bounds.group import _chained

    one = PoissonSampling(0.02, 200, 1.1)
    group = GroupPrivacy(one, records)
    for side in ("remove", "add"):
        chained = _chained(one, records, False, side)
        for epsilon in (0.0, 0.5, 2.0):
            assert chained.delta(epsilon) >= group.delta(epsilon, side).lower
        # nearly as good in the middle of the curve
        assert chained.delta(0.0) <= 1.05 * group.delta(0.0, side).upper


def test_bare_epsilon_delta_has_the_textbook_group():
    # (ε, δ) for one gives (kε, δ(e^{kε} − 1)/(e^ε − 1)) for k (Vadhan 2017, lemma 2.2)
    for k, epsilon, delta in ((2, 1.0, 1e-6), (3, 0.5, 1e-8)):
        group = GroupPrivacy(EpsilonDelta(epsilon, delta), k)
        found = group.delta(k * epsilon)
        assert found.upper == pytest.approx(delta * math.expm1(k * epsilon) / math.expm1(epsilon), rel=1e-9)
        assert found.lower == 0
        assert "nothing is known from below" in group.certainty
    assert GroupPrivacy(EpsilonDelta(1.0, 0.0), 2).epsilon(0.0).upper == 2.0


@pytest.mark.parametrize(
    "one",
    [
        RandomAllocation(100, 5, 1.2),
        FixedBins(50, 4, 3.0),
        PoissonSampling(0.01, 500, 1.1),
        Composition([RandomAllocation(30, 2, 1.5), PoissonSampling(0.05, 20, 1.5), Gaussian(20.0, 2)]),
    ],
    ids=lambda m: m.name,
)
def test_more_records_reveal_more_and_replacing_reveals_at_most_as_much_as_two(one):
    single = Interval(one.delta(0.5).lower, one.delta(0.5).upper)
    pair, replaced = GroupPrivacy(one, 2).delta(0.5), GroupPrivacy(one, 1, "replace_one").delta(0.5)
    assert pair.upper >= single.lower and replaced.upper >= single.lower
    for group in (GroupPrivacy(one, 2), GroupPrivacy(one, 1, "replace_one"), GroupPrivacy(one, 3)):
        accuracy = group.accuracy()
        assert 0.5 <= accuracy.lower <= accuracy.upper <= min(1.0, 0.5 + 3 * (one.accuracy().upper - 0.5))
        rates = group.true_positive_rate([0.001, 0.1])
        curve = group.trade_off_curve()
        assert np.all(1 - curve(np.array([0.001, 0.1])) >= np.asarray(rates.lower) - 1e-12)
        epsilon = group.epsilon(1e-5)
        assert one.epsilon(1e-5).lower <= epsilon.upper and epsilon.lower <= epsilon.upper
        assert mechanism_from_record(group.record()) == group


def test_simulation_of_a_user_with_three_records():
    m, epochs, sigma, k, n = 12, 2, 1.1, 3, 200_000
    group, generator = GroupPrivacy(RandomAllocation(m, epochs, sigma), k), np.random.default_rng(3)
    # the attack by the sum statistic of each epoch, at its best threshold for accuracy
    scores = []
    for present in (False, True):
        z = generator.standard_normal((n, epochs, m))
        if present:
            for _ in range(k):
                place = generator.integers(0, m, (n, epochs, 1))
                np.put_along_axis(z, place, np.take_along_axis(z, place, 2) + 1 / sigma, 2)
        scores.append(np.log(np.exp(z / sigma).mean(axis=2)).sum(axis=1))
    threshold = np.median(np.concatenate(scores))
    reached = 0.5 * ((scores[1] > threshold).mean() + (scores[0] <= threshold).mean())
    assert reached <= group.accuracy().upper + 3 / math.sqrt(n)
    assert group.accuracy().lower >= reached - 0.01


def test_refusals():
    with pytest.raises(InputError, match="adjacency must be one of add_remove, replace_one"):
        GroupPrivacy(Gaussian(1.0), 2, "swap")
    with pytest.raises(InputError, match="records"):
        GroupPrivacy(Gaussian(1.0), 0)
    with pytest.raises(InputError, match="a group of groups"):
        GroupPrivacy(GroupPrivacy(Gaussian(1.0), 2), 2)
    with pytest.raises(InputError, match="needs mechanism"):
        mechanism_from_record({"name": "group", "records": 2})
    with pytest.raises(InputError, match="probabilities that sum to 1"):
        GaussianMixture((0.5, 0.4), (1.0,), 1, 1.0)
