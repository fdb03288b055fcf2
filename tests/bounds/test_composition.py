"""Runs of several phases: identities, other programs, and the truth by quadrature and by simulation."""

import csv
import json
import math
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.special import ndtr

from coalmine.audit.bounds import (
    Composition,
    EpsilonDelta,
    FixedBins,
    Gaussian,
    Interval,
    PoissonSampling,
    RandomAllocation,
    mechanism_from_record,
)
from coalmine.foundation import InputError

DATA = Path(__file__).parent.parent / "data" / "bounds"


def assert_same(one, other):
    """Equal to rounding: same grid, same transforms."""
    for question in (lambda m: m.accuracy(), lambda m: m.epsilon(1e-5), lambda m: m.delta(0.5, "add")):
        a, b = question(one), question(other)
        assert a.lower == pytest.approx(b.lower, rel=1e-12) and a.upper == pytest.approx(b.upper, rel=1e-12)


@pytest.mark.parametrize(
    ("phases", "whole"),
    [
        ([RandomAllocation(100, 4, 1.4), RandomAllocation(100, 6, 1.4)], RandomAllocation(100, 10, 1.4)),
        ([PoissonSampling(0.01, 300, 1.0), PoissonSampling(0.01, 700, 1.0)], PoissonSampling(0.01, 1000, 1.0)),
        ([RandomAllocation(30, 1, 1.1)] * 7, RandomAllocation(30, 7, 1.1)),
        ([FixedBins(50, 4, 3.0)], FixedBins(50, 4, 3.0)),
    ],
    ids=["allocation", "poisson", "schedule", "fixed_bins"],
)
def test_equal_parts_are_the_whole(phases, whole):
    assert_same(Composition(phases), whole)


def test_full_batch_phases_add_up_to_one_gaussian():
    # mu^2 adds up: 3/4 + 2/9 + 1/4 (sampling rate 1) + 1/16 (one step an epoch)
    parts = [Gaussian(2.0, 3), Gaussian(3.0, 2), PoissonSampling(1.0, 1, 2.0), RandomAllocation(1, 1, 4.0)]
    whole = Gaussian(1 / math.sqrt(3 / 4 + 2 / 9 + 1 / 4 + 1 / 16))
    assert Composition(parts).accuracy().overlaps(whole.accuracy())
    assert Composition(parts).epsilon(1e-6).midpoint == pytest.approx(whole.epsilon(1e-6).midpoint, rel=1e-9)


def test_a_full_batch_phase_on_the_lattice_agrees_with_its_closed_form():
    # another phase with next to no effect forces the Gaussian onto the lattice
    phases = [Gaussian(1.5, 2), PoissonSampling(1e-6, 1, 5.0)]
    found, exact = Composition(phases), Gaussian(1.5, 2)
    # the other phase's total variation, below 1e-6 * 0.08, is all that it can add
    assert exact.accuracy().lower <= found.accuracy(1e-7).upper
    assert found.accuracy(1e-7).lower <= exact.accuracy().upper + 1e-7
    for direction in ("remove", "add"):
        assert found.delta(1.0, direction).lower <= exact.delta(1.0).upper + 1e-7
        assert found.delta(1.0, direction).upper >= exact.delta(1.0).lower


def rows():
    with open(DATA / "composition_dp_accounting.csv", newline="") as file:
        return list(csv.DictReader(file))


def test_thirty_settings_lie_inside_the_interval_of_dp_accounting_and_are_narrower():
    found = rows()
    assert len(found) == 30
    for row in found:
        run = Composition([mechanism_from_record(phase) for phase in json.loads(row["phases"])])
        for name, ours in (
            ("delta_at_1", run.delta(1.0)),
            ("epsilon", run.epsilon(1e-5)),
            ("total_variation", _total_variation(run)),
        ):
            theirs = Interval(float(row[f"{name}_lower"]), float(row[f"{name}_upper"]))
            # ten digits of theirs are on file; its FFT and its truncation at e^{-50} are not part of its ends
            slack = 1e-9 * theirs.upper + 1e-10
            assert ours.lower <= theirs.upper + slack and ours.upper >= theirs.lower - slack, (name, row["phases"])
            assert ours.width < theirs.width, (name, row["phases"])


