"""Every approximation of influence is held against explicit gradients and a dense solve; greedy against brute force."""

import functools

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch import nn

from coalmine.canaries.gradient_gram import gradient_gram
from coalmine.canaries.greedy import select_greedy
from coalmine.canaries.influence import Influence, Projection, influence, woodbury
from coalmine.canaries.per_example import per_example_gradients, sampled_labels
from coalmine.foundation import InputError


class Tied(nn.Module):
    """One layer called twice: ghost products of single calls would be wrong."""

    def __init__(self):
        super().__init__()
        self.inner, self.head = nn.Linear(6, 6), nn.Linear(6, 3)

    def forward(self, x):
        return self.head(torch.tanh(self.inner(torch.tanh(self.inner(x)))))


class Tokens(nn.Module):
    """A Linear layer shared by positions, and a bare parameter."""

    def __init__(self, bare):
        super().__init__()
        self.embed, self.head = nn.Linear(2, 4), nn.Linear(4, 3)
        self.scale = nn.Parameter(torch.ones(4)) if bare else 1.0

    def forward(self, x):
        return self.head(torch.tanh(self.embed(x.reshape(len(x), 3, 2))).mean(1) * self.scale)


def mlp(bias=True):
    return nn.Sequential(nn.Linear(6, 5, bias=bias), nn.GELU(), nn.Linear(5, 3, bias=not bias))


def convolutional():
    return nn.Sequential(
        nn.Unflatten(1, (1, 2, 3)), nn.Conv2d(1, 4, 2, padding=1, stride=1), nn.GELU(), nn.Conv2d(4, 2, 2, bias=False),
        nn.Flatten(), nn.Linear(12, 3),
    )  # fmt: skip


MODELS = {
    "mlp": mlp,
    "mixed biases": lambda: mlp(False),
    "convolutions": convolutional,
    "tied": Tied,
    "tokens": lambda: Tokens(False),
    "bare parameter": lambda: Tokens(True),
}


def make(name, seed=0):
    torch.manual_seed(seed)
    return MODELS[name]()


def data(n=17, seed=0):
    generator = torch.Generator().manual_seed(seed)
    return torch.randn(n, 6, generator=generator), torch.randint(3, (n,), generator=generator)


def explicit(model, x, y):
    """One ordinary backward pass a row."""
    rows = []
    for i in range(len(x)):
        model.zero_grad()
        nn.functional.cross_entropy(model(x[i : i + 1]), y[i : i + 1]).backward()
        rows.append(torch.cat([p.grad.flatten() for p in model.parameters()]).double())
    return torch.stack(rows)


@pytest.mark.parametrize("name", MODELS)
@pytest.mark.parametrize("memory", [1, 2**28])
def test_gram_matrices_are_inner_products_of_explicit_gradients(name, memory):
    model, (x, y), (u, w) = make(name), data(7), data(5, 1)
    g, h = explicit(model, x, y), explicit(model, u, w)
    torch.testing.assert_close(gradient_gram(model, (x, y), memory=memory), g @ g.T, rtol=1e-4, atol=1e-6)
    torch.testing.assert_close(gradient_gram(model, (x, y), (u, w), memory=memory), g @ h.T, rtol=1e-4, atol=1e-6)
    blocks = torch.cat(list(per_example_gradients(model, x, y, memory=memory)))
    torch.testing.assert_close(blocks.double(), g, rtol=1e-4, atol=1e-6)


def test_summing_positions_after_multiplying_would_be_wrong():
    """‖Σ_p δ_p a_pᵀ‖² is not Σ_p ‖δ_p‖²‖a_p‖²: what the convolution test above would catch."""
    generator = torch.Generator().manual_seed(0)
    a, d = torch.randn(5, 4, 3, generator=generator), torch.randn(5, 4, 2, generator=generator)
    right = torch.einsum("nto,nti->noi", d, a).flatten(1).square().sum(1)
    wrong = (d.square().sum(2) * a.square().sum(2)).sum(1)
    assert ((right - wrong).abs() / right).max() > 0.1


