"""The calculator in whole numbers: what is printed keeps the promise, and no answer says where one would be."""

import math

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.stats import norm

from coalmine.audit.bounds import Gaussian, PoissonSampling
from coalmine.audit.bounds.proactive import Infeasible
from coalmine.audit.bounds.replace_one import replace_one_epsilon
from coalmine.audit.cli.sweep import up
from coalmine.audit.planning.calculator import Question, answer, feasible, whole_run
from coalmine.audit.planning.nearest import nearest_feasible
from coalmine.foundation import InputError

FIFTY = [
    (n, k, epsilon, theta)
    for n in (3000, 20_000, 300_000)
    for k in (5, 20, 60)
    for epsilon in (0.2, 1.0, 3.0)
    for theta in (1.0, 1.5)
][:50]


def test_fifty_runs_as_printed_stay_below_the_claimed_epsilon():
    shares = []
    for n, k, epsilon, theta in FIFTY:
        found = answer(Question(n, k, epsilon=epsilon, theta=theta), certify=False)
        printed_noise = float(up(found.noise("closed_form").noise_multiplier, 5))
        run = PoissonSampling(theta * found.sample_size / n, found.rounds, printed_noise)
        shares.append(run.epsilon(found.plan.delta, "both", 0.05).upper / epsilon)
    assert len(shares) == 50 and max(shares) < 1


@pytest.mark.parametrize(("n", "k", "epsilon"), [(1000, 5, 1.0), (60_000, 5, 2.0), (60_000, 20, 0.5)])
def test_replace_one_as_printed_stays_below_the_claimed_epsilon(n, k, epsilon):
    found = answer(Question(n, k, epsilon=epsilon, adjacency="replace_one", clipping_norm=0.5), certify=False)
    record = found.to_json()
    deviation = float(up(record["noise_standard_deviation"], 6))
    assert record["sensitivity"] == 1.0 and record["noise_multiplier"] == pytest.approx(deviation / 0.5, rel=1e-5)
    exact = exchanged_pair_epsilon(found.sample_size / n, found.rounds, deviation / 0.5, found.plan.delta)
    assert exact < record["accountant"]["epsilon"]["upper"] < epsilon


