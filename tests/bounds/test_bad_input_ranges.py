"""Numbers that cannot have been meant are refused by name, before any arithmetic overflows."""

import pytest

from coalmine.audit.bounds import EpsilonDelta, RandomAllocation
from coalmine.audit.bounds.proactive import plan_from_budget
from coalmine.foundation import InputError


@pytest.mark.parametrize("noise_multiplier", [1e-300, 1e-7, 1e10, 1e300])
def test_noise_out_of_reach(noise_multiplier):
    with pytest.raises(InputError, match="noise_multiplier must lie between"):
        RandomAllocation(5, 3, noise_multiplier)


@pytest.mark.parametrize("noise_multiplier", [1e-6, 1e-3, 1e6, 1e9])
def test_extreme_noise_has_a_finite_answer(noise_multiplier):
    found = RandomAllocation(5, 3, noise_multiplier).accuracy()
    assert 0.5 <= found.lower <= found.upper <= 1
    assert found.upper == pytest.approx(1.0 if noise_multiplier < 1 else 0.5, abs=1e-6)


def test_an_infinite_epsilon_claims_nothing():
    with pytest.raises(InputError, match="epsilon must be finite"):
        EpsilonDelta(float("inf"), 1e-5)


@pytest.mark.parametrize(("name", "value"), [("epochs", 1e300), ("theta", 1e300)])
def test_a_plan_out_of_reach(name, value):
    with pytest.raises(InputError, match=name):
        plan_from_budget(**({"records": 60000, "epochs": 10, "epsilon": 1.0} | {name: value}))
