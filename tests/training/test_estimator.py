"""Scikit-learn estimators asked like models."""

from __future__ import annotations

import numpy as np
import pytest
import torch
from sklearn.ensemble import RandomForestClassifier
from sklearn.linear_model import LogisticRegression
from sklearn.svm import LinearSVC

from coalmine.audit.score import score_canaries
from coalmine.audit.training.estimator import as_module
from coalmine.canaries import CanarySet
from coalmine.foundation import InputError


@pytest.fixture(scope="module")
def rows():
    generator = np.random.default_rng(0)
    return generator.random((60, 1, 3, 3), dtype=np.float32), np.arange(60) % 3


def fitted(estimator, rows, keep=slice(None)):
    x, y = rows
    return estimator.fit(x[keep].reshape(len(x[keep]), -1), y[keep])


def canaries_of(rows) -> CanarySet:
    x, y = rows
    return CanarySet(x=x, y=y, source_index=np.full(len(y), -1), method="test", classes=3)


def test_phi_is_the_log_odds_of_the_predicted_probability(rows):
    estimator = fitted(LogisticRegression(C=100), rows)
    p = estimator.predict_proba(rows[0].reshape(60, -1).astype(np.float64))[np.arange(60), rows[1]]
    found = score_canaries(as_module(estimator, 3), canaries_of(rows), batch_size=7).scores
    np.testing.assert_allclose(found, np.log(p / (1 - p)), rtol=1e-6)


def test_a_forests_certainties_are_ties_and_not_abstentions(rows):
    # the probabilities of a forest without bootstrap on its own training rows are exactly 0 and 1
    estimator = fitted(RandomForestClassifier(10, bootstrap=False, random_state=0), rows)
    flipped = canaries_of((rows[0], (rows[1] + 1) % 3))
    right, wrong = (score_canaries(as_module(estimator, 3), c) for c in (canaries_of(rows), flipped))
    assert right.counts()["undefined"] == wrong.counts()["undefined"] == 0
    assert right.distinct == wrong.distinct == 1 and right.scores.min() > wrong.scores.max()


def test_decision_values_serve_where_there_are_no_probabilities(rows):
    estimator = fitted(LinearSVC(), rows)
    expected = estimator.decision_function(rows[0].reshape(60, -1))
    np.testing.assert_allclose(as_module(estimator, 3)(torch.from_numpy(rows[0])).numpy(), expected)
    two = fitted(LinearSVC(), rows, rows[1] < 2)
    logits = as_module(two, 2)(torch.from_numpy(rows[0])).numpy()
    np.testing.assert_allclose(logits[:, 1] - logits[:, 0], two.decision_function(rows[0].reshape(60, -1)))


def test_a_class_that_was_never_seen_is_ruled_out(rows):
    estimator = fitted(LogisticRegression(), rows, rows[1] != 1)
    logits = as_module(estimator, 3)(torch.from_numpy(rows[0])).numpy()
    assert (logits[:, 1] < -700).all()
    np.testing.assert_allclose(np.exp(logits).sum(axis=1), 1)


@pytest.mark.parametrize(
    ("estimator", "classes", "words"),
    [
        (lambda rows: LogisticRegression(), 3, "call fit first"),
        (lambda rows: fitted(LogisticRegression(), rows), 2, "fit it on 0 … 1"),
        (lambda rows: fitted(LogisticRegression(), (rows[0], rows[1].astype(str))), 3, "fit it on"),
    ],
)
def test_mistakes(rows, estimator, classes, words):
    with pytest.raises(InputError, match=words):
        as_module(estimator(rows), classes)