def _total_variation(run):
    accuracy = run.accuracy(1e-7)
    return Interval(2 * accuracy.lower - 1, 2 * accuracy.upper - 1)


# ------------------------------------------------------------------------------------------------- against brute force


def epoch_of_two(sigma, grid):
    """(weights under Q, ratio) of one epoch with M = 2, on the product of two quadrature grids."""
    z = np.linspace(-9, 9, grid)
    w = np.exp(-z * z / 2)
    w /= w.sum()
    x = np.exp(z / sigma - 0.5 / sigma**2)
    return np.outer(w, w).ravel(), ((x[:, None] + x[None, :]) / 2).ravel()


def step_of_poisson(rate, sigma, grid):
    z = np.linspace(-9, 9 + 1 / sigma, grid)
    w = np.exp(-z * z / 2)
    w /= w.sum()
    return w, 1 - rate + rate * np.exp(z / sigma - 0.5 / sigma**2)


@pytest.mark.parametrize(("sigma", "other"), [(0.8, (0.3, 1.1)), (1.5, (0.5, 0.6)), (3.0, (0.1, 2.0))])
def test_two_steps_an_epoch_then_a_poisson_step_against_quadrature(sigma, other):
    rate, noise = other
    wa, ra = epoch_of_two(sigma, 701)
    wb, rb = step_of_poisson(rate, noise, 2501)
    # E_Q (1 - e^eps R_a R_b)+ for all pairs, through the sorted second factor
    order = np.argsort(rb)
    rb, wb = rb[order], wb[order]
    mass, mean = np.concatenate(([0.0], np.cumsum(wb))), np.concatenate(([0.0], np.cumsum(wb * rb)))
    run = Composition([RandomAllocation(2, 1, sigma), PoissonSampling(rate, 1, noise)])
    for epsilon in (0.0, 0.4, 1.0):
        cut = np.searchsorted(rb, 1 / (math.exp(epsilon) * ra))
        add = float((wa * (mass[cut] - math.exp(epsilon) * ra * mean[cut])).sum())
        cut = np.searchsorted(rb, math.exp(epsilon) / ra)
        remove = float((wa * (ra * (mean[-1] - mean[cut]) - math.exp(epsilon) * (mass[-1] - mass[cut]))).sum())
        assert run.delta(epsilon, "add").overlaps(Interval(add - 2e-6, add + 2e-6))
        assert run.delta(epsilon, "remove").overlaps(Interval(remove - 2e-6, remove + 2e-6))


def test_three_steps_an_epoch_against_simulation():
    phases = [RandomAllocation(3, 2, 1.2), RandomAllocation(2, 1, 0.9), PoissonSampling(0.3, 2, 1.5), Gaussian(6.0, 2)]
    run, generator = Composition(phases), np.random.default_rng(7)
    n = 400_000

    def losses(present):
        """ln(P/Q) of the whole run, sampled with or without the record."""
        total = np.zeros(n)
        for phase in phases:
            if isinstance(phase, RandomAllocation):
                for _ in range(phase.epochs):
                    z = generator.standard_normal((n, phase.steps_per_epoch))
                    if present:
                        z[np.arange(n), generator.integers(0, phase.steps_per_epoch, n)] += 1 / phase.noise_multiplier
                    x = np.exp(z / phase.noise_multiplier - 0.5 / phase.noise_multiplier**2)
                    total += np.log(x.mean(axis=1))
            else:
                rate = getattr(phase, "sampling_rate", 1.0)
                for _ in range(phase.steps):
                    z = generator.standard_normal(n)
                    if present:
                        z += (generator.random(n) < rate) / phase.noise_multiplier
                    total += np.log1p(rate * np.expm1(z / phase.noise_multiplier - 0.5 / phase.noise_multiplier**2))
        return total

    without, with_record = losses(False), losses(True)
    for epsilon in (0.0, 0.5, 1.5):
        for direction, sample in (
            ("remove", np.maximum(0, -np.expm1(epsilon - with_record))),
            ("add", np.maximum(0, -np.expm1(epsilon + without))),
        ):
            found, error = run.delta(epsilon, direction), 4.5 * sample.std() / math.sqrt(n)
            assert found.lower <= sample.mean() + error and sample.mean() - error <= found.upper


