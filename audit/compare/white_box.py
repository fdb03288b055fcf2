"""Gradient canaries inside an ordinary run of the stacked engine, and the best attack on them.

The model gets m parameters more, which enter no output: w - stopped(w) is zero and has derivative one. Row i of m
added rows has a loss that depends on parameter i alone, with a gradient far longer than the clipping norm; clipped, it
is C times the i-th unit vector. No other gradient has anything there, so that sampler, clipping and noise of the very
run are seen through one coordinate a canary, and what the network learns does not change. The log-likelihood ratio of
that coordinate is then the best attack that exists, and canaries err independently: their batches and their noise are
drawn independently (for full batches there is nothing to draw).
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial

import numpy as np
import torch
from torch import Tensor, nn

from ...attacks.white_box import every_step_ratio, fixed_bins_ratio, poisson_ratio, random_allocation_ratio
from ..rows import Universe
from ..training.engine import fitting_threads, initial_stack, train_epochs
from ..training.models import build_model
from ..training.settings import TrainingSettings
from ..training.stack import Stack

STEEPNESS = 1e4  # of a gradient canary's loss, in clipping norms
DIRECTIONS = "gradient_canaries"


class WithGradientCanaries(nn.Module):
    """A network for rows (size + 1,): flattened inputs, then 0, or i + 1 for gradient canary i, labelled 0."""

    def __init__(self, network: nn.Module, input_shape: tuple[int, ...], canaries: int, steepness: float) -> None:
        super().__init__()
        self.network = network
        self.gradient_canaries = nn.Parameter(torch.zeros(canaries))
        self.input_shape, self.steepness = tuple(input_shape), steepness

    def forward(self, x: Tensor) -> Tensor:
        logits = self.network(x[:, :-1].reshape(-1, *self.input_shape))
        number = x[:, -1]
        of_canary = number[:, None] == torch.arange(1, len(self.gradient_canaries) + 1, device=x.device)
        zero = self.gradient_canaries - self.gradient_canaries.detach()
        first = self.steepness * (of_canary.to(zero.dtype) * zero).sum(1)
        is_canary = number > 0
        if logits.dim() == 1:
            return torch.where(is_canary, first, logits)
        # the gradient is to be positive: the softmax's derivative by its own label is negative, the sigmoid's at 0 not
        first = first if logits.shape[1] == 1 else -first
        own = torch.nn.functional.pad(first[:, None], (0, logits.shape[1] - 1))
        return torch.where(is_canary[:, None], own, logits)


def with_gradient_canaries(
    build: Callable[[int], nn.Module], shape: tuple[int, ...], canaries: int, c: float, seed: int
) -> nn.Module:
    return WithGradientCanaries(build(seed), shape, canaries, STEEPNESS * c)


@dataclass(frozen=True, eq=False)
class WhiteBoxTraining:
    """train_many of `run_shadows`: membership (K, N + m), of the rows of the universe and then of gradient canaries.

    Each returned module carries `white_box` (m,): log-likelihood ratios of its gradient canaries, float64.
    """

    rows: Universe
    model: str
    settings: TrainingSettings
    canaries: int
    device: str = "cpu"

    def __call__(self, membership: np.ndarray, seeds: Sequence[int]) -> list[nn.Module]:
        rows, m, clipping_norm = self.rows, self.canaries, self.settings.clipping_norm
        assert clipping_norm is not None
        shape = tuple(rows.x.shape[1:])
        flat = rows.x.reshape(len(rows.x), -1).astype(np.float32)
        x = np.zeros((len(flat) + m, flat.shape[1] + 1), np.float32)
        x[: len(flat), :-1], x[len(flat) :, -1] = flat, np.arange(1, m + 1)
        y = np.concatenate([rows.y, np.zeros(m, rows.y.dtype)])
        build = partial(
            with_gradient_canaries, partial(build_model, self.model, shape, rows.classes), shape, m, clipping_norm
        )
        stack = initial_stack(build, seeds, self.device)
        seen = _Projections(_place(stack, m), clipping_norm)
        xs, ys = torch.as_tensor(x).to(self.device), torch.as_tensor(y).to(self.device)
        with fitting_threads(stack):
            for _ in train_epochs(stack, xs, ys, membership, self.settings, seen):
                pass
        models = stack.modules()
        ratios = log_likelihood_ratios(np.stack(seen.steps), self.settings)
        for model, ratio in zip(models, ratios, strict=True):
            model.white_box = ratio  # type: ignore[assignment]
        return models


def log_likelihood_ratios(projections: np.ndarray, settings: TrainingSettings) -> np.ndarray:
    """(steps, K, m) noisy sums along the canaries' directions over C -> (K, m), higher = more likely a member."""
    steps, models, canaries = projections.shape
    x = projections.reshape(steps, models * canaries)
    sigma = settings.noise_multiplier
    match settings.sampler:
        case "poisson":
            scores = poisson_ratio(x, sigma, 1.0 / settings.steps_per_epoch)
        case "full_batch":
            scores = every_step_ratio(x, sigma)
        case "fixed_bins":
            scores = fixed_bins_ratio(x.reshape(settings.epochs, settings.steps_per_epoch, -1), sigma)
        case _:
            scores = random_allocation_ratio(x.reshape(settings.epochs, settings.steps_per_epoch, -1), sigma)
    return scores.scores.reshape(models, canaries)


class _Projections:
    def __init__(self, place: slice, clipping_norm: float) -> None:
        self.place, self.clipping_norm = place, clipping_norm
        self.steps: list[np.ndarray] = []

    def observe(self, step: int, noisy_sum: Tensor) -> None:
        self.steps.append((noisy_sum[:, self.place] / self.clipping_norm).cpu().numpy())


def _place(stack: Stack, canaries: int) -> slice:
    """Where the added parameters stand among all P."""
    start = 0
    for name, parameter in stack.template.named_parameters():
        if name == DIRECTIONS:
            break
        start += parameter.numel() if parameter.requires_grad else 0
    return slice(start, start + canaries)
