"""The engine does what DP-SGD says: clip each example, sum, add noise of sigma * C, divide by a public constant."""

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import settings as hypothesis_settings
from hypothesis import strategies as st
from torch import nn

from coalmine.audit.training import gradients
from coalmine.audit.training.augmentation import Moves, draw_moves, flip_shift
from coalmine.audit.training.engine import classification_loss, initial_stack, train_epochs, train_many
from coalmine.audit.training.samplers import epoch_batches
from coalmine.audit.training.sequential import train_sequentially
from coalmine.audit.training.settings import TrainingSettings
from coalmine.foundation import InputError, torch_stream

RECORDS, FEATURES, CLASSES = 60, 6, 3


def build(seed: int) -> nn.Module:
    generator = torch_stream(seed, "init")
    with torch.random.fork_rng():  # the layers' own initialisation draws from the global generator
        model = nn.Sequential(nn.Linear(FEATURES, 8), nn.Tanh(), nn.Linear(8, CLASSES))
    with torch.no_grad():
        for parameter in model.parameters():
            parameter.copy_(torch.randn(parameter.shape, generator=generator) * 0.5)
    return model


def rows(seed: int = 0) -> tuple[np.ndarray, np.ndarray]:
    rng = np.random.default_rng(seed)
    return rng.normal(size=(RECORDS, FEATURES)).astype(np.float32), rng.integers(0, CLASSES, RECORDS)


def tell(**changes) -> TrainingSettings:
    shape = {"steps_per_epoch": 5, "epochs": 3, "learning_rate": 0.3, "public_size": 30.0}
    return TrainingSettings(**(shape | {"noise_multiplier": 0.7, "clipping_norm": 0.4} | changes))


def flat(model: nn.Module) -> torch.Tensor:
    return torch.cat([p.detach().flatten() for p in model.parameters()])


def plain_dp_sgd(x, y, members, seed, settings: TrainingSettings) -> torch.Tensor:
    """One model, one example at a time with autograd: the definition, sharing only the samplers and the streams."""
    model = build(seed)
    velocity = torch.zeros_like(flat(model))
    for epoch in range(settings.epochs):
        noise = torch_stream(seed, f"noise/{epoch}")
        for batch in epoch_batches(settings.sampler, len(x), settings.steps_per_epoch, seed, epoch):
            total = torch.zeros_like(velocity)
            for i in batch[members[batch]]:
                loss = nn.functional.cross_entropy(model(torch.from_numpy(x[i : i + 1])), torch.tensor([y[i]]))
                gradient = torch.cat([g.flatten() for g in torch.autograd.grad(loss, list(model.parameters()))])
                if settings.clipping_norm is not None:
                    gradient = gradient * min(1.0, settings.clipping_norm / float(gradient.norm()))
                total += gradient
            if settings.noise_multiplier:
                total += settings.noise_multiplier * settings.clipping_norm * torch.randn(len(total), generator=noise)
            velocity = settings.momentum * velocity + total / settings.divisor
            start = 0
            with torch.no_grad():
                for p in model.parameters():
                    p -= settings.learning_rate * velocity[start : start + p.numel()].view_as(p)
                    start += p.numel()
    return flat(model)


@pytest.mark.parametrize("sampler", ["random_allocation", "fixed_bins", "poisson", "fixed_size", "full_batch"])
@pytest.mark.parametrize("change", [{}, {"momentum": 0.9}, {"clipping_norm": None, "noise_multiplier": 0.0}])
def test_one_model_and_a_stack_equal_the_plain_definition(sampler, change):
    x, y = rows()
    settings = tell(sampler=sampler, **change)
    membership = np.random.default_rng(1).random((3, RECORDS)) < 0.5
    stacked = train_many(build, x, y, membership, [7, 8, 9], settings, chunk=3)
    alone = train_many(build, x, y, membership, [7, 8, 9], settings, chunk=1)
    for k, seed in enumerate([7, 8, 9]):
        expected = plain_dp_sgd(x, y, membership[k], seed, settings)
        torch.testing.assert_close(flat(alone[k]), expected, rtol=1e-4, atol=1e-5)
        torch.testing.assert_close(flat(stacked[k]), expected, rtol=1e-4, atol=1e-5)


class Recorder:
    def __init__(self) -> None:
        self.sums: list[torch.Tensor] = []

    def observe(self, step: int, noisy_sum: torch.Tensor) -> None:
        assert step == len(self.sums)
        self.sums.append(noisy_sum.clone())


