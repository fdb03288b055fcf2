"""Watching somebody else's trainer at work: the gradients its optimiser is handed, and the rows of each batch.

Nothing of the trainer is changed. torch's global hooks see every forward pass of the probe model, under any wrapper or
copy of it, and the .grad of every parameter at the instant in which the innermost torch optimiser takes its step.
A trainer that moves its weights without a torch optimiser is read by its weights: each forward pass shows where they
stand, and their difference is the step (times a learning rate that no statement here needs). A trainer that is not
torch's tells each step itself (`report_step`).
"""

from __future__ import annotations

import contextlib
import random
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Literal

import numpy as np
import torch
from torch import Tensor, nn
from torch._functorch.pyfunctorch import temporarily_clear_interpreter_stack
from torch.nn.modules.module import register_module_forward_pre_hook
from torch.optim.optimizer import register_optimizer_step_post_hook, register_optimizer_step_pre_hook

from ..foundation import InputError, numpy_stream

Source = Literal["optimizer", "weights", "reported"]
Train = Callable[[nn.Module, Any], Any]


@dataclass(frozen=True, eq=False)
class Observation:
    """gradients (T, P): what moved the weights in each step, up to one constant factor. use (T, n): how often each row
    passed through the forward pass before that step. reached: per parameter, whether a gradient was ever seen."""

    gradients: np.ndarray
    use: np.ndarray
    reached: Mapping[str, bool]
    source: Source
    seconds: float

    @property
    def steps(self) -> int:
        return len(self.gradients)

    @property
    def batch_sizes(self) -> np.ndarray:
        return self.use.sum(axis=1)


def observe(train: Train, model: nn.Module, dataset: Any, rows: int, seed: int) -> Observation:
    """Run train(model, dataset) once and watch. model.rows_of(x) reads the row numbers (below `rows`) of a batch.

    The global generators of torch, numpy and Python start from `seed`, and are put back afterwards.
    Errors: InputError where the trainer raises, or where nothing of it could be seen.
    """
    watch = _Watch(model, rows)
    start = time.perf_counter()
    with _seeded(seed), watch.hooks():
        returned = train(model, dataset)
    return watch.observation(returned, time.perf_counter() - start)


def report_step(gradients: Sequence[Tensor] | Tensor, batch: Tensor | None = None) -> None:
    """For trainers without a torch optimiser: tell the running observation what is about to move the weights, the
    tensors in the order of model.parameters() or flattened in that order; and the rows of the batch where the probe
    model itself does not see them. Does nothing where nobody watches. Errors: InputError for a wrong number."""
    for watch in _WATCHES:
        if batch is not None and len(batch):
            watch.read(watch.model, batch)
        watch.told(gradients)


_WATCHES: list[_Watch] = []


