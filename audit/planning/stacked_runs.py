"""Stacks of small DP-SGD runs, measured at whole epochs, kept in pieces that a killed search picks up again.

One piece is one stack: a setting, its noise, its sampler and a few seeds, trained side by side. Its file holds the
state after the last measured epoch and every accuracy so far, written whole or not at all, so that going on gives the
same bits as an unbroken run. A finished piece keeps its accuracies alone.
"""

from __future__ import annotations

import json
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import nn

from ...foundation import InputError, read_json, sha256_of_bytes, write_bytes, write_json
from ...foundation.tensor_file import pack, unpack
from ..training.engine import Stack, fitting_threads, initial_stack, train_epochs
from ..training.run import accuracy
from ..training.settings import TrainingSettings
from .setting import Setting

STACKED = 5  # models side by side: more leave the processor's cache
SAVE_AFTER = 20.0  # CPU seconds between two savings inside a stretch of epochs


class BudgetSpent(InputError):
    """The stated cap of CPU time is reached."""


@dataclass(frozen=True, eq=False)
class Rows:
    """What is trained on and what accuracy is measured on; `name` says which: "validation" or "test"."""

    name: str
    x: np.ndarray
    y: np.ndarray
    x_measured: np.ndarray
    y_measured: np.ndarray


@dataclass(frozen=True)
class Job:
    """A setting with everything that its noise needs said."""

    setting: Setting
    noise_multiplier: float
    sampler: str
    seeds: tuple[int, ...]

    def training(self, public_size: int) -> TrainingSettings:
        return TrainingSettings(
            steps_per_epoch=self.setting.steps_per_epoch,
            epochs=self.setting.epochs,
            learning_rate=self.setting.learning_rate,
            public_size=float(public_size),
            noise_multiplier=self.noise_multiplier,
            clipping_norm=self.setting.clipping_norm,
            sampler=self.sampler,
        )


@dataclass
class Clock:
    """CPU seconds of this process and of those before it that worked in the same folder, against the cap."""

    path: Path
    cap_seconds: float
    before: float = field(init=False)
    started: float = field(init=False)

    def __post_init__(self) -> None:
        content = read_json(self.path, "spent CPU time") if self.path.exists() else {}
        spent = content.get("cpu_seconds", 0.0) if isinstance(content, dict) else 0.0
        self.before = float(spent) if isinstance(spent, int | float) else 0.0
        self.started = time.process_time()

    @property
    def spent(self) -> float:
        return self.before + time.process_time() - self.started

    def check(self) -> None:
        write_json(self.path, {"cpu_seconds": round(self.spent, 3)})
        if self.spent > self.cap_seconds:
            raise BudgetSpent(
                f"the cap of {self.cap_seconds / 60:g} CPU minutes is reached: what was trained is kept, and the same "
                "command with a higher --cpu-minutes goes on"
            )


