"""Proactive DP: published programs' values, the fixed point, each condition alone, and a numerical accountant."""

import math

import pytest

from coalmine.audit.bounds import PoissonSampling
from coalmine.audit.bounds import proactive as p
from coalmine.foundation import InputError

TABLE = [
    (1000, 0.1, 5, 11.838712, 3.378836, 4.4585, 844.71, 5.919),
    (1000, 1, 30, 3.976872, 3.289225, 4.2688, 2960.30, 10.134),
    (60000, 0.1, 5, 14.901074, 3.597249, 5.0493, 899.31, 333.588),
    (60000, 0.1, 100, 14.901074, 2.120762, 2.1282, 212076.21, 28.292),
    (60000, 0.5, 5, 6.782949, 5.239806, 12.7288, 261.99, 1145.080),
    (60000, 0.5, 30, 6.782949, 2.855812, 3.2639, 5140.46, 350.163),
    (60000, 1, 5, 4.899408, 6.675889, 26.4013, 166.90, 1797.513),
    (60000, 1, 100, 4.899408, 2.483725, 2.6101, 24837.25, 241.573),
    (60000, 2, 5, 3.605842, 9.378226, 123.8508, 117.23, 2559.120),
    (60000, 2, 30, 3.605842, 4.199248, 7.3717, 1889.66, 952.551),
    (60000, 4, 5, 2.738804, 15.305614, math.inf, 95.66, 3136.104),
    (60000, 4, 100, 2.738804, 3.767310, 5.7158, 9418.27, 637.059),
    (60000, 8, 30, 2.179570, 10.362519, math.inf, 1165.78, 1544.026),
    (60000, 8, 100, 2.179570, 5.784279, 17.8470, 7230.35, 829.835),
    (1000000, 1, 10, 5.443438, 5.000560, 11.3893, 500.06, 19997.759),
    (1000000, 8, 5, 2.335354, 26.794451, math.inf, 83.73, 59713.857),
]


@pytest.mark.parametrize("row", TABLE, ids=lambda r: f"{r[0]}-{r[1]}-{r[2]}")
def test_budget_first(row):
    n, epsilon, k, sigma, gamma, published, rounds, size = row
    plan = p.plan_from_budget(n, k, epsilon)
    assert plan.feasible
    assert plan.noise_multiplier == pytest.approx(sigma, abs=1e-6)
    assert plan.gamma == pytest.approx(gamma, abs=1e-6)
    assert plan.published_gamma == pytest.approx(published, abs=6e-5)
    assert plan.rounds == pytest.approx(rounds, abs=6e-3) and plan.sample_size == pytest.approx(size, abs=1e-3)
    assert plan.gamma == pytest.approx(p.growth(epsilon / (plan.gamma * k), plan.noise_multiplier), rel=1e-10)
    assert 2 < plan.gamma <= plan.published_gamma


@pytest.mark.parametrize(
    ("n", "k", "s", "delta", "gamma", "epsilon", "sigma", "rounds"),
    [
        (60000, 40, 64, 1 / 60000, 2.282964, 0.0974064, 15.096386, 37500),
        (60000, 50, 512, 1 / 60000, 3.064593, 1.3075596, 4.339176, 5859.375),
        (10000, 30, 64, 1e-4, 2.870703, 0.5511750, 5.951533, 4687.5),
        (1000000, 10, 1024, 1e-6, 2.571509, 0.0263323, 32.424100, 9765.625),
        (60000, 5, 2000, 1 / 60000, 7.228859, 1.2048098, 4.501514, 150),
        (50000, 100, 256, 1e-5, 2.610827, 1.3367431, 4.384671, 19531.25),
    ],
)
def test_run_first_and_round_trip_to_budget_first(n, k, s, delta, gamma, epsilon, sigma, rounds):
    plan = p.plan_from_run(n, k, s, delta)
    assert plan.feasible
    assert (plan.gamma, plan.epsilon, plan.noise_multiplier) == pytest.approx((gamma, epsilon, sigma), rel=3e-6)
    assert plan.rounds == pytest.approx(rounds)
    back = p.plan_from_budget(n, k, plan.epsilon, delta)
    assert (back.gamma, back.rounds) == pytest.approx((plan.gamma, plan.rounds), rel=1e-9)


