"""Refinement: the regulariser, the loop, resuming; canaries get easier to tell apart on models they never saw."""

import itertools
import json
from dataclasses import replace

import numpy as np
import pytest
import torch
from torch import nn

from coalmine.canaries.bilevel import Bilevel, complementary_masks, stacked
from coalmine.canaries.metagradient import metagradient
from coalmine.canaries.noise import noise
from coalmine.canaries.outer import Outer
from coalmine.canaries.pool import Pool
from coalmine.canaries.random_rows import random_rows
from coalmine.canaries.refine import Bench, _replica_training, refine, walk
from coalmine.canaries.refinement import Refinement
from coalmine.canaries.regulariser import Embedding, mean_squared_cosine, orthogonality
from coalmine.canaries.rounding import round_to_8_bits
from coalmine.canaries.unrolled import InnerTraining, differentiate
from coalmine.canaries.walk import orthogonal_pull
from coalmine.foundation import InputError

SMALL = Refinement(replicas=4, restarts=3, steps=4, warmup=1, batch=16)


def pool(n=60, features=6):
    stream = np.random.default_rng(0)
    y = stream.integers(0, 3, n)
    return Pool(np.clip(stream.random((n, features)) * 0.6 + 0.13 * y[:, None], 0, 1), y, 3, (0.0, 1.0), "fingerprint")


def build(seed):
    with torch.random.fork_rng():
        torch.manual_seed(seed)
        return nn.Sequential(nn.Linear(6, 16), nn.GELU(), nn.Linear(16, 3))


def train_many(x, y, membership, seeds, steps=60, rate=0.5):
    """Full-batch gradient descent: the injected recipe, as small as it can be."""
    models = []
    for members, seed in zip(membership, seeds, strict=True):
        model = build(seed)
        rows, labels = torch.tensor(x[members]), torch.tensor(y[members])
        for _ in range(steps):
            loss = nn.functional.cross_entropy(model(rows), labels)
            gradients = torch.autograd.grad(loss, list(model.parameters()))
            with torch.no_grad():
                for p, g in zip(model.parameters(), gradients, strict=True):
                    p -= rate * g
        models.append(model)
    return models


def walk_of(start, train, settings, seed, models=(), together=None):
    """Where the canaries of a refinement stand at the end of its walk, before any choice, and the log."""
    bench = Bench(start, pool(), _replica_training(train, settings), settings, seed, torch.device("cpu"), together)
    outer, log = Outer.starting(torch.from_numpy(start.x.copy())), []
    walk(bench, outer, 0, [Embedding(m) for m in models], lambda record, _: log.append(record))
    return outer.canaries.numpy(), log


# the regulariser


@pytest.mark.parametrize("form", ["unit", "raw"])
@pytest.mark.parametrize("m", [3, 9])
def test_the_regulariser_is_its_double_sum_and_its_gradient_is_right(form, m):
    e = torch.randn(m, 5, generator=torch.Generator().manual_seed(0)).double().requires_grad_()
    unit = e / e.norm(dim=1, keepdim=True) if form == "unit" else e
    pairs = [(unit[i] @ unit[j]) ** 2 for i in range(m) for j in range(m) if i != j]
    expected = sum(pairs) / (m * (m - 1)) if form == "unit" else sum(pairs)
    torch.testing.assert_close(orthogonality(e, form), expected)
    assert torch.autograd.gradcheck(lambda z: orthogonality(z, form), (e,))


def test_only_the_unit_form_ignores_the_length_of_embeddings():
    e = torch.randn(4, 5, generator=torch.Generator().manual_seed(0)).double()
    torch.testing.assert_close(orthogonality(3 * e, "unit"), orthogonality(e, "unit"))
    torch.testing.assert_close(orthogonality(3 * e, "raw"), 81 * orthogonality(e, "raw"))


def test_orthogonal_embeddings_cost_nothing_and_a_zero_embedding_gives_no_nan():
    e = torch.eye(4).double()[:, :3].clone().requires_grad_()  # the last row is zero
    value = orthogonality(e, "unit")
    assert value.item() == 0
    assert torch.isfinite(torch.autograd.grad(value, e)[0]).all()
    assert mean_squared_cosine(torch.ones(3, 2)) == pytest.approx(1)