def noisy_sums(membership: np.ndarray, settings: TrainingSettings) -> torch.Tensor:
    x, y = rows()
    recorder = Recorder()
    stack = initial_stack(build, [3])
    for _ in train_epochs(stack, torch.from_numpy(x), torch.from_numpy(y), membership[None], settings, recorder):
        pass
    return torch.cat(recorder.sums)


def test_noise_has_standard_deviation_sigma_times_clipping_norm_even_in_empty_steps():
    nobody = np.zeros(RECORDS, dtype=bool)
    sums = noisy_sums(nobody, tell(steps_per_epoch=20, epochs=40, noise_multiplier=1.5, clipping_norm=0.4))
    draws = sums.flatten().double()
    assert sums.shape[0] == 800
    # chi-square limits of the sample variance and normal limits of the mean, five standard errors
    assert abs(draws.var().item() / (1.5 * 0.4) ** 2 - 1) < 5 * np.sqrt(2 / len(draws))
    assert abs(draws.mean().item()) < 5 * 0.6 / np.sqrt(len(draws))
    assert abs(np.corrcoef(sums[:-1].flatten(), sums[1:].flatten())[0, 1]) < 5 / np.sqrt(len(draws))


def test_one_record_moves_the_sum_by_at_most_the_clipping_norm():
    settings = tell(noise_multiplier=0.0, clipping_norm=0.05, epochs=1)
    everybody = np.ones(RECORDS, dtype=bool)
    everybody[17] = False
    with_record, without = noisy_sums(np.ones(RECORDS, dtype=bool), settings), noisy_sums(everybody, settings)
    first = int(np.flatnonzero((with_record - without).norm(dim=1) > 1e-7)[0])
    assert (with_record - without)[first].norm().item() == pytest.approx(0.05, rel=1e-4)  # clipped to C exactly
    alone = np.zeros(RECORDS, dtype=bool)
    alone[17] = True
    norms = noisy_sums(alone, settings).norm(dim=1)
    assert sorted(norms.tolist())[:-1] == [0.0] * 4 and norms.max().item() == pytest.approx(0.05, rel=1e-4)


def test_a_gradient_below_the_clipping_norm_is_not_scaled_up():
    alone = np.zeros(RECORDS, dtype=bool)
    alone[4] = True
    small = noisy_sums(alone, tell(noise_multiplier=0.0, clipping_norm=1e3, epochs=1)).norm(dim=1).max()
    plain = noisy_sums(alone, tell(noise_multiplier=0.0, clipping_norm=None, epochs=1)).norm(dim=1).max()
    torch.testing.assert_close(small, plain)


def test_the_divisor_is_the_public_constant_whoever_is_a_member():
    """The first step's change of the weights is -learning_rate * sum * M / public_size, for any membership."""
    x, y = rows()
    settings = tell(noise_multiplier=0.0, steps_per_epoch=1, epochs=1, public_size=123.0)
    for share in (0.1, 0.9):
        members = np.random.default_rng(2).random(RECORDS) < share
        recorder, stack = Recorder(), initial_stack(build, [3])
        before = stack.theta.clone()
        for _ in train_epochs(stack, torch.from_numpy(x), torch.from_numpy(y), members[None], settings, recorder):
            pass
        torch.testing.assert_close(stack.theta - before, -0.3 * recorder.sums[0] / 123.0)


def test_stopping_between_epochs_and_going_on_gives_the_same_bits():
    x, y = (torch.from_numpy(a) for a in rows())
    membership = np.ones((2, RECORDS), dtype=bool)
    settings = tell(momentum=0.5, epochs=4)
    unbroken = initial_stack(build, [1, 2])
    for _ in train_epochs(unbroken, x, y, membership, settings):
        pass
    broken = initial_stack(build, [1, 2])
    for stack in train_epochs(broken, x, y, membership, settings):
        if stack.epochs_done == 2:
            break
    resumed = initial_stack(build, [1, 2])
    resumed.theta.copy_(broken.theta)
    resumed.velocity.copy_(broken.velocity)
    resumed.epochs_done = 2
    for _ in train_epochs(resumed, x, y, membership, settings):
        pass
    assert torch.equal(unbroken.theta, resumed.theta)


