"""The grid: which trainings are compared, told in one frozen value and checked before anything is trained."""

from __future__ import annotations

import hashlib
import itertools
import json
from collections.abc import Iterator
from dataclasses import asdict, dataclass
from typing import TYPE_CHECKING, Any

from ...foundation import InputError
from ..choices import SCORES

if TYPE_CHECKING:
    from ..bounds import Mechanism

SAMPLERS = ("random_allocation", "fixed_bins", "poisson", "full_batch")  # theory bounds these
AXES = ("noise_multiplier", "steps_per_epoch", "epochs", "canary_method", "model")


def mechanism_of(sampler: str, steps_per_epoch: int, epochs: int, noise_multiplier: float) -> Mechanism:
    """What theory knows of a training with that sampler; poisson samples with rate 1/M. Errors: InputError."""
    from ..bounds import mechanism_from_record

    steps = steps_per_epoch * epochs
    shape = {
        "poisson": {"sampling_rate": 1 / steps_per_epoch, "steps": steps},
        "full_batch": {"steps": steps},
    }.get(sampler, {"steps_per_epoch": steps_per_epoch, "epochs": epochs})
    return mechanism_from_record({"name": sampler, **shape, "noise_multiplier": noise_multiplier})


@dataclass(frozen=True)
class Cell:
    """One kind of training; `runs` of them differ by coins, initial weights, batches and noise alone."""

    model: str
    canary_method: str
    sampler: str
    steps_per_epoch: int
    epochs: int
    noise_multiplier: float

    @property
    def mechanism(self) -> Mechanism:
        return mechanism_of(self.sampler, self.steps_per_epoch, self.epochs, self.noise_multiplier)

    def key(self, seed: int) -> str:
        """Names the random streams of this cell: no two cells share a coin or a noise draw."""
        text = json.dumps([asdict(self), str(seed)], sort_keys=True)
        return hashlib.sha256(text.encode()).hexdigest()[:16]


@dataclass(frozen=True)
class Grid:
    """The product of the tuples is trained; `score` names black-box attacks, all of them on the same trained models.

    canaries: m example canaries and m gradient canaries a run. delta, confidence: of every bound. Errors: InputError.
    """

    noise_multiplier: tuple[float, ...]
    steps_per_epoch: tuple[int, ...]
    epochs: tuple[int, ...]
    canary_method: tuple[str, ...] = ("binary_noise",)
    model: tuple[str, ...] = ("mlp",)
    score: tuple[str, ...] = ("phi",)
    sampler: str = "random_allocation"
    runs: int = 20
    canaries: int = 100
    clipping_norm: float = 1.0
    learning_rate: float = 0.5
    momentum: float = 0.0
    delta: float = 1e-5
    confidence: float = 0.95

    def __post_init__(self) -> None:
        for name in (*AXES, "score"):
            values = getattr(self, name)
            if not values or len(set(values)) != len(values):
                raise InputError(f"{name} needs one or more different values, got {values!r}")
        if self.sampler not in SAMPLERS:
            raise InputError(f"sampler must be one of {', '.join(SAMPLERS)}, for which theory has a bound, "
                             f"got {self.sampler!r}")  # fmt: skip
        if unknown := [one for one in self.score if one not in SCORES[:3]]:
            raise InputError(f"score must be among {', '.join(SCORES[:3])}, got {unknown[0]!r}")
        for name, least in (("runs", 2), ("canaries", 1)):
            value = getattr(self, name)
            if isinstance(value, bool) or value != int(value) or value < least:
                raise InputError(f"{name} must be a whole number of at least {least}, got {value!r}")
        for name in ("clipping_norm", "learning_rate"):
            if not 0 < getattr(self, name) < 1e15:
                raise InputError(f"{name} must be a positive number, got {getattr(self, name)!r}")
        if not 0 <= self.delta < 1:
            raise InputError(f"delta must lie in [0, 1), got {self.delta!r}")
        if not 0.5 < self.confidence < 1:
            raise InputError(f"confidence must lie strictly between 0.5 and 1, got {self.confidence!r}")
        for cell in self.cells():
            _ = cell.mechanism  # its errors name the parameter

    def cells(self) -> Iterator[Cell]:
        """Models and canary methods outermost, noise innermost."""
        for model, method, steps, epochs, noise in itertools.product(
            self.model, self.canary_method, self.steps_per_epoch, self.epochs, self.noise_multiplier
        ):
            yield Cell(model, method, self.sampler, steps, epochs, noise)

    def record(self) -> dict[str, Any]:
        return asdict(self)