@pytest.mark.parametrize("method", ["fisher", "last_layer", "gauss_newton"])
def test_woodbury_through_gram_matrices_is_the_dense_solve(method):
    model, (x, y), (u, w) = make("mlp"), data(), data(30, 1)
    got = influence([model], (x.numpy(), y.numpy()), (u.numpy(), w.numpy()), method, damping=0.3, seed=4).matrix
    g = explicit(model, x, y)
    if method == "fisher":
        f = explicit(model, u, sampled_labels(model, u, 4, "craft/fisher/0"))
        h = f.T @ f / len(f)
    else:
        h = gauss_newton_matrix(model, u)
    if method == "last_layer":
        head = model[2].weight.numel()  # the head of this model has no bias
        g, h = g[:, -head:], h[-head:, -head:]
    delta = 0.3 * torch.trace(h) / len(u)
    dense = g @ torch.linalg.solve(h + delta * torch.eye(len(h), dtype=h.dtype), g.T)
    np.testing.assert_allclose(got, dense, rtol=1e-4, atol=1e-4 * float(dense.abs().max()))


def gauss_newton_matrix(model, x):
    """Mean over rows of Jᵀ (diag p − p pᵀ) J, J the derivative of the logits, one ordinary backward pass an entry."""
    total = 0
    for row in x:
        z = model(row[None])[0]
        p = z.detach().softmax(0).double()
        grads = [torch.autograd.grad(z[k], list(model.parameters()), retain_graph=True) for k in range(len(z))]
        j = torch.stack([torch.cat([g.flatten() for g in each]) for each in grads]).double()
        total = total + j.T @ (torch.diag(p) - torch.outer(p, p)) @ j
    return total / len(x)


@pytest.mark.parametrize("name", MODELS)
def test_the_exact_factor_is_the_gauss_newton_matrix_through_every_layer(name):
    """The mixed Gram matrix too: ghost products and explicit gradients under two losses at once."""
    model, (x, y), (u, w) = make(name), data(6), data(9, 1)
    got = influence([model], (x.numpy(), y.numpy()), (u.numpy(), w.numpy()), damping=0.5).matrix
    g, h = explicit(model, x, y), gauss_newton_matrix(model, u)
    delta = 0.5 * torch.trace(h) / len(u)
    dense = g @ torch.linalg.solve(h + delta * torch.eye(len(h), dtype=h.dtype), g.T)
    np.testing.assert_allclose(got, dense, rtol=1e-3, atol=1e-3 * float(dense.abs().max()))


class Logistic(nn.Module):
    def __init__(self, weight):
        super().__init__()
        self.head = nn.Linear(weight.shape[1], weight.shape[0], bias=False)
        self.head.weight = nn.Parameter(weight)

    def forward(self, x):
        return self.head(x)


@functools.cache
def left_out(classes, n=120, features=8, ridge=0.02):
    """(rows, labels, model on all of them, (n, n) how much leaving out row j changes the loss of row i, times n), for
    softmax regression with a ridge, solved by Newton's method in float64."""
    generator = torch.Generator().manual_seed(classes)
    x = torch.randn(n, features, generator=generator).double()
    truth = torch.randn(classes, features, generator=generator).double()
    y = (x @ truth.T + 1.5 * torch.randn(n, classes, generator=generator).double()).argmax(1)

    def objective(flat, weight):
        w = flat.view(classes, features)
        each = nn.functional.cross_entropy(x @ w.T, y, reduction="none")
        return (weight * each).sum() / n + ridge / 2 * flat.square().sum()

    def solved(weight, begin):
        flat = begin
        for _ in range(12):
            gradient = torch.func.grad(objective)(flat, weight)
            flat = flat - torch.linalg.solve(torch.func.hessian(objective)(flat, weight), gradient)
        return flat

    everyone = torch.ones(n).double()
    full = solved(everyone, torch.zeros(classes * features).double())

    def losses(flat):
        return nn.functional.cross_entropy(x @ flat.view(classes, features).T, y, reduction="none")

    changes = []
    for j in range(n):
        weight = everyone.clone()
        weight[j] = 0
        changes.append(losses(solved(weight, full)) - losses(full))
    return x.float(), y, Logistic(full.view(classes, features).float()), n * torch.stack(changes, dim=1).numpy(), ridge


