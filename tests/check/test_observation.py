"""Watching a trainer: every way of taking a step is seen, and what was there before is put back."""

import numpy as np
import pytest
import torch
from torch import nn
from torch.func import functional_call, grad, vmap
from torch.nn.functional import cross_entropy
from torch.optim.optimizer import _global_optimizer_pre_hooks

from coalmine.attacks.observation import observe, report_step
from coalmine.canaries.probe import make_probe
from coalmine.foundation import InputError

PROBE = make_probe(60, 0)
ROWS = np.arange(60)
BATCHES = [torch.arange(0, 20), torch.arange(20, 60), torch.arange(0), torch.tensor([5, 6])]


def seen(train):
    return observe(train, PROBE.model(), PROBE.dataset(ROWS), 60, 0)


def sums():
    return np.array([PROBE.gradients[batch.numpy()].sum(axis=0) for batch in BATCHES])


def uses():
    return np.array([np.bincount(batch.numpy(), minlength=60) for batch in BATCHES])


def with_optimizer(kind, wrap=lambda model: model, copy=False):
    def train(model, dataset):
        x, y = dataset.tensors
        if copy:
            from copy import deepcopy

            model = deepcopy(model)
        outer = wrap(model)
        optimizer = kind(outer.parameters(), lr=0.1)
        for batch in BATCHES:
            optimizer.zero_grad()
            cross_entropy(outer(x[batch]), y[batch], reduction="sum").backward()
            optimizer.step()

    return train


@pytest.mark.parametrize("kind", [torch.optim.SGD, torch.optim.Adam, torch.optim.RMSprop])
@pytest.mark.parametrize("copy", [False, True])
def test_any_optimiser_and_a_copied_or_wrapped_model(kind, copy):
    observed = seen(with_optimizer(kind, lambda model: nn.Sequential(nn.Identity(), model), copy))
    np.testing.assert_allclose(observed.gradients, sums(), rtol=1e-4, atol=1e-3)
    assert np.array_equal(observed.use, uses()) and observed.source == "optimizer"


def test_the_innermost_of_nested_optimisers_is_read():
    class Outer(torch.optim.Optimizer):
        def __init__(self, inner):
            self.inner = inner
            super().__init__(inner.param_groups[0]["params"], {})

        def step(self, closure=None):
            for group in self.param_groups:
                for p in group["params"]:
                    p.grad = torch.full_like(p, 7.0)
            self.inner.step()

    def train(model, dataset):
        x, y = dataset.tensors
        optimizer = Outer(torch.optim.SGD(model.parameters(), lr=0.1))
        for batch in BATCHES:
            cross_entropy(model(x[batch]), y[batch]).backward()
            optimizer.step()

    observed = seen(train)
    assert observed.steps == 4 and np.all(observed.gradients == 7.0)
    assert np.array_equal(observed.use, uses())


def test_a_trainer_without_optimiser_is_read_by_its_weights():
    def train(model, dataset):
        x, y = dataset.tensors
        weights = {name: p.detach() for name, p in model.named_parameters()}

        def loss(weights, x, y):
            return cross_entropy(functional_call(model, weights, (x[None],)), y[None])

        with torch.no_grad():
            for batch in BATCHES[:2]:
                g = vmap(grad(loss), (None, 0, 0))(weights, x[batch], y[batch])
                weights = {name: weights[name] - 0.5 * g[name].sum(0) for name in weights}
        return weights

    observed = seen(train)
    assert observed.source == "weights" and observed.steps == 2
    np.testing.assert_allclose(observed.gradients, 0.5 * sums()[:2], rtol=1e-3, atol=1e-2)
    assert np.array_equal(observed.use, uses()[:2])


def test_evaluation_is_no_use_of_a_row():
    def train(model, dataset):
        x, _ = dataset.tensors
        with torch.no_grad():
            model(x)
        with_optimizer(torch.optim.SGD)(model, dataset)

    assert np.array_equal(seen(train).use, uses())


def test_steps_can_be_reported():
    def train(model, dataset):
        x, _ = dataset.tensors
        for step, batch in zip(sums(), BATCHES, strict=True):
            report_step(torch.from_numpy(step), x[batch])

    observed = seen(train)
    np.testing.assert_allclose(observed.gradients, sums())
    assert np.array_equal(observed.use, uses()) and observed.source == "reported"
    report_step(torch.zeros(3))  # nobody watches: nothing happens


def test_runs_repeat_with_a_seed_and_leave_the_global_generators_alone():
    def train(model, dataset):
        x, y = dataset.tensors
        optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
        cross_entropy(model(x), y).backward()
        for p in model.parameters():
            p.grad += torch.randn_like(p) + np.random.normal()  # noqa: NPY002
        optimizer.step()

    torch.manual_seed(1)
    expected = torch.rand(1)
    torch.manual_seed(1)
    first, second = seen(train), seen(train)
    assert torch.equal(torch.rand(1), expected)
    assert np.array_equal(first.gradients, second.gradients)
    assert not _global_optimizer_pre_hooks


@pytest.mark.parametrize(
    ("train", "words"),
    [
        (lambda model, dataset: None, "never called the model"),
        (lambda model, dataset: model(dataset.tensors[0]).sum().backward(), "never moved"),
        (lambda model, dataset: model((dataset.tensors[0] - 0.1) / 0.3), "changes its inputs"),
    ],
)
def test_what_cannot_be_observed_is_told(train, words):
    with pytest.raises(InputError, match=words):
        seen(train)
