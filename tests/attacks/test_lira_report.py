"""Warnings and intervals of the flow, on arrays made to need them."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from scipy.stats import norm

from coalmine.attacks import lira
from coalmine.attacks.shadow_arrays import ShadowArrays
from coalmine.audit.attack.conclude import ATTACKS, _trained_differently, conclude
from coalmine.audit.attack.metrics import jackknife, membership_metrics
from coalmine.audit.estimators.roc import auc
from coalmine.foundation import InputError


def arrays(n: int = 3000, shadows: int = 8, effect: float = 1.0, targets: int = 1, seed: int = 0) -> ShadowArrays:
    """Members' phi is `effect` standard deviations higher, in shadows and targets alike."""
    random = np.random.default_rng(seed)
    difficulty = random.normal(0, 3, n)
    keep = random.random((shadows + targets, n)) < 0.5
    phi = (difficulty + effect * keep + random.normal(size=keep.shape))[:, :, None].astype(np.float32)
    return ShadowArrays(phi[targets:], keep[targets:], phi[:targets], keep[:targets])


def test_every_attack_of_the_table_finds_a_real_effect_and_none_without_one():
    strong = {one.name: one.metrics for one in conclude(arrays(effect=2.0)).result.attacks}
    for name, metrics in strong.items():
        assert metrics.auc_interval[0] > 0.5, name
    assert strong["lira_online"].auc > strong["loss"].auc + 0.1
    for one in conclude(arrays(effect=0.0, n=4000)).result.attacks:
        assert abs(one.metrics.auc - 0.5) < 0.04, one.name
    # no population here, and phi without logits tells no hinge
    assert set(ATTACKS) - set(strong) == {"rmia_offline", "attack_p", "hinge"}


def test_balanced_accuracy_is_at_a_threshold_that_saw_no_label_of_the_target():
    """The best threshold on 200 labels of noise looks like an attack; the one from a shadow does not."""
    best, fixed = [], []
    for seed in range(30):
        metrics = conclude(arrays(n=200, effect=0.0, seed=seed)).result.metrics
        best.append(metrics.best_balanced_accuracy)
        if metrics.balanced_accuracy is not None:  # no threshold beats calling nobody a member: none is chosen
            fixed.append(metrics.balanced_accuracy.value)
    assert np.mean(best) > 0.53 and len(fixed) >= 25
    assert abs(np.mean(fixed) - 0.5) < 0.02


def test_a_target_trained_differently_is_called_out():
    """LeakPro #158, #269: a lost shuffle flag, two or three points of accuracy."""
    given = replace(
        arrays(),
        shadow_accuracy=np.linspace(0.90, 0.92, 8),
        target_accuracy=np.array([0.95]),
        origin={"target": "mine"},
    )
    assert any("may have been trained differently" in line for line in conclude(given).result.warnings)
    within = replace(given, target_accuracy=np.array([0.925]))  # outside the shadows' range, as 2 in 9 are
    assert not any("trained differently" in line for line in conclude(within).result.warnings)


@pytest.mark.parametrize("rows", [20, 1000])
@pytest.mark.parametrize("shadows", [2, 8])
def test_a_target_of_the_shadows_own_recipe_is_hardly_ever_called_out(rows, shadows):
    random = np.random.default_rng(0)
    few = arrays(n=4, shadows=shadows)
    alarms = 0
    for _ in range(2000):
        true = random.normal(0.9, 0.01, shadows + 1)
        measured = random.binomial(rows, true) / rows
        given = replace(
            few,
            shadow_accuracy=measured[1:],
            target_accuracy=measured[:1],
            population_target=np.zeros((1, rows)),
            origin={"target": "mine"},
        )
        alarms += bool(_trained_differently(given))
    assert alarms <= 37  # P[Bin(2000, 0.01) > 37] < 2e-4


def test_fewer_shadows_than_asked_are_called_out():
    """privacy_meter #146: 254 references configured, 8 trained."""
    present = arrays().first(16)
    assert present.shadows == 8
    assert any("8 shadow models are present of 16" in line for line in conclude(present).result.warnings)
    assert conclude(present).result.shadows == 8
    assert arrays().first(4).shadows == 4


def test_a_balanced_design_with_the_target_inside_fails_the_null_test():
    """It tells plain means who is in, by counting; the joint centre sees that the sides do not differ."""
    random = np.random.default_rng(0)
    keep = random.random((6, 8_000)).argsort(axis=0) < 3
    phi = random.normal(size=(6, 8_000, 1)).astype(np.float32)
    leaky = ShadowArrays(phi[1:], keep[1:], phi[:1], keep[:1])
    assert any("null test" in line for line in conclude(leaky).result.warnings)
    assert abs(auc(lira(phi[1:], keep[1:], phi[0]).scores, keep[0]) - 0.5) < 0.02
    assert auc(lira(phi[1:], keep[1:], phi[0], centre="mean").scores, keep[0]) < 0.45
    assert not any("null test" in line for line in conclude(arrays(8_000, 5, 0.5)).result.warnings)


def test_every_knob_is_in_the_record():
    """privacy_meter #151: no way to see which knob differs from the paper."""
    random = np.random.default_rng(0)
    given = replace(
        arrays(), population_shadow=random.normal(size=(8, 50)), population_target=random.normal(size=(1, 50))
    )
    details = {one.name: one.details for one in conclude(given).result.attacks}
    assert {"a", "gamma", "shadows", "population"} <= set(details["rmia_offline"])
    assert {"mode", "variance", "centre", "views", "shadows_in", "shadows_out", "coalmine"} <= set(
        details["lira_online"]
    )


def test_what_was_and_was_not_shown_is_said():
    """privacy_meter #108, TF-Privacy #140."""
    record = conclude(arrays(effect=0.0)).result.to_json()
    assert "not a bound on epsilon" in record["not_a_bound"]
    assert "members are the positive class" in record["direction"]


def test_a_target_of_members_only_is_named():
    given = arrays()
    with pytest.raises(InputError, match="target 0"):
        conclude(replace(given, target_member=np.ones_like(given.target_member)))
    with pytest.raises(InputError, match="population"):
        conclude(given, "rmia_offline")


def test_jackknife_covers_when_targets_share_something():
    """Each target has its own true AUC: pooled binomial intervals are too narrow, the jackknife covers."""
    random = np.random.default_rng(0)
    truth = np.mean([norm.cdf(d / np.sqrt(2)) for d in random.normal(1.0, 0.3, 20_000)])
    covered = 0
    for _ in range(120):
        scores, members = [], []
        for shift in random.normal(1.0, 0.3, 6):
            member = random.random(250) < 0.5
            members.append(member)
            scores.append(random.normal(size=250) + shift * member)
        interval = membership_metrics(scores, members).auc_interval
        covered += interval[0] <= truth <= interval[1]
    assert covered >= 108  # 95 % of 120 is 114
    assert jackknife(lambda s, m: 0.5, [np.zeros(2)], [np.zeros(2, bool)], (0.4, 0.6)) == (0.4, 0.6)