def test_the_embedding_is_the_input_of_the_last_linear_layer_or_what_the_user_names():
    model, x = build(0), torch.rand(4, 6)
    torch.testing.assert_close(Embedding(model)(x), model[1](model[0](x)))
    torch.testing.assert_close(Embedding(model, "0")(x), model[0](x))
    with pytest.raises(InputError, match="does not exist: the layers are 0, 1, 2"):
        Embedding(model, "head")
    with pytest.raises(InputError, match="name a layer, one of 0"):
        Embedding(nn.Sequential(nn.Conv2d(1, 2, 1)))


# the loop


@pytest.mark.parametrize("settings", [SMALL, replace(SMALL, canary_batch=4)], ids=["all canaries", "a batch"])
def test_an_interrupted_refinement_resumes_to_the_same_bits(tmp_path, settings):
    start = random_rows(pool(), 8, 0)
    whole, log = refine(start, pool(), train_many, settings, seed=1)

    class Stop(Exception):
        pass

    def interrupt(record):
        if record["restart"] == 1:
            raise Stop

    with pytest.raises(Stop):
        refine(start, pool(), train_many, settings, 1, checkpoint=tmp_path / "c", on_restart=interrupt)
    resumed, again = refine(start, pool(), train_many, settings, 1, checkpoint=tmp_path / "c")
    assert resumed.sha256 == whole.sha256 and again == log
    finished, _ = refine(start, pool(), train_many, settings, 1, checkpoint=tmp_path / "c")
    assert finished.sha256 == whole.sha256
    with pytest.raises(InputError, match="another start, recipe, seed or settings"):
        refine(start, pool(), train_many, settings, 2, checkpoint=tmp_path / "c")
    (tmp_path / "c").write_bytes(start.to_bytes())
    with pytest.raises(InputError, match="damaged or something else"):
        refine(start, pool(), train_many, settings, 1, checkpoint=tmp_path / "c")


def test_inputs_move_within_the_range_and_nothing_else_does():
    start = random_rows(pool(), 8, 0)
    x, log = walk_of(start, train_many, SMALL, 1)
    refined, again = refine(start, pool(), train_many, SMALL, seed=1)
    assert (x != start.x).mean() > 0.9 and again == log
    assert x.min() >= 0 and x.max() <= 1
    np.testing.assert_array_equal(refined.y, start.y)
    np.testing.assert_array_equal(refined.source_index, start.source_index)
    assert refined.parameters["start"] == "random" and refined.parameters["refinement"]["restarts"] == 3
    assert [record["restart"] for record in log] == [0, 1, 2, 3]  # the last measures the end
    json.dumps(log, allow_nan=False)


def test_only_canaries_that_were_drawn_move():
    start = random_rows(pool(), 8, 0)
    once = Refinement(replicas=2, restarts=1, steps=3, warmup=2, batch=16, canary_batch=4)
    assert (walk_of(start, train_many, once, 1)[0] != start.x).any(axis=1).sum() == 4
    often = replace(once, restarts=6, steps=4)
    assert (walk_of(start, train_many, often, 1)[0] != start.x).any(axis=1).all()


def test_a_batch_of_all_canaries_is_no_batch_and_is_not_recorded_where_there_is_none():
    start = random_rows(pool(), 9, 0)
    plain, _ = refine(start, pool(), train_many, SMALL, 1)
    all_of_them, _ = refine(start, pool(), train_many, replace(SMALL, canary_batch=10), 1)
    assert plain.sha256 == all_of_them.sha256
    assert "canary_batch" not in plain.parameters["refinement"]
    assert all_of_them.parameters["refinement"]["canary_batch"] == 10


def test_replicas_together_or_one_by_one_give_the_same_set_up_to_rounding():
    start = random_rows(pool(), 8, 0)
    for settings in (SMALL, replace(SMALL, canary_batch=4)):
        one, log = walk_of(start, train_many, settings, 1, together=1)
        four, other = walk_of(start, train_many, settings, 1, together=4)
        np.testing.assert_allclose(one, four, atol=1e-4)
        assert log[0]["outer"] == pytest.approx(other[0]["outer"], rel=1e-5)
        assert log[0]["auc"] == other[0]["auc"]


