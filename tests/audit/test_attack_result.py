"""Attacks on finished models as values: kept and read back, fed rightly or stopped, said in the right words."""

from __future__ import annotations

import importlib.util
import json
import tracemalloc
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from sklearn.datasets import load_digits
from sklearn.linear_model import LogisticRegression
from torch import nn

from coalmine.attacks.shadow_arrays import ShadowArrays
from coalmine.audit import Feeding, attack_model
from coalmine.audit.attack.conclude import Known, conclude
from coalmine.audit.attack.examples import Shown, example_table, stability
from coalmine.audit.attack.fed import better_than_chance, check_gap, own_accuracy
from coalmine.audit.attack.metrics import membership_metrics
from coalmine.audit.attack.result import (
    AttackResult,
    Example,
    Exposure,
    Group,
    OwnAccuracy,
    Stability,
)  # fmt: skip
from coalmine.foundation import InputError
from coalmine.reports.attack_page import render_attack
from coalmine.reports.attack_words import case_of, model_card, sentence


def arrays(n: int = 400, effect: float = 1.0, shadows: int = 8, seed: int = 0) -> ShadowArrays:
    random = np.random.default_rng(seed)
    keep = random.random((shadows + 1, n)) < 0.5
    phi = (random.normal(0, 3, n) + effect * keep + random.normal(size=keep.shape))[:, :, None].astype(np.float32)
    return ShadowArrays(phi[1:], keep[1:], phi[:1], keep[:1])


RATES = st.floats(0, 1)
TEXTS = st.text(st.characters(codec="utf-8", exclude_categories=["C", "Z"]), max_size=12)


@settings(max_examples=30, deadline=None)
@given(
    st.integers(0, 10**6), RATES, TEXTS, st.lists(TEXTS, max_size=3), st.booleans(),
    st.floats(allow_nan=False, allow_infinity=False),
)  # fmt: skip
def test_a_result_comes_back_from_json_as_it_went(count, rate, text, warnings, known, score):
    base = RESULT
    result = replace(
        base,
        warnings=tuple(warnings),
        accuracy=OwnAccuracy(count + 1, count, 3, 2, rate) if known else None,
        at_risk=(
            Example(count, text, text, True, score, rate, "ok"),
            Example(1, "", "", True, None, None, "too_few_in"),
        ),
        groups=(Group("site", text, count, 0, None, None, None, None), Group("c", "x", 1, 1, rate, (0.0, 1.0), 1, 0)),
        stability=Stability((4, 4), rate, 20, 12) if known else None,
        exposures=(Exposure(0.1, 0.01, 3.5, (1.0, 7.0), rate * 100, None),),
        next_attack=text or None,
    )
    assert AttackResult.from_json(json.loads(json.dumps(result.to_json(), allow_nan=False))) == result


RESULT = conclude(arrays()).result


def test_files_of_the_first_version_are_read_and_others_refused_by_name():
    content = RESULT.to_json()
    old = {k: v for k, v in content.items() if k not in ("accuracy", "at_risk", "groups", "stability", "exposures")}
    old["schema_version"] = 1
    for section in old["attacks"].values():
        section.pop("curve")
    read = AttackResult.from_json(old)
    assert read.metrics == RESULT.metrics and read.accuracy is None and read.at_risk == ()
    assert "All attacks" in render_attack(read)
    for broken, named in (
        ({"schema_version": 9}, "schema_version 9"),
        ({"shadows": -1}, "shadows"),
        ({"attack": "x"}, "x"),
    ):
        with pytest.raises(InputError, match=named):
            AttackResult.from_json(content | broken, "r.json")
    with pytest.raises(InputError, match=r"no attack\.json"):
        AttackResult.from_json({"verdict": "rejected"}, "audit.json")


