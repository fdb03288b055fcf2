"""From files to evidence: read what an audit is given, check that it belongs together, join scores and members."""

from __future__ import annotations

from dataclasses import dataclass, replace
from pathlib import Path

from ...canaries.coins import Coins
from ...canaries.commitment import Commitment
from ...foundation import sha256_of_file
from ..training.run_record import load_run
from .facts import ThreatModel
from .judge import Evidence
from .membership import join
from .provenance import Artefacts, check_chain
from .score_record import load_score_record
from .scores import load_scores


@dataclass(frozen=True)
class AuditInput:
    """The files of an audit; `infinite` says what an infinite score means (see `load_scores`)."""

    scores: Path
    coins: Path | None = None
    commitment: Path | None = None
    run: Path | None = None
    claim: Path | None = None
    infinite: str = "refuse"


def read_evidence(
    given: AuditInput, membership: str = "coins", threat_model: ThreatModel | None = None, label: str = ""
) -> Evidence:
    """What is to be judged. A score and views that `threat_model` leaves open are taken from the record of the scores.

    Errors: InputError for files that cannot be read or do not belong together, with both hashes.
    """
    run = None if given.run is None else load_run(given.run)
    coins = None if given.coins is None else Coins.load(given.coins)
    read, record = load_scores(given.scores, given.infinite), load_score_record(given.scores)
    provenance = check_chain(
        Artefacts(
            scores_sha256=sha256_of_file(given.scores),
            record=record,
            coins=coins,
            coins_sha256=None if given.coins is None else sha256_of_file(given.coins),
            commitment=None if given.commitment is None else Commitment.load(given.commitment),
            run=run,
            claim_sha256=None if given.claim is None else sha256_of_file(given.claim),
        )
    )
    scores, members = join(read, coins, membership)
    about = threat_model or ThreatModel()
    if record is not None:
        about = replace(
            about,
            score=about.score or record.score,
            canary_method=about.canary_method or record.canary_method,
            views=record.views or read.views,
        )
    else:
        about = replace(about, views=read.views)
    said = None if coins is None else coins.remark()
    return Evidence(scores, members, membership, run, about, provenance, label, () if said is None else (said,))
