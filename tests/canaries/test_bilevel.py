"""The SOBA direction at its fixed point is the derivative of the outer objective through retraining.

Softmax regression with a ridge, float64: 60 rows, 6 canaries, 5 features, 3 classes, μ = 0.05. Small enough to solve
exactly, so that every claim is checked against a derivation or against finite differences.
"""

import itertools

import numpy as np
import pytest
import torch
from torch import nn

from coalmine.audit.training.models import build_model
from coalmine.canaries.bilevel import (
    Bilevel,
    balanced_draws,
    complementary_masks,
    directions,
    norm,
    stacked,
    weights,
    zeros_like,
)
from coalmine.foundation import InputError

N, M, FEATURES, CLASSES, MU = 60, 6, 5, 3, 0.05
OUTERS = ["loss", "margin", "ranking"]


def problem(outer="loss", seed=0, m=M, features=FEATURES):
    generator = torch.Generator().manual_seed(seed)
    x = torch.randn(N, features, generator=generator, dtype=torch.float64)
    y = torch.randint(CLASSES, (N,), generator=generator)
    canaries = torch.randn(m, features, generator=generator, dtype=torch.float64)
    labels = torch.randint(CLASSES, (m,), generator=generator)
    mask = torch.zeros(1, m, dtype=torch.float64)
    mask[0, ::2] = 1
    model = nn.Linear(features, CLASSES, bias=False).double()
    return Bilevel(model, x, y, labels, MU, outer), canaries, mask


def theta_of(w):
    return {"weight": w.reshape(1, CLASSES, -1)}


def inner_derivatives(p, canaries, mask, w):
    """Gradient (d,) and Hessian (d, d) of g in closed form, with no use of the code under test."""
    theta, total = w.reshape(CLASSES, -1), N + len(canaries) / 2
    x, y = torch.cat([p.x, canaries]), torch.cat([p.y, p.labels])
    weight = torch.cat([torch.ones(N, dtype=w.dtype), mask[0]]) / total
    prob = (x @ theta.T).softmax(1)
    error = prob - nn.functional.one_hot(y, CLASSES)
    gradient = (weight[:, None] * error).T @ x + MU * theta
    j = torch.diag_embed(prob) - prob[:, :, None] * prob[:, None, :]
    hessian = torch.einsum("n,nab,ni,nj->aibj", weight, j, x, x).reshape(len(w), len(w))
    return gradient.flatten(), hessian + MU * torch.eye(len(w), dtype=w.dtype)


def solve(p, canaries, mask):
    """θ*(C) by Newton's method."""
    w = torch.zeros(CLASSES * canaries.shape[1], dtype=torch.float64)
    for _ in range(50):
        gradient, hessian = inner_derivatives(p, canaries, mask, w)
        w = w - torch.linalg.solve(hessian, gradient)
        if gradient.norm() < 1e-14:
            break
    return w


def solve_v(p, canaries, mask, w, damping=0.0):
    outer = torch.func.grad(lambda flat: p.outer_value(theta_of(flat), canaries, mask)[0])(w)
    hessian = inner_derivatives(p, canaries, mask, w)[1] + damping * torch.eye(len(w), dtype=w.dtype)
    return -torch.linalg.solve(hessian, outer)


def central_differences(p, canaries, mask, step=1e-5):
    out = torch.zeros_like(canaries)
    for i in np.ndindex(*canaries.shape):
        values = []
        for sign in (1, -1):
            moved = canaries.clone()
            moved[i] += sign * step
            values.append(p.outer_value(theta_of(solve(p, moved, mask)), moved, mask)[0])
        out[i] = (values[0] - values[1]) / (2 * step)
    return out


@pytest.mark.parametrize("outer", OUTERS)
def test_the_direction_at_the_fixed_point_is_the_total_derivative(outer):
    p, canaries, mask = problem(outer)
    w = solve(p, canaries, mask)
    at = directions(p, theta_of(w), theta_of(solve_v(p, canaries, mask, w)), canaries, mask)
    expected = central_differences(p, canaries, mask)
    assert (at.canaries - expected).norm() / expected.norm() < 1e-7
    assert norm(at.theta) < 1e-12 and at.residual < 1e-12
    # without the implicit term, or with its sign wrong, it is another vector: the test has power
    explicit = directions(p, theta_of(w), zeros_like(theta_of(w)), canaries, mask).canaries
    assert (explicit - expected).norm() / expected.norm() > 0.05
    wrong = directions(p, theta_of(w), theta_of(-solve_v(p, canaries, mask, w)), canaries, mask).canaries
    assert (wrong - expected).norm() / expected.norm() > 0.1