# ------------------------------------------------------------------------------------------------------------ the rest


@settings(max_examples=12, deadline=None)
@given(
    m=st.sampled_from([2, 5, 40]),
    sigma=st.floats(0.7, 4),
    rate=st.floats(0.01, 0.6),
    noise=st.floats(0.7, 4),
    steps=st.integers(1, 30),
)
def test_a_composition_reveals_no_less_than_a_phase_and_no_more_than_the_closed_form(m, sigma, rate, noise, steps):
    a, b = RandomAllocation(m, 3, sigma), PoissonSampling(rate, steps, noise)
    run = Composition([a, b])
    accuracy = run.accuracy(1e-5)
    assert accuracy.upper >= max(a.accuracy(1e-5).lower, b.accuracy(1e-5).lower)
    assert accuracy.lower <= run.accuracy_bound() + 1e-12
    assert accuracy.width <= 1e-5
    assert Composition([b, a]).accuracy(1e-5).overlaps(accuracy)
    rates = run.true_positive_rate([0.01, 0.1])
    curve = run.trade_off_curve()
    assert np.all(np.asarray(rates.lower) <= 1 - curve(np.array([0.01, 0.1])) + 1e-12)


def test_scales_far_apart_share_one_lattice():
    # a thousand hardly noticeable steps, then one that tells nearly everything, and the other way about
    quiet, loud = PoissonSampling(0.001, 1000, 2.0), Gaussian(0.5)
    run = Composition([quiet, loud])
    assert run.epsilon(1e-5).upper >= loud.epsilon(1e-5).lower
    assert run.epsilon(1e-5).width <= 1e-3 * run.epsilon(1e-5).upper
    mean = ndtr(1.0)  # accuracy of the loud one alone
    assert mean - 1e-9 <= run.accuracy().upper <= mean + quiet.accuracy().upper - 0.5


def test_calibration_of_a_common_factor_and_of_one_phase():
    run = Composition([RandomAllocation(100, 5, 1.0), RandomAllocation(100, 5, 2.0)])
    factor = run.calibrate(accuracy=0.55)
    assert factor.two_sided
    assert run.scaled(factor.noise_multiplier).accuracy().upper <= 0.55
    assert run.scaled(factor.noise_multiplier * (1 - 2e-4)).accuracy().lower > 0.55
    second = run.calibrate(phase=0, epsilon=2.0, delta=1e-5)
    assert run.scaled(second.noise_multiplier, 0).epsilon(1e-5).upper <= 2.0
    assert run.scaled(second.noise_multiplier, 0).phases[1] == run.phases[1]
    with pytest.raises(InputError, match="noise_multiplier up to"):  # the second phase alone misses it
        run.calibrate(phase=0, accuracy=0.501)
    with pytest.raises(InputError, match="phase must be a number from 0 to 1"):
        run.calibrate(phase=2, accuracy=0.55)


def test_records_and_refusals():
    run = Composition.noise_schedule(100, [2.0, 1.5, 1.5])
    assert mechanism_from_record(json.loads(json.dumps(run.record()))) == run
    nested = Composition([run, Gaussian(3.0)])
    assert nested.phases == (*run.phases, Gaussian(3.0))
    with pytest.raises(InputError, match="at least one phase"):
        Composition([])
    with pytest.raises(InputError, match="phase 1 is epsilon_delta"):
        Composition([Gaussian(1.0), EpsilonDelta(1.0, 1e-5)])
    with pytest.raises(InputError, match="phase 1: mechanism 'fixed_size'"):
        mechanism_from_record({"name": "composition", "phases": [Gaussian(1.0).record(), {"name": "fixed_size"}]})
    with pytest.raises(InputError, match="needs phases"):
        mechanism_from_record({"name": "composition", "phases": []})
