"""How an audit is read; every field is fixed before the coins are opened."""

from __future__ import annotations

from dataclasses import dataclass, field

from ...foundation import InputError
from ..estimators.guess_rules import Grid, GuessRule

INDEPENDENCE = ("one_run", "declared", "runs")
SIGNS = ("check", "keep", "flip")


@dataclass(frozen=True)
class AuditSettings:
    """independence: `one_run` (classes A and B), `declared` (the user says that canaries of one run err independently)
    or `runs` (every canary comes from a training of its own); the latter two allow class C. sign: `check` refuses
    scores that are clearly upside down, `keep` does not, `flip` negates them and pays for a second look.
    """

    guess_rule: GuessRule = field(default_factory=Grid)
    delta: float = 1e-5
    confidence: float = 0.95
    alpha: float = 0.05
    looks: int = 1
    sign: str = "check"
    independence: str = "one_run"

    def __post_init__(self) -> None:
        if not 0 <= self.delta < 1:
            raise InputError(f"delta must lie in [0, 1), got {self.delta!r}")
        if not 0.5 < self.confidence < 1:
            raise InputError(f"confidence must lie strictly between 0.5 and 1, got {self.confidence!r}")
        if not 0 < self.alpha < 0.5:
            raise InputError(f"alpha must lie strictly between 0 and 0.5, got {self.alpha!r}")
        if isinstance(self.looks, bool) or self.looks != int(self.looks) or self.looks < 1:
            raise InputError(f"looks must be a whole number of at least 1, got {self.looks!r}")
        for name, choices in (("sign", SIGNS), ("independence", INDEPENDENCE)):
            if getattr(self, name) not in choices:
                raise InputError(f"{name} {getattr(self, name)!r} is not known: choose one of {', '.join(choices)}")

    @property
    def total_looks(self) -> int:
        return self.looks * (2 if self.sign == "flip" else 1)

    @property
    def confidence_each(self) -> float:
        """The confidence of one bound when the error is shared by all looks."""
        return 1 - (1 - self.confidence) / self.total_looks
