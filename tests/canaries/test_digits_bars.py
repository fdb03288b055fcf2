"""On digits, one seed, the methods stand where the table of docs/canaries.md has them, with room for another seed."""

import importlib.util
from pathlib import Path

import numpy as np
import pytest

SCRIPT = Path(__file__).parents[2] / "reports" / "experiments" / "canaries_table.py"


@pytest.mark.slow
def test_blank_and_random_fail_noise_does_well_and_refinement_does_better(tmp_path):
    spec = importlib.util.spec_from_file_location("canaries_table", SCRIPT)
    assert spec and spec.loader
    table = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(table)
    table.METHODS["blank"] = {"method": "blank"}
    rate = {
        name: np.mean([run["true_positive_rate"] for run in table.evaluated(tmp_path, 100, name, "plain")])
        for name in ("random", "blank", "mislabelled", "binary noise", "binary noise + SOBA, short")
    }
    assert rate["random"] <= 0.12
    assert rate["blank"] <= 0.10
    assert 0.15 <= rate["mislabelled"] <= 0.5
    assert rate["binary noise"] >= rate["mislabelled"] + 0.2
    assert rate["binary noise + SOBA, short"] >= rate["binary noise"] + 0.02  # ten seeds: 0.06 to 0.18
