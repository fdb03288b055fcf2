"""The set that a refinement returns: the best iterate by fresh replicas, and never silently worse than its start."""

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch import nn

from coalmine.audit.estimators import auc, roc_curve
from coalmine.canaries.choice import Figures, best_restarts, choose, corners, figures
from coalmine.canaries.noise import noise
from coalmine.canaries.pool import Pool
from coalmine.canaries.refine import refine
from coalmine.canaries.refinement import Refinement


def snap(x):
    return corners(x, torch.tensor(0.0), torch.tensor(1.0))


@settings(max_examples=50, deadline=None)
@given(st.integers(0, 2**32), st.integers(2, 60), st.integers(1, 9))
def test_figures_are_those_of_an_audit(seed, m, levels):
    """TPR and AUC as the estimators have them, with ties; the partial AUC by its definition."""
    stream = np.random.default_rng(seed)
    phi = stream.integers(0, levels, (3, m)).astype(np.float64)
    masks = np.zeros((3, m))
    for row in masks:
        row[stream.permutation(m)[: max(1, m // 2)]] = 1
    got = figures(torch.tensor(phi), torch.tensor(masks))
    rates, areas, partial = [], [], []
    for scores, mask in zip(phi, masks, strict=True):
        roc = roc_curve(scores, mask > 0)
        rates.append(roc.true_positive_rate[roc.false_positive_rate <= 0.05].max())
        areas.append(auc(scores, mask > 0))
        others = np.sort(scores[mask == 0])[::-1]
        hardest = others[: int(np.ceil(0.2 * len(others)))]
        members = scores[mask > 0]
        partial.append(np.mean([(s > h) + 0.5 * (s == h) for s in members for h in hardest]))
    assert got.true_positive_rate == pytest.approx(np.mean(rates))
    assert got.auc == pytest.approx(np.mean(areas)) and got.partial_auc == pytest.approx(np.mean(partial))


def sets():
    """A start and three iterates, told apart by their first value."""
    return torch.full((4, 2), 0.5), {k: torch.full((4, 2), 0.1 * k) for k in (1, 2, 3)}


def measured(values, heard):
    def measure(at, purpose):
        heard.append((round(float(at[0, 0]), 1), purpose))
        value = values[purpose].get(round(float(at[0, 0]), 1), 0.0)
        return Figures(value, value, value)

    return measure


def test_the_best_by_a_second_look_is_taken_and_a_third_one_judges_it():
    start, iterates = sets()
    heard: list = []
    values = {"choice": {0.2: 0.9, 0.3: 0.6}, "judge": {0.2: 0.7, 0.5: 0.4}}
    choice = choose(start, iterates, [3, 2], snap, measured(values, heard))
    assert choice.restart == 2 and not choice.corners and choice.returned == "refined"
    assert (choice.start.auc, choice.chosen.auc) == (0.4, 0.7)
    assert {purpose for at, purpose in heard if at == 0.5} == {"judge"}  # the start is never part of the choosing
    assert choice.stated()["refined_figures"]["auc"] == 0.7


def test_corners_are_tried_beside_the_iterate():
    start, iterates = sets()
    values = {"choice": {0.3: 0.6, 0.0: 0.8}, "judge": {0.0: 0.7, 0.5: 0.4}}
    choice = choose(start, iterates, [3], snap, measured(values, []))
    assert choice.corners and choice.restart == 3 and torch.equal(choice.canaries, torch.zeros(4, 2))
    x = torch.tensor([[0.2, 0.5], [0.51, 1.0]])
    assert snap(x).tolist() == [[0.0, 1.0], [1.0, 1.0]]


def test_an_iterate_at_the_corners_is_not_measured_twice():
    heard: list = []
    choose(torch.full((4, 2), 0.5), {1: torch.ones(4, 2)}, [1], snap, measured({"judge": {}}, heard))
    assert [purpose for _, purpose in heard] == ["judge", "judge"]


def test_the_walk_is_ranked_by_figures_after_the_start():
    log = [{"restart": k, "auc": a, "partial_auc": a} for k, a in enumerate((0.99, 0.5, 0.8, 0.8, 0.7))]
    assert best_restarts(log) == [3, 2]  # restart 0 measured the start


def trained_for(steps, x, y, membership, seeds):
    models = []
    for members, seed in zip(membership, seeds, strict=True):
        with torch.random.fork_rng():
            torch.manual_seed(seed)
            model = nn.Sequential(nn.Linear(6, 32), nn.GELU(), nn.Linear(32, 3))
        optimizer = torch.optim.Adam(model.parameters(), 0.02)
        for _ in range(steps):
            optimizer.zero_grad()
            nn.functional.cross_entropy(model(torch.tensor(x[members])), torch.tensor(y[members])).backward()
            optimizer.step()
        models.append(model)
    return models


def test_a_set_that_is_worse_than_its_start_is_never_returned():
    """The recipe remembers the start alone: every move makes a set worse."""
    stream = np.random.default_rng(0)
    pool = Pool(stream.random((30, 6)), stream.integers(0, 3, 30), 3, (0.0, 1.0))
    start = noise(pool, 12, 0)
    known = {row.tobytes() for row in start.x}

    def remembers_the_start(x, y, membership, seeds):
        theirs = {row.tobytes() for row in x} & known
        return trained_for(150 if theirs else 1, x, y, membership, seeds)

    settings = Refinement(replicas=4, restarts=3, steps=4, warmup=1, batch=16)
    refined, _ = refine(start, pool, remembers_the_start, settings, 1)
    choice = refined.parameters["choice"]
    assert choice["returned"] == "start"
    assert choice["refined_figures"]["auc"] < choice["start_figures"]["auc"]
    np.testing.assert_array_equal(refined.x, start.x)
