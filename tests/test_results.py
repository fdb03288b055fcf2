"""docs/results.md: its tables are the csv files beside it, which the named commands write to the byte."""

import csv
import importlib.util
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]
RESULTS = (ROOT / "docs/results.md").read_text("utf-8")
MEASURED = ROOT / "docs/measured"


def table(name):
    return list(csv.DictReader((MEASURED / name).read_text("utf-8").splitlines()))


def script(name):
    spec = importlib.util.spec_from_file_location(name, ROOT / f"reports/experiments/{name}.py")
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def test_every_published_number_agrees_and_the_page_says_how_many():
    rows = table("published_bounds.csv")
    assert {row["agrees"] for row in rows} == {"yes"} and f"**{len(rows)} agree, none disagrees.**" in RESULTS


@pytest.mark.slow
def test_the_published_numbers_are_computed_again_to_the_same_bytes(tmp_path):
    script("published_bounds").main(tmp_path)
    assert (tmp_path / "published_bounds.csv").read_bytes() == (MEASURED / "published_bounds.csv").read_bytes()


def test_the_linear_models_theory_is_computed_again_and_its_table_is_the_csv():
    from coalmine.audit.bounds import RandomAllocation

    for row in table("linear_model_attack.csv"):
        claim = RandomAllocation(128, 125, float(row["noise_multiplier"]))
        pair = claim.accuracy(width=1e-6)
        assert f"{claim.accuracy_bound():.4f}" == row["closed_form"]
        assert float(row["pair_lower"]) - 1e-5 <= pair.lower and pair.upper <= float(row["pair_upper"]) + 1e-5
        assert float(row["lower"]) <= float(row["optimal_attack"]) <= float(row["upper"])
        assert float(row["lower"]) <= float(row["published"]) <= float(row["upper"])
        for name in ("closed_form", "optimal_attack", "measured", "lower", "upper", "published"):
            assert row[name] in RESULTS


def test_trials_of_the_linear_model_follow_from_their_seed():
    run = script("linear_model_attack")
    run.EPOCHS = 2
    assert run.trials(1.0, 6, 3) == run.trials(1.0, 6, 3, together=3)


def test_the_comparison_at_equal_compute_is_the_csv_and_its_white_box_reaches_the_bound():
    rows = table("equal_compute.csv")
    for row in rows:
        for name in ("accuracy", "epsilon", "epsilon_allowed"):
            assert row[name] in RESULTS
        if row["access"] == "white_box":
            assert float(row["lower"]) <= float(row["accuracy_allowed"]) <= float(row["upper"])
        assert float(row["lower"]) <= float(row["accuracy_allowed"]) and float(row["epsilon"]) <= float(
            row["epsilon_allowed"]
        )