def test_one_canary_pair_with_one_feature_has_the_right_derivative():
    p, canaries, mask = problem("loss", m=2, features=1)
    w = solve(p, canaries, mask)
    at = directions(p, theta_of(w), theta_of(solve_v(p, canaries, mask, w)), canaries, mask)
    torch.testing.assert_close(at.canaries, central_differences(p, canaries, mask), rtol=1e-6, atol=1e-9)


def test_the_products_equal_the_closed_forms_of_softmax_regression():
    p, canaries, mask = problem()
    generator = torch.Generator().manual_seed(3)
    w, v = (torch.randn(CLASSES, FEATURES, generator=generator, dtype=torch.float64) for _ in range(2))
    at = directions(p, {"weight": w[None]}, {"weight": v[None]}, canaries, mask)
    total = N + M / 2
    x, y = torch.cat([p.x, canaries]), torch.cat([p.y, p.labels])
    weight = torch.cat([torch.ones(N), mask[0]]).double() / total
    prob = (x @ w.T).softmax(1)
    error = prob - nn.functional.one_hot(y, CLASSES)
    j_v = prob * (x @ v.T) - prob * (prob * (x @ v.T)).sum(1, keepdim=True)  # J Vᵀx
    outer_weight = weights(mask)[0]
    explicit = outer_weight[:, None] * (error[N:] @ w)
    torch.testing.assert_close(at.theta["weight"][0], (weight[:, None] * error).T @ x + MU * w, rtol=0, atol=1e-12)
    hessian_v = (weight[:, None] * j_v).T @ x + MU * v
    outer_gradient = (outer_weight[:, None] * error[N:]).T @ canaries
    torch.testing.assert_close(at.v["weight"][0], hessian_v + outer_gradient, rtol=0, atol=1e-12)
    cross = weight[N:, None] * (error[N:] @ v + j_v[N:] @ w)
    torch.testing.assert_close(at.canaries, cross + explicit, rtol=0, atol=1e-12)


def test_with_frozen_canaries_the_iterates_reach_the_fixed_point():
    p, canaries, mask = problem()
    theta = {"weight": torch.zeros(1, CLASSES, FEATURES, dtype=torch.float64)}
    v = zeros_like(theta)
    for _ in range(1500):
        at = directions(p, theta, v, canaries, mask)
        theta = {"weight": theta["weight"] - 0.5 * at.theta["weight"]}
        v = {"weight": v["weight"] - 0.5 * at.v["weight"]}
    w = solve(p, canaries, mask)
    torch.testing.assert_close(theta["weight"].flatten(), w, rtol=0, atol=1e-8)
    torch.testing.assert_close(v["weight"].flatten(), solve_v(p, canaries, mask, w), rtol=0, atol=1e-6)


def unrolled_gradient(p, canaries, mask, steps, rho=0.5):
    c = canaries.clone().requires_grad_()
    w = torch.zeros(CLASSES * FEATURES, dtype=torch.float64)
    for _ in range(steps):
        w = w - rho * torch.func.grad(lambda flat: p.inner(theta_of(flat), c, mask)[0])(w)
    return torch.autograd.grad(p.outer_value(theta_of(w), c, mask)[0], c)[0]


def test_unrolled_differentiation_tends_to_the_implicit_gradient():
    p, canaries, mask = problem()
    w = solve(p, canaries, mask)
    implicit = directions(p, theta_of(w), theta_of(solve_v(p, canaries, mask, w)), canaries, mask).canaries
    errors = [float((unrolled_gradient(p, canaries, mask, k) - implicit).norm()) for k in (25, 50, 100, 200)]
    assert all(later < earlier / 2 for earlier, later in itertools.pairwise(errors))
    assert errors[-1] < 0.01 * float(implicit.norm())


