"""The blind baseline sees what the data give away, and nothing where they give nothing away."""

from __future__ import annotations

import numpy as np
import pytest

from coalmine.attacks.blind_baseline import blind_baseline
from coalmine.audit.estimators.roc import auc
from coalmine.foundation import InputError


def images(n: int = 600) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    random = np.random.default_rng(0)
    x = random.integers(0, 17, (n, 1, 8, 8)) / 16
    return x.astype(np.float32), random.integers(0, 10, n), random.random(n) < 0.5


def test_non_members_scaled_by_one_percent_are_seen():
    """Leveraging-Adversarial-Examples #2: other preprocessing of the non-members inflated a published result."""
    x, y, member = images()
    scaled = np.where(member[:, None, None, None], x, x * 1.01)
    assert auc(blind_baseline(scaled, y, member).scores, member) > 0.95


def test_random_membership_is_not_seen():
    x, y, member = images()
    assert abs(auc(blind_baseline(x, y, member).scores, member) - 0.5) < 0.09  # 4 standard errors


def test_labels_alone_are_seen():
    x, _, member = images()
    assert auc(blind_baseline(x, np.where(member, 1, 2), member).scores, member) == 1.0


def test_too_few_members_are_named():
    x, y, _ = images(20)
    with pytest.raises(InputError, match="5 members"):
        blind_baseline(x, y, np.arange(20) < 2)
