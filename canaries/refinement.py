"""The settings of a refinement, checked before anything is trained. The values standing here were chosen on digits."""

from __future__ import annotations

from dataclasses import asdict, dataclass
from typing import Any

from ..foundation import InputError
from .bilevel import OUTERS
from .regulariser import FORMS

RESTARTS_FROM = ("trained", "bank")
DIRECTIONS = ("soba", "reverse")


@dataclass(frozen=True)
class Refinement:
    """How to refine.

    restart_from      "trained": replicas trained afresh with the canaries as they are; "bank": models that never saw a
                      canary. One restart of many steps is the paper's single loop, θ and v kept throughout
    direction         "soba": steps along D_C, θ and v; "reverse": moves along the derivative through the last
                      `last_epochs` of the replicas' training (None: half of them), `moves` of them a restart
    replica_epochs    epochs that replicas are trained for while canaries move (None: all of the recipe's); the choice
                      of the set that is returned always looks through models of the whole recipe
    regulariser       λ; regulariser_form "unit" (mean squared cosine) or "raw" (as in the paper)
    step_size         in units of the width of the valid range, falling linearly to a tenth of it over the run
    canary_batch      canaries that each replica looks at in a step, an even number (None, or as many as there are: all)
    """

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
    direction: str = "soba"
    moves: int = 4
    last_epochs: int | None = None
    replica_epochs: int | None = None

    def __post_init__(self) -> None:
        least = {"replicas": 2, "restarts": 1, "steps": 1, "warmup": 0, "batch": 1, "moves": 1}
        least |= {name: 1 for name in ("last_epochs", "replica_epochs") if getattr(self, name) is not None}
        for name, smallest in least.items():
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
        named = {"restart_from": RESTARTS_FROM, "outer": OUTERS, "regulariser_form": FORMS, "direction": DIRECTIONS}
        for name, choices in named.items():
            if getattr(self, name) not in choices:
                raise InputError(f"{name} {getattr(self, name)!r} is unknown: use one of {', '.join(choices)}")
        if self.direction == "reverse" and (self.restart_from != "trained" or self.canary_batch is not None):
            raise InputError("direction 'reverse' goes with restart_from 'trained' and all canaries at once")

    @property
    def all_moves(self) -> int:
        """How often the canaries move in all."""
        return self.restarts * (self.moves if self.direction == "reverse" else self.steps - self.warmup)

    def stated(self) -> dict[str, Any]:
        """The settings as a set records them: what belongs to an option that is not used is left out."""
        stated = asdict(self)
        reverse = ("moves", "last_epochs")
        unused = [name for name in ("canary_batch", "replica_epochs", "last_epochs") if stated[name] is None]
        unused += [name for name in reverse if self.direction != "reverse"]
        return {name: value for name, value in stated.items() if name not in unused}
