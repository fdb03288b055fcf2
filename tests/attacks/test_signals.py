"""phi, log confidence and hinge: published arrays, saturation, undefined inputs, one sigmoid output, shapes."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from coalmine.attacks import hinge, log_confidence, loss, one_run, phi, phi_from_probability
from coalmine.foundation import InputError

VALUES = np.load(Path(__file__).parents[1] / "data" / "attacks" / "lira_values.npz", allow_pickle=False)
LABELS = VALUES["labels"]


def test_phi_and_log_confidence_equal_the_reference_arrays():
    shadow = phi(VALUES["shadow_logits"], LABELS[None, :, None])
    np.testing.assert_allclose(shadow, VALUES["expect__phi_shadow"], rtol=1e-9, atol=0)
    target = phi(VALUES["target_logits"], LABELS[:, None])
    defined = np.isfinite(VALUES["expect__phi_target"])
    np.testing.assert_allclose(target[defined], VALUES["expect__phi_target"][defined], rtol=1e-9)
    assert np.isnan(target[~defined]).all()  # NaN or +inf logits: never a silent number
    for signal, logits, labels in (
        ("shadow", VALUES["shadow_logits"][:, :, 0], LABELS[None]),
        ("target", VALUES["target_logits"][:, 0], LABELS),
        ("pop_shadow", VALUES["pop_shadow_logits"][:, :, 0], VALUES["pop_labels"][None]),
        ("pop_target", VALUES["pop_target_logits"][:, 0], VALUES["pop_labels"]),
    ):
        expected = VALUES[f"expect__log_conf_{signal}"]
        computed = log_confidence(logits, labels)
        ok = np.isfinite(computed)
        # The reference subtracts logsumexp from z_y, so that near p = 1 it carries an absolute error of 1e-16 |z|.
        np.testing.assert_allclose(computed[ok], expected[ok], rtol=1e-9, atol=1e-13)
        assert np.isnan(computed[~ok]).all()
        assert (~ok).sum() <= 2


def test_phi_does_not_saturate():
    logits = np.array([[200.0, 10.0, 0.0], [0.0, 800.0, 10.0]])
    np.testing.assert_allclose(phi(logits, [0, 0]), [190 - np.log1p(np.exp(-10.0)), -800.0], rtol=1e-15)
    assert phi(np.array([[1000.0, -1000.0]]), [0])[0] == 2000.0
    assert log_confidence(np.array([[50.0, 0.0]]), [0])[0] == -np.log1p(np.exp(-50.0)) != 0.0


def test_undefined_logits_are_nan_and_a_class_ruled_out_is_harmless():
    row = np.array([1.0, 2.0, 3.0])
    for value, expected in ((np.nan, np.nan), (np.inf, np.nan)):
        for where in range(3):
            bad = row.copy()
            bad[where] = value
            for signal in (phi, hinge, log_confidence):
                assert np.isnan(signal(np.stack([bad, row]), [2, 2])[0]) == np.isnan(expected)
                assert np.isfinite(signal(np.stack([bad, row]), [2, 2])[1])
    ruled_out = np.array([[1.0, -np.inf, 3.0]])
    assert phi(ruled_out, [2])[0] == pytest.approx(2.0)
    assert hinge(ruled_out, [2])[0] == 2.0


def test_one_sigmoid_output_with_labels_as_floats():
    """LeakPro #423: models with a single BCE logit, labels 0.0 and 1.0."""
    z = np.array([[2.0], [-3.0], [0.5]])
    labels = np.array([1.0, 0.0, 0.0])
    np.testing.assert_array_equal(phi(z, labels), [2.0, 3.0, -0.5])
    two_logits = np.concatenate([np.zeros_like(z), z], axis=1)
    np.testing.assert_allclose(phi(two_logits, labels), phi(z, labels), rtol=1e-15)
    np.testing.assert_allclose(log_confidence(z, labels), -np.log1p(np.exp(-np.array([2.0, 3.0, -0.5]))))


