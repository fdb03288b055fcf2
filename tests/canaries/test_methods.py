"""Methods that look through trained models, and the diagnosis of any set."""

import numpy as np
import pytest
import torch
from torch import nn

from coalmine.canaries import CanarySet, craft
from coalmine.canaries.base_models import mean_loss
from coalmine.canaries.clipped_influence import ClippedInfluence
from coalmine.canaries.crafting import WITH_MODELS
from coalmine.canaries.diagnosis import complementary_pair, diagnose, effective_rank, influence_among, margin_gap
from coalmine.canaries.influence import influence
from coalmine.canaries.pool import Pool
from coalmine.canaries.refinement import Refinement
from coalmine.canaries.unrolled import InnerTraining
from coalmine.foundation import InputError

STREAM = np.random.default_rng(0)
Y = STREAM.integers(0, 3, 40)
X = np.clip(STREAM.random((40, 6)) * 0.5 + 0.2 * Y[:, None], 0, 1).astype(np.float32)


def build(seed):
    with torch.random.fork_rng():
        torch.manual_seed(seed)
        return nn.Sequential(nn.Linear(6, 8), nn.GELU(), nn.Linear(8, 3))


def train_many(x, y, membership, seeds):
    models = []
    for members, seed in zip(membership, seeds, strict=True):
        model = build(seed)
        optimizer = torch.optim.SGD(model.parameters(), lr=0.5)
        for _ in range(15):
            optimizer.zero_grad()
            nn.functional.cross_entropy(model(torch.tensor(x[members])), torch.tensor(y[members])).backward()
            optimizer.step()
        models.append(model)
    return models


def make(method, count=8, **options):
    if method == "metagradient":
        options |= {"build": build, "inner": InnerTraining(2, 2), "meta_steps": 1, "replicas": 2}
    if method == "ibis":
        options |= {"refinement": Refinement(replicas=2, restarts=1, steps=2, warmup=1), "start": "greedy"}
    if method == "canife":
        options |= {"steps": 5}
    if method == "clipped_influence":
        settings = ClippedInfluence(models=2, steps=3, fisher_rows=10)
        options |= {"clipping_norm": 1.0, "settings": settings, "start": "greedy"}
    options |= {"data_fingerprint": "f", "train_many": train_many, "allowed": np.arange(40) < 20}
    return craft(method, X, Y, 3, (0, 1), count, 3, **options)


@pytest.mark.parametrize("method", WITH_MODELS)
def test_every_method_gives_a_valid_set_that_its_seed_determines(method):
    one, two = make(method), make(method)
    assert one.sha256 == two.sha256 and one.method == method and len(one) == 8
    assert one.data_fingerprint == "f" and one.classes == 3 and one.x.min() >= 0 and one.x.max() <= 1
    assert one.source_index.max() < 20  # only allowed rows are used up


@pytest.mark.parametrize("method", WITH_MODELS)
def test_methods_that_need_models_say_so(method):
    with pytest.raises(InputError, match="train_many"):
        craft(method, X, Y, 3, (0, 1), 4, 0)


@pytest.mark.parametrize("method", ["highest_loss", "highest_self_influence", "greedy", "ibis"])
def test_too_few_rows_are_told_before_any_model_is_trained(method):
    def never(*_):
        pytest.fail("a model was trained first")

    with pytest.raises(InputError, match="count is 41, the pool has 40 rows"):
        craft(method, X, Y, 3, (0, 1), 41, 0, train_many=never)


@pytest.mark.parametrize("method", ["ibis", "clipped_influence", "metagradient"])
def test_canaries_whose_sources_are_all_of_the_data_are_refused(method):
    with pytest.raises(InputError, match="count 40 takes every row"):
        craft(method, X, Y, 3, (0, 1), 40, 0, train_many=train_many, start="random")


