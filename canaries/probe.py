"""A model and a data set made for being seen through: what a white-box check hands to a trainer under test.

The model. Linear layers whose outputs are summed to z, each multiplied by a gate that the row itself carries; the
forward pass returns z − z.detach(). The logits are zero whatever the weights, so the loss never saturates and the
gradient of a row is a constant, known vector: (gradient of the loss at zero logits) × gate ⊗ features. Everything
goes through ordinary modules: per-example hooks, torch.func.vmap and ghost clipping see a normal model.

The data. Most rows own a feature, so that their gradients are orthogonal; gates choose the layer and the length of the
gradient, so that it is longer than any clipping norm in use. Coordinates that no row reaches carry noise alone: unused
features, and outputs of a layer that enter no logit (the bias has such coordinates too).

| kind | gradient |
|---|---|
| solo/L | long, in layer L, along a feature of its own: the canaries of the one-run audit |
| choir/first | the same, but all rows of the kind share one feature: what a record contributes is well measured |
| spread | equally long in all layers |
| giant | a thousand times longer than solo |
| bias | almost all of it in the biases |
| ladder | lengths from 0.01 upwards, for the shape of clipping |
| null | next to none (1e-6: a trainer may divide by its length) |
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from functools import cached_property

import numpy as np
import torch
from torch import Tensor, nn
from torch.nn.functional import cross_entropy
from torch.nn.utils import skip_init
from torch.utils.data import TensorDataset

from ..foundation import InputError, numpy_stream

LAYERS = ("first", "second", "third")
OUTPUTS = {"first": 6, "second": 6, "third": 8}  # two of one shape: equal noise in both would show
FEATURE_VALUE = 64.0  # a solo's gradient lies in the weights, with 1/64 of it in the bias
SOLO_LENGTH, GIANT_LENGTH, NULL_LENGTH = 1e3, 1e6, 1e-6
LADDER = (0.01, 0.1, 1.0, 10.0, 100.0, 1e4)
DIGIT, MARK = 100, 77.0
TAIL = len(LAYERS) + 4  # gates, three digits of the row number, a mark that tells whether the row came through whole
FREE_FEATURES = 24

Loss = Callable[[Tensor, Tensor], Tensor]


class ProbeModel(nn.Module):
    """Takes (B, ...) with `size` numbers a row, gives logits (B, classes) that are always zero. `repeats`: calls of
    layer "third"."""

    def __init__(
        self, features: int, classes: int, size: int, repeats: int = 1, batch_normalisation: bool = False
    ) -> None:
        super().__init__()
        self.features, self.classes, self.size, self.repeats = features, classes, size, repeats
        self.met_a_batch = False
        for name in LAYERS:
            self.add_module(name, skip_init(nn.Linear, features, OUTPUTS[name] + classes - 2))  # draws nothing
        for parameter in self.parameters():
            nn.init.zeros_(parameter)
        self.normalise = nn.BatchNorm1d(features) if batch_normalisation else nn.Identity()  # its parameters come last

    def forward(self, x: Tensor) -> Tensor:
        x = x.flatten(1)
        features = x[:, : self.features]
        # BatchNorm fails on a batch of one: right where examples come singly, but no rescue for a trainer of batches
        self.met_a_batch = self.met_a_batch or len(x) > 1
        if len(x) != 1 or not self.met_a_batch:
            features = self.normalise(features)
        gates = x[:, self.features : self.features + len(LAYERS)]
        z = torch.zeros_like(x[:, : self.classes])
        for i, name in enumerate(LAYERS):
            layer = getattr(self, name)
            for _ in range(self.repeats if name == "third" else 1):
                z = z + gates[:, i : i + 1] * layer(features)[:, : self.classes]
        return z - z.detach()

    def rows_of(self, x: Tensor) -> np.ndarray:
        """The row numbers in a batch of any leading shape; -1 for padding of zeros, -2 for what cannot be read."""
        if x.shape[-1] == 0 or x.numel() % self.size:
            return np.full(max(1, len(x)), -2)
        start = self.features + len(LAYERS)
        tail = x.detach().reshape(-1, self.size)[:, start : start + 4].double().cpu().numpy()
        rows = np.rint(tail[:, 0]) * DIGIT**2 + np.rint(tail[:, 1]) * DIGIT + np.rint(tail[:, 2])
        whole = (np.abs(tail - np.rint(tail)) < 1e-3).all(axis=1) & (tail[:, 3] == MARK)
        return np.where(whole, rows, np.where((tail == 0).all(axis=1), -1, -2)).astype(np.int64)


@dataclass(frozen=True, eq=False)
class Probe:
    """x (n, *shape) float32, y (n,) int64, kind (n,) text; gradients (n, P) float64 of the summed loss, row by row."""

    x: np.ndarray
    y: np.ndarray
    kind: np.ndarray
    gradients: np.ndarray
    features: int
    classes: int
    repeats: int = 1

    def model(self) -> ProbeModel:
        return ProbeModel(self.features, self.classes, math.prod(self.x.shape[1:]), self.repeats)

    @cached_property
    def tensors(self) -> dict[str, tuple[int, ...]]:
        """Name and shape of each parameter, in the order in which `gradients` holds them."""
        return {name: tuple(parameter.shape) for name, parameter in self.model().named_parameters()}

    @cached_property
    def slices(self) -> dict[str, slice]:
        ends = np.cumsum([math.prod(shape) for shape in self.tensors.values()]).tolist()
        return {name: slice(a, b) for name, a, b in zip(self.tensors, [0, *ends[:-1]], ends, strict=True)}

    @cached_property
    def lengths(self) -> np.ndarray:
        """(n,) norms of the gradients, before clipping."""
        return np.linalg.norm(self.gradients, axis=1)

    @cached_property
    def directions(self) -> np.ndarray:
        """(n, P) gradients of unit norm."""
        return self.gradients / self.lengths[:, None]

    @cached_property
    def own(self) -> np.ndarray:
        """(n, P) the part of each direction that lies in weights: a feature is a row's own, biases are shared."""
        weights = [np.full(s.stop - s.start, name.endswith("weight")) for name, s in self.slices.items()]
        return self.directions * np.concatenate(weights)

    @cached_property
    def free(self) -> np.ndarray:
        """(P,) bool: coordinates that no row's gradient reaches."""
        return ~np.any(self.gradients != 0, axis=0)

    @property
    def solo(self) -> np.ndarray:
        return np.flatnonzero(np.char.startswith(self.kind, "solo"))

    def dataset(self, rows: np.ndarray, x: np.ndarray | None = None) -> TensorDataset:
        """The given rows as a data set, with other contents where x (n, *shape) is given."""
        return TensorDataset(torch.from_numpy((self.x if x is None else x)[rows]), torch.from_numpy(self.y[rows]))

    def silenced(self, rows: np.ndarray) -> np.ndarray:
        """x with the gates of `rows` all but shut: they are there, are drawn, and their gradient has length 1e-6."""
        x = self.x.copy()
        gates = x.reshape(len(x), -1)[:, self.features : self.features + len(LAYERS)]
        gates[rows] *= (NULL_LENGTH / self.lengths[rows])[:, None]
        return x


