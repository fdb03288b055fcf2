"""The accountants inside Opacus: real training, noise for a target, checkpoints."""

import math

import pytest
import torch

pytest.importorskip("opacus")

from opacus import PrivacyEngine
from opacus.accountants import create_accountant
from opacus.accountants.utils import get_noise_multiplier
from torch.utils.data import DataLoader, TensorDataset

from coalmine.audit.bounds import Composition, PoissonSampling, RandomAllocation
from coalmine.audit.opacus_accountant import PoissonAccountant, RandomAllocationAccountant, register
from coalmine.foundation import InputError

register()


def train(engine, epochs=3):
    torch.manual_seed(0)
    x, y = torch.randn(128, 5), torch.randint(0, 2, (128,))
    model = torch.nn.Linear(5, 2)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    loader = DataLoader(TensorDataset(x, y), batch_size=16)
    model, optimizer, loader = engine.make_private(
        module=model, optimizer=optimizer, data_loader=loader, noise_multiplier=1.2, max_grad_norm=1.0
    )
    for _ in range(epochs):
        for batch, labels in loader:
            optimizer.zero_grad()
            torch.nn.functional.cross_entropy(model(batch), labels).backward()
            optimizer.step()
    return model, optimizer


def test_an_engine_trains_and_reports_epsilon_within_its_certificate(tmp_path):
    engine = PrivacyEngine(accountant="coalmine")
    model, optimizer = train(engine)
    exact = PoissonSampling(1 / 8, len(engine.accountant), 1.2)
    assert len(engine.accountant) > 0
    assert engine.accountant.claim() == exact
    interval = exact.epsilon(1e-5)
    assert engine.get_epsilon(1e-5) == interval.upper
    # Opacus's own accountant says no less than the lower end
    others = create_accountant("prv")
    others.history = list(engine.accountant.history)
    assert others.get_epsilon(1e-5) >= interval.lower
    engine.save_checkpoint(path=tmp_path / "c.pt", module=model, optimizer=optimizer)
    again = PrivacyEngine(accountant="coalmine")
    again.load_checkpoint(path=tmp_path / "c.pt", module=model, optimizer=optimizer)
    assert again.get_epsilon(1e-5) == engine.get_epsilon(1e-5)


@pytest.mark.parametrize("name", ["coalmine", "coalmine_random_allocation"])
def test_noise_for_a_target_meets_it_by_the_upper_end(name):
    rate, epochs = 1 / 50, 5
    sigma = get_noise_multiplier(
        target_epsilon=2.0, target_delta=1e-5, sample_rate=rate, epochs=epochs, accountant=name, epsilon_tolerance=1e-3
    )
    scheme = RandomAllocation(50, 5, sigma) if name.endswith("allocation") else PoissonSampling(rate, 250, sigma)
    assert 2.0 - 2e-3 <= scheme.epsilon(1e-5).upper <= 2.0
    theirs = get_noise_multiplier(
        target_epsilon=2.0, target_delta=1e-5, sample_rate=rate, epochs=epochs, accountant="rdp", epsilon_tolerance=1e-3
    )
    assert name != "coalmine" or sigma < theirs


def test_a_schedule_of_noise_is_a_composition():
    accountant = PoissonAccountant()
    for noise in (2.0, 2.0, 1.0, 2.0):
        accountant.step(noise_multiplier=noise, sample_rate=0.1)
    assert accountant.history == [(2.0, 0.1, 2), (1.0, 0.1, 1), (2.0, 0.1, 1)]
    expected = Composition([PoissonSampling(0.1, 3, 2.0), PoissonSampling(0.1, 1, 1.0)])
    assert accountant.epsilon(1e-5).overlaps(expected.epsilon(1e-5))
    assert len(accountant) == 4


def test_random_allocation_counts_epochs():
    accountant = RandomAllocationAccountant()
    assert accountant.get_epsilon(1e-5) == 0
    for _ in range(21):  # two epochs of ten steps, and the first of a third
        accountant.step(noise_multiplier=1.5, sample_rate=1 / 10)
    assert accountant.claim() == RandomAllocation(10, 3, 1.5)
    for _ in range(8):
        accountant.step(noise_multiplier=1.2, sample_rate=1 / 10)
    assert accountant.claim().phases == (RandomAllocation(10, 2, 1.5), RandomAllocation(10, 1, 1.2))
    with pytest.raises(InputError, match="changes after 9 of an epoch's 10 steps"):
        accountant.step(noise_multiplier=1.2, sample_rate=1 / 20)
        accountant.claim()
    accountant.history = [(1.0, 0.3, 5)]
    with pytest.raises(InputError, match="1/steps_per_epoch"):
        accountant.claim()


def test_the_allocation_accountant_follows_a_real_optimizer():
    from opacus import GradSampleModule
    from opacus.optimizers import DPOptimizer

    from coalmine.audit.training.opacus_sampler import EmptyBatchCollate, RandomAllocationBatchSampler

    torch.manual_seed(0)
    data = TensorDataset(torch.randn(60, 4), torch.randint(0, 2, (60,)))
    sampler = RandomAllocationBatchSampler(60, 6, seed=1)
    loader = DataLoader(data, batch_sampler=sampler, collate_fn=EmptyBatchCollate(data))
    model = GradSampleModule(torch.nn.Linear(4, 2))
    optimizer = DPOptimizer(
        torch.optim.SGD(model.parameters(), lr=0.1), noise_multiplier=2.0, max_grad_norm=1.0, expected_batch_size=10.0
    )
    accountant = RandomAllocationAccountant()
    optimizer.attach_step_hook(accountant.get_optimizer_hook_fn(sample_rate=1 / 6))
    for _ in range(2):
        for x, y in loader:
            optimizer.zero_grad()
            torch.nn.functional.cross_entropy(model(x), y, reduction="sum").backward()
            optimizer.step()
    assert accountant.claim() == RandomAllocation(6, 2, 2.0)
    assert accountant.get_epsilon(1e-5) == RandomAllocation(6, 2, 2.0).epsilon(1e-5).upper


def test_no_noise_is_no_privacy():
    accountant = PoissonAccountant()
    accountant.step(noise_multiplier=0.0, sample_rate=0.1)
    assert accountant.get_epsilon(1e-5) == math.inf