def test_ibis_begins_with_greedy_rows_and_the_others_with_binary_noise():
    settings = Refinement(replicas=2, restarts=1, steps=2, warmup=1)
    ibis = craft("ibis", X, Y, 3, (0, 1), 8, 0, train_many=train_many, refinement=settings)
    quick = ClippedInfluence(models=2, steps=1, fisher_rows=10)
    clipped = craft(
        "clipped_influence", X, Y, 3, (0, 1), 8, 0, train_many=train_many, clipping_norm=1.0, settings=quick
    )
    assert ibis.parameters["start"] == "greedy" and clipped.parameters["start"] == "binary_noise"
    with pytest.raises(InputError, match="moves no other set"):
        craft("noise", X, Y, 3, (0, 1), 8, 0, start="greedy")


def test_highest_loss_takes_the_rows_with_the_highest_loss_among_the_allowed():
    seen = {}

    def spy(x, y, membership, seeds):
        seen["models"] = train_many(x, y, membership, seeds)
        return seen["models"]

    canaries = craft("highest_loss", X, Y, 3, (0, 1), 5, 0, train_many=spy, allowed=np.arange(40) < 20)
    loss = mean_loss(seen["models"], X, Y)[:20]
    assert set(canaries.source_index) == set(np.argsort(-loss)[:5])
    np.testing.assert_array_equal(canaries.y, Y[canaries.source_index])


def test_balanced_greedy_spreads_over_the_classes():
    canaries = craft("greedy", X, Y, 3, (0, 1), 6, 0, train_many=train_many, balanced=True)
    assert (np.bincount(canaries.y, minlength=3) == 2).all()


def test_clipbkd_uses_directions_of_least_variance_and_says_how_many_canaries_share_one():
    flat = X - X.mean(0)
    canaries = craft("clipbkd", X, Y, 3, (-5, 5), 2, 0, train_many=train_many)
    spread = [np.std(flat @ (c / np.linalg.norm(c))) for c in canaries.x]
    others = np.linalg.svd(flat)[1] / np.sqrt(len(X))
    assert spread[0] == pytest.approx(others[-1], rel=1e-3) and spread[1] == pytest.approx(others[-2], rel=1e-3)
    np.testing.assert_allclose(np.linalg.norm(canaries.x, axis=1), np.linalg.norm(X, axis=1).mean(), rtol=1e-5)
    assert craft("clipbkd", X, Y, 3, (-5, 5), 13, 0, train_many=train_many).parameters["canaries_per_direction"] == 3


def test_canife_canaries_are_more_orthogonal_to_the_data_than_their_start():
    from coalmine.canaries.gradient_gram import gradient_gram

    seen = {}

    def spy(x, y, membership, seeds):
        seen["model"] = train_many(x, y, membership, seeds)[0]
        return [seen["model"]]

    start = craft("binary_noise", X, Y, 3, (0, 1), 6, 0)
    canaries = craft("canife", X, Y, 3, (0, 1), 6, 0, train_many=spy, steps=150, norm=0.5)

    def alignment(some):
        rows = (torch.tensor(np.concatenate([some.x, X])), torch.tensor(np.concatenate([some.y, Y])))
        gram = gradient_gram(seen["model"], rows).numpy()
        length = np.sqrt(np.diagonal(gram))
        cosine = gram / length[:, None] / length[None]
        among = cosine[:6, :6]
        return (cosine[:6, 6:] ** 2).mean() + (np.sum(among**2) - 6) / 30

    assert alignment(canaries) < alignment(start) - 0.01


def test_refinement_can_begin_with_any_set_but_not_with_itself():
    for start in ("noise", "mislabelled", "highest_loss"):
        settings = Refinement(replicas=2, restarts=1, steps=2, warmup=1)
        canaries = craft("ibis", X, Y, 3, (0, 1), 4, 0, train_many=train_many, start=start, refinement=settings)
        assert canaries.method == "ibis" and canaries.parameters["start"] == start
    with pytest.raises(InputError, match="no set that ibis can begin with"):
        craft("ibis", X, Y, 3, (0, 1), 4, 0, train_many=train_many, start="ibis")


# diagnosis


def canary_set(x, y):
    return CanarySet(np.asarray(x, np.float32), np.asarray(y), np.full(len(y), -1), "t")