def image_model(seed: int) -> nn.Module:
    with torch.random.fork_rng():
        torch.manual_seed(seed)
        return nn.Sequential(nn.Conv2d(1, 3, 3), nn.ReLU(), nn.Flatten(), nn.Linear(3 * 36, CLASSES))


@pytest.mark.parametrize("change", [{}, {"clipping_norm": None, "noise_multiplier": 0.0}])
def test_augmentation_of_a_model_does_not_depend_on_the_models_stacked_with_it(change):
    rng = np.random.default_rng(0)
    x, y = rng.random((RECORDS, 1, 8, 8), dtype=np.float32), rng.integers(0, CLASSES, RECORDS)
    membership = rng.random((3, RECORDS)) < 0.5
    told = tell(augmentation="flip_shift", **change)
    stacked = train_many(image_model, x, y, membership, [7, 8, 9], told, chunk=3)
    alone = train_many(image_model, x, y, membership, [7, 8, 9], told, chunk=1)
    plain = train_many(image_model, x, y, membership, [7, 8, 9], tell(**change), chunk=3)
    for k in range(3):
        torch.testing.assert_close(flat(stacked[k]), flat(alone[k]), rtol=1e-4, atol=1e-5)
        assert not torch.allclose(flat(stacked[k]), flat(plain[k]), rtol=1e-3)


def convolutional(*more: nn.Module):
    def build_it(seed: int) -> nn.Module:
        model = image_model(seed)
        return nn.Sequential(model[0], *more, *model[1:])

    return build_it


def pictures() -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    rng = np.random.default_rng(4)
    return (
        rng.random((RECORDS, 1, 8, 8), dtype=np.float32),
        rng.integers(0, CLASSES, RECORDS),
        rng.random((3, 60)) < 0.5,
    )


@pytest.mark.parametrize("sampler", ["random_allocation", "poisson", "full_batch"])
@pytest.mark.parametrize("change", [{"momentum": 0.9}, {"augmentation": "flip_shift"}])
def test_convolutions_on_the_cpu_are_trained_one_model_after_another(sampler, change):
    """By ordinary autograd: bit for bit the same in any stack, and the sequential loop up to rounding."""
    x, y, membership = pictures()
    membership[1] = False  # a model without members takes its empty steps
    told = tell(clipping_norm=None, noise_multiplier=0.0, sampler=sampler, **change)
    stacked = train_many(image_model, x, y, membership, [7, 8, 9], told, chunk=3)
    alone = train_many(image_model, x, y, membership, [7, 8, 9], told, chunk=1)
    plain = train_sequentially(image_model, x, y, membership, [7, 8, 9], told)
    for a, b, c in zip(stacked, alone, plain, strict=True):
        assert torch.equal(flat(a), flat(b))
        torch.testing.assert_close(flat(a), flat(c), rtol=1e-4, atol=1e-5)
    assert torch.equal(flat(stacked[1]), flat(image_model(8)))


def test_convolutions_keep_dropout_batch_statistics_and_frozen_or_idle_parameters():
    x, y, membership = pictures()
    told = tell(clipping_norm=None, noise_multiplier=0.0)
    with_dropout = convolutional(nn.Dropout(0.5))
    state = torch.get_rng_state()
    stacked = train_many(with_dropout, x, y, membership, [7, 8, 9], told, chunk=3)
    alone = train_many(with_dropout, x, y, membership, [7, 8, 9], told, chunk=1)
    assert torch.equal(torch.get_rng_state(), state)
    assert all(torch.equal(flat(a), flat(b)) for a, b in zip(stacked, alone, strict=True))

    normalised = train_many(convolutional(nn.BatchNorm2d(3)), x, y, membership, [7, 8, 9], told)
    assert all(m[1].num_batches_tracked == 15 and m[1].running_mean.abs().min() > 0 for m in normalised)

    class Idle(nn.Module):
        def __init__(self, seed: int) -> None:
            super().__init__()
            self.used, self.idle = image_model(seed), nn.Parameter(torch.ones(2))
            self.used[0].bias.requires_grad_(False)

        def forward(self, x):
            return self.used(x)

    idle = train_many(Idle, x, y, membership, [7, 8, 9], told)[0]
    assert torch.equal(idle.idle, torch.ones(2)) and torch.equal(idle.used[0].bias, image_model(7)[0].bias)
    assert not torch.equal(idle.used[0].weight, image_model(7)[0].weight)