def test_soba_and_exact_implicit_refinement_reach_the_same_objective_with_an_active_bound():
    p, canaries, mask = problem("ranking", seed=1)
    low, high = -1.0, 1.0
    start = canaries.clamp(low, high)

    def final(c):
        return float(p.outer_value(theta_of(solve(p, c, mask)), c, mask)[0])

    c, theta = start.clone(), theta_of(solve(p, start, mask))
    v = theta_of(solve_v(p, start, mask, theta["weight"].flatten()))
    for _ in range(1200):
        at = directions(p, theta, v, c, mask)
        theta = {"weight": theta["weight"] - 1.0 * at.theta["weight"]}
        v = {"weight": v["weight"] - 1.0 * at.v["weight"]}
        c = (c - 0.3 * at.canaries).clamp(low, high)
    exact = start.clone()
    for _ in range(120):
        w = solve(p, exact, mask)
        gradient = directions(p, theta_of(w), theta_of(solve_v(p, exact, mask, w)), exact, mask).canaries
        exact = (exact - 3.0 * gradient).clamp(low, high)
    assert ((c == low) | (c == high)).any()
    assert final(c) < final(start) - 0.1
    assert abs(final(c) - final(exact)) / abs(final(exact)) < 1e-3


def test_damping_solves_the_damped_system_and_its_bias_vanishes_with_it():
    p, canaries, mask = problem()
    w = solve(p, canaries, mask)
    exact = solve_v(p, canaries, mask, w)
    bias = []
    for damping in (0.1, 0.01, 0.001):
        damped = solve_v(p, canaries, mask, w, damping)
        assert directions(p, theta_of(w), theta_of(damped), canaries, mask, damping=damping).residual < 1e-12
        bias.append(float((damped - exact).norm()))
    assert bias[0] > 5 * bias[1] > 25 * bias[2]


def test_replicas_together_are_replicas_one_by_one():
    p, canaries, _ = problem("ranking")
    generator = torch.Generator().manual_seed(1)
    masks = complementary_masks(4, M, generator).double()
    theta, v = ({"weight": torch.randn(4, CLASSES, FEATURES, generator=generator).double()} for _ in range(2))
    rows = torch.randint(N, (4, 7), generator=generator)
    together = directions(p, theta, v, canaries, masks, rows, damping=0.1)
    alone = [
        directions(
            p, {"weight": theta["weight"][r : r + 1]}, {"weight": v["weight"][r : r + 1]}, canaries,
            masks[r : r + 1], rows[r : r + 1], damping=0.1,
        )
        for r in range(4)
    ]  # fmt: skip
    torch.testing.assert_close(together.theta["weight"], torch.cat([a.theta["weight"] for a in alone]))
    torch.testing.assert_close(together.v["weight"], torch.cat([a.v["weight"] for a in alone]))
    torch.testing.assert_close(together.canaries, torch.stack([a.canaries for a in alone]).mean(0))
    torch.testing.assert_close(together.residual, torch.cat([a.residual for a in alone]))


