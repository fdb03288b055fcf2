"""Public issues of other attack tools, each tried here and its right value kept. The number is that tool's issue.

Those about checkpoints and wrapped models are in the tests of training; those about caches in test_shadows.
"""

from __future__ import annotations

import numpy as np
import pytest
import torch
from torch import nn

from coalmine.attacks import attack_p, attack_r, base, calibrated_loss, lira, log_confidence, loss, midpoint, phi, rmia
from coalmine.attacks.null_test import permuted_values
from coalmine.attacks.query import query_logits
from coalmine.audit.attack.metrics import membership_metrics
from coalmine.audit.estimators.roc import auc, roc_curve
from coalmine.foundation import InputError


def test_metrics_of_the_reference_scores(values):
    """AUC, balanced accuracy, advantage and TPR at four rates of every reference score."""
    member = values["target_member"][:64]
    cases = {k.removeprefix("expect__metrics__"): values[k] for k in values.files if k.startswith("expect__metrics__")}
    for name, expected in cases.items():
        if name == "ties":
            scores, flags = values["expect__tie_scores"], values["expect__tie_member"]
        else:
            scores, flags = values[f"expect__reg__{name}"], member
        curve = roc_curve(scores, flags)
        advantage = np.max(curve.true_positive_rate - curve.false_positive_rate)
        ours = [curve.auc, (1 + advantage) / 2, advantage]
        for rate in (0, 0.001, 0.01, 0.1):
            ours.append(curve.true_positive_rate[curve.false_positive_rate <= rate].max())
        np.testing.assert_allclose(ours, expected, atol=1e-12, err_msg=name)


def test_ties_are_one_block_under_any_row_order():
    """LeakPro #465: AUC .375 and a curve that does not reach (1, 1)."""
    scores, members = np.array([9.0, 9, 5, 5]), np.array([True, False, True, False])
    for order in ([0, 1, 2, 3], [1, 0, 3, 2], [3, 1, 2, 0]):
        curve = roc_curve(scores[order], members[order])
        assert curve.auc == 0.5
        assert (curve.false_positive_rate[-1], curve.true_positive_rate[-1]) == (1.0, 1.0)


def test_perfect_separation_has_tpr_one_at_no_false_positive():
    """LeakPro #275: TPR at 0 % FPR was always N/A."""
    curve = roc_curve(np.arange(10.0), np.arange(10) >= 5)
    assert curve.true_positive_rate[curve.false_positive_rate == 0].max() == 1.0


def test_one_huge_score_is_any_other_largest_score():
    """LeakPro #282: thresholds from a linspace break with one outlier."""
    random = np.random.default_rng(0)
    members = random.random(3000) < 0.5
    scores = random.normal(size=3000) + members
    ordinary, huge = scores.copy(), scores.copy()
    ordinary[np.argmax(scores)], huge[np.argmax(scores)] = 100.0, 1e30
    a, b = (membership_metrics([s], [members], 0.5) for s in (ordinary, huge))
    for key in ("auc", "auc_interval", "best_balanced_accuracy", "balanced_accuracy"):
        assert getattr(a, key) == getattr(b, key)
    assert a.at(0.01) == b.at(0.01)


def test_the_variant_of_offline_is_named_in_every_result(signals):
    """LeakPro #378, #450; tensorflow/privacy #598: one-sided or two-sided, users cannot tell."""
    shadow, keep, target = signals.shadow_phi[:, :64], signals.keep[:, :64], signals.target_phi[:64]
    seen = {}
    for mode in ("offline", "offline_neglogsf", "offline_two_sided"):
        details = lira(shadow, keep, target, mode).details
        assert details["mode"] == mode and details["coalmine"]
        seen[details["attack"]] = lira(shadow, keep, target, mode).scores
    assert len(seen) == 3
    assert (
        lira(shadow, keep, target, "online", "per_example", variant="carlini2021").details["variant"] == "carlini2021"
    )


def test_a_design_without_out_models_names_the_examples():
    """LeakPro #345, #441: training fraction 0.7 with two models gave "Score is NaN"."""
    keep = np.array([[True, True, True, False], [True, True, True, True]])
    with pytest.raises(InputError, match=r"OUT.*: 0, 1, 2"):
        lira(np.zeros((2, 4, 1)) + np.arange(4)[None, :, None], keep, np.zeros((4, 1)), "offline")


def test_one_output_models_in_every_attack():
    """LeakPro #423: RMIA, BASE and loss trajectory fail where the model has a single BCE logit."""
    random = np.random.default_rng(0)
    labels = random.integers(0, 2, 30).astype(float)
    shadow, target = random.normal(0, 3, (8, 30, 1)), random.normal(0, 3, (30, 1))
    keep = random.random((8, 30)) < 0.5
    keep[:2] = True
    keep[2:4] = False
    s, t = log_confidence(shadow, labels[None]), log_confidence(target, labels)
    population = log_confidence(random.normal(0, 3, (8, 9, 1)), np.ones((1, 9)))
    for result in (
        lira(phi(shadow, labels[None]), keep, phi(target, labels)),
        base(s, keep, t),
        rmia(s, keep, t, population, population[0]),
        attack_r(s, keep, t),
        calibrated_loss(s, keep, t),
        midpoint(s, keep, t),
        attack_p(t, population[0]),
        loss(phi(target, labels)),
    ):
        assert np.isfinite(result.scores).all() and len(result) == 30