def test_private_convolutions_are_stacked_while_their_gradients_fit_into_one_piece(monkeypatch):
    x, y, membership = pictures()
    stacked = train_many(image_model, x, y, membership, [7, 8, 9], tell(), chunk=3)
    stack = initial_stack(image_model, [7, 8, 9])
    wide = gradients.Batch(torch.tensor(x), torch.tensor(y), np.zeros((3, 40), int), np.ones((3, 40), bool), None)
    assert not gradients.faster_alone(stack, wide, tell())
    monkeypatch.setattr(gradients, "GRADIENT_BYTES", 1)  # 16 examples at a time
    assert gradients.faster_alone(stack, wide, tell())
    assert not gradients.faster_alone(
        initial_stack(lambda s: nn.Sequential(nn.Flatten(), nn.Linear(64, 3)), [1]), wide, tell()
    )
    alone = train_many(image_model, x, y, membership, [7, 8, 9], tell(sampler="random_allocation"), chunk=3)
    for a, b in zip(stacked, alone, strict=True):
        torch.testing.assert_close(flat(a), flat(b), rtol=1e-4, atol=1e-5)


def test_flip_shift_moves_whole_images_and_stays_inside_its_reach():
    image = torch.arange(1.0, 65).view(1, 1, 8, 8).repeat(500, 1, 1, 1)
    moves = draw_moves(500, reach=1, generator=torch_stream(0, "augmentation/0"))
    moved = flip_shift(image, moves, reach=1)
    assert abs(moves.mirrored.float().mean().item() - 0.5) < 0.12  # five standard errors
    assert set(moves.down.tolist()) == set(moves.right.tolist()) == {0, 1, 2}
    for i in range(500):
        expected = image[i, 0].flip(-1) if moves.mirrored[i] else image[i, 0]
        down, right = 1 - int(moves.down[i]), 1 - int(moves.right[i])
        expected = torch.roll(expected, (down, right), (0, 1))
        inner = (slice(1, 7), slice(1, 7))
        assert torch.equal(moved[i, 0][inner], expected[inner])
    still = Moves(
        torch.zeros(500, dtype=torch.bool), torch.ones(500, dtype=torch.long), torch.ones(500, dtype=torch.long)
    )
    assert torch.equal(flip_shift(image, still, reach=1), image)


def test_augmentation_needs_images():
    x, y = rows()
    with pytest.raises(InputError, match="flip_shift"):
        train_many(build, x, y, np.ones((1, RECORDS), dtype=bool), [1], tell(augmentation="flip_shift"))


def test_dropout_is_deterministic_and_leaves_the_global_generator_alone():
    def with_dropout(seed: int) -> nn.Module:
        model = build(seed)
        return nn.Sequential(model[0], nn.Tanh(), nn.Dropout(0.5), model[2])

    x, y = rows()
    members = np.ones((2, RECORDS), dtype=bool)
    torch.manual_seed(5)
    state = torch.get_rng_state()
    first = train_many(with_dropout, x, y, members, [1, 2], tell())
    assert torch.equal(torch.get_rng_state(), state)
    torch.manual_seed(99)
    second = train_many(with_dropout, x, y, members, [1, 2], tell())
    assert torch.equal(flat(first[1]), flat(second[1]))
    assert not torch.equal(flat(first[0]), flat(train_many(build, x, y, members, [1, 2], tell())[0]))


def test_batch_normalisation_is_refused_under_dp_and_trained_alone_without():
    def normalised(seed: int) -> nn.Module:
        model = build(seed)
        return nn.Sequential(model[0], nn.BatchNorm1d(8), nn.Tanh(), model[2])

    x, y = rows()
    members = np.random.default_rng(0).random((2, RECORDS)) < 0.5
    with pytest.raises(InputError, match="layer '1' normalises over the batch"):
        train_many(normalised, x, y, members, [1, 2], tell())
    plain = tell(clipping_norm=None, noise_multiplier=0.0)
    models = train_many(normalised, x, y, members, [1, 2], plain)
    assert all(m[1].num_batches_tracked > 0 for m in models)
    again = train_many(normalised, x, y, members[1:], [2], plain)
    assert torch.equal(flat(models[1]), flat(again[0]))


def test_one_output_is_trained_with_the_logistic_loss():
    logits = torch.tensor([[0.3], [-2.0]])
    y = torch.tensor([1, 0])
    two = torch.cat([torch.zeros_like(logits), logits], dim=1)
    torch.testing.assert_close(classification_loss(logits, y), nn.functional.cross_entropy(two, y, reduction="none"))