@pytest.mark.parametrize("classes", [2, 4])
def test_influence_and_the_greedy_denominator_are_those_of_leaving_rows_out(classes):
    """With δ = the ridge, exact curvature agrees with retraining without each row, where one drawn label a row does
    not; so does what the greedy rule divides by, the largest cross influence with 30 chosen rows."""
    x, y, model, truth, ridge = left_out(classes)
    h = gauss_newton_matrix(model, x)
    damping = ridge * len(x) / float(torch.trace(h))
    found = {m: influence([model], (x.numpy(), y.numpy()), method=m, damping=damping, seed=1) for m in METHODS_HELD}
    off = ~np.eye(len(x), dtype=bool)
    pearson = {m: np.corrcoef(found[m].matrix[off], truth[off])[0, 1] for m in METHODS_HELD}
    assert pearson["gauss_newton"] > 0.98 > pearson["fisher"] + 0.02
    chosen = select_greedy(found["gauss_newton"], 30)
    rest = np.setdiff1d(np.arange(len(x)), chosen)
    ours, theirs = (np.abs(m[np.ix_(rest, chosen)]).max(axis=1) for m in (found["gauss_newton"].matrix, truth))
    assert np.corrcoef(ours, theirs)[0, 1] > 0.97


METHODS_HELD = ("gauss_newton", "fisher", "grad_dot")


def test_woodbury_in_float64_is_exact_to_ten_digits():
    generator = torch.Generator().manual_seed(0)
    c, f = torch.randn(7, 20, generator=generator).double(), torch.randn(12, 20, generator=generator).double()
    h = f.T @ f / 12
    delta = 0.1 * torch.trace(h) / 12
    dense = c @ torch.linalg.solve(h + delta * torch.eye(20, dtype=h.dtype), c.T)
    torch.testing.assert_close(woodbury(c @ c.T, c @ f.T, f @ f.T, 0.1), dense, rtol=1e-10, atol=1e-10)


def test_the_order_and_the_number_of_models_do_not_matter():
    one, two, (x, y) = make("mlp"), make("mlp", 1), data()
    before = {name: p.clone() for name, p in one.state_dict().items()}
    rows = (x.numpy(), y.numpy())
    each = [influence([model], rows, method="grad_dot").matrix for model in (one, two)]
    np.testing.assert_allclose(influence([two, one], rows, method="grad_dot").matrix, sum(each) / 2)
    np.testing.assert_allclose(influence([one, one], rows, method="grad_dot").matrix, each[0])
    assert all(torch.equal(before[name], p) for name, p in one.state_dict().items()) and one.training


def test_the_order_of_the_rows_permutes_the_result():
    model, (x, y) = make("convolutions"), data()
    order = torch.randperm(len(x), generator=torch.Generator().manual_seed(0))
    straight = influence([model], (x.numpy(), y.numpy()), method="grad_dot").matrix
    permuted = influence([model], (x[order].numpy(), y[order].numpy()), method="grad_dot").matrix
    np.testing.assert_allclose(permuted, straight[np.ix_(order, order)], rtol=1e-6, atol=1e-9)