def scored(auc: float, n: int, seed: int = 0) -> AttackResult:
    """A result whose AUC is near the one wanted: normal scores, members shifted."""
    from scipy.special import ndtri

    shift = np.sqrt(2) * ndtri(auc)
    member = np.arange(n) % 2 == 0
    # quantiles in place of draws: the AUC is the wanted one for every n
    places = (np.arange(n // 2) + 0.5) / (n // 2)
    score = np.empty(n)
    score[member], score[~member] = ndtri(places) + shift, ndtri(places)
    metrics = membership_metrics([score], [member])
    chosen = replace(RESULT.chosen, metrics=metrics)
    others = tuple(one for one in RESULT.attacks if one.name != RESULT.attack)
    return replace(RESULT, attacks=(chosen, *others), examples=n, exposures=(), warnings=())


@pytest.mark.parametrize(
    ("auc", "n", "case", "words"),
    [
        (0.45, 40, "silent", "a coin does so 50 times"),
        (0.45, 40_000, "below", "less often than a coin"),
        (0.52, 40, "silent", "no proof that a stronger one could not"),
        (0.52, 40_000, "tells", "picks the training row 52.0 times out of 100"),
        (0.70, 40, "silent", "a coin does so 50 times"),
        (0.90, 40, "tells", "With 20 rows outside, how many he finds at few false alarms cannot be told"),
        (0.70, 40_000, "tells", "one false alarm in a hundred finds"),
        (0.99, 40, "tells", "picks the training row 99"),
        (0.99, 40_000, "tells", "one false alarm in a hundred finds"),
    ],
)
def test_the_first_sentence_says_what_the_interval_allows(auc, n, case, words):
    result = scored(auc, n)
    assert case_of(result) == case and words in sentence(result), sentence(result)
    metrics = result.metrics
    assert metrics is not None
    point = metrics.at(0.01)
    if "hundred finds" in words:
        assert point is not None and point.true_positive_rate is not None
        shown = sentence(result).split("finds ")[1].split("\u00a0%")[0]
        assert float(shown) == pytest.approx(100 * point.true_positive_rate, abs=0.5)
    card = model_card(result)
    assert card.count("\n") == 4 and "AUC" in card and "canar" not in card
    page = render_attack(result)
    assert "canaries that" not in page and words.split("\u00a0")[0] in page.replace("’", "'")


def test_a_small_effect_at_small_rates_is_not_called_more_than_chance():
    """AUC above 1/2 with certainty, and no member found at few false alarms: the sentence speaks of pairs."""
    random = np.random.default_rng(0)
    member = np.arange(6000) % 2 == 0
    score = random.normal(size=6000) + np.where(member, 0.3, 0.0)
    score[~member] = np.where(random.random(3000) < 0.03, 9 + random.random(3000), score[~member])
    metrics = membership_metrics([score], [member])
    result = replace(RESULT, attacks=(replace(RESULT.chosen, metrics=metrics),), exposures=())
    assert case_of(result) == "tells" and "no more of them than by chance" in sentence(result)


def test_better_than_chance_where_one_class_is_nearly_all():
    """99.8 % of one class: a model that finds a third of the others is no worse fed than one that names it always."""
    labels = np.zeros(5000, int)
    labels[:10] = 1
    useful, constant = labels.copy(), np.zeros(5000, int)
    useful[:6] = 0
    member = np.ones(5000, bool)
    for predicted, expected in ((useful, True), (constant, False), (1 - labels, False)):
        assert better_than_chance(predicted, labels, own_accuracy(predicted, labels, member)) is expected


def test_a_model_at_chance_is_hardly_ever_taken_for_a_trained_one():
    random = np.random.default_rng(0)
    passed = 0
    for _ in range(2000):
        labels, predicted = random.integers(0, 3, (2, 60))
        passed += better_than_chance(predicted, labels, own_accuracy(predicted, labels, np.ones(60, bool)))
    assert passed <= 8  # at most one in a thousand expected: P[Bin(2000, 0.001) > 8] < 3e-4


def test_a_list_of_members_that_is_not_the_targets_is_seen_beside_shadows():
    gaps = np.array([0.14, 0.16, 0.15, 0.13])
    check_gap(OwnAccuracy(1000, 990, 1000, 850, 0.1), gaps)
    with pytest.raises(InputError, match="--target-members"):
        check_gap(OwnAccuracy(1000, 920, 1000, 918, 0.1), gaps)
    check_gap(OwnAccuracy(1000, 920, 1000, 918, 0.1), np.array([0.002, -0.001, 0.003]))  # a recipe without a gap
    check_gap(OwnAccuracy(20, 18, 20, 18, 0.1), gaps)  # too few rows to tell


def test_the_false_positive_rate_at_a_score_counts_ties_and_undefined_scores():
    from coalmine.attacks import AttackScores

    score = np.array([3.0, 2.0, np.nan, 2.0, 1.0, 0.0])
    member = np.array([True, True, True, False, False, False])
    scores = AttackScores(score, np.where(np.isnan(score), "non_finite_target", "ok"))
    table = example_table(scores, member, Shown())
    np.testing.assert_allclose(table.false_positive_rate, [0, 1 / 3, np.nan, 1 / 3, 2 / 3, 1])
    assert table.order.tolist() == [0, 1, 3, 4, 5, 2]


def test_stability_is_one_for_equal_halves_and_zero_for_unrelated_ones():
    random = np.random.default_rng(0)
    one, other = random.normal(size=(2, 2000))
    member = np.ones(2000, bool)
    same, none = stability(one, one, member, (4, 4)), stability(one, other, member, (4, 4))
    assert same is not None and none is not None
    assert same.rank_correlation == pytest.approx(1) and same.in_both == 20
    assert abs(none.rank_correlation) < 0.1 and none.in_both <= 3


def test_five_lines_of_python(tmp_path):
    x, y = load_digits(return_X_y=True)
    members = np.random.default_rng(0).random(len(y)) < 0.5
    model = LogisticRegression(C=100, max_iter=3000).fit(x[members], y[members])
    found = attack_model(model, x, y, members)
    assert found.table().loc["loss", "AUC"] == found.result.metrics.auc > 0.5
    assert len(found.at_risk(20)) == 20 and members[found.at_risk(20)["row"]].all()
    assert found.report(tmp_path / "page.html").read_text().startswith("<!doctype html>")
    assert "<table" in found._repr_html_() and "loss*" in str(found)
    by_number = attack_model(model, x, y, np.flatnonzero(members))
    assert by_number.result.metrics == found.result.metrics
    names = np.array([f"digit {label}" for label in y])
    named = LogisticRegression(C=100, max_iter=3000).fit(x[members], names[members])
    assert attack_model(named, x, names, members).result.metrics.auc == pytest.approx(
        found.result.metrics.auc, abs=0.01
    )
    with pytest.raises(InputError, match="members"):
        attack_model(model, x, y, np.ones(len(y), bool))


def test_fifty_thousand_rows_in_bounded_memory():
    """100 classes: all logits would be 20 MB in float32 and 40 MB in float64, with copies; batches need a part."""
    random = np.random.default_rng(0)
    x = random.normal(size=(50_000, 16)).astype(np.float32)
    torch.manual_seed(0)
    model = nn.Linear(16, 100)
    with torch.no_grad():
        y = model(torch.tensor(x)).argmax(1).numpy()  # every label is right: the model is fed rightly
    members = random.random(50_000) < 0.5
    tracemalloc.start()
    found = attack_model(model, x, y, members, feeding=Feeding())
    _, peak = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    assert found.result.examples == 50_000 and peak < 90e6
    assert abs(found.result.metrics.auc - 0.5) < 0.02


def test_attacks_without_shadows_conclude_by_themselves():
    given = arrays(shadows=0)
    result = conclude(given, "loss", Known()).result
    assert {one.name for one in result.attacks} == {"loss", "phi"} and result.stability is None
    with pytest.raises(InputError, match="shadow models"):
        conclude(given, "lira_online")


@pytest.mark.slow
def test_mislabelled_training_rows_head_the_list_of_those_at_risk(tmp_path):
    """reports/experiments/at_risk.py on two seeds: the planted rows are found with shadows, not by the loss alone."""
    path = Path(__file__).parents[2] / "reports" / "experiments" / "at_risk.py"
    spec = importlib.util.spec_from_file_location("at_risk", path)
    assert spec is not None and spec.loader is not None
    at_risk = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(at_risk)
    strong, weak, _ = np.mean([at_risk.precision(seed, 8, 40, tmp_path) for seed in (100, 101)], axis=0)
    assert strong > 0.4 and weak < 0.1  # by chance 0.02
