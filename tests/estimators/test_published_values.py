"""Every deterministic value of the table: published numbers and other implementations, each to its own tolerance."""

import csv
from pathlib import Path

import numpy as np
import pytest

from coalmine.audit import estimators

TABLE = Path(__file__).parents[1] / "data" / "estimators" / "estimator_values.csv"


class TotalVariationCurve:
    def __init__(self, total_variation):
        self.total_variation = total_variation

    def inverse_complement(self, y):
        return np.maximum(0.0, y - self.total_variation)


def computed(row):
    name = row["estimator"]
    confidence = 1 - float(row["alpha"] or 0.05)
    delta = float(row["delta"] or 0)
    if name in ("one_run_steinke", "one_run_fdp_epsilon_delta", "one_run_fdp_gaussian", "exact_tail_gaussian"):
        function = {
            "one_run_steinke": estimators.one_run_epsilon,
            "one_run_fdp_epsilon_delta": estimators.f_dp_epsilon,
            "one_run_fdp_gaussian": estimators.gaussian_family_epsilon,
            "exact_tail_gaussian": estimators.exact_tail_epsilon,
        }[name]
        return function(int(row["correct"]), int(row["guesses"]), int(row["canaries"]), delta, confidence)
    if name == "one_run_fdp_pvalue_total_variation":
        curve = TotalVariationCurve(float(row["claimed_total_variation"]))
        return estimators.f_dp_p_value(curve, int(row["correct"]), int(row["guesses"]), int(row["canaries"]))
    function = {
        "clopper_pearson_rates_two_sided": estimators.clopper_pearson_epsilon,
        "jeffreys_rates_two_sided": estimators.jeffreys_epsilon,
        "joint_beta": estimators.joint_beta_epsilon,
        "gaussian_mu_clopper_pearson": estimators.gaussian_mu_epsilon,
    }[name]
    counts = (int(row[c]) for c in ("false_positives", "nonmembers", "false_negatives", "members"))
    return function(*counts, delta, confidence)


ROWS = list(csv.DictReader(TABLE.open()))


def test_the_table_is_whole():
    assert len(ROWS) == 96


@pytest.mark.parametrize("row", ROWS, ids=[f"{i}-{row['estimator']}" for i, row in enumerate(ROWS)])
def test_value(row):
    assert computed(row) == pytest.approx(float(row["expected"]), abs=float(row["absolute_tolerance"]))
