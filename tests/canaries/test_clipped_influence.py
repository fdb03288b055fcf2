"""Clipped influence: the objective equals explicit algebra, its derivative finite differences, and moving raises it."""

import numpy as np
import pytest
import torch
from torch import nn

from coalmine.canaries import craft
from coalmine.canaries.blank import blank
from coalmine.canaries.clipped_influence import ClippedInfluence, clip, clipped_influence, curvature, objective
from coalmine.canaries.noise import noise
from coalmine.canaries.per_example import gradient_function, per_example_gradients
from coalmine.canaries.pool import Pool
from coalmine.foundation import InputError

STREAM = np.random.default_rng(1)
Y = STREAM.integers(0, 3, 60)
X = np.clip(STREAM.random((60, 6)) * 0.5 + 0.2 * Y[:, None], 0, 1).astype(np.float32)
POOL = Pool(X, Y, 3, (0, 1))


def build(seed, dtype=torch.float32):
    with torch.random.fork_rng():
        torch.manual_seed(seed)
        return nn.Sequential(nn.Linear(6, 8), nn.GELU(), nn.Linear(8, 3)).to(dtype)


def train_many(x, y, membership, seeds):
    models = []
    for members, seed in zip(membership, seeds, strict=True):
        model = build(seed)
        optimizer = torch.optim.SGD(model.parameters(), lr=0.5)
        for _ in range(30):
            optimizer.zero_grad()
            nn.functional.cross_entropy(model(torch.tensor(x[members])), torch.tensor(y[members])).backward()
            optimizer.step()
        models.append(model)
    return models


def test_the_influence_is_that_of_a_dense_solve_with_the_damped_fisher_matrix():
    model = build(0, torch.float64)
    at = curvature(model, X.astype(np.float64), ClippedInfluence(fisher_rows=40, damping=0.3), 5, "0")
    rows, labels = torch.tensor(X[:7].astype(np.float64)), torch.tensor(Y[:7])
    clipped = clip(torch.cat(list(per_example_gradients(model, rows, labels))), 0.5)
    h = at.fisher.T @ at.fisher / len(at.fisher)
    delta = 0.3 * h.trace() / len(at.fisher)
    dense = clipped @ torch.linalg.solve(h + delta * torch.eye(len(h), dtype=h.dtype), clipped.T)
    torch.testing.assert_close(at.influence(clipped), dense, rtol=1e-9, atol=0)


def test_gradients_beyond_the_clipping_norm_have_that_length_and_shorter_ones_stay():
    rows = torch.tensor([[3.0, 4.0], [0.3, 0.4], [0.0, 0.0]])
    torch.testing.assert_close(clip(rows, 1.0), torch.tensor([[0.6, 0.8], [0.3, 0.4], [0.0, 0.0]]))


def test_the_derivative_in_the_inputs_is_that_of_finite_differences_through_clipping_and_influence():
    model = build(1, torch.float64)
    at = curvature(model, X.astype(np.float64), ClippedInfluence(fisher_rows=30), 5, "0")
    x, y = torch.tensor(X[:5].astype(np.float64)), torch.tensor((Y[:5] + 1) % 3)
    fixed = float(at.influence(clip(at.gradients(x, y), 0.4)).diagonal().mean())

    def value(rows):
        influence = at.influence(clip(at.gradients(rows, y), 0.4))
        own = influence.diagonal()
        return (influence.square().sum() - own.square().sum()) / 5 / fixed**2 - own.log().mean()

    leaf = x.clone().requires_grad_()
    own, among = objective(at.influence(clip(at.gradients(leaf, y), 0.4)), 5, 1e-9)
    slope = torch.autograd.grad(among - own, leaf)[0]
    for row, column in ((0, 0), (3, 4)):
        step = torch.zeros_like(x)
        step[row, column] = 1e-6
        difference = float(value(x + step) - value(x - step)) / 2e-6
        assert float(slope[row, column]) == pytest.approx(difference, rel=1e-5)


def test_a_batch_of_canaries_stands_for_all_pairs_on_average():
    among = torch.randn(8, 8, generator=torch.Generator().manual_seed(0), dtype=torch.float64)
    among = among @ among.T
    own = among.diagonal()
    all_pairs = float((among.square().sum() - own.square().sum()) / 8)
    generator, seen = torch.Generator().manual_seed(1), []
    for _ in range(4000):
        some = torch.randperm(8, generator=generator)[:3]
        part = among[some][:, some]
        seen.append(float(objective(part, 8, 1e-9)[1] * part.diagonal().mean().square()))
    assert abs(np.mean(seen) - all_pairs) < 4 * np.std(seen) / len(seen) ** 0.5


