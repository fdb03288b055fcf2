import copy
import json
from pathlib import Path

import pytest

from coalmine.reports.page import Drawing

DATA = Path(__file__).parent / "data"


@pytest.fixture
def words_only(monkeypatch):
    """Pages without their figures, for tests that read what is written: drawing is most of a page's time."""
    for inline in ("inline", "inline_narrow"):
        monkeypatch.setattr(Drawing, inline, lambda _: "")


@pytest.fixture(scope="session")
def _contents():
    return {name: json.loads((DATA / f"{name}.json").read_text("utf-8")) for name in ("rejected", "not_rejected")}


@pytest.fixture
def rejected(_contents):
    return copy.deepcopy(_contents["rejected"])


@pytest.fixture
def repeated(_contents):
    """The rejected audit as `coalmine repeat` writes one: four runs of 125 canaries, and no bound of the whole."""
    content = copy.deepcopy(_contents["rejected"])
    content["estimates"] = [one for one in content["estimates"] if one["quantity"] in ("attack_accuracy", "p_value")]
    content["repeated"] = {
        "runs": 4,
        "design": "all_canaries",
        "p_values": [0.0031, 2.4e-4, 2.1e-4, 0.0011],
        "epsilon_lower_bounds": [2.4519, 2.9, 3.0, 2.6],
        "correct_of_all": [106, 105, 107, 106],
        "over_dispersion": {"ratio": 1.39, "p_value": 0.25},
    }
    return content


@pytest.fixture
def not_rejected(_contents):
    return copy.deepcopy(_contents["not_rejected"])
