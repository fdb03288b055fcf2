"""One chain from the canary set to the report: what was made from what, by hash, and which links were checked.

    set → coins → commitment → run (checkpoint, initial weights) → scores → audit → report

Every artefact names by SHA-256 what it was made from. Whoever joins two of them compares: a link that both ends can
tell and that does not hold is refused with both hashes; a link that an end cannot tell is written down as unchecked.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, fields
from typing import Any

from ...canaries.coins import Coins
from ...canaries.commitment import Commitment
from ...foundation import InputError
from ...foundation.fields import Fields
from ..training.run_record import RunRecord
from .score_record import ScoreRecord

CHECKED, NONE = "checked", "none"


@dataclass(frozen=True)
class Link:
    """Two artefacts that belong together; `why` says what kept the link from being checked."""

    between: str
    checked: bool
    why: str = ""

    def to_json(self) -> dict[str, Any]:
        return {"between": self.between, "checked": self.checked, "why": self.why}


@dataclass(frozen=True)
class Provenance:
    """commitment   "checked": the coins are, to the byte, those that a commitment file or the run record names;
                 "none": that they are older than the training rests on the auditor's word
    the hashes   of the files that the audit read, and of the set that its scores, coins and run speak of
    """

    commitment: str = NONE
    canaries_sha256: str | None = None
    coins_sha256: str | None = None
    checkpoint_sha256: str | None = None
    scores_sha256: str | None = None
    claim_sha256: str | None = None
    links: tuple[Link, ...] = ()

    def to_json(self) -> dict[str, Any]:
        record = {f.name: getattr(self, f.name) for f in fields(self) if f.name != "links"}
        return record | {"links": [link.to_json() for link in self.links]}

    @classmethod
    def from_json(cls, top: Fields | None) -> Provenance:
        if top is None:
            return cls()
        return cls(
            commitment=top.one_of("commitment", (CHECKED, NONE)),
            **{f.name: top.sha256(f.name) for f in fields(cls) if f.name.endswith("_sha256")},
            links=tuple(
                Link(one.text("between"), bool(one.boolean("checked")), one.text("why", default=""))
                for one in top.list_of_fields("links", optional=True)
            ),
        )


@dataclass(frozen=True)
class Artefacts:
    """What an audit was given, as read; None where it was not given."""

    scores_sha256: str | None = None
    record: ScoreRecord | None = None
    coins: Coins | None = None
    coins_sha256: str | None = None
    commitment: Commitment | None = None
    run: RunRecord | None = None
    claim_sha256: str | None = None


def check_chain(given: Artefacts) -> Provenance:
    """Compare all that both ends can tell. Errors: InputError with both hashes for two that do not belong together."""
    record, coins, commitment, run = given.record, given.coins, given.commitment, given.run
    links = tuple(_links(given))
    committed = commitment is not None or (run is not None and run.commitment is not None)
    sets = [one.canaries_sha256 for one in (coins, record, run) if one is not None]
    weights = [one.checkpoint_sha256 for one in (record, run) if one is not None]
    return Provenance(
        commitment=CHECKED if coins is not None and committed else NONE,
        canaries_sha256=next((one for one in sets if one), None),
        coins_sha256=given.coins_sha256,
        checkpoint_sha256=next((one for one in weights if one), None),
        scores_sha256=given.scores_sha256,
        claim_sha256=given.claim_sha256,
        links=links,
    )


def _links(given: Artefacts) -> Iterator[Link]:
    record, coins, commitment, run = given.record, given.coins, given.commitment, given.run
    if record is not None:
        yield _link(
            "scores file and score record",
            given.scores_sha256,
            record.scores_sha256,
            ("the scores file is", "the record beside it speaks of scores"),
            "the file was changed or replaced after it was scored: score again",
        )
    if coins is not None:
        yield _link(
            "coins and scores",
            coins.canaries_sha256,
            None if record is None else record.canaries_sha256,
            ("the coins are for the canary set", "the scores are of the set"),
            "give the coins that were drawn for the scored set",
        )
    if coins is not None and commitment is not None:
        yield _link(
            "coins and commitment",
            given.coins_sha256,
            commitment.coins_sha256,
            ("the coins file is", "the commitment is to coins"),
            "these are not, byte for byte, the coins that were committed to",
        )
        yield _link(
            "sets of the coins and of the commitment",
            coins.canaries_sha256,
            commitment.canaries_sha256,
            ("the coins are for the canary set", "the commitment is for the set"),
            "give the commitment of these coins",
        )
    if run is None:
        yield Link("run and scores", False, "no run record was given")
        return
    if coins is not None:
        yield _link(
            "coins and run",
            coins.canaries_sha256,
            run.canaries_sha256,
            ("the coins are for the canary set", "the run used the set"),
            "these do not belong together",
        )
        yield _link(
            "coins and the run's commitment",
            given.coins_sha256,
            run.commitment,
            ("the coins file is", "the run committed to coins"),
            "these are not, byte for byte, the coins that the run used",
        )
    if commitment is not None:
        yield _link(
            "commitment and run",
            commitment.coins_sha256,
            run.commitment,
            ("the commitment is to coins", "the run committed to coins"),
            "give the commitment of this run",
        )
    yield _link(
        "set of the scores and of the run",
        None if record is None else record.canaries_sha256,
        run.canaries_sha256,
        ("the scores are of the canary set", "the run used the set"),
        "give the record of the run that was scored",
    )
    yield _link(
        "checkpoint of the scores and of the run",
        None if record is None else record.checkpoint_sha256,
        run.checkpoint_sha256,
        ("the scores are of the checkpoint", "the run made the checkpoint"),
        _other_weights(record, run),
    )


def _other_weights(record: ScoreRecord | None, run: RunRecord) -> str:
    if record is not None and run.initial_sha256 is not None and record.checkpoint_sha256 == run.initial_sha256:
        return "the scores are of the run's initial weights: score its trained checkpoint"
    return "the scores are of another model: give the record of the run that was scored"


def _link(between: str, one: str | None, other: str | None, words: tuple[str, str], remedy: str) -> Link:
    """Errors: InputError where both are known and differ."""
    if one is None or other is None:
        return Link(between, False, f"not known: what {(words[0] if one is None else words[1])}")
    if one != other:
        raise InputError(f"{words[0]} {one}, {words[1]} {other}: {remedy}")
    return Link(between, True)
