"""The settings of a refinement, checked before anything is trained. The values standing here were chosen on digits."""

from __future__ import annotations

from dataclasses import asdict, dataclass
from typing import Any

from ..foundation import InputError
from .bilevel import OUTERS
from .regulariser import FORMS

RESTARTS_FROM = ("trained", "bank")


@dataclass(frozen=True)
class Refinement:
    """How to refine. regulariser is λ; regulariser_form "unit" (mean squared cosine) or "raw" (as in the paper);
    step_size in units of the width of the valid range, falling linearly to a tenth of it over the run; canary_batch:
    canaries that each replica looks at in a step, an even number (None, or as many as there are: all)."""

    replicas: int = 8
    restarts: int = 12
    steps: int = 12
    warmup: int = 4
    restart_from: str = "trained"
    bank_size: int = 24
    outer: str = "ranking"
    scale: float = 2.0
    regulariser: float = 0.0
    regulariser_form: str = "unit"
    step_size: float = 0.08
    batch: int = 100
    learning_rate: float = 0.05
    momentum: float = 0.9
    damping: float = 0.01
    largest_v: float = 50.0
    implicit: bool = True
    embedding: str | None = None
    canary_batch: int | None = None

    def __post_init__(self) -> None:
        for name, smallest in (("replicas", 2), ("restarts", 1), ("steps", 1), ("warmup", 0), ("batch", 1)):
            value = getattr(self, name)
            if isinstance(value, bool) or not isinstance(value, int) or value < smallest:
                raise InputError(f"{name} must be a whole number of at least {smallest}, got {value!r}")
        if self.replicas % 2:
            raise InputError(f"replicas must be even, got {self.replicas}: they come in complementary pairs")
        batch = self.canary_batch
        if batch is not None and (isinstance(batch, bool) or not isinstance(batch, int) or batch < 2 or batch % 2):
            raise InputError(f"canary_batch must be an even number of at least 2, got {batch!r}: half are included")
        if self.warmup >= self.steps:
            raise InputError(f"warmup {self.warmup} leaves none of the {self.steps} steps to move the canaries")
        for name in ("step_size", "learning_rate", "scale", "largest_v"):
            if not 0 < getattr(self, name) < float("inf"):
                raise InputError(f"{name} must be positive and finite, got {getattr(self, name)!r}")
        for name in ("regulariser", "damping"):
            if not 0 <= getattr(self, name) < float("inf"):
                raise InputError(f"{name} must be at least 0 and finite, got {getattr(self, name)!r}")
        if not 0 <= self.momentum < 1:
            raise InputError(f"momentum must lie in [0, 1), got {self.momentum!r}")
        for name, choices in (("restart_from", RESTARTS_FROM), ("outer", OUTERS), ("regulariser_form", FORMS)):
            if getattr(self, name) not in choices:
                raise InputError(f"{name} {getattr(self, name)!r} is unknown: use one of {', '.join(choices)}")

    def stated(self) -> dict[str, Any]:
        """The settings as a set records them; canary_batch only where it is used, so that other sets keep their
        bytes."""
        stated = asdict(self)
        if self.canary_batch is None:
            del stated["canary_batch"]
        return stated
