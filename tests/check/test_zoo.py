"""The check on trainers whose truth is known: right ones pass, wrong ones are found, and by what is wrong in them."""

from __future__ import annotations

import json

import pytest
from zoo.faults import FAULTS
from zoo.right import RIGHT

from coalmine.audit.bounds import EpsilonDelta
from coalmine.audit.white_box import CheckResult, CheckSettings, check
from coalmine.audit.white_box.text import lines

SMALL = CheckSettings(records=120, seed=1)


@pytest.mark.parametrize("name", RIGHT)
def test_a_right_trainer_is_consistent(name):
    if "Opacus" in name:
        pytest.importorskip("opacus", reason="the extra opacus is not installed")
    train, claim = RIGHT[name]
    result = check(train, claim, SMALL)
    assert result.verdict == "consistent", "\n".join(lines(result))
    found = result["noise_multiplier"]
    assert found.value == pytest.approx(claim.noise_multiplier, rel=0.02)
    assert CheckResult.from_json(json.loads(json.dumps(result.to_json()))).to_json() == result.to_json()


NAMED = {  # fault: a finding that must name it, and the one among two or three that a reader would expect
    "divisor from the realised number of rows (make_private)": "divisor",
    "one random key for all parameters": "noise_shared",
    "shuffled batches accounted as Poisson": "sampler",
    "each parameter clipped by itself": "contributions",
    "clipping after aggregation": "neighbours",
    "the clipping setting does nothing": "contributions",
    "empty Poisson batches skipped": "empty_steps",
    "norms of a parameter used twice": "shared_layers",
    "BatchNorm left in": "batch_normalisation",
    "a layer is never trained": "learning",
    "noise multiplier a quarter": "noise_multiplier",
    "noise forgotten on biases": "noise_by_parameter",
    "generator with a fixed seed": "noise_repeated",
    "Laplace noise of the same deviation": "noise_shape",
    "warm-up without noise": "noise_by_step",
    "noise only where gradients are": "noise_multiplier",
    "divided by the realised batch": "divisor",
    "one allocation reused": "sampler",
}


@pytest.mark.parametrize("fault", [f for f in FAULTS if f.words in NAMED], ids=lambda fault: fault.words)
def test_a_fault_is_named(fault):
    if "make_private" in fault.words:
        pytest.importorskip("opacus", reason="the extra opacus is not installed")
    result = check(fault.train, fault.claim, SMALL)
    assert NAMED[fault.words] in [f.name for f in result.notable], "\n".join(lines(result, everything=True))


@pytest.mark.slow
@pytest.mark.parametrize("fault", FAULTS, ids=lambda fault: fault.words)
def test_every_fault_is_found(fault):
    settings = CheckSettings(seed=2, supports=("shared_layers", "batch_normalisation"))
    assert check(fault.train, fault.claim, settings).verdict != "consistent"


def test_a_bare_epsilon_is_judged_by_the_mechanism_that_was_seen():
    train, claim = RIGHT["plain torch, hooks, SGD, random allocation"]
    epsilon = float(claim.epsilon(1e-5).upper)
    assert check(train, EpsilonDelta(1.1 * epsilon, 1e-5), SMALL).verdict == "consistent"
    result = check(train, EpsilonDelta(0.5 * epsilon, 1e-5), SMALL)
    assert [f.name for f in result.violated] == ["epsilon"]


def test_what_the_observations_would_support():
    fault = next(f for f in FAULTS if f.words == "one allocation reused")
    supported = check(fault.train, fault.claim, SMALL).supported
    assert supported["mechanism"]["name"] == "fixed_bins"
    assert supported["mechanism"]["noise_multiplier"] == pytest.approx(1.0, rel=0.02)
