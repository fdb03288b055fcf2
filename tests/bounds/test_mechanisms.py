"""Gaussian and bare (ε, δ), records and names."""

import json
import math
import subprocess
import sys

import mpmath
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from coalmine.audit.bounds import (
    EpsilonDelta,
    FixedBins,
    Gaussian,
    PoissonSampling,
    RandomAllocation,
    canonical_name,
    mechanism_fields,
    mechanism_from_record,
    mechanism_kind,
)
from coalmine.foundation import InputError

ALL = [
    RandomAllocation(100, 10, 1.5),
    FixedBins(100, 10, 4.0),
    PoissonSampling(0.01, 1000, 1.5),
    Gaussian(5.0, 3),
    EpsilonDelta(1.0, 1e-5),
]


@pytest.mark.parametrize("mechanism", ALL, ids=lambda m: m.name)
def test_every_mechanism_answers_every_question(mechanism):
    assert mechanism_from_record(mechanism.record()) == mechanism
    accuracy = mechanism.accuracy()
    assert 0.5 <= accuracy.lower <= accuracy.upper <= mechanism.accuracy_bound() + 1e-9
    assert mechanism.epsilon(1e-5).upper >= 0
    assert 0 <= mechanism.delta(0.5).upper <= 1
    rates = mechanism.true_positive_rate([0.01, 0.1])
    assert np.all(np.asarray(rates.upper) >= [0.01, 0.1])
    assert 0 <= mechanism.trade_off_curve()(0.2) <= 0.8
    with pytest.raises(InputError, match="direction"):
        mechanism.epsilon(1e-5, "sideways")
    with pytest.raises(InputError, match="epsilon"):
        mechanism.delta(-1.0)


def test_gaussian_known_values():
    # Balle and Wang: δ(ε) = Φ(μ/2 − ε/μ) − e^ε Φ(−μ/2 − ε/μ)
    found = Gaussian(1.0).delta(1.0)
    with mpmath.workdps(40):
        exact = float(mpmath.ncdf(-0.5) - mpmath.e * mpmath.ncdf(-1.5))
    assert found.lower <= exact <= found.upper
    assert found.width < 1e-13
    epsilon = Gaussian(2.0, 4).epsilon(float(found.upper))
    assert epsilon.midpoint == pytest.approx(1.0, abs=1e-6)
    assert Gaussian(1.0).epsilon(0).upper == math.inf
    assert Gaussian(1.0).true_positive_rate(0.5).midpoint == pytest.approx(0.8413447460685429)


def test_epsilon_delta_is_the_worst_mechanism_of_its_kind():
    worst = EpsilonDelta(math.log(3), 0.0)
    assert worst.accuracy_bound() == pytest.approx(0.75)
    assert worst.delta(0.0).upper == pytest.approx(0.5)  # randomised response: TV = (e^ε − 1)/(e^ε + 1)
    assert worst.epsilon(0.5).upper == pytest.approx(0.0, abs=1e-12)
    assert EpsilonDelta(1.0, 1e-3).epsilon(1e-5).upper == math.inf  # says nothing below its own δ
    assert EpsilonDelta(1.0, 1e-3).epsilon(1e-3).upper == pytest.approx(1.0)
    tv = 2 * EpsilonDelta(1.0, 1e-3).accuracy_bound() - 1
    assert EpsilonDelta(1.0, 1e-3).delta(0.0).upper == pytest.approx(tv)


@pytest.mark.parametrize(
    ("record", "word"),
    [
        ({"name": "fixed_size"}, "no known upper bound"),
        ({"name": "none"}, "no noise"),
        ({"name": "lattice"}, "must be one of"),
        ({"name": ["random_allocation"]}, "must be one of"),
        ({"name": []}, "must be one of"),
        ({"name": {}}, "must be one of"),
        ({"name": "full_batch", "noise_multiplier": 1, "steps": 10**400}, "beyond the range"),
        ({"name": "full_batch", "noise_multiplier": 1, "steps": 1e300}, "at most"),
        ({1: 2, "delta": 0}, "needs a name"),
        ({"name": "random_allocation", "epochs": 3}, "is missing"),
        ({"name": "random_allocation", "steps_per_epoch": "x", "epochs": 3, "noise_multiplier": 1}, "steps_per_epoch"),
        ({"delta": 1e-5}, "needs a name"),
        ([], "must be an object"),
        ({"epsilon": 1.0, "delta": 2}, "delta"),
        ({"name": "poisson", "sampling_rate": 0, "steps": 3, "noise_multiplier": 1}, "sampling_rate"),
    ],
)
def test_bad_records_are_refused_by_name(record, word):
    with pytest.raises(InputError, match=word):
        mechanism_from_record(record)


json_values = st.recursive(
    st.none() | st.booleans() | st.integers() | st.integers(10**300, 10**400) | st.floats() | st.text(max_size=8),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=8), inner, max_size=3),
    max_leaves=6,
)
fields = ("epsilon", "delta", "steps_per_epoch", "epochs", "noise_multiplier", "sampling_rate", "steps", "extra")
names = st.sampled_from(["random_allocation", "fixed_bins", "poisson", "full_batch", "epsilon_delta", "fixed_size"])
plausible = st.sampled_from([0.01, 0.5, 1, 3, 10.0])


@settings(max_examples=400, deadline=None)
@given(
    json_values
    | st.fixed_dictionaries({}, optional={"name": names | json_values})
    | st.builds(
        lambda name, rest: rest if name is None else {"name": name, **rest},
        st.none() | names,
        st.dictionaries(st.sampled_from(fields), plausible | json_values),
    )
)
def test_any_json_is_a_mechanism_or_an_input_error(value):
    try:
        mechanism = mechanism_from_record(value)
    except InputError as error:
        assert "\n" not in str(error)
        return
    assert mechanism_from_record(json.loads(json.dumps(mechanism.record()))) == mechanism


@pytest.mark.parametrize(
    ("spelling", "name"),
    [
        ("gaussian", "full_batch"),
        ("poisson_sampling", "poisson"),
        ("Fixed-Bins", "fixed_bins"),
        ("balls_in_bins", "fixed_bins"),
        ("random allocation", "random_allocation"),
    ],
)
def test_one_name_is_written_and_older_spellings_are_read(spelling, name):
    parameters = {key: 1 if key != "noise_multiplier" else 2.0 for key in mechanism_fields(name)}
    mechanism = mechanism_from_record({"name": spelling, **parameters})
    assert mechanism.record() == {"name": name, **parameters} and type(mechanism) is mechanism_kind(name)
    assert canonical_name(spelling) == canonical_name(name) == name
    assert canonical_name("swapped") == "swapped"


def test_importing_the_bounds_is_light():
    code = (
        "import sys, coalmine.audit.bounds; "
        "print([m for m in ('torch', 'pandas', 'matplotlib', 'sklearn') if m in sys.modules])"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "[]"