def test_effective_rank_counts_directions():
    assert effective_rank(np.eye(7)) == pytest.approx(7)
    assert effective_rank(np.ones((7, 7))) == pytest.approx(1)


def test_a_blank_pool_is_seen_through_before_training():
    models = train_many(X, Y, np.ones((2, 40), bool), [1, 2])
    blank = diagnose(craft("blank", X, Y, 3, (0, 1), 30, 0), models)
    noise = diagnose(craft("binary_noise", X, Y, 3, (0, 1), 30, 0), models)
    assert blank["effective_rank"] <= 3 + 1e-6 < noise["effective_rank"]
    assert blank["duplicates"] == 29 and blank["conflicting"] > 0 and blank["tied_losses"] > 0.9
    assert blank["gradient_cosine"] > noise["gradient_cosine"]
    assert blank["embedding_cosine"] == pytest.approx(1)
    assert blank["self_over_cross"] <= 1 + 1e-6


def test_canaries_that_also_stand_in_the_data_are_counted():
    models, pool = train_many(X, Y, np.ones((1, 40), bool), [1]), Pool(X, Y, 3)
    moved = CanarySet(X[:4], Y[:4], np.array([0, 1, -1, -1]), "t")  # two of them without their source
    assert diagnose(moved, models, pool)["in_data"] == 2


def test_a_model_without_an_embedding_layer_says_how_to_name_one():
    net = nn.Sequential(nn.Unflatten(1, (1, 2, 3)), nn.Conv2d(1, 3, (2, 3)), nn.Flatten())
    record = diagnose(canary_set(X[:5], Y[:5]), [net])
    assert record["embedding_cosine"] is None and "name a layer" in record["embedding_reason"]
    assert diagnose(canary_set(X[:5], Y[:5]), [net], layer="1")["embedding_cosine"] > 0
    with pytest.raises(InputError, match="empty"):
        diagnose(canary_set(X[:5], Y[:5]), [])


def test_diagnosis_takes_the_curvature_from_some_of_a_large_pool(monkeypatch):
    monkeypatch.setattr("coalmine.canaries.diagnosis.CURVATURE_ROWS", 10)
    canaries, model = craft("noise", X, Y, 3, (0, 1), 6, 0), train_many(X, Y, np.ones((1, 40), bool), [0])[0]
    some = np.linspace(0, 39, 10).astype(int)
    expected = influence([model], (canaries.x, canaries.y), (X[some], Y[some])).among(np.arange(6))
    assert (influence_among([model], canaries, Pool(X, Y, 3, (0, 1))) == expected).all()


def test_the_margin_gap_is_that_of_complementary_halves():
    """A pair that knows its own half, by as much as it is told: the gap and the separation come out as put in."""
    pool = Pool(X, Y, 3, (0, 1))
    canaries, seen = make("noise", 10), []

    def knows_its_half(x, y, membership, seeds):
        seen.append(membership)
        return [Known(x[members], y[members]) for members in membership]

    pair = complementary_pair(canaries, pool, knows_its_half)
    assert len(seen) == 1 and (seen[0][:, -10:].sum(0) == 1).all() and seen[0][:, :-10].all()
    found = margin_gap(canaries, pair)
    assert found["margin_gap"] == pytest.approx(6.0, abs=1e-5)  # z = 6 of three logits where it is known, 0 elsewhere
    assert found["margin_separation"] == 0.0 or found["margin_separation"] > 1e3  # no spread at all
    assert diagnose(canaries, [build(0)], pool, pair=pair)["margin_gap"] == found["margin_gap"]


class Known(nn.Module):
    def __init__(self, x, y):
        super().__init__()
        self.known = {row.tobytes(): int(label) for row, label in zip(x, y, strict=True)}
        self.p = nn.Parameter(torch.zeros(1))

    def forward(self, x):
        z = torch.zeros(len(x), 3)
        for i, row in enumerate(x.numpy()):
            if row.tobytes() in self.known:
                z[i, self.known[row.tobytes()]] = 6.0
        return z
