"""Trainers of other shapes as train(model, dataset): a few lines each."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
import torch
from torch import Tensor, nn
from torch.utils.data import TensorDataset

from ...attacks.observation import Train, report_step
from ...foundation import InputError
from ..training.engine import initial_stack, train_epochs
from ..training.settings import TrainingSettings

Arrays = tuple[Any, Sequence[Any]]


def builds_its_own(trainer: Callable[[Callable[[], nn.Module], Any], Any]) -> Train:
    """trainer(build, dataset), which calls build() for a new model, wherever and however often it likes."""

    def train(model: nn.Module, dataset: Any) -> Any:
        return trainer(lambda: model, dataset)

    return train


def engine(settings: TrainingSettings) -> Train:
    """coalmine's own stacked DP-SGD engine, one model high; its seed comes from torch's global generator."""

    def train(model: nn.Module, dataset: TensorDataset) -> None:
        x, y = dataset.tensors
        stack = initial_stack(lambda _: model, [int(torch.randint(2**62, ()))])
        for _ in train_epochs(stack, x, y, np.ones((1, len(x)), bool), settings, _Report(settings.divisor)):
            pass

    return train


class _Report:
    def __init__(self, divisor: float) -> None:
        self.divisor = divisor

    def observe(self, step: int, noisy_sum: Tensor) -> None:
        report_step(noisy_sum[0] / self.divisor)


def arrays(run: Callable[[np.ndarray, np.ndarray, dict[str, np.ndarray]], Arrays], weights: bool = False) -> Train:
    """For JAX and others. run(x (n, size), y (n,), parameters) trains the probe model, written in its own framework
    (docs/check.md shows it), from these parameters, and returns (steps, batches): steps (T, P), what moved the weights
    in each step, or with weights=True (T + 1, P), the weights before, between and after; each flattened in the order of
    `parameters`; batches: for each step the row indices that it used. Errors: InputError for shapes that do not fit."""

    def train(model: nn.Module, dataset: TensorDataset) -> None:
        x, y = dataset.tensors
        parameters = {name: p.detach().numpy().copy() for name, p in model.named_parameters()}
        moved, batches = run(x.flatten(1).numpy(), y.numpy(), parameters)
        steps = np.asarray(moved, np.float64)
        steps = -np.diff(steps, axis=0) if weights else steps
        if steps.ndim != 2 or len(steps) != len(batches):
            raise InputError(
                f"run returned steps of shape {np.shape(moved)} for {len(batches)} batches: one row a step is needed"
                + (", and one more for the weights before the first" if weights else "")
            )
        for step, batch in zip(steps, batches, strict=True):
            report_step(torch.from_numpy(step), x[torch.as_tensor(np.asarray(batch, np.int64))])

    return train