def make_probe(
    records: int,
    seed: int,
    *,
    shape: tuple[int, ...] | None = None,
    classes: int = 2,
    loss: Loss | None = None,
    repeats: int = 1,
) -> Probe:
    """`records` rows of all kinds. loss(logits (1, classes), labels (1,)): the trainer's, where not cross-entropy.

    Errors: InputError where `records` is too small to hold every kind or a row of `shape` too small to hold it.
    """
    counts = _counts(records)
    kind = np.concatenate([np.full(count, name) for name, count in counts.items()])
    owns = ~np.char.startswith(kind, "choir")
    features = 1 + int(owns.sum()) + FREE_FEATURES
    size = features + TAIL
    shape = (size,) if shape is None else tuple(shape)
    if math.prod(shape) < size:
        raise InputError(
            f"rows of shape {shape} hold {math.prod(shape)} numbers, {records} records need {size}: ask for fewer"
        )
    generator = numpy_stream(seed, "craft/probe")
    n = len(kind)
    flat = np.zeros((n, math.prod(shape)), np.float32)
    y = generator.integers(0, classes, n)
    y[np.char.startswith(kind, "choir")] = 0
    flat[np.arange(n), np.where(owns, np.cumsum(owns), 0)] = np.where(kind == "bias", 1 / FEATURE_VALUE, FEATURE_VALUE)
    flat[:, features : features + len(LAYERS)] = _gates(kind)
    # row numbers in random order: a trainer that goes by the row's place meets every kind everywhere
    order = generator.permutation(n)
    flat, y, kind = flat[order], y[order], kind[order]
    number = np.arange(n)
    flat[:, size - 4 : size] = np.stack(
        [number // DIGIT**2, number // DIGIT % DIGIT, number % DIGIT, np.full(n, MARK)], 1
    )
    model = ProbeModel(features, classes, math.prod(shape), repeats)
    x = flat.reshape(n, *shape)
    return Probe(
        x, y.astype(np.int64), kind, _gradients(model, x, y, loss or cross_entropy), features, classes, repeats
    )


def _counts(records: int) -> dict[str, int]:
    if records < 40:
        raise InputError(f"records must be at least 40 to hold every kind of probe row, got {records}")
    few = max(2, records // 20)
    counts = {"spread": few, "giant": few, "bias": few, "null": 2}
    counts |= {f"ladder/{length:g}": 2 if records >= 100 else 1 for length in LADDER}
    counts["choir/first"] = records // 3
    left = records - sum(counts.values())
    share = np.full(len(LAYERS), left // len(LAYERS)) + (np.arange(len(LAYERS)) < left % len(LAYERS))
    return counts | {f"solo/{layer}": int(count) for layer, count in zip(LAYERS, share, strict=True)}


def _gates(kind: np.ndarray) -> np.ndarray:
    """(n, layers): the gate that gives each row its gradient's length, for the loss gradient of two equal logits."""
    half = math.sqrt(0.5)
    gates = np.zeros((len(kind), len(LAYERS)), np.float32)
    for i, name in enumerate(kind):
        what, _, detail = str(name).partition("/")
        if what in ("solo", "choir"):
            gates[i, LAYERS.index(detail)] = SOLO_LENGTH / (half * FEATURE_VALUE)
        elif what == "ladder":
            gates[i, i % len(LAYERS)] = float(detail) / (half * FEATURE_VALUE)
        elif what == "spread":
            gates[i] = SOLO_LENGTH / (half * FEATURE_VALUE * math.sqrt(len(LAYERS)))
        elif what == "giant":
            gates[i, i % len(LAYERS)] = GIANT_LENGTH / (half * FEATURE_VALUE)
        elif what == "null":
            gates[i, i % len(LAYERS)] = NULL_LENGTH / (half * FEATURE_VALUE)
        elif what == "bias":
            gates[i, i % len(LAYERS)] = SOLO_LENGTH / half
    return gates


def _gradients(model: ProbeModel, x: np.ndarray, y: np.ndarray, loss: Loss) -> np.ndarray:
    """(n, P) by ordinary autograd, one row at a time: no per-example machinery that itself could be wrong."""
    model = model.double()
    parameters = list(model.parameters())
    rows = []
    for row, label in zip(torch.from_numpy(x).double(), torch.from_numpy(np.asarray(y)), strict=True):
        value = loss(model(row[None]), label[None]).sum()
        gradients = torch.autograd.grad(value, parameters, materialize_grads=True)
        rows.append(torch.cat([g.flatten() for g in gradients]))
    return torch.stack(rows).numpy()