def overfitted(classes: int, shape: tuple[int, ...], seed: int = 0) -> tuple[nn.Module, np.ndarray, np.ndarray]:
    """A network that has learnt random labels of its 60 training rows by heart; rows 60 … 119 are new."""
    random = np.random.default_rng(seed)
    x = random.normal(size=(120, *shape)).astype(np.float32)
    y = random.integers(0, classes, 120)
    generator = torch.Generator().manual_seed(seed)
    model = nn.Sequential(nn.Flatten(), nn.Linear(int(np.prod(shape)), 64), nn.ReLU(), nn.Linear(64, classes))
    with torch.no_grad():
        for p in model.parameters():
            p.copy_(torch.randn(p.shape, generator=generator) * 0.15)
    optimiser = torch.optim.Adam(model.parameters(), lr=0.01)
    inputs, labels = torch.tensor(x[:60]), torch.tensor(y[:60])
    for _ in range(150):
        optimiser.zero_grad()
        nn.functional.cross_entropy(model(inputs), labels).backward()
        optimiser.step()
    return model, x, y


@pytest.mark.parametrize(("classes", "shape"), [(3, (1, 8, 8)), (10, (3, 6, 6)), (2, (40,))])
def test_an_overfitted_model_is_seen_whatever_its_classes_and_inputs(classes, shape):
    """AIJack #125 (wrong class column: AUC .519), ML-Doctor #6, UnlearningLeaks #4 (wired to 10 classes and images)."""
    model, x, y = overfitted(classes, shape)
    member = np.arange(120) < 60
    target = phi(query_logits(model, x), y[:, None])
    area = auc(loss(target).scores, member)
    assert area > 0.9
    # TF-Privacy #140: the direction is stated; members and non-members changed over give 1 - AUC
    assert auc(loss(target).scores, ~member) == pytest.approx(1 - area)


def test_scores_follow_their_rows(signals):
    """ART #1165: infer() returned shuffled rows."""
    order = np.random.default_rng(0).permutation(76)
    s = signals
    for attack in (base, attack_r, calibrated_loss, midpoint):
        straight = attack(s.shadow, s.keep, s.target)
        shuffled = attack(s.shadow[:, order], s.keep[:, order], s.target[order])
        np.testing.assert_allclose(shuffled.scores, straight.scores[order], rtol=1e-9, atol=1e-14)
        np.testing.assert_array_equal(shuffled.status, straight.status[order])


def test_operating_points_say_which_threshold_their_counts_belong_to():
    """privacy_meter #120."""
    random = np.random.default_rng(1)
    members = random.random(4000) < 0.5
    scores = random.normal(size=4000) + 2 * members
    point = membership_metrics([scores], [members]).at(0.01)
    called = scores >= point.threshold
    assert point.tp == (called & members).sum() and point.fp == (called & ~members).sum()
    assert point.tp + point.fn == members.sum() and point.fp + point.tn == (~members).sum()
    assert point.fp / (~members).sum() <= 0.01 < (point.fp + 1) / (~members).sum()


def test_only_non_members_is_a_clear_error():
    """membership-inference-evaluation #4."""
    with pytest.raises(InputError, match="at least one member"):
        membership_metrics([np.arange(5.0)], [np.zeros(5, bool)])


def test_a_class_that_a_shadow_never_saw_is_an_ordinary_row():
    """SACRO-ML #34: a shadow lacks a class. Logits keep one column a class; -inf rules a class out."""
    logits = np.array([[2.0, -np.inf, 1.0], [0.0, 1.0, 3.0]])
    assert phi(logits, [0, 2])[0] == pytest.approx(1.0)
    assert phi(logits, [1, 2])[0] == -np.inf  # the true class ruled out: the surest non-member, and marked as such
    assert loss(phi(logits, [1, 2])).status[0] == "non_finite_target"


@pytest.mark.parametrize("attack", ["per_example", "shrunk"])
def test_a_balanced_design_with_the_target_inside_leaks_membership_by_counting(attack):
    """The 2021 design with leave-one-out: an AUC far from 1/2 on pure noise, which the null test shows."""
    random = np.random.default_rng(0)
    models, n = 8, 6000
    balanced = random.random((models, n)).argsort(axis=0) < models // 2
    coins = random.random((models, n)) < 0.5
    noise = random.normal(size=(models, n, 1))
    areas = {}
    for name, keep in (("balanced", balanced), ("coins", coins)):
        shadow, target = permuted_values(noise[1:], noise[0], seed=1)
        areas[name] = auc(lira(shadow, keep[1:], target, variance=attack).scores, keep[0])
    assert abs(areas["coins"] - 0.5) < 0.03
    if attack == "per_example":
        assert areas["balanced"] < 0.46


@pytest.mark.parametrize("mode", ["online", "offline"])
def test_null_test_of_every_shadow_attack_with_independent_coins(mode):
    random = np.random.default_rng(3)
    keep = random.random((9, 8000)) < 0.5
    noise = random.normal(size=(9, 8000))
    s, t, k, member = noise[1:], noise[0], keep[1:], keep[0]
    results = [lira(s, k, t, mode, variance) for variance in ("per_example", "pooled", "shrunk", "fixed_raw")]
    results += [attack_r(s, k, t), base(s - 5, k, t - 5, mode), calibrated_loss(s, k, t), midpoint(s, k, t)]
    results += [rmia(s - 5, k, t - 5, noise[1:, :200] - 5, noise[0, :200] - 5, mode)]
    for result in results:
        rows = result.defined
        assert abs(auc(result.scores[rows], member[rows]) - 0.5) < 0.026, result.details  # four standard errors
