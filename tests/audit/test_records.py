"""Every record is written and read by one type: what goes out comes back, and no record passes for another."""

import dataclasses
import json
import math

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from coalmine.audit import AuditResult, AuditSettings, Claim, Evidence, RunRecord, ScoreRecord, audit, judge
from coalmine.audit.bounds import EpsilonDelta, FixedBins, Gaussian, PoissonSampling, RandomAllocation
from coalmine.audit.training.run_record import ModelRecord
from coalmine.audit.verdict.provenance import Link, Provenance
from coalmine.canaries.commitment import Commitment
from coalmine.foundation import InputError

hashes = st.none() | st.text("0123456789abcdef", min_size=64, max_size=64)
words = st.text("abcdefgh_-0123456789", min_size=1, max_size=12)
numbers = st.floats(0, 1e6, allow_nan=False).map(float)
rates = st.none() | st.floats(0, 1)
counts = st.none() | st.integers(0, 10**6)

run_records = st.builds(
    RunRecord,
    mechanism=st.fixed_dictionaries({"name": words}, optional={"epochs": st.integers(1, 99)}),
    clipping_norm=st.none() | numbers,
    divisor=st.none() | numbers | st.sampled_from(["public", "realised"]),
    divisor_is_public=st.none() | st.booleans(),
    epochs_done=counts,
    finished=st.none() | st.booleans(),
    settings=st.none() | st.dictionaries(words, numbers, min_size=1, max_size=3),
    model=st.none()
    | st.builds(ModelRecord, words, st.none() | st.lists(st.integers(1, 64), max_size=3).map(tuple), counts),
    data=st.none() | words,
    data_fingerprint=st.none() | words,
    canaries_sha256=hashes,
    commitment=hashes,
    checkpoint_sha256=hashes,
    initial_sha256=hashes,
    seeded=st.none() | st.booleans(),
    train_accuracy=rates,
    test_accuracy=rates,
    initial_accuracy=rates,
    majority_share=rates,
    versions=st.none() | st.dictionaries(words, words, min_size=1, max_size=2),
    others=st.dictionaries(st.just("written_by_hand"), st.booleans(), max_size=1),
)
score_records = st.builds(
    ScoreRecord,
    score=words,
    views=counts,
    canaries=counts,
    canaries_sha256=hashes,
    canary_method=st.none() | words,
    checkpoint=st.none() | words,
    checkpoint_sha256=hashes,
    reference_sha256=hashes,
    arrays_sha256=hashes,
    model=st.none() | words,
    pixel_mean=st.none() | st.lists(numbers, min_size=1, max_size=3).map(tuple),
    shadows=counts,
    seed=counts,
    coins_opened=st.none() | st.booleans(),
    details=st.none() | st.dictionaries(words, words, min_size=1, max_size=2),
    scores_sha256=hashes,
    others=st.dictionaries(st.just("note"), words, max_size=1),
)
commitments = st.builds(Commitment, hashes.filter(bool), hashes, counts, st.none() | words)
provenances = st.builds(
    Provenance,
    st.sampled_from(["checked", "none"]),
    *[hashes] * 5,
    st.lists(st.builds(Link, words, st.booleans(), st.just("") | words), max_size=3).map(tuple),
)


def through_json(value):
    return json.loads(json.dumps(value, allow_nan=False))


@settings(deadline=None, max_examples=60)
@given(run_records | score_records | commitments)
def test_a_record_that_is_written_comes_back(record):
    assert type(record).from_json(through_json(record.to_json())) == record


MECHANISMS = (
    RandomAllocation(5, 2, 1.5),
    FixedBins(5, 2, 3.0),
    PoissonSampling(0.1, 20, 1.5),
    Gaussian(noise_multiplier=2.0, steps=3),
    EpsilonDelta(1.0, 1e-5),
)


@pytest.mark.parametrize("mechanism", MECHANISMS, ids=lambda m: m.name)
def test_a_claim_that_is_written_comes_back(mechanism):
    claim = Claim(mechanism)
    assert Claim.from_json(through_json(claim.to_json())) == claim


@settings(deadline=None, max_examples=25)
@given(
    seed=st.integers(0, 10**6),
    m=st.integers(8, 60),
    shift=st.floats(0, 5),
    undefined=st.booleans(),
    membership=st.sampled_from(["coins", "random_split", "unknown"]),
    mechanism=st.none() | st.sampled_from(MECHANISMS),
    run=st.none() | run_records,
    provenance=provenances,
)
def test_an_audit_that_is_written_comes_back(seed, m, shift, undefined, membership, mechanism, run, provenance):
    stream = np.random.default_rng(seed)
    members = stream.permutation(np.arange(m) % 2 == 0)
    scores = stream.normal(size=m) + shift * members
    if undefined:
        scores[0] = np.nan
    evidence = Evidence(scores, members, membership, None, provenance=provenance, label="x")
    found = judge(evidence, None if mechanism is None else Claim(mechanism), AuditSettings(sign="keep"))
    found = dataclasses.replace(found, run=run)
    back = AuditResult.from_json(through_json(found.to_json()))
    assert back == found
    assert all(math.isfinite(e.value) for e in back.estimates if e.value is not None)


def test_no_record_passes_for_another():
    claim, run = Claim(Gaussian(noise_multiplier=1.0)), RunRecord({"name": "full_batch"}, finished=True, divisor=2.0)
    result = audit(np.arange(20.0), np.arange(20) % 2 == 0, claim, AuditSettings(sign="keep"))
    readers = (Claim.from_json, RunRecord.from_json, ScoreRecord.from_json, AuditResult.from_json, Commitment.from_json)
    records = (claim, run, ScoreRecord("phi"), result, Commitment("0" * 64))
    for reader, own in zip(readers, records, strict=True):
        for record in records:
            if record is own:
                reader(record.to_json())
                continue
            with pytest.raises(InputError):
                reader(record.to_json())


@pytest.mark.parametrize("answer", [None, "false", 0, []])
def test_finished_is_true_or_false_or_left_out(answer):
    with pytest.raises(InputError, match="finished must be true or false"):
        RunRecord.from_json({"mechanism": {"name": "none"}, "finished": answer})
    assert RunRecord.from_json({"mechanism": {"name": "none"}}).finished is None


@pytest.mark.parametrize("commitment", [[], "short", 7, {"a": 1}])
def test_a_commitment_is_a_hash_or_nothing(commitment):
    with pytest.raises(InputError, match="commitment must be 64"):
        RunRecord.from_json({"mechanism": {"name": "none"}, "commitment": commitment})
