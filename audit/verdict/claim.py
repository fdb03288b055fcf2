"""Claims: what theory promises of the training run, as files and as objects, and whether a run's record fits.

claim.json holds `mechanism` (a mechanism with its parameters, or {"epsilon", "delta"}), `adjacency` and `membership`.
An audit refuses a claim that its run record contradicts: the numbers would then speak of another algorithm.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from ...foundation import InputError, read_json
from ..training.run_record import RunRecord
from .membership import MEMBERSHIPS

if TYPE_CHECKING:
    from ..bounds import Mechanism

ADJACENCIES = ("add_remove", "replace_one")
SHORT_OF_A_CLAIM = "none"
OF_A_RUN = ("clipping_norm", "divisor", "epochs_done", "finished", "settings", "commitment", "canaries_sha256")


@dataclass(frozen=True)
class Claim:
    """`membership` says how the canaries' membership will have been decided."""

    mechanism: Mechanism
    adjacency: str = "add_remove"
    membership: str = "coins"

    def __post_init__(self) -> None:
        if self.adjacency not in ADJACENCIES:
            raise InputError(f"adjacency {self.adjacency!r} is not known: choose one of {', '.join(ADJACENCIES)}")
        if self.membership not in MEMBERSHIPS:
            raise InputError(f"membership {self.membership!r} is not known: choose one of {', '.join(MEMBERSHIPS)}")

        if self.adjacency != "add_remove" and set(self.record) != {"epsilon", "delta"}:
            raise InputError(
                f"adjacency {self.adjacency!r} with mechanism {self.record.get('name')}: its bounds hold for "
                "add_remove (replacing a record moves the clipped sum twice as far); claim a bare epsilon instead"
            )

    @property
    def record(self) -> dict[str, Any]:
        return dict(self.mechanism.record())

    def to_json(self) -> dict[str, Any]:
        return {
            "schema_version": 1,
            "mechanism": self.record,
            "adjacency": self.adjacency,
            "membership": self.membership,
        }

    @classmethod
    def from_json(cls, content: Any, what: str = "claim") -> Claim:
        """Errors: InputError that names what is missing."""
        from ..bounds import mechanism_from_record

        if not isinstance(content, dict):
            raise InputError(f"{what} must be a JSON object with 'mechanism', or with 'epsilon' and 'delta'")
        if stray := [name for name in OF_A_RUN if name in content]:
            raise InputError(f"{what} holds {', '.join(stray)}: it is a record of what was run, not a claim")
        mechanism = content.get("mechanism")
        if mechanism is None and "epsilon" in content:
            mechanism = {name: content[name] for name in ("epsilon", "delta") if name in content}
        if not isinstance(mechanism, dict):
            raise InputError(f'{what} needs \'mechanism\', an object such as {{"epsilon": 8, "delta": 1e-5}}')
        if not isinstance(mechanism.get("name"), str | None):
            raise InputError(f"{what}: the name of the mechanism must be text, got {mechanism['name']!r}")
        if "epsilon" in mechanism and "name" not in mechanism and "delta" not in mechanism:
            raise InputError(
                f"{what}: a bare epsilon needs its delta: add one, such as 1e-5 (0 claims pure epsilon-DP)"
            )
        for name in ("adjacency", "membership"):
            if not isinstance(content.get(name, ""), str):
                raise InputError(f"{what}: {name} must be text, got {content[name]!r}")
        try:
            built = mechanism_from_record(mechanism)
        except InputError as error:
            raise InputError(f"{what}: {error}") from None
        return cls(built, content.get("adjacency", "add_remove"), content.get("membership", "coins"))


def load_claim(path: str | Path) -> Claim:
    return Claim.from_json(read_json(path, "claim file"), f"claim file {str(path)!r}")


def check_claim_against_run(claim: Claim, run: RunRecord) -> list[str]:
    """Refuse a claim that the record of the run contradicts; return remarks on what could not be checked.

    A bare (epsilon, delta) names no mechanism and is never contradicted: it is judged by the scores alone.
    """
    from ..bounds import canonical_name

    claimed, ran = claim.record, dict(run.mechanism)
    if run.finished is False:
        raise InputError("the run record says finished: false: finish the training (the same command resumes) first")
    if set(claimed) == {"epsilon", "delta"}:
        return []
    if run.divisor_is_public is False or run.divisor in ("realised", "realized"):
        raise InputError(
            "the run divided its gradient sums by a number that depends on who is a member (the realised batch size, "
            "or the number of rows that were there): no "
            f"{claimed.get('name')} claim holds for it; divide by a public constant (coalmine train "
            "--public-size) and train again"
        )
    names = [canonical_name(str(r.get("name"))) for r in (claimed, ran)]
    if names == ["random_allocation", "fixed_bins"]:
        raise InputError(
            "the claim says random_allocation, the run used fixed_bins (one allocation reused every epoch), whose "
            "noise must be sqrt(epochs) times larger for the same promise: claim fixed_bins"
        )
    if names[0] != names[1]:
        said = f"{names[1]}, that is, no noise" if names[1] == SHORT_OF_A_CLAIM else names[1]
        raise InputError(f"the claim says mechanism {names[0]}, the run record says {said}: claim what was run")
    for name in sorted(set(claimed) - {"name"}):
        if name in ran and not _same(claimed[name], ran[name]):
            said = f"{ran[name]!r}" + (", that is, no noise" if name == "noise_multiplier" and ran[name] == 0 else "")
            raise InputError(f"the claim says {name} {claimed[name]!r}, the run record says {said}: claim what was run")
    done, epochs = run.epochs_done, claimed.get("epochs")
    if done is not None and isinstance(epochs, int) and done != epochs:
        raise InputError(f"the claim says {epochs} epochs, the run record says {done} were done: claim what was run")
    unchecked = [name for name in sorted(set(claimed) - {"name"}) if name not in ran]
    return [f"the run record does not say {', '.join(unchecked)}"] if unchecked else []


def _same(claimed: Any, ran: Any) -> bool:
    if isinstance(claimed, int | float) and isinstance(ran, int | float):
        return math.isclose(claimed, ran, rel_tol=1e-9)
    return claimed == ran