def test_every_canary_has_an_adam_of_its_own():
    stream = torch.Generator().manual_seed(0)
    start, low, high = torch.rand(5, 3, generator=stream).double(), torch.tensor(-9.0), torch.tensor(9.0)
    outer = Outer.starting(start.clone())
    alone = [row.clone().requires_grad_() for row in start]
    adams = [torch.optim.Adam([row], lr=0.05, betas=(0.9, 0.99), eps=1e-12) for row in alone]
    for step in range(30):
        direction = torch.randn(5, 3, generator=stream).double()
        chosen = torch.randperm(5, generator=stream)[: 1 + step % 3]
        outer.move(direction, torch.tensor(0.05, dtype=torch.float64), low, high, chosen)
        for k in chosen.tolist():
            alone[k].grad = direction[k].clone()
            adams[k].step()
    torch.testing.assert_close(outer.canaries, torch.stack(alone).detach(), rtol=0, atol=1e-12)
    assert outer.moves == 30 and outer.counts.sum() == 60 and outer.counts.min() > 0


@pytest.mark.parametrize("form", ["unit", "raw"])
def test_the_regulariser_of_a_batch_is_right_on_average(form):
    model, canaries = build(0).double(), torch.rand(6, 6, generator=torch.Generator().manual_seed(0)).double()
    settings = Refinement(regulariser=2.0, regulariser_form=form)
    embeddings = [Embedding(model)]
    full = orthogonal_pull(canaries, None, embeddings, settings)
    subsets = [torch.tensor(s) for s in itertools.combinations(range(6), 3)]
    parts = torch.stack([orthogonal_pull(canaries, s, embeddings, settings) for s in subsets])
    torch.testing.assert_close(2 * parts.mean(0), full)  # a canary is in half of the subsets, and rests in the others


def test_the_implicit_term_changes_the_outcome():
    start = random_rows(pool(), 8, 0)
    one, _ = walk_of(start, train_many, SMALL, 1)
    other, log = walk_of(start, train_many, replace(SMALL, implicit=False), 1)
    assert np.abs(one - other).max() > 1e-3
    assert log[-2]["norm_v"] == 0


def test_sources_never_reach_the_models_and_each_replica_gets_its_half():
    start, seen = random_rows(pool(), 8, 0), []

    def spy(x, y, membership, seeds):
        seen.append((x, membership, tuple(seeds)))
        return train_many(x, y, membership, seeds, steps=2)

    refine(start, pool(), spy, SMALL, 1)
    for x, membership, _ in seen:
        assert len(x) == 60 - 8 + 8
        natural = {row.tobytes() for row in x[:-8]}
        assert not any(row.tobytes() in natural for row in start.x)
        assert membership[:, :-8].all() and (2 * membership[:, -8:].sum(0) == len(membership)).all()
    trained = [seeds for _, _, seeds in seen]
    walked, judged = trained[:4], trained[4:]  # three restarts and the end; then sets that share their replicas' seeds
    assert len({seed for seeds in walked for seed in seeds}) == 16
    assert len(set(judged)) == 2 and not {s for seeds in judged for s in seeds} & {s for seeds in walked for s in seeds}


@pytest.mark.parametrize("canary_batch", [None, 8])
def test_refined_canaries_are_easier_to_tell_apart_by_fresh_models(canary_batch):
    start = noise(pool(), 20, 0)
    settings = Refinement(
        replicas=4, restarts=8, steps=8, warmup=2, batch=32, step_size=0.08, learning_rate=0.1,
        canary_batch=canary_batch,
    )  # fmt: skip
    refined, _ = refine(start, pool(), train_many, settings, seed=1)
    assert fresh_auc(refined) > fresh_auc(start) + 0.1


def fresh_auc(canaries, runs=12):
    """AUC over models, coins and seeds that crafting never saw."""
    from coalmine.audit.estimators import auc

    data, stream, values = pool(), np.random.default_rng(99), []
    for run in range(runs):
        member = stream.random(len(canaries)) < 0.5
        x, y = np.concatenate([data.x, canaries.x[member]]), np.concatenate([data.y, canaries.y[member]])
        model = train_many(x, y, np.ones((1, len(x)), bool), [10_000 + run])[0]
        with torch.no_grad():
            z = model(torch.tensor(canaries.x)).log_softmax(1)
        values.append(auc(z.numpy()[np.arange(len(canaries)), canaries.y], member))
    return np.mean(values)