def test_projection_is_unbiased_and_its_error_falls_like_one_over_root_k():
    generator = np.random.default_rng(0)
    g = generator.standard_normal((2, 500)).astype(np.float32)
    exact = float(g[0] @ g[1])
    scale = float(np.linalg.norm(g[0]) * np.linalg.norm(g[1]))
    spread = []
    for k in (16, 64, 256):
        estimates = []
        for seed in range(80):
            projected = Projection(500, k, seed, "p", torch.device("cpu")).apply(iter([torch.tensor(g)]), 2).numpy()
            estimates.append(float(projected[0] @ projected[1]))
        assert abs(np.mean(estimates) - exact) < 4 * np.std(estimates) / np.sqrt(80)
        spread.append(np.std(estimates) * np.sqrt(k) / scale)
    assert min(spread) > 0.7 and max(spread) < 1.4


def test_blocks_of_the_projection_can_be_made_again_instead_of_kept(monkeypatch):
    monkeypatch.setattr(Projection, "BLOCK", 7)
    g = torch.randn(3, 30, generator=torch.Generator().manual_seed(0))
    kept = Projection(30, 5, 1, "p", torch.device("cpu")).apply(iter([g]), 3)
    made_again = Projection(30, 5, 1, "p", torch.device("cpu"), keep=0).apply(iter([g[:2], g[2:]]), 3)
    torch.testing.assert_close(kept, made_again)
    assert (kept.norm(dim=1) > 0).all()


def test_projected_influence_with_every_dimension_ranks_like_the_exact_one():
    from scipy.stats import spearmanr

    model, (x, y), (u, w) = make("mlp"), data(40), data(60, 1)
    rows, inputs = (x.numpy(), y.numpy()), (u.numpy(), w.numpy())
    exact = influence([model], rows, inputs).self_influence()
    projected = influence([model], rows, inputs, "projected", projection=40).self_influence()
    assert spearmanr(exact, projected).statistic > 0.8


def test_projected_influence_does_not_depend_on_memory():
    model, (x, y) = make("convolutions"), data(10)
    rows = (x.numpy(), y.numpy())
    little, much = (influence([model], rows, method="projected", projection=8, memory=m) for m in (1, 2**28))
    np.testing.assert_allclose(little.factors[0], much.factors[0], rtol=1e-3, atol=1e-5)


def test_self_influence_from_factors_never_makes_the_square_matrix():
    import tracemalloc

    q = np.random.default_rng(0).standard_normal((20_000, 8)).astype(np.float32)
    tracemalloc.start()
    own = Influence(None, (q,)).self_influence()
    rows = select_greedy(Influence(None, (q,)), 5)
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    np.testing.assert_allclose(own, (q**2).sum(1), rtol=1e-5)
    assert len(rows) == 5 and peak < 20_000**2 * 4 / 100


def test_labels_of_the_data_would_flatten_self_influence():
    """The trap that sampling labels avoids: with the candidates' own gradients as Fisher, every self influence tends
    to the number of rows as damping falls, whoever they are."""
    model, (x, y) = make("mlp"), data()
    k = gradient_gram(model, (x, y))
    flat = woodbury(k, k, k, 1e-7).diagonal()
    assert flat.std() / flat.mean() < 1e-3
    u, w = data(60, 1)
    own = influence([model], (x.numpy(), y.numpy()), (u.numpy(), w.numpy()), damping=0.1).self_influence()
    assert own.std() / own.mean() > 0.1


@pytest.mark.parametrize(
    ("arguments", "says"),
    [
        ({"method": "magic"}, "unknown"),
        ({"damping": 0.0}, "damping"),
        ({"damping": float("nan")}, "damping"),
        ({"method": "projected", "projection": 10**6}, "projection"),
    ],
)
def test_bad_arguments_are_told(arguments, says):
    x, y = data()
    with pytest.raises(InputError, match=says):
        influence([make("mlp")], (x.numpy(), y.numpy()), **arguments)