@dataclass(frozen=True)
class StackedRuns:
    """Trains and measures jobs in `folder`. on_steps hears of every epoch: optimiser steps times models."""

    folder: Path
    identity: str  # of data and model: pieces of another are never picked up
    build: Callable[[int], nn.Module]
    clock: Clock
    device: str | torch.device = "cpu"
    on_steps: Callable[[int], None] = lambda _: None

    def accuracies(self, job: Job, rows: Rows, epochs: int) -> tuple[float, ...]:
        """Accuracy on the measured rows after `epochs`, one a seed. A run whose gradients overflow counts as 0."""
        found: list[float] = []
        for start in range(0, len(job.seeds), STACKED):
            part = Job(job.setting, job.noise_multiplier, job.sampler, job.seeds[start : start + STACKED])
            found += self._piece(part, rows, epochs)
        return tuple(found)

    def _piece(self, job: Job, rows: Rows, epochs: int) -> list[float]:
        path = self.folder / f"{self._key(job, rows)}.safetensors"
        tensors, measured = self._load(path)
        steps = job.setting.steps_per_epoch * len(job.seeds)
        before = int(tensors["epochs_done"][0]) if "epochs_done" in tensors else 0
        self.on_steps(steps * min(before, epochs))
        if str(epochs) in measured:
            return measured[str(epochs)]
        self.clock.check()
        stack = initial_stack(self.build, job.seeds, self.device)
        if tensors:
            _restore(stack, tensors)
        x, y = (torch.as_tensor(a).to(self.device) for a in (rows.x, rows.y))
        membership = np.ones((len(job.seeds), len(rows.y)), dtype=bool)
        saved = self.clock.spent
        try:
            with fitting_threads(stack):
                for _ in train_epochs(stack, x, y, membership, job.training(len(rows.y))):
                    self.on_steps(steps)
                    if stack.epochs_done >= epochs:
                        break
                    if self.clock.spent - saved > SAVE_AFTER:
                        write_bytes(path, _state(stack, measured))
                        saved = self.clock.spent
                        self.clock.check()
                result = self._measure(stack, rows)
        except InputError as error:
            if "not finite" not in str(error):
                raise
            result = [0.0] * len(job.seeds)
        measured[str(epochs)] = result
        finished = epochs == job.setting.epochs
        content = pack({"epochs_done": np.array([epochs])}, _told(measured)) if finished else _state(stack, measured)
        write_bytes(path, content)
        return result

    def _measure(self, stack: Stack, rows: Rows) -> list[float]:
        x, y = (torch.as_tensor(a).to(self.device) for a in (rows.x_measured, rows.y_measured))
        return [float(accuracy(model, x, y) or 0.0) for model in stack.modules()]

    def _key(self, job: Job, rows: Rows) -> str:
        told = {
            "identity": self.identity,
            "setting": job.setting.to_json(),
            "noise_multiplier": job.noise_multiplier,
            "sampler": job.sampler,
            "seeds": [str(seed) for seed in job.seeds],
            "rows": rows.name,
        }
        if str(self.device) != "cpu":  # another processor rounds differently
            told["device"] = str(self.device)
        return sha256_of_bytes(json.dumps(told, sort_keys=True).encode("utf-8"))[:32]

    @staticmethod
    def _load(path: Path) -> tuple[dict[str, np.ndarray], dict[str, Any]]:
        """A damaged piece is trained again: it is this search's own, and nothing else depends on it."""
        if not path.exists():
            return {}, {}
        try:
            tensors, metadata = unpack(path, "piece of a plan")
            return tensors, dict(json.loads(metadata["accuracies"]))
        except (InputError, KeyError, ValueError):
            return {}, {}


def split_seeds(stream: np.random.Generator, count: int) -> tuple[int, ...]:
    return tuple(int(seed) for seed in stream.integers(0, 2**62, size=count))


def _told(measured: dict[str, Sequence[float]]) -> dict[str, str]:
    return {"accuracies": json.dumps(measured, sort_keys=True)}


def _state(stack: Stack, measured: dict[str, Any]) -> bytes:
    tensors = {"theta": stack.theta, "velocity": stack.velocity}
    tensors |= {f"buffer.{name}": buffer for name, buffer in stack.buffers.items()}
    arrays = {name: tensor.cpu().numpy() for name, tensor in tensors.items()}
    return pack(arrays | {"epochs_done": np.array([stack.epochs_done])}, _told(measured))


def _restore(stack: Stack, tensors: dict[str, np.ndarray]) -> None:
    if "theta" not in tensors:
        return  # a finished piece: only another measuring point can be missing, and the run starts over
    stack.theta.copy_(torch.from_numpy(tensors["theta"]))
    stack.velocity.copy_(torch.from_numpy(tensors["velocity"]))
    for name, buffer in stack.buffers.items():
        buffer.copy_(torch.from_numpy(tensors[f"buffer.{name}"]))
    stack.epochs_done = int(tensors["epochs_done"][0])