def test_the_regulariser_lowers_the_cosines_and_needs_base_models():
    start, models = noise(pool(), 12, 0), [build(5)]
    with pytest.raises(InputError, match="base_models"):
        refine(start, pool(), train_many, Refinement(regulariser=1.0), 1)
    strong = Refinement(**{**vars(SMALL), "regulariser": 1000.0, "step_size": 0.1})
    x, log = walk_of(start, train_many, strong, 1, models)
    cosine = [mean_squared_cosine(Embedding(models[0])(torch.tensor(c))) for c in (start.x, x)]
    assert cosine[1] < cosine[0]
    assert log[0]["mean_squared_cosine"] == pytest.approx(cosine[0], rel=1e-4)
    assert log[0]["regulariser"] == pytest.approx(1000 * cosine[0], rel=1e-3)


def test_a_bank_of_models_without_canaries_can_take_the_place_of_retraining():
    calls = []

    def spy(x, y, membership, seeds):
        calls.append(membership)
        return train_many(x, y, membership, seeds, steps=3)

    settings = Refinement(**{**vars(SMALL), "restart_from": "bank", "bank_size": 6, "outer": "loss"})
    refine(random_rows(pool(), 8, 0), pool(), spy, settings, 1)
    assert calls[0].shape == (6, 52)
    assert {membership.shape[1] for membership in calls[1:]} == {60}  # the end and the choice see canaries


@pytest.mark.parametrize(
    ("changes", "says"),
    [
        ({"replicas": 3}, "pairs"),
        ({"canary_batch": 5}, "canary_batch must be an even number"),
        ({"canary_batch": 0}, "canary_batch"),
        ({"canary_batch": 8.0}, "canary_batch"),
        ({"restarts": 0}, "restarts"),
        ({"warmup": 4, "steps": 4}, "warmup"),
        ({"step_size": 0.0}, "step_size"),
        ({"damping": -1.0}, "damping"),
        ({"momentum": 1.0}, "momentum"),
        ({"outer": "auc"}, "outer"),
        ({"regulariser_form": "l2"}, "regulariser_form"),
        ({"restart_from": "scratch"}, "restart_from"),
        ({"direction": "up"}, "direction"),
        ({"moves": 0}, "moves"),
        ({"last_epochs": 0}, "last_epochs"),
        ({"replica_epochs": 0}, "replica_epochs"),
        ({"direction": "reverse", "canary_batch": 4}, "all canaries at once"),
    ],
)
def test_settings_that_make_no_sense_are_refused(changes, says):
    with pytest.raises(InputError, match=says):
        Refinement(**changes)


def test_diverged_replicas_are_told():
    def diverged(x, y, membership, seeds):
        models = train_many(x, y, membership, seeds, steps=1)
        with torch.no_grad():
            models[0][0].weight.fill_(float("inf"))
        return models

    with pytest.raises(InputError, match="not finite"):
        refine(random_rows(pool(), 8, 0), pool(), diverged, SMALL, 1)


# through the end of training


class Stoppable:
    """The recipe above, that can stop early: an epoch is twenty steps."""

    epochs = 3

    def __init__(self, epochs=3):
        self.length, self.seen = epochs, []

    def __call__(self, x, y, membership, seeds):
        self.seen.append(len(seeds))
        return train_many(x, y, membership, seeds, steps=20 * self.length)

    def shortened(self, epochs):
        return Stoppable(epochs)

    def plain_sgd(self, epochs):
        return InnerTraining(epochs, 20, 0.5, 0.0)


def test_the_truncated_derivative_moves_canaries_that_fresh_models_tell_apart():
    start = noise(pool(), 20, 0)
    settings = Refinement(replicas=4, restarts=4, direction="reverse", moves=3, last_epochs=1, step_size=0.1)
    refined, log = refine(start, pool(), Stoppable(), settings, seed=1)
    assert [sorted(set(record) & {"agreement", "residual"}) for record in log] == 4 * [["agreement"]] + [[]]
    assert all(-1 <= record["agreement"] <= 1 for record in log[:-1])
    assert refined.parameters["refinement"]["last_epochs"] == 1
    assert fresh_auc(refined) > fresh_auc(start) + 0.1


