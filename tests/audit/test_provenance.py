"""One chain from the set to the audit: every link that both ends can tell is compared, everywhere."""

import itertools
from dataclasses import replace

import numpy as np
import pytest

from coalmine.audit import RunRecord, ScoreRecord
from coalmine.audit.verdict.provenance import Artefacts, check_chain
from coalmine.canaries import Coins
from coalmine.canaries.commitment import Commitment
from coalmine.foundation import InputError

A, B, C, D = ("a" * 64, "b" * 64, "c" * 64, "d" * 64)
WHOLE = Artefacts(
    scores_sha256=A,
    record=ScoreRecord("phi", canaries_sha256=B, checkpoint_sha256=C, scores_sha256=A),
    coins=Coins(np.array([True, False]), None, B, None),
    coins_sha256=D,
    commitment=Commitment(D, B),
    run=RunRecord({"name": "none"}, canaries_sha256=B, commitment=D, checkpoint_sha256=C, initial_sha256=A),
)
OTHER = "0" * 64


def every_hash(given: Artefacts):
    """(name, the artefacts with that one hash changed) for every hash that an artefact holds of another."""
    for field in ("record", "commitment", "run"):
        record = getattr(given, field)
        for name in vars(record):
            if (name.endswith("sha256") and getattr(record, name) is not None) or (field, name) == (
                "run",
                "commitment",
            ):
                yield f"{field}.{name}", replace(given, **{field: replace(record, **{name: OTHER})})
    for name in ("scores_sha256", "coins_sha256"):
        yield name, replace(given, **{name: OTHER})


def test_a_chain_that_holds_is_checked_at_every_link():
    chain = check_chain(WHOLE)
    assert all(link.checked for link in chain.links) and len(chain.links) == 9
    assert chain.commitment == "checked"
    assert (chain.canaries_sha256, chain.coins_sha256, chain.checkpoint_sha256, chain.scores_sha256) == (B, D, C, A)


@pytest.mark.parametrize("name, broken", [one for one in every_hash(WHOLE) if one[0] != "run.initial_sha256"])
def test_every_hash_that_does_not_fit_is_refused_with_both(name, broken):
    with pytest.raises(InputError) as error:
        check_chain(broken)
    assert OTHER in str(error.value) and any(digest in str(error.value) for digest in (A, B, C, D)), name


def test_scores_of_the_untrained_weights_are_named_as_such():
    untrained = replace(WHOLE, record=replace(WHOLE.record, checkpoint_sha256=A))
    with pytest.raises(InputError, match="initial weights"):
        check_chain(untrained)


def test_what_an_end_cannot_tell_is_written_down_as_unchecked():
    """Take any subset of the artefacts away: nothing is refused, and nothing that is missing counts as checked."""
    for missing in itertools.product((True, False), repeat=3):
        gone = dict(zip(("record", "commitment", "run"), (None,) * 3, strict=True))
        given = replace(WHOLE, **{name: value for (name, value), out in zip(gone.items(), missing, strict=True) if out})
        chain = check_chain(given)
        assert chain.commitment == ("none" if missing[1] and missing[2] else "checked")
        for link in chain.links:
            assert link.checked or link.why
    bare = check_chain(Artefacts(scores_sha256=A))
    assert bare.commitment == "none" and not any(link.checked for link in bare.links)