class _Watch:
    def __init__(self, model: nn.Module, rows: int) -> None:
        self.kind, self.rows = type(model), rows
        self.model = model
        self.shapes = {name: tuple(p.shape) for name, p in model.named_parameters()}
        self.use: list[np.ndarray] = []
        self.gradients: list[np.ndarray] = []
        self.reached = dict.fromkeys(self.shapes, False)
        self.pending = np.zeros(rows, np.int64)
        self.depth: list[bool] = []  # of the optimisers that are inside step(): whether an inner one was seen
        self.strange = self.seen = 0
        self.weights: list[np.ndarray] = []
        self.weight_use: list[np.ndarray] = []
        self.source: Source = "optimizer"

    @contextlib.contextmanager
    def hooks(self) -> Iterator[None]:
        handles = [
            register_module_forward_pre_hook(self._forward),
            register_optimizer_step_pre_hook(self._before_step),
            register_optimizer_step_post_hook(self._after_step),
        ]
        _WATCHES.append(self)
        try:
            yield
        finally:
            _WATCHES.remove(self)
            for handle in handles:
                handle.remove()

    def _forward(self, module: nn.Module, inputs: tuple[Any, ...]) -> None:
        if not isinstance(module, self.kind) or not torch.is_grad_enabled() or not inputs:
            return
        with temporarily_clear_interpreter_stack():  # of torch.func: what is read here is no part of its program
            self.read(module, inputs[0])

    def read(self, module: nn.Module, x: Any) -> None:
        rows = module.rows_of(_plain(x))  # type: ignore[operator]
        self.seen += len(rows)
        self.strange += int((rows == -2).sum() + (rows >= self.rows).sum())
        counts = np.bincount(rows[(rows >= 0) & (rows < self.rows)], minlength=self.rows)
        self.pending += counts
        if not self.gradients:  # not needed once an optimiser was seen
            now = torch.cat([_plain(p).detach().reshape(-1).double().cpu() for _, p in module.named_parameters()])
            if not self.weights or not np.array_equal(self.weights[-1], now.numpy()):
                self.weights.append(now.numpy())
                self.weight_use.append(counts)
            else:
                self.weight_use[-1] = self.weight_use[-1] + counts

    def _before_step(self, optimizer: Any, arguments: Any, keywords: Any) -> None:
        parameters = [p for group in optimizer.param_groups for p in group["params"]]
        if self.depth:
            self.depth[-1] = True
            if self.gradients and self.depth_recorded:
                self.gradients.pop()
                self.use.pop()
                self.pending = self.taken
        self.depth.append(False)
        found = self._match(parameters)
        self.depth_recorded = bool(found)
        if found:
            self.taken = self.pending
            self._record({name: p.grad for name, p in found.items()})

    def _after_step(self, optimizer: Any, arguments: Any, keywords: Any) -> None:
        self.depth.pop()

    def told(self, gradients: Sequence[Tensor] | Tensor) -> None:
        self.source = "reported"
        flat = gradients if isinstance(gradients, Tensor) else torch.cat([g.reshape(-1) for g in gradients])
        flat = _plain(flat).detach().reshape(-1)
        sizes = [int(np.prod(shape)) for shape in self.shapes.values()]
        if len(flat) != sum(sizes):
            raise InputError(f"report_step was given {len(flat)} numbers, the probe model has {sum(sizes)} parameters")
        self._record(dict(zip(self.shapes, flat.split(sizes), strict=True)))

    def _match(self, parameters: list[Tensor]) -> dict[str, Tensor]:
        """The probe's parameters among the optimiser's: the same objects, or those of a copy by shape and order."""
        own = {id(p): name for name, p in self.model.named_parameters()}
        found = {own[id(p)]: p for p in parameters if id(p) in own}
        if found:
            return found
        left = list(parameters)
        for name, shape in self.shapes.items():
            for place, p in enumerate(left):
                if tuple(p.shape) == shape:
                    found[name] = left.pop(place)
                    break
        return found

    def _record(self, gradients: Mapping[str, Tensor | None]) -> None:
        parts = []
        for name, shape in self.shapes.items():
            g = gradients.get(name)
            if g is None:
                parts.append(np.zeros(int(np.prod(shape))))
                continue
            self.reached[name] = True
            parts.append(g.detach().to_dense().reshape(-1).double().cpu().numpy().copy())
        self.gradients.append(np.concatenate(parts))
        self.use.append(self.pending)
        self.pending = np.zeros(self.rows, np.int64)

    def observation(self, returned: Any, seconds: float) -> Observation:
        if self.seen and self.strange > self.seen / 2:
            raise InputError(
                f"{self.strange} of {self.seen} rows that reached the model are not the rows that were given: the "
                "trainer changes its inputs (normalisation, augmentation); switch that off, or give shape= for images"
            )
        if self.gradients:
            return Observation(np.array(self.gradients), np.array(self.use), self.reached, self.source, seconds)
        if not self.seen:
            raise InputError(
                "the trainer never called the model that it was given: it must train that model "
                "(coalmine.audit.white_box.adapters shows how), or hand over arrays"
            )
        last = _final_weights(returned, self.model, self.shapes)
        weights = [*self.weights, last] if not np.array_equal(self.weights[-1], last) else self.weights
        steps = -np.diff(np.array(weights), axis=0)
        if len(steps) == 0:
            raise InputError(
                "no optimiser step was seen and the weights never moved: the trainer must call a torch optimiser, move "
                "the model's weights, or tell its steps by coalmine.attacks.observation.report_step"
            )
        moved = np.any(steps != 0, axis=0)
        ends = np.cumsum([int(np.prod(shape)) for shape in self.shapes.values()])[:-1]
        reached = {n: bool(part.any()) for n, part in zip(self.shapes, np.split(moved, ends), strict=True)}
        return Observation(steps, np.array(self.weight_use)[: len(steps)], reached, "weights", seconds)


def _final_weights(returned: Any, model: nn.Module, shapes: Mapping[str, tuple[int, ...]]) -> np.ndarray:
    """Of the model or dictionary of parameters that the trainer returned, else of the model that it was given."""
    named = dict(model.named_parameters())
    if isinstance(returned, nn.Module):
        named = dict(returned.named_parameters())
    elif isinstance(returned, Mapping) and all(isinstance(value, Tensor) for value in returned.values()):
        named = dict(returned)
    by_end = {name: next((p for key, p in named.items() if key.endswith(name)), None) for name in shapes}
    fallback = dict(model.named_parameters())
    parts = [fallback[name] if p is None else p for name, p in by_end.items()]
    return torch.cat([_plain(p).detach().reshape(-1).double().cpu() for p in parts]).numpy()


def _plain(tensor: Any) -> Tensor:
    """The ordinary tensor below the wrappers of torch.func, axes of vmap in front. Only inside a cleared stack."""
    functorch: Any = torch._C._functorch  # type: ignore[attr-defined]
    while functorch.is_functorch_wrapped_tensor(tensor):
        axis = functorch.maybe_get_bdim(tensor) if functorch.is_batchedtensor(tensor) else 0
        tensor = functorch.get_unwrapped(tensor)
        tensor = tensor.movedim(axis, 0) if axis > 0 else tensor
    return tensor


@contextlib.contextmanager
def _seeded(seed: int) -> Iterator[None]:
    """Trainers draw from global generators: lend them seeds, and put back what was there."""
    states = random.getstate(), np.random.get_state()  # noqa: NPY002  # the trainer's, not ours
    values = numpy_stream(seed, "observation").integers(2**31, size=3).tolist()
    with torch.random.fork_rng(devices=range(torch.cuda.device_count())):
        try:
            random.seed(values[0])
            np.random.seed(values[1])  # noqa: NPY002
            torch.manual_seed(values[2])
            yield
        finally:
            random.setstate(states[0])
            np.random.set_state(states[1])  # noqa: NPY002