def test_a_canary_whose_influence_vanishes_has_a_finite_slope_and_the_logarithm_is_smooth_at_its_floor():
    floor = 1e-6
    for value in (0.0, -1e-12, 1e-30, 0.5 * floor, floor, 2 * floor):
        own = torch.tensor([value, 1.0], dtype=torch.float64, requires_grad=True)
        (slope,) = torch.autograd.grad(objective(torch.diag(own), 2, floor)[0], own)
        assert float(slope[0]) == pytest.approx(0.5 / max(value, floor))
    values = [float(objective(torch.diag(torch.tensor([v, 1.0])), 2, floor)[0]) for v in (0.999 * floor, 1.001 * floor)]
    assert values[1] - values[0] == pytest.approx(0.001, rel=0.01)


def test_canaries_that_a_saturated_model_has_learned_do_not_stop_the_crafting():
    start, seen = noise(POOL, 20, 3), []

    def saturated(x, y, membership, seeds):
        models = train_many(x, y, membership, seeds)
        for model in models:
            with torch.no_grad():
                model[2].weight *= 30
        seen.extend(models)
        return models

    settings = ClippedInfluence(models=2, steps=6, fisher_rows=40)
    moved = clipped_influence(POOL, start, 3, saturated, 0.5, settings)
    assert np.isfinite(moved.x).all() and not (moved.x == start.x).all()
    lengths = gradient_function(seen[0])(torch.tensor(start.x), torch.tensor(start.y)).norm(dim=1)
    assert (lengths < 1e-12).any() and (lengths > 0.5).any()


def test_a_set_that_no_gradient_moves_is_an_error_and_not_a_set():
    def linear(x, y, membership, seeds):
        with torch.random.fork_rng():
            torch.manual_seed(0)
            return [nn.Linear(6, 3, bias=False) for _ in seeds]

    zeros = blank(POOL, 20, 3)  # without a bias the gradient at 0 is 0, and so is the derivative of its square
    assert (zeros.x == 0).all()
    with pytest.raises(InputError, match="no canary moved"):
        clipped_influence(POOL, zeros, 3, linear, 0.5, ClippedInfluence(models=2, steps=3))


def test_moving_raises_self_influence_and_lowers_cross_influence_within_the_range():
    start, log = noise(POOL, 20, 3), []
    settings = ClippedInfluence(models=2, steps=60, fisher_rows=40, cross=1.0)
    moved = clipped_influence(POOL, start, 3, train_many, 0.5, settings, log.append)
    assert log[-1]["self"] - log[-1]["cross"] > log[1]["self"] - log[1]["cross"]
    assert moved.x.min() >= 0 and moved.x.max() <= 1 and (moved.y == start.y).all()
    assert moved.parameters["clipping_norm"] == 0.5 and moved.method == "clipped_influence"


def test_models_are_trained_without_source_rows_and_with_half_of_the_canaries_as_they_are():
    seen = []

    def spy(x, y, membership, seeds):
        seen.append((x, membership))
        return train_many(x, y, membership, seeds)

    settings = ClippedInfluence(models=2, steps=4, fisher_rows=10, rounds=2)
    craft(
        "clipped_influence",
        X,
        Y,
        3,
        (0, 1),
        10,
        0,
        train_many=spy,
        clipping_norm=1.0,
        settings=settings,
        start="random",
    )
    (first, members), (second, _) = seen
    assert first.shape == (60, 6)  # 50 natural rows and 10 canaries
    assert (
        members[:, :50].all() and (members[:, 50:].sum(axis=0) == 1).all() and (members[:, 50:].sum(axis=1) == 5).all()
    )
    assert (first[:50] == second[:50]).all() and not (first[50:] == second[50:]).all()


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({"clipping_norm": None}, "give clipping_norm"),
        ({"clipping_norm": 0.0}, "clipping_norm must lie between"),
        ({"clipping_norm": 1.0, "start": "canife"}, "no set that clipped_influence can begin with"),
    ],
)
def test_what_cannot_work_is_refused_by_name(arguments, message):
    with pytest.raises(InputError, match=message):
        craft("clipped_influence", X, Y, 3, (0, 1), 4, 0, train_many=train_many, **arguments)


@pytest.mark.parametrize(
    ("name", "value"), [("models", 3), ("steps", 0), ("cross", -1.0), ("damping", 0.0), ("step_size", np.inf)]
)
def test_settings_out_of_range_are_refused_by_name(name, value):
    with pytest.raises(InputError, match=name):
        ClippedInfluence(**{name: value})


def test_the_gradient_function_agrees_with_the_blocks_of_per_example_gradients():
    model = build(2)
    rows, labels = torch.tensor(X[:9]), torch.tensor(Y[:9])
    torch.testing.assert_close(
        gradient_function(model)(rows, labels), torch.cat(list(per_example_gradients(model, rows, labels, memory=1)))
    )