def exchanged_pair_epsilon(rate, steps, noise_multiplier, delta):
    """ε of (1-q)N(0) + qN(±1), the pair of an exchanged record, by a plain FFT of its privacy loss: from below."""
    x = np.linspace(-14 * noise_multiplier, 14 * noise_multiplier, 200_001)
    plus, minus = (
        (1 - rate) * norm.pdf(x, 0, noise_multiplier) + rate * norm.pdf(x, sign, noise_multiplier) for sign in (1, -1)
    )
    loss, h, n = np.log(plus) - np.log(minus), 2e-5, 1 << 20
    mass = np.bincount(np.floor(loss / h).astype(int) % n, plus * (x[1] - x[0]), minlength=n)
    law = np.fft.irfft(np.fft.rfft(mass) ** steps, n)
    grid = np.where(np.arange(n) < n // 2, np.arange(n), np.arange(n) - n) * h
    low, high = 0.0, 5.0
    for _ in range(30):
        middle = (low + high) / 2
        delta_here = float((law * np.maximum(0, 1 - np.exp(np.minimum(0, middle - grid)))).sum())
        low, high = (low, middle) if delta_here < delta else (middle, high)
    return low


def test_the_group_bound_of_the_gaussian_mechanism_lies_above_its_own_replace_one_epsilon():
    mechanism = Gaussian(4.0, 3)
    exact = Gaussian(2.0, 3).epsilon(1e-5)  # an exchanged record moves the sum twice as far
    found = replace_one_epsilon(mechanism, 1e-5)
    assert exact.upper < found.lower <= found.upper < 1.25 * exact.upper
    assert found.width < 3e-3 * found.upper


@settings(max_examples=40, deadline=None)
@given(st.integers(200, 10**6), st.integers(1, 80), st.floats(0.05, 8.0))
def test_whole_rounds_keep_every_condition_and_use_no_more_than_was_asked(n, k, epsilon):
    try:
        plan, rounds, size = whole_run(Question(n, k, epsilon=epsilon))
    except Infeasible:
        return
    assert isinstance(rounds, int) and isinstance(size, int)
    if plan.feasible:
        assert rounds % k == 0 and size * rounds <= k * n and plan.epochs == rounds * size / n


def test_certified_noise_and_the_price_of_the_closed_form():
    found = answer(Question(60_000, 20, epsilon=3, sample_size=512, delta=1e-5))
    closed, poisson, allocation = (found.noise(name) for name in ("closed_form", "poisson", "random_allocation"))
    assert closed.noise_multiplier == pytest.approx(3.11, abs=0.01)
    assert poisson.noise_multiplier == pytest.approx(0.89, abs=0.01)
    assert poisson.mechanism.record() | {"noise_multiplier": 0} == closed.mechanism.record() | {"noise_multiplier": 0}
    assert 2.9 < poisson.epsilon.upper <= 3 and 2.9 < allocation.epsilon.upper <= 3
    assert found.to_json()["price_of_the_closed_form"]["poisson"] == pytest.approx(3.5, abs=0.1)


@pytest.mark.parametrize(("n", "low", "high"), [(1000, 3.4, 9.0), (60_000, 2.9, 5.1)])
def test_rounds_may_shrink_by_the_papers_constant_of_about_four(n, low, high):
    for epsilon in (0.1, 0.49):
        record = answer(Question(n, 5 if n == 1000 else 20, epsilon=epsilon)).to_json()["rounds_may_shrink"]
        assert low - 0.1 <= record["factor_from_2k2_over_epsilon"] <= high + 0.1
        assert record["breaks_at"] is None or record["breaks_at"] < record["holds_at"]


def test_run_first_rounds_up_and_promises_what_the_rounded_run_costs():
    plan, rounds, size = whole_run(Question(60_000, 50, sample_size=512))
    assert (rounds, size) == (5860, 512) and plan.epochs == pytest.approx(5860 * 512 / 60_000)
    assert plan.epsilon == pytest.approx(1.3075596, rel=1e-3) and plan.epsilon > 1.3075596


@pytest.mark.parametrize(
    "question",
    [
        Question(60_000, 0.4, epsilon=0.5),
        Question(1000, 1, epsilon=8),
        Question(1000, 5, sample_size=999),
        Question(1000, 5, sample_size=9, noise_multiplier=1.0),
        Question(60_000, 40, sample_size=64, noise_multiplier=1.2),
    ],
)
def test_an_infeasible_question_names_the_nearest_feasible_values(question):
    from dataclasses import replace

    assert not feasible(question)
    with pytest.raises(Infeasible):
        answer(question)
    found = {one.parameter: one for one in nearest_feasible(question)}
    assert any(one.value is not None for one in found.values())
    for name, one in found.items():
        if one.value is None:
            continue
        whole = one.value == int(one.value) and name in ("records", "sample_size", "epochs")
        fixed = {"delta": 1 / question.records} if name == "records" and question.delta is None else {}
        assert feasible(replace(question, **{name: int(one.value) if whole else one.value}, **fixed)), name
        back = one.value + (one.asked - one.value) * 0.01  # one hundredth of the way back
        nearer = (math.floor(back) if one.asked < one.value else math.ceil(back)) if whole else back
        if nearer != one.value:
            assert not feasible(replace(question, **{name: nearer}, **fixed)), name


def test_theta_judges_every_round_at_the_largest_sample():
    found = answer(Question(60_000, 30, epsilon=1.0, theta=2.0), certify=False)
    assert found.noise("closed_form").mechanism.sampling_rate == pytest.approx(2 * found.sample_size / 60_000)


@pytest.mark.parametrize(
    ("changed", "word"),
    [
        ({"epsilon": None}, "epsilon"),
        ({"noise_multiplier": 2.0}, "noise_multiplier"),
        ({"adjacency": "swap"}, "adjacency"),
        ({"clipping_norm": 0.0}, "clipping_norm"),
        ({"sample_size": 0}, "sample_size"),
        ({"sample_size": 1001}, "sample_size"),
        ({"sample_size": 2.5}, "sample_size"),
        ({"records": 1}, "records"),
        ({"epochs": -1}, "epochs"),
        ({"delta": 2.0}, "delta"),
    ],
)
def test_bad_input_is_named(changed, word):
    told = {"records": 1000, "epochs": 5, "epsilon": 1.0} | changed
    with pytest.raises(InputError, match=word) as error:
        whole_run(Question(**told))
    assert not isinstance(error.value, Infeasible)