@pytest.mark.parametrize(("replicas", "m"), [(2, 2), (4, 7), (8, 200)])
def test_masks_are_complementary_and_weights_balanced(replicas, m):
    masks = complementary_masks(replicas, m, torch.Generator().manual_seed(0))
    assert (masks.sum(0) == replicas // 2).all()
    assert ((masks.sum(1) - m / 2).abs() <= 0.5).all()
    w = weights(masks)
    torch.testing.assert_close(w.sum(1), torch.zeros(replicas), rtol=0, atol=1e-6)
    torch.testing.assert_close(w.abs().sum(1), torch.full((replicas,), 2.0))


@pytest.mark.parametrize("replicas", [0, 1, 3])
def test_replicas_come_in_pairs(replicas):
    with pytest.raises(InputError, match="pairs"):
        complementary_masks(replicas, 10, torch.Generator())


def test_minibatch_directions_are_right_on_average():
    p, canaries, mask = problem()
    generator = torch.Generator().manual_seed(0)
    theta, v = ({"weight": torch.randn(1, CLASSES, FEATURES, generator=generator).double()} for _ in range(2))
    full = directions(p, theta, v, canaries, mask)
    draws = [
        directions(p, theta, v, canaries, mask, torch.randint(N, (1, 10), generator=generator)) for _ in range(400)
    ]
    for part in ("theta", "v"):
        sample = torch.stack([getattr(draw, part)["weight"].flatten() for draw in draws])
        error = (sample.mean(0) - getattr(full, part)["weight"].flatten()).abs()
        assert (error < 4.5 * sample.std(0) / 20).all()
        assert (sample.std(0) > 0).all()


def at_random(outer, m=M, replicas=2):
    """A problem with random θ and v for each replica."""
    p, canaries, _ = problem(outer, m=m)
    generator = torch.Generator().manual_seed(0)
    theta, v = ({"weight": torch.randn(replicas, CLASSES, FEATURES, generator=generator).double()} for _ in range(2))
    return p, theta, v, canaries, complementary_masks(replicas, m, generator).double(), generator


@pytest.mark.parametrize("m", [6, 7])
@pytest.mark.parametrize("outer", OUTERS)
def test_the_mean_over_all_subsets_of_canaries_is_the_full_direction(outer, m):
    p, theta, v, canaries, masks, _ = at_random(outer, m)
    full = directions(p, theta, v, canaries, masks)
    halves = [[i for i in range(m) if masks[0, i] == side] for side in (1, 0)]
    subsets = [[*a, *b] for a in itertools.combinations(halves[0], 2) for b in itertools.combinations(halves[1], 2)]
    assert len(subsets) == {6: 9, 7: 18}[m]
    parts = [directions(p, theta, v, canaries, masks, drawn=torch.tensor([s, s])) for s in subsets]
    assert max((part.canaries - full.canaries).abs().max() for part in parts) > 0.01
    for name in ("theta", "v"):
        mean = torch.stack([getattr(part, name)["weight"] for part in parts]).mean(0)
        torch.testing.assert_close(mean, getattr(full, name)["weight"], rtol=0, atol=1e-12)
    mean = torch.stack([part.canaries for part in parts]).mean(0)
    torch.testing.assert_close(mean, full.canaries, rtol=0, atol=1e-12)
    # the explicit term alone too, so that neither term leans on the other
    explicit = [
        directions(p, theta, zeros_like(theta), canaries, masks, drawn=torch.tensor([s, s])).canaries for s in subsets
    ]
    expected = directions(p, theta, zeros_like(theta), canaries, masks).canaries
    torch.testing.assert_close(torch.stack(explicit).mean(0), expected, rtol=0, atol=1e-12)


def test_random_subsets_of_canaries_are_right_on_average():
    p, theta, v, canaries, masks, generator = at_random("ranking", m=20, replicas=4)
    full = directions(p, theta, v, canaries, masks)
    draws = [directions(p, theta, v, canaries, masks, drawn=balanced_draws(masks, 6, generator)) for _ in range(400)]
    for part in ("theta", "v", "canaries"):
        values = [getattr(draw, part) for draw in draws]
        sample = torch.stack([(d if part == "canaries" else d["weight"]).flatten() for d in values])
        expected = getattr(full, part) if part == "canaries" else getattr(full, part)["weight"]
        assert (sample.std(0) > 0).all()
        assert ((sample.mean(0) - expected.flatten()).abs() < 4 * sample.std(0) / 20).all()


def test_draws_take_half_included_half_excluded_and_none_twice():
    generator = torch.Generator().manual_seed(0)
    masks = complementary_masks(4, 9, generator)
    drawn = balanced_draws(masks, 8, generator)
    assert (masks.gather(1, drawn).sum(1) == 4).all()
    assert all(len(set(row)) == 8 for row in drawn.tolist())
    assert (drawn[0] == drawn[1]).all() and (drawn[2] == drawn[3]).all() and (drawn[0] != drawn[2]).any()
    for count in (0, 3, 10):
        with pytest.raises(InputError, match="canary_batch must be even, at least 2 and at most 8"):
            balanced_draws(masks, count, generator)


@pytest.mark.parametrize("subset", [True, False])
def test_convolutional_replicas_one_by_one_are_replicas_together(subset):
    models = [build_model("cnn", (1, 8, 8), 3, k).double() for k in range(4)]
    generator = torch.Generator().manual_seed(0)
    x, c = (torch.rand(n, 1, 8, 8, generator=generator).double() for n in (20, 6))
    p = Bilevel(models[0], x, torch.arange(20) % 3, torch.arange(6) % 3)
    masks, theta = complementary_masks(4, 6, generator).double(), stacked(models)
    v = {name: torch.randn(q.shape, generator=generator).double() for name, q in theta.items()}
    rows = torch.randint(20, (4, 5), generator=generator)
    drawn = balanced_draws(masks, 4, generator) if subset else None
    alone, two, all_four, chosen = (
        directions(p, theta, v, c, masks, rows, 0.1, drawn, together) for together in (1, 2, 4, None)
    )
    for other in (two, all_four):
        torch.testing.assert_close(alone.canaries, other.canaries)
        torch.testing.assert_close(alone.residual, other.residual)
        for name in theta:
            torch.testing.assert_close(alone.theta[name], other.theta[name])
            torch.testing.assert_close(alone.v[name], other.v[name])
    torch.testing.assert_close(chosen.canaries, alone.canaries, rtol=0, atol=0)  # on the CPU: one by one by itself


@pytest.mark.parametrize("convolution", [True, False])
def test_on_a_network_the_direction_is_the_derivative_of_inner_gradient_and_outer_value(convolution):
    torch.manual_seed(0)
    first = (
        [nn.Conv2d(1, 3, 3, padding=1), nn.GELU(), nn.Flatten()] if convolution else [nn.Flatten(), nn.Linear(16, 48)]
    )
    net = nn.Sequential(
        *first, nn.Softplus(), nn.Linear(48, 5), nn.GELU(), nn.Linear(5, 3, bias=False),
    ).double()  # fmt: skip
    x, c = torch.rand(9, 1, 4, 4).double(), torch.rand(4, 1, 4, 4).double()
    p = Bilevel(net, x, torch.arange(9) % 3, torch.tensor([0, 1, 2, 0]), 0.01, "ranking")
    masks = torch.tensor([[1.0, 0, 1, 0], [0, 1, 0, 1]]).double()
    theta = stacked([net, net])
    v = {name: torch.randn_like(q) for name, q in theta.items()}

    def g_gradient_dot_v(canaries):
        """⟨∂_θ g, v⟩ + F: its derivative in C is the direction (times the number of replicas)."""
        leaf = {name: q.clone().requires_grad_() for name, q in theta.items()}
        gradients = torch.autograd.grad(p.inner(leaf, canaries, masks).sum(), list(leaf.values()))
        dot = sum((g * v[name]).sum() for name, g in zip(leaf, gradients, strict=True))
        return float(dot + p.outer_value(theta, canaries, masks).sum())

    at = directions(p, theta, v, c, masks)
    for pixel in [(0, 0, 1, 2), (1, 0, 3, 0), (3, 0, 2, 2)]:
        moved = [c.clone(), c.clone()]
        moved[0][pixel] += 1e-5
        moved[1][pixel] -= 1e-5
        slope = (g_gradient_dot_v(moved[0]) - g_gradient_dot_v(moved[1])) / 2e-5
        assert float(at.canaries[pixel]) * 2 == pytest.approx(slope, rel=1e-4)


def test_ranking_counts_pairs_in_the_wrong_order():
    p, canaries, mask = problem("ranking")
    sharp = Bilevel(p.template, p.x, p.y, p.labels, MU, "ranking", scale=1e-4)
    theta = {"weight": torch.randn(1, CLASSES, FEATURES, generator=torch.Generator().manual_seed(0)).double()}
    logits = canaries @ theta["weight"][0].T
    own = logits[torch.arange(M), p.labels]
    others = logits.clone()
    others[torch.arange(M), p.labels] = -torch.inf
    phi = own - others.logsumexp(1)
    gaps = [max(0.0, float(phi[j] - phi[i])) for i in range(0, M, 2) for j in range(1, M, 2)]
    assert float(sharp.outer_value(theta, canaries, mask)[0]) == pytest.approx(np.mean(gaps), rel=1e-3)