def test_noise_first_is_no_better_than_run_first():
    run = p.plan_from_run(60000, 40, 64)
    noise = p.plan_from_noise(60000, 40, 64, run.noise_multiplier)
    assert noise.epsilon == pytest.approx(run.epsilon, rel=1e-9) and noise.feasible
    more = p.plan_from_noise(60000, 40, 64, 2 * run.noise_multiplier)
    assert more.feasible and more.gamma > run.gamma  # F grows with σ: more noise alone buys no smaller epsilon here


def test_noise_and_epsilon_are_inverse():
    for epsilon, delta in ((0.1, 1e-3), (1, 1e-5), (8, 1e-6)):
        sigma = p.noise_multiplier_of_epsilon(epsilon, delta)
        assert p.epsilon_of_noise_multiplier(sigma, delta) == pytest.approx(epsilon, rel=1e-12)
    with pytest.raises(InputError, match="√2"):
        p.epsilon_of_noise_multiplier(1.4, 1e-5)


def test_gamma_falls_with_epochs_towards_two_and_rises_with_epsilon():
    gammas = [p.plan_from_budget(60000, k, 1.0).gamma for k in (5, 10, 30, 100, 1e4, 1e6)]
    assert gammas == sorted(gammas, reverse=True) and gammas[-1] == pytest.approx(2, abs=0.02)
    gammas = [p.plan_from_budget(60000, 10, e).gamma for e in (0.1, 0.5, 1, 2, 4, 8)]
    assert gammas == sorted(gammas)


def test_theta_enters_rounds_and_sample_size():
    one, two = p.plan_from_budget(60000, 30, 1.0), p.plan_from_budget(60000, 30, 1.0, theta=2.0)
    assert two.rounds == pytest.approx(4 * one.rounds)
    limit = {c.name: c.right for c in one.conditions}, {c.name: c.right for c in two.conditions}
    assert limit[1]["sample"] == pytest.approx(limit[0]["sample"] / 2)
    assert limit[1]["epochs"] == pytest.approx(limit[0]["epochs"] / 2)


def failing(plan):
    return {c.name: c for c in plan.conditions if not c.holds}


def test_each_condition_can_fail_alone_and_names_its_remedy():
    base = p.plan_from_budget(60000, 30, 1.0)
    stated = {"n": base.records, "k": base.epochs, "epsilon": base.epsilon, "delta": base.delta}
    stated |= {"gamma": base.gamma, "sigma": base.noise_multiplier, "rounds": base.rounds, "theta": 1.0}

    def make(**changed):
        return p._plan(**(stated | changed))

    rounds = failing(make(rounds=base.rounds * 0.9))
    assert set(rounds) == {"rounds"} and "more rounds" in rounds["rounds"].remedy
    few = failing(p.plan_from_budget(60000, 0.4, 0.5))
    assert "epochs" in few and "more epochs" in few["epochs"].remedy
    loose = failing(make(sigma=1.5, epsilon=40.0, rounds=1e9))
    assert "epsilon" in loose and "smaller epsilon" in loose["epsilon"].remedy
    big = failing(make(gamma=1e-9, rounds=31.0))
    assert "sample" in big and "more rounds" in big["sample"].remedy


def test_normalisation_by_the_sensitivity():
    assert p.noise_standard_deviation(3.0, 1.5) == (4.5, 1.5)
    assert p.noise_standard_deviation(3.0, 1.5, "replace_one") == (9.0, 3.0)
    p.check_noise(9.0, 3.0, 1.5, "replace_one")
    with pytest.raises(InputError, match="2C"):
        p.check_noise(4.5, 3.0, 1.5, "replace_one")