def test_models_that_have_no_per_example_gradient_or_have_diverged_are_refused():
    x, y = data()
    rows = (x.numpy(), y.numpy())
    with pytest.raises(InputError, match="layer '1' normalises"):
        influence([nn.Sequential(nn.Linear(6, 4), nn.BatchNorm1d(4), nn.Linear(4, 3))], rows)
    broken = make("mlp")
    with torch.no_grad():
        broken[0].weight[0, 0] = float("nan")
    with pytest.raises(InputError, match="not finite"):
        influence([broken], rows, method="grad_dot")
    with pytest.raises(InputError, match="empty"):
        influence([], rows)
    with pytest.raises(InputError, match="use 'projected'"):
        influence([make("mlp")], (np.zeros((13_000, 6), np.float32), np.zeros(13_000, int)))
    with pytest.raises(InputError, match="needs a Linear layer"):
        net = nn.Sequential(nn.Unflatten(1, (1, 2, 3)), nn.Conv2d(1, 3, (2, 3)), nn.Flatten())
        influence([net], rows, method="last_layer")


def brute_force(matrix, count, tau, allowed, quotas, labels):
    """The rule of the paper, written out: at each step all candidates are compared."""
    chosen = []
    own = np.diagonal(matrix)
    for _ in range(count):
        best, best_ratio = None, -np.inf
        for z in range(len(matrix)):
            if z in chosen or not allowed[z]:
                continue
            if quotas is not None and sum(labels[c] == labels[z] for c in chosen) >= quotas[labels[z]]:
                continue
            cross = max((abs(matrix[c, z]) for c in chosen), default=None)
            ratio = own[z] if cross is None else own[z] / (tau * np.median(own) + np.finfo(float).tiny + cross)
            if ratio > best_ratio:
                best, best_ratio = z, ratio
        chosen.append(best)
    return chosen


@settings(max_examples=60, deadline=None)
@given(data=st.data())
def test_greedy_is_the_rule_written_out(data):
    n = data.draw(st.integers(2, 12))
    q = np.array(
        data.draw(st.lists(st.lists(st.integers(-2, 2), min_size=3, max_size=3), min_size=n, max_size=n)), float
    )
    allowed = np.array(data.draw(st.lists(st.booleans(), min_size=n, max_size=n)))
    labels = np.arange(n) % 2
    quotas = data.draw(st.sampled_from([None, np.array([2, 3])]))
    tau = data.draw(st.sampled_from([0.5, 2.0]))
    most = (
        int(allowed.sum())
        if quotas is None
        else int(np.minimum(np.bincount(labels[allowed], minlength=2), quotas).sum())
    )
    count = data.draw(st.integers(0, most))
    for among in (Influence(q @ q.T), Influence(None, (q,))):
        got = select_greedy(among, count, tau, allowed, quotas, labels)
        assert list(got) == brute_force(q @ q.T, count, tau, allowed, quotas, labels)
    with pytest.raises(InputError, match=f"count is {most + 1}, {most} candidates"):
        select_greedy(Influence(q @ q.T), most + 1, tau, allowed, quotas, labels)


def test_a_duplicate_is_never_chosen_before_a_distinct_alternative():
    distinct = np.diag([3.0, 1.0, 1.0])
    q = np.concatenate([distinct, distinct[:1]])
    chosen = list(select_greedy(Influence(None, (q,)), 4))
    assert chosen[0] == 0 and chosen[-1] == 3


@given(scale=st.floats(0.1, 10))
@settings(max_examples=20, deadline=None)
def test_the_scale_of_influence_does_not_change_the_choice(scale):
    q = np.random.default_rng(3).standard_normal((10, 4))
    base = select_greedy(Influence(None, (q,)), 6, 0.5)
    np.testing.assert_array_equal(select_greedy(Influence(None, (q * scale,)), 6, 0.5), base)


def test_quotas_that_do_not_cover_the_labels_are_told():
    among = Influence(np.eye(4))
    with pytest.raises(InputError, match="one quota a class"):
        select_greedy(among, 2, quotas=np.array([1]), labels=np.array([0, 1, 0, 1]))
    with pytest.raises(InputError, match="label of every candidate"):
        select_greedy(among, 2, quotas=np.array([1, 1]))
    with pytest.raises(InputError, match="allowed"):
        select_greedy(among, 2, allowed=np.ones(3, bool))