def test_the_loss_taken_under_vmap_is_the_same_to_the_bit():
    rng = torch_stream(0, "init")
    logits = (torch.randn(50, 7, generator=rng) * 9).requires_grad_()
    y = torch.randint(0, 7, (50,), generator=rng)
    losses = [loss(logits, y) for loss in (classification_loss, gradients._mapped_loss)]
    assert torch.equal(*losses)
    assert torch.equal(*(torch.autograd.grad(value.sum(), logits)[0] for value in losses))
    assert torch.equal(gradients._mapped_loss(logits[:, :1], y % 2), classification_loss(logits[:, :1], y % 2))


def test_divergence_is_an_error_that_names_the_step():
    x, y = rows()
    everyone = np.ones((1, RECORDS), dtype=bool)
    with pytest.raises(InputError, match=r"step \d+ .*not finite.*learning_rate"):
        settings = tell(clipping_norm=None, noise_multiplier=0.0, learning_rate=1e14, epochs=20)
        train_many(lambda s: nn.Sequential(build(s)[0], nn.ReLU(), build(s)[2]), x, y, everyone, [1], settings)


@given(st.sampled_from(["random_allocation", "fixed_bins", "fixed_size"]), st.integers(1, 40), st.integers(0, 200))
@hypothesis_settings(max_examples=60, deadline=None)
def test_each_record_is_used_exactly_once_an_epoch(sampler, steps, records):
    batches = epoch_batches(sampler, records, steps, seed=3, epoch=2)
    assert len(batches) == steps
    assert np.array_equal(np.sort(np.concatenate(batches)), np.arange(records))


def test_random_allocation_is_uniform_independent_and_fresh_every_epoch():
    records, steps = 40_000, 10
    step_of = np.empty((2, records), dtype=int)
    for epoch in range(2):
        for step, batch in enumerate(epoch_batches("random_allocation", records, steps, seed=1, epoch=epoch)):
            step_of[epoch, batch] = step
    joint = np.histogram2d(step_of[0], step_of[1], bins=steps)[0]
    chi_square = ((joint - records / 100) ** 2 / (records / 100)).sum()
    assert chi_square < 99 + 5 * np.sqrt(2 * 99)  # 100 cells: uniform in each epoch and independent between them
    fixed = [epoch_batches("fixed_bins", records, steps, 1, e) for e in (0, 5)]
    assert all(np.array_equal(a, b) for a, b in zip(*fixed, strict=True))


def test_poisson_uses_each_record_with_probability_one_over_m_in_every_step():
    batches = [b for e in range(20) for b in epoch_batches("poisson", 500, 10, 0, e)]
    uses = sum(len(b) for b in batches)
    trials = 200 * 500
    assert abs(uses - trials / 10) < 5 * np.sqrt(trials * 0.09)


def test_poisson_takes_a_rate_of_its_own_into_draw_divisor_and_record():
    batches = [b for e in range(20) for b in epoch_batches("poisson", 500, 10, 0, e, sampling_rate=0.03)]
    assert abs(sum(len(b) for b in batches) - 200 * 500 * 0.03) < 5 * np.sqrt(200 * 500 * 0.03 * 0.97)
    settings = tell(sampler="poisson", sampling_rate=0.03)
    assert settings.divisor == 30.0 * 0.03
    assert settings.mechanism() == {"name": "poisson", "sampling_rate": 0.03, "steps": 15, "noise_multiplier": 0.7}
    assert "sampling_rate" not in tell(sampler="poisson").record()
    with pytest.raises(InputError, match="sampling_rate"):
        tell(sampling_rate=0.03)


@pytest.mark.parametrize(
    ("change", "named"),
    [
        ({"steps_per_epoch": 0}, "steps_per_epoch"),
        ({"epochs": 2.5}, "epochs"),
        ({"learning_rate": float("nan")}, "learning_rate"),
        ({"noise_multiplier": -1.0}, "noise_multiplier"),
        ({"clipping_norm": 0.0}, "clipping_norm"),
        ({"clipping_norm": None}, "needs a clipping_norm"),
        ({"momentum": 1.0}, "momentum"),
        ({"sampler": "shuffle"}, "sampler"),
        ({"public_size": 0}, "public_size"),
    ],
)
def test_impossible_settings_are_refused_by_name(change, named):
    with pytest.raises(InputError, match=named):
        tell(**change)
