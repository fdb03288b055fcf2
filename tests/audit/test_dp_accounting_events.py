"""dp-accounting's events in, its distributions out. The package is tested where it is installed; else recorded values.

`tests/data/bounds/dp_accounting_round_trip.csv` is what the first test writes where the real package is there and
DP_ACCOUNTING_RECORD names the file; without the package the numbers on file are checked against the accountant.
"""

import csv
import os
from dataclasses import dataclass
from pathlib import Path

import pytest

from coalmine.audit.bounds import (
    Composition,
    EpsilonDelta,
    FixedBins,
    Gaussian,
    PoissonSampling,
    RandomAllocation,
    mechanism_from_record,
)
from coalmine.audit.dp_accounting_events import event_of, mechanism_from_event, privacy_loss_distribution
from coalmine.foundation import InputError

DATA = Path(__file__).parent.parent / "data" / "bounds" / "dp_accounting_round_trip.csv"
MECHANISMS = [
    RandomAllocation(100, 10, 1.4262),
    PoissonSampling(0.01, 500, 1.0),
    FixedBins(100, 4, 3.0),
    Gaussian(3.0, 4),
    Composition([RandomAllocation(50, 2, 1.5), PoissonSampling(0.02, 50, 1.5)]),
]


@dataclass
class GaussianDpEvent:  # as dp-accounting's of the same name: what mechanism_from_event reads of it
    noise_multiplier: float


@dataclass
class PoissonSampledDpEvent:
    sampling_probability: float
    event: object


@dataclass
class SelfComposedDpEvent:
    event: object
    count: int


@dataclass
class ComposedDpEvent:
    events: list


class NoOpDpEvent:
    pass


class SampledWithoutReplacementDpEvent:
    pass


def test_distributions_of_the_real_package_stand_on_both_sides():
    pytest.importorskip("dp_accounting")
    rows = []
    for mechanism in MECHANISMS:
        above, below = (privacy_loss_distribution(mechanism, 1e-3, side) for side in (True, False))
        for epsilon in (0.0, 0.3, 1.0):
            found = mechanism.delta(epsilon)
            ends = below.get_delta_for_epsilon(epsilon), above.get_delta_for_epsilon(epsilon)
            assert ends[0] <= found.upper + 1e-12 and ends[1] >= found.lower - 1e-12
            assert ends[1] - ends[0] <= 0.02 * ends[1] + 1e-6
            rows.append([mechanism.name, epsilon, *(f"{end:.10g}" for end in ends)])
        # two of them composed by the package hold the composition
        twice = Composition([mechanism, mechanism]).delta(0.5)
        assert above.compose(above).get_delta_for_epsilon(0.5) >= twice.lower - 1e-12
        assert below.compose(below).get_delta_for_epsilon(0.5) <= twice.upper + 1e-12
    if "DP_ACCOUNTING_RECORD" in os.environ:
        with open(os.environ["DP_ACCOUNTING_RECORD"], "w", newline="") as file:
            writer = csv.writer(file, lineterminator="\n")
            writer.writerows([["mechanism", "epsilon", "below", "above"], *rows])


def test_events_of_the_real_package_round_trip_and_agree():
    package = pytest.importorskip("dp_accounting")
    run = Composition([PoissonSampling(0.01, 500, 1.0), Gaussian(9.0, 2)])
    event = event_of(run)
    assert mechanism_from_event(event) == run
    theirs = package.pld.PLDAccountant().compose(event).get_epsilon(1e-5)
    assert theirs >= run.epsilon(1e-5).lower and theirs == pytest.approx(run.epsilon(1e-5).upper, rel=0.01)
    with pytest.raises(InputError, match="has no event for random_allocation"):
        event_of(RandomAllocation(10, 2, 1.0))


def test_recorded_distributions_hold_the_accountants_values():
    with DATA.open(newline="") as file:
        rows = list(csv.DictReader(file))
    assert len(rows) == 3 * len(MECHANISMS)
    for number, row in enumerate(rows):
        mechanism = MECHANISMS[number // 3]
        assert row["mechanism"] == mechanism.name
        found = mechanism.delta(float(row["epsilon"]))
        assert float(row["below"]) <= found.upper * (1 + 1e-9) and float(row["above"]) >= found.lower * (1 - 1e-9)


def test_events_become_mechanisms():
    step = PoissonSampledDpEvent(0.01, GaussianDpEvent(1.1))
    assert mechanism_from_event(SelfComposedDpEvent(step, 100)) == PoissonSampling(0.01, 100, 1.1)
    both = ComposedDpEvent([SelfComposedDpEvent(step, 10), NoOpDpEvent(), GaussianDpEvent(4.0)])
    expected = Composition([PoissonSampling(0.01, 20, 1.1), Gaussian(4.0, 2)])
    assert mechanism_from_event(SelfComposedDpEvent(both, 2)) == expected
    assert mechanism_from_record(mechanism_from_event(both).record()) == mechanism_from_event(both)
    with pytest.raises(InputError, match="fixed-size samples"):
        mechanism_from_event(SampledWithoutReplacementDpEvent())
    with pytest.raises(InputError, match="nothing that touches the data"):
        mechanism_from_event(NoOpDpEvent())
    with pytest.raises(InputError, match="PoissonSampledDpEvent of a NoOpDpEvent"):
        mechanism_from_event(PoissonSampledDpEvent(0.1, NoOpDpEvent()))


def test_without_the_package_the_error_says_what_to_do():
    try:
        import dp_accounting  # noqa: F401
    except ImportError:
        with pytest.raises(InputError, match="pip install dp-accounting"):
            event_of(Gaussian(1.0))
    else:
        with pytest.raises(InputError, match="no privacy-loss distribution of its own"):
            privacy_loss_distribution(EpsilonDelta(1.0, 1e-5))
