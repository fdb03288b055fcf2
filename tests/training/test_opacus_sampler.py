"""Random allocation in a DataLoader and under the real Opacus."""

from __future__ import annotations

import numpy as np
import pytest
import torch
from scipy.stats import binom, chi2
from torch import nn
from torch.nn.functional import cross_entropy
from torch.utils.data import DataLoader, TensorDataset

from coalmine.audit.training.engine import initial_stack, train_epochs
from coalmine.audit.training.models import build_model
from coalmine.audit.training.opacus_sampler import EmptyBatchCollate, RandomAllocationBatchSampler
from coalmine.audit.training.settings import TrainingSettings
from coalmine.foundation import InputError

opacus = pytest.importorskip("opacus", reason="the extra opacus is not installed")
from opacus import GradSampleModule  # noqa: E402
from opacus.optimizers import DPOptimizer  # noqa: E402


class TestSampler:
    def test_every_record_is_used_exactly_once_an_epoch(self):
        sampler = RandomAllocationBatchSampler(100, 7, seed=0)
        for _ in range(3):
            batches = list(sampler)
            assert len(batches) == len(sampler) == 7
            assert sorted(row for batch in batches for row in batch) == list(range(100))

    def test_epochs_are_drawn_afresh_and_a_resumed_sampler_goes_on(self):
        whole = RandomAllocationBatchSampler(50, 5, seed=1)
        epochs = [list(whole) for _ in range(3)]
        assert epochs[0] != epochs[1] != epochs[2]
        resumed = RandomAllocationBatchSampler(50, 5, seed=1)
        resumed.epoch = 2
        assert list(resumed) == epochs[2]

    def test_without_a_seed_no_two_are_alike(self):
        assert list(RandomAllocationBatchSampler(50, 5)) != list(RandomAllocationBatchSampler(50, 5))

    def test_a_records_step_is_uniform_and_batch_sizes_are_binomial(self):
        sampler = RandomAllocationBatchSampler(40, 8, seed=2)
        counts = np.zeros((40, 8))
        sizes = []
        for _ in range(500):
            for step, batch in enumerate(sampler):
                counts[batch, step] += 1
                sizes.append(len(batch))
        statistic = ((counts - 62.5) ** 2 / 62.5).sum()
        assert statistic < chi2.ppf(1 - 1e-6, 40 * 7)
        assert np.var(sizes) == pytest.approx(binom.var(40, 1 / 8), rel=0.1)

    @pytest.mark.parametrize("arguments", [(0, 5), (5, 0), (5, 2.5), (True, 2)])
    def test_mistakes(self, arguments):
        with pytest.raises(InputError, match="whole number"):
            RandomAllocationBatchSampler(*arguments)


@pytest.mark.parametrize("workers", [0, 2])
def test_a_loader_gives_the_batches_and_empty_ones_too(workers):
    data = TensorDataset(torch.arange(12.0).reshape(6, 2), torch.arange(6))
    sampler = RandomAllocationBatchSampler(6, 20, seed=0)
    loader = DataLoader(data, batch_sampler=sampler, collate_fn=EmptyBatchCollate(data), num_workers=workers)
    batches = list(loader)
    assert len(batches) == 20
    assert min(len(y) for _, y in batches) == 0
    assert all(x.shape == (len(y), 2) and x.dtype == torch.float32 and y.dtype == torch.int64 for x, y in batches)
    assert sorted(torch.cat([y for _, y in batches]).tolist()) == list(range(6))


def test_empty_batches_keep_the_structure_of_dictionaries():
    data = [{"ids": torch.zeros(3, dtype=torch.long), "label": 1}]
    empty = EmptyBatchCollate(data)([])  # type: ignore[arg-type]
    assert empty["ids"].shape == (0, 3) and empty["label"].shape == (0,)
    with pytest.raises(InputError, match="str"):
        EmptyBatchCollate([("text", 1)], collate=lambda rows: rows[0][0])  # type: ignore[arg-type]


def with_opacus(model, x, y, *, steps_per_epoch, epochs, noise_multiplier, public_size, learning_rate, seed):
    """Train a copy of the model by GradSampleModule and DPOptimizer; returns its weights and how often it stepped."""
    data = TensorDataset(x, y)
    sampler = RandomAllocationBatchSampler(len(y), steps_per_epoch, seed=seed)
    loader = DataLoader(data, batch_sampler=sampler, collate_fn=EmptyBatchCollate(data))
    private = GradSampleModule(model)
    optimizer = DPOptimizer(
        torch.optim.SGD(private.parameters(), lr=learning_rate),
        noise_multiplier=noise_multiplier,
        max_grad_norm=1.0,
        expected_batch_size=public_size / steps_per_epoch,  # type: ignore[arg-type]  # a float, as it must be
        generator=torch.Generator().manual_seed(0),
    )
    empty = 0
    for _ in range(epochs):
        for rows, labels in loader:
            optimizer.zero_grad()
            cross_entropy(private(rows), labels).backward()
            optimizer.step()
            empty += len(labels) == 0
    return torch.cat([p.detach().flatten() for p in private.parameters()]), empty


@pytest.mark.parametrize("name", ["mlp", "cnn"])
def test_opacus_and_the_engine_are_equal_without_noise(name):
    """Same allocation, same clipping, same public divisor: the weights agree to float32 rounding."""
    x, y = torch.rand(30, 1, 8, 8, generator=torch.Generator().manual_seed(0)), torch.arange(30) % 10
    plan = {"steps_per_epoch": 10, "epochs": 2, "learning_rate": 0.5, "public_size": 28.5, "noise_multiplier": 0.0}
    theirs, empty = with_opacus(build_model(name, (1, 8, 8), 10, seed=4), x, y, seed=4, **plan)
    assert empty > 0  # the case that goes wrong elsewhere is among them
    stack = initial_stack(lambda seed: build_model(name, (1, 8, 8), 10, seed), [4])
    list(train_epochs(stack, x, y, np.ones((1, 30), dtype=bool), TrainingSettings(clipping_norm=1.0, **plan)))
    start = torch.cat([p.detach().flatten() for p in build_model(name, (1, 8, 8), 10, seed=4).parameters()])
    assert (stack.theta[0] - start).abs().max() > 1e-2
    torch.testing.assert_close(stack.theta[0], theirs, rtol=0, atol=2e-6)


def test_every_step_of_opacus_is_noisy_the_empty_ones_too():
    """One record, 50 steps: 49 empty. Each step moves a weight by noise of sd learning_rate·σ·C·M/public_size."""
    model = nn.Sequential(nn.Flatten(), nn.Linear(4000, 2, bias=False))
    start = model[1].weight.detach().clone().flatten()
    weights, empty = with_opacus(
        model,
        torch.zeros(1, 4000),
        torch.zeros(1, dtype=torch.long),
        steps_per_epoch=50,
        epochs=1,
        noise_multiplier=2.0,
        public_size=0.5,
        learning_rate=0.1,
        seed=0,
    )
    assert empty == 49
    moved = weights - start
    expected = 0.1 * 2.0 / (0.5 / 50) * 50**0.5
    assert torch.isfinite(moved).all()
    assert moved.std().item() == pytest.approx(expected, rel=0.05)