def test_the_counter_example_where_the_normalisation_is_wrong():
    # replace-one with standard deviation Cσ: the pair is ±C, that is twice the shift, so half the noise multiplier.
    # One step of it: P = (1−q)N(0) + qN(1), Q = (1−q)N(0) + qN(−1) in units of C, at T = 2k²/ε the claim is exceeded.
    n, epsilon, k = 10**6, 0.49, 5
    delta = 1 / n
    sigma = p.noise_multiplier_of_epsilon(epsilon, delta)
    steps = math.ceil(2 * k * k / epsilon)
    rate = k / steps
    honest = PoissonSampling(rate, steps, sigma).epsilon(delta)
    assert honest.upper < epsilon  # add/remove with noise σC keeps the claim
    assert replace_one_epsilon_lower(rate, steps, sigma, delta) > epsilon


def replace_one_epsilon_lower(rate, steps, sigma, delta):
    """ε of the pair (+C against −C), from below, by a plain FFT of the privacy loss: an independent computation."""
    import numpy as np
    from scipy.stats import norm

    x = np.linspace(-14 * sigma, 14 * sigma, 400_001)
    plus = (1 - rate) * norm.pdf(x, 0, sigma) + rate * norm.pdf(x, 1, sigma)
    minus = (1 - rate) * norm.pdf(x, 0, sigma) + rate * norm.pdf(x, -1, sigma)
    loss = np.log(plus) - np.log(minus)
    h, n = 1e-5, 1 << 21
    mass = np.bincount(np.floor(loss / h).astype(int) % n, plus * (x[1] - x[0]), minlength=n)  # rounded down
    law = np.fft.irfft(np.fft.rfft(mass) ** steps, n)
    grid = np.where(np.arange(n) < n // 2, np.arange(n), np.arange(n) - n) * h
    for e in np.arange(0.3, 1.0, 0.005):
        if float((law * np.maximum(0, 1 - np.exp(e - grid))).sum()) < delta:
            return e - 0.005
    return 1.0


@pytest.mark.parametrize(
    "n", [60000, pytest.param(1000, marks=pytest.mark.slow), pytest.param(10**6, marks=pytest.mark.slow)]
)
def test_never_below_the_certified_accountant(n):
    worst = 0.0
    for epsilon in (0.1, 0.5, 1, 2, 4):
        for k in (5, 10, 30, 100):
            plan = p.plan_from_budget(n, k, epsilon)
            if not plan.feasible or plan.rounds > 3e5:
                continue
            steps = math.ceil(plan.rounds)
            found = PoissonSampling(k / steps, steps, plan.noise_multiplier).epsilon(plan.delta, "both", 0.05)
            worst = max(worst, found.upper / epsilon)
    assert 0.05 < worst < 1


@pytest.mark.parametrize(
    ("arguments", "word"),
    [
        ({"records": 1, "epochs": 5, "epsilon": 1.0}, "records"),
        ({"records": 1000, "epochs": 0, "epsilon": 1.0}, "epochs"),
        ({"records": 1000, "epochs": 5, "epsilon": 0.0}, "epsilon"),
        ({"records": 1000, "epochs": 5, "epsilon": 1.0, "delta": 1.0}, "delta"),
        ({"records": 1000, "epochs": 5, "epsilon": 1.0, "theta": 0.5}, "theta"),
    ],
)
def test_bad_input(arguments, word):
    with pytest.raises(InputError, match=word):
        p.plan_from_budget(**arguments)


def test_samples_larger_than_the_data_are_refused():
    with pytest.raises(InputError, match="sample_size"):
        p.plan_from_run(1000, 5, 2000)
    with pytest.raises(InputError, match="sample"):
        p.plan_from_run(1000, 5, 999)
