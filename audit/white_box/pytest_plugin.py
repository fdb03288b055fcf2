"""The pytest fixture `check_dp_trainer`, registered as the entry point `coalmine`.

def test_our_trainer(check_dp_trainer):
    check_dp_trainer(train, PoissonSampling(sampling_rate=0.1, steps=100, noise_multiplier=1.0))
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any

import pytest

if TYPE_CHECKING:
    from .result import CheckResult


@pytest.fixture
def check_dp_trainer() -> Callable[..., CheckResult]:
    """check_dp_trainer(train, claim, **settings): fails the test where the claim is violated; returns the result.
    settings: fields of CheckSettings."""

    def run(train: Callable[..., Any], claim: Any, **settings: Any) -> CheckResult:
        from . import CheckSettings, check
        from .text import lines

        result = check(train, claim, CheckSettings(**settings))
        if result.verdict == "violated":
            pytest.fail("\n".join(lines(result)), pytrace=False)
        return result

    return run