@settings(max_examples=60, deadline=None)
@given(st.integers(0, 2**32 - 1), st.floats(-500, 500), st.integers(2, 7))
def test_invariances(seed: int, shift: float, classes: int):
    random = np.random.default_rng(seed)
    logits = random.normal(0, 5, (6, classes))
    labels = random.integers(0, classes, 6)
    permutation = random.permutation(classes)
    where = np.argsort(permutation)
    for signal in (phi, hinge, log_confidence):
        base = signal(logits, labels)
        np.testing.assert_allclose(signal(logits + shift, labels), base, rtol=1e-7, atol=1e-9)
        np.testing.assert_allclose(signal(logits[:, permutation], where[labels]), base, rtol=1e-9, atol=1e-12)
    before = logits.copy()
    phi(logits, labels), hinge(logits, labels)
    np.testing.assert_array_equal(logits, before)
    p = np.exp(log_confidence(logits, labels))
    np.testing.assert_allclose(p, np.exp(logits)[np.arange(6), labels] / np.exp(logits).sum(1), rtol=1e-9)


def test_tensors_of_any_float_type_and_strided_arrays():
    logits = np.random.default_rng(0).normal(0, 3, (5, 8)).astype(np.float32)
    labels = np.arange(5)
    base = phi(logits, labels)
    assert base.dtype == np.float64
    np.testing.assert_array_equal(phi(torch.tensor(logits, requires_grad=True), torch.tensor(labels)), base)
    np.testing.assert_array_equal(phi(np.asfortranarray(logits), labels), base)
    np.testing.assert_array_equal(phi(np.repeat(logits, 2, axis=0)[::2], labels), base)
    half = torch.tensor(logits).bfloat16()
    np.testing.assert_array_equal(phi(half, labels), phi(half.double(), labels))


def test_phi_from_probability_counts_what_it_clips():
    values, clipped = phi_from_probability(np.array([0.5, 1.0, 0.0, 0.25]))
    assert clipped == 2
    assert np.isfinite(values).all()
    np.testing.assert_allclose(values[[0, 3]], [0.0, np.log(1 / 3)], atol=1e-16)
    single, clipped = phi_from_probability(np.array([1.0, 0.5], dtype=np.float32))
    assert clipped == 1 and 16 < single[0] < 17  # where float32 saturates
    with pytest.raises(InputError, match="probability"):
        phi_from_probability([0.5, -3.0])


@pytest.mark.parametrize(
    ("logits", "labels", "message"),
    [
        (np.zeros((3, 4)), [0, 1, 4], r"0 … 3.*got 4"),
        (np.zeros((3, 4)), [0, 1, -1], r"got -1"),
        (np.zeros((3, 4)), [0, 1, 0.5], "whole numbers"),
        (np.zeros((3, 4)), ["a", "b", "c"], "encode"),
        (np.zeros((3, 2, 4)), [0, 1, 2], r"labels\[:, None\]"),
        (np.zeros((3, 4)), [0, 1], "do not fit"),
        (np.zeros((3, 0)), [0, 0, 0], "shape"),
        (np.array([["a"]]), [0], "numbers"),
    ],
)
def test_wrong_input_is_named(logits, labels, message):
    with pytest.raises(InputError, match=message):
        phi(logits, labels)


def test_loss_and_one_run_mark_the_bad_row_and_leave_the_others():
    target = np.array([[1.0, 2.0], [np.nan, 1.0], [3.0, np.inf], [0.0, 0.0]])
    for result in (loss(target), one_run(target), one_run(target, np.zeros_like(target))):
        assert list(result.status) == ["ok", "non_finite_target", "non_finite_target", "ok"]
        np.testing.assert_array_equal(result.defined, [True, False, False, True])
        assert result.counts()["undefined"] == 2
        assert len(result.remarks()) == 1
    reference = np.array([[0.0, 0.0], [0.0, 0.0], [0.0, 0.0], [np.nan, 0.0]])
    difference = one_run(target, reference)
    assert list(difference.defined) == [True, False, False, False]
    assert difference.scores[0] == 1.5
    assert loss(target[:, 0]).scores[0] == -np.log1p(np.exp(-1.0))
    with pytest.raises(InputError, match="one shape"):
        one_run(target, reference[:, :1])


def test_scores_from_arrays_need_neither_torch_nor_sklearn():
    code = "import sys, coalmine.attacks; print([m for m in ('torch', 'sklearn', 'pandas') if m in sys.modules])"
    result = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert result.stdout.strip() == "[]"
