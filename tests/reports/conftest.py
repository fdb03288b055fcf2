import copy
import json
from pathlib import Path

import pytest

DATA = Path(__file__).parent / "data"


@pytest.fixture(scope="session")
def _contents():
    return {name: json.loads((DATA / f"{name}.json").read_text("utf-8")) for name in ("rejected", "not_rejected")}


@pytest.fixture
def rejected(_contents):
    return copy.deepcopy(_contents["rejected"])


@pytest.fixture
def not_rejected(_contents):
    return copy.deepcopy(_contents["not_rejected"])
