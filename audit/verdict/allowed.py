"""What a claim allows: the bounds on attack accuracy and epsilon that stand beside it in audit.json."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from ...foundation import InputError
from ...foundation.fields import Fields
from .claim import Claim

if TYPE_CHECKING:
    from ..bounds import Mechanism


@dataclass(frozen=True)
class Bounds:
    """What theory promises for one quantity: a closed form (where there is one) and an interval around the exact."""

    closed_form: float | None
    lower: float | None
    upper: float | None
    delta: float | None = None

    @property
    def promised(self) -> float | None:
        """The smallest number that theory proves an upper bound."""
        known = [value for value in (self.closed_form, self.upper) if value is not None]
        return min(known) if known else None

    @classmethod
    def from_json(cls, fields: Fields | None, most: float) -> Bounds | None:
        if fields is None:
            return None
        closed_form, lower, upper = (
            fields.number(name, 0, most, optional=True) for name in ("closed_form", "lower", "upper")
        )
        if lower is not None and upper is not None and lower > upper:
            raise fields.error("lower", f"at most upper ({upper})", lower)
        return cls(closed_form, lower, upper, fields.number("delta", 0, 1, optional=True))


@dataclass(frozen=True)
class Allowed:
    """A claim as an audit judged it. `record` is the mechanism's, kept as it stands in the file: it may be of a
    mechanism that this version does not know.
    """

    record: Mapping[str, Any]
    adjacency: str
    membership: str
    accuracy: Bounds | None
    epsilon: Bounds | None
    remarks: tuple[str, ...] = field(default=(), compare=False)  # on widths that were not met; not in the file

    @property
    def mechanism(self) -> Mechanism | None:
        """The mechanism itself; None where this version knows none of that name."""
        from ..bounds import mechanism_from_record

        try:
            return mechanism_from_record(dict(self.record))
        except (InputError, KeyError, TypeError):
            return None

    def to_json(self) -> dict[str, Any]:
        section: dict[str, Any] = {
            "mechanism": dict(self.record),
            "adjacency": self.adjacency,
            "membership": self.membership,
        }
        if self.accuracy is not None:
            bounds = self.accuracy
            section["accuracy"] = {"closed_form": bounds.closed_form, "lower": bounds.lower, "upper": bounds.upper}
        if self.epsilon is not None:
            bounds = self.epsilon
            section["epsilon"] = {"delta": bounds.delta, "lower": bounds.lower, "upper": bounds.upper}
        return section

    @classmethod
    def from_json(cls, fields: Fields) -> Allowed:
        mechanism = fields.fields("mechanism")
        assert mechanism is not None
        return cls(
            record=mechanism.content,
            adjacency=fields.text("adjacency", default="unstated"),
            membership=fields.text("membership", default="unknown"),
            accuracy=Bounds.from_json(fields.fields("accuracy", optional=True), 1.0),
            epsilon=Bounds.from_json(fields.fields("epsilon", optional=True), math.inf),
        )


def allowed_by(claim: Claim, membership: str, delta: float) -> Allowed:
    """The claim's bounds: accuracy, and epsilon at its own delta, or at `delta` for a mechanism."""
    from ..estimators.f_dp import epsilon_delta_of

    mechanism, pair = claim.mechanism, epsilon_delta_of(claim.mechanism)
    accuracy = mechanism.accuracy()
    missed = [("accuracy", accuracy.remark)]
    if pair is not None:
        epsilon = Bounds(None, pair[0], pair[0], pair[1])
    else:
        interval = mechanism.epsilon(delta)
        epsilon = Bounds(None, _finite(interval.lower), _finite(interval.upper), delta)
        missed.append(("epsilon", interval.remark))
    return Allowed(
        record=claim.record,
        adjacency=claim.adjacency,
        membership=membership,
        accuracy=Bounds(float(mechanism.accuracy_bound()), float(accuracy.lower), float(accuracy.upper)),
        epsilon=epsilon,
        remarks=tuple(f"the claim's bound on {what}: {why}" for what, why in missed if why),
    )


def _finite(value: Any) -> float | None:
    return float(value) if math.isfinite(value) else None
