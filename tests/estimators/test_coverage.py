"""Coverage by simulation, a reduced but powered subset of reports/experiments/coverage_table.py."""

import importlib.util
import sys
from pathlib import Path

import pytest

from coalmine.audit.estimators.rates import binomial_tail
from coalmine.audit.planning.scenarios import gaussian, no_signal, randomised_response, shared_coin

PATH = Path(__file__).parents[2] / "reports" / "experiments" / "coverage_table.py"
SPECIFICATION = importlib.util.spec_from_file_location("coverage_table", PATH)
coverage_table = importlib.util.module_from_spec(SPECIFICATION)
sys.modules["coverage_table"] = coverage_table
SPECIFICATION.loader.exec_module(coverage_table)

REPEATS = 600


@pytest.fixture(scope="module")
def cells():
    worlds = [
        no_signal(),
        randomised_response(1.0),
        randomised_response(3.0),
        gaussian(1.0),
        gaussian(2.0),
        shared_coin(),
    ]
    return [cell for world in worlds for cell in coverage_table.coverage_cells(world, 100, REPEATS, 1)]


def test_no_judged_bound_exceeds_the_truth_more_often_than_stated(cells):
    assert sum(cell.judged for cell in cells) == 58
    assert coverage_table.failing(cells) == []


def test_the_same_judgement_catches_what_is_invalid(cells):
    """Class C under a shared coin, the Gaussian family on randomised response, a count chosen on the labels."""
    above = {(cell.estimator, cell.scenario): cell.above for cell in cells}
    for case in (
        ("Gaussian mu", "shared coin"),
        ("exact Gaussian tail", "shared coin"),
        ("Gaussian mu", "randomised response 3"),
        ("best count, uncorrected", "no signal"),
    ):
        assert binomial_tail(above[case], REPEATS, 0.05) < 1e-3 / 58, case


def test_the_boundary_wastes_less_than_the_union_bound(cells):
    above = {(cell.estimator, cell.scenario): cell.above for cell in cells}
    world = "randomised response 1"
    assert above["calibrated", world] > above["grid (default)", world]