def test_replicas_may_be_trained_shorter_but_the_choice_never_is():
    whole = Stoppable()
    settings = replace(SMALL, replica_epochs=1)
    refine(random_rows(pool(), 8, 0), pool(), whole, settings, 1)
    assert len(whole.seen) >= 2  # the judge at least; the walk went through a shortened recipe
    assert sum(whole.seen) < 4 * (SMALL.restarts + 1) + 8 * 2
    for settings, says in (
        (replace(SMALL, replica_epochs=4), "the recipe has 3"),
        (replace(SMALL, direction="reverse", last_epochs=3), "leave at least one"),
    ):
        with pytest.raises(InputError, match=says):
            refine(random_rows(pool(), 8, 0), pool(), Stoppable(), settings, 1)
    with pytest.raises(InputError, match="can stop early"):
        refine(random_rows(pool(), 8, 0), pool(), train_many, replace(SMALL, direction="reverse"), 1)


# what it is compared with


def test_the_metagradient_is_the_derivative_of_retraining():
    data = pool(20)
    inner = InnerTraining(epochs=3, steps_per_epoch=2, learning_rate=0.3, momentum=0.8)
    x, y = torch.tensor(data.x).double(), torch.tensor(data.y)
    canaries, labels = torch.rand(4, 6, generator=torch.Generator().manual_seed(1)).double(), torch.tensor([0, 1, 2, 0])
    models = [build(k).double() for k in (1, 2)]
    problem = Bilevel(models[0], x, y, labels, 0.0, "ranking")
    masks = complementary_masks(2, 4, torch.Generator().manual_seed(0)).double()

    def value(c):
        return differentiate(problem, stacked(models), c, masks, inner, torch.Generator().manual_seed(3))

    gradient = value(canaries).canaries
    for pixel in [(0, 0), (1, 3), (3, 5)]:
        moved = [canaries.clone(), canaries.clone()]
        moved[0][pixel] += 1e-5
        moved[1][pixel] -= 1e-5
        slope = float((value(moved[0]).values - value(moved[1]).values).mean()) / 2e-5
        assert float(gradient[pixel]) == pytest.approx(slope, rel=1e-5, abs=1e-9)


def test_metagradient_canaries_follow_from_their_seed():
    inner = InnerTraining(epochs=2, steps_per_epoch=3)
    one, two = (metagradient(pool(), noise(pool(), 8, 5), 5, build, inner, meta_steps=2, replicas=2) for _ in range(2))
    assert one.sha256 == two.sha256 and one.method == "metagradient"


def test_rounding_moves_by_at_most_half_a_level_and_stays():
    canaries = noise(pool(), 50, 0)
    rounded = round_to_8_bits(canaries)
    assert np.abs(rounded.x - canaries.x).max() <= 0.5 / 255 + 1e-6
    levels = rounded.x.astype(np.float64) * 255
    assert np.abs(levels - np.round(levels)).max() < 1e-4
    np.testing.assert_array_equal(round_to_8_bits(rounded).x, rounded.x)
    no_range = Pool(pool().x, pool().y, 3)
    with pytest.raises(InputError, match="value range"):
        round_to_8_bits(noise(no_range, 4, 0))


def test_metagradient_divides_by_the_public_size_of_the_recipe():
    problem = Bilevel(build(0), *(torch.tensor(a) for a in (pool().x, pool().y)), torch.tensor([0, 1]))
    masks = complementary_masks(2, 2, torch.Generator().manual_seed(0))
    canaries = torch.from_numpy(noise(pool(), 2, 0).x.copy())
    rows = len(pool()) + 1  # the data and half of the canaries

    def value(inner):
        at = differentiate(problem, stacked([build(1), build(2)]), canaries, masks, inner, torch.Generator())
        return float(at.values.mean())

    plain, double = InnerTraining(1, 2, 0.1), InnerTraining(1, 2, 0.2, public_size=2 * rows)
    assert value(double) == pytest.approx(value(plain), rel=1e-5)
    assert value(InnerTraining(1, 2, 0.1, public_size=2 * rows)) != pytest.approx(value(plain), rel=1e-3)
