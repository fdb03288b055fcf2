"""Other programs as oracles. They are not dependencies: each test is skipped where its program is not installed."""

import math

import numpy as np
import pytest

from coalmine.audit.bounds import PoissonSampling, RandomAllocation
from coalmine.audit.bounds.proactive import plan_from_budget

pytestmark = pytest.mark.slow


@pytest.mark.parametrize(("m", "e", "sigma", "step"), [(100, 1, 1.0, 0.02), (1000, 1, 0.5, 0.05), (100, 3, 1.0, 0.1)])
def test_intervals_overlap_those_of_pld_accounting(m, e, sigma, step):
    peer = pytest.importorskip("PLD_accounting")
    config = peer.AllocationSchemeConfig(
        loss_discretization=step, tail_truncation=1e-10, convolution_method=peer.ConvolutionMethod.GEOM
    )
    mechanism = RandomAllocation(m, e, sigma)
    for direction, name in ((peer.Direction.REMOVE, "remove"), (peer.Direction.ADD, "add")):
        laws = [
            peer.gaussian_allocation_directional_pld(
                params=peer.PrivacyParams(sigma=sigma, num_steps=m, num_selected=1, num_epochs=e),
                config=config,
                bound_type=kind,
                direction=direction,
            )
            for kind in (peer.BoundType.IS_DOMINATED, peer.BoundType.DOMINATES)
        ]
        for epsilon in (0.0, 0.3, 1.0):
            low, high = (
                float((law.prob_arr * np.maximum(0.0, -np.expm1(epsilon - np.asarray(law.x_array)))).sum() + law.p_max)
                for law in laws
            )
            found = mechanism.delta(epsilon, name)
            assert found.lower <= high * (1 + 1e-6) and found.upper >= low * (1 - 1e-6)


@pytest.mark.parametrize(
    ("rate", "steps", "sigma"), [(0.01, 1000, 1.0), (0.001, 5000, 0.7), (0.1, 50, 2.0), (0.004, 2500, 1.2)]
)
def test_poisson_against_dp_accounting(rate, steps, sigma):
    pld = pytest.importorskip("dp_accounting.pld.privacy_loss_distribution")
    law = pld.from_gaussian_mechanism(sigma, sampling_prob=rate, value_discretization_interval=1e-4)
    law = law.self_compose(steps)
    mechanism = PoissonSampling(rate, steps, sigma)
    found = mechanism.epsilon(1e-5)
    theirs = law.get_epsilon_for_delta(1e-5)  # an upper bound
    assert theirs >= found.lower * (1 - 1e-6)
    assert theirs == pytest.approx(found.upper, rel=0.02)


def test_proactive_is_never_below_dp_accounting():
    pld = pytest.importorskip("dp_accounting.pld.privacy_loss_distribution")
    settings = 0
    for n in (1000, 10_000, 60_000, 1_000_000):
        for epsilon in (0.1, 0.5, 1, 2, 4, 8):
            for k in (5, 10, 30):
                plan = plan_from_budget(n, k, epsilon)
                if not plan.feasible:
                    continue
                rounds = math.ceil(plan.rounds)
                # its discretisation error grows with the rounds: 1e-3 returned 0.103 where the truth is 0.0318
                law = pld.from_gaussian_mechanism(
                    plan.noise_multiplier,
                    sampling_prob=k / rounds,
                    value_discretization_interval=1e-4 if epsilon <= 1 else 1e-3,
                ).self_compose(rounds)
                assert law.get_epsilon_for_delta(plan.delta) <= epsilon
                settings += 1
    assert settings >= 50
