"""Certificates: true ones are proved by a verifier that shares no code with the accountant, false ones are not."""

import ast
import copy
import hashlib
import json
import shutil
import subprocess
import sys
import time
from pathlib import Path

import numpy as np
import pytest

pytest.importorskip("flint", reason="python-flint is the verifier's arithmetic: pip install 'coalmine[verify]'")

from coalmine.audit.bounds import (
    Composition,
    EpsilonDelta,
    FixedBins,
    Gaussian,
    GroupPrivacy,
    PoissonSampling,
    RandomAllocation,
    verifier,
)
from coalmine.audit.bounds.certificate import make_certificate, write_certificate
from coalmine.foundation import InputError


def random_mechanism(generator):
    sigma = float(np.exp(generator.uniform(np.log(0.6), np.log(4.0))))
    kind = generator.integers(5)
    m, e = int(np.exp(generator.uniform(np.log(2), np.log(3000)))), int(generator.integers(2, 40))
    if kind == 0:
        return RandomAllocation(m, e, sigma)
    if kind == 1:
        return FixedBins(m, e, sigma * e**0.5)
    if kind == 2:
        return PoissonSampling(float(np.exp(generator.uniform(np.log(1e-3), np.log(0.3)))), 10 * e, sigma)
    if kind == 3:
        return Gaussian(sigma * 2 * e**0.5, e)
    return Composition([RandomAllocation(m, e, 1.5 * sigma), PoissonSampling(0.02, 5 * e, 1.5 * sigma)])


def signed(certificate):
    content = {key: value for key, value in certificate.items() if key != "sha256"}
    text = json.dumps(content, sort_keys=True, separators=(",", ":"))
    return content | {"sha256": hashlib.sha256(text.encode()).hexdigest()}


def leaves(value, path=()):
    if isinstance(value, dict | list):
        for key in value if isinstance(value, dict) else range(len(value)):
            yield from leaves(value[key], (*path, key))
    else:
        yield path


def tampered(certificate, generator):
    """One value changed, the hash left as it was."""
    found = copy.deepcopy(certificate)
    paths = list(leaves(found))
    path = paths[generator.integers(len(paths))]
    place = found
    for key in path[:-1]:
        place = place[key]
    old = place[path[-1]]
    changes = [None, "x", [], -1] + ([old * 1.001, old + 1e-6] if isinstance(old, float) else [])
    place[path[-1]] = changes[generator.integers(len(changes))]
    return found


def false(certificate, generator):
    """A statement that is not true, or is none, with the hash that fits it."""
    found = copy.deepcopy(certificate)
    claims, one = found["claims"], found["mechanism"]
    phase = one["phases"][0] if "phases" in one else one
    claim = claims[generator.integers(len(claims))]
    base = 0.5 if claim["quantity"] == "accuracy" else 0.0
    middle = (claim["lower"] + claim["upper"]) / 2 - base
    margin = (claim["upper"] - claim["lower"]) + 0.02 * middle
    kind = generator.integers(9)
    if kind == 0:
        claim["upper"] = claim["lower"] - margin
    elif kind == 1:
        claim["lower"] = claim["upper"] + margin
    elif kind == 2:
        phase["noise_multiplier"] *= 0.9
    elif kind == 3:
        phase["noise_multiplier"] *= 1.1
    elif kind == 4:
        key = "epochs" if "epochs" in phase else "steps"
        phase[key] = 2 * phase[key]
    elif kind == 5:
        for other in claims:  # all of it: twice as much of everything
            other["lower"] = other["upper"] * 1.5
    elif kind == 6:  # a grid as bad as can be does not help a false claim
        found["grid"]["cells"] = [
            [generator.uniform(-1, 3), int(generator.integers(-2, 60))] for _ in found["grid"]["cells"]
        ]
        found["grid"]["log_step"] *= float(generator.uniform(0.5, 30))
        claim["upper"] = claim["lower"] - margin
    elif kind == 7:
        place = [found, phase, claim, found["grid"]][generator.integers(4)]
        keys = [k for k in place if k not in ("phases", "sha256")]
        del place[keys[generator.integers(len(keys))]]
    else:
        found["adjacency" if generator.integers(2) else "format"] = "replace_one"
    return signed(found)


def run(certificates, mutants_each, seed):
    generator = np.random.default_rng(seed)
    longest, rejected = 0.0, 0
    for _ in range(certificates):
        mechanism = random_mechanism(generator)
        certificate = json.loads(json.dumps(make_certificate(mechanism)))
        start = time.process_time()
        assert verifier.verify(certificate) is None, mechanism
        longest = max(longest, time.process_time() - start)
        for number in range(mutants_each):
            mutant = (tampered if number % 2 else false)(certificate, generator)
            if mutant == certificate:
                continue
            assert verifier.verify(mutant) is not None, (mechanism, mutant)
            rejected += 1
    return longest, rejected


def test_true_certificates_are_proved_and_mutated_ones_are_not():
    run(certificates=6, mutants_each=8, seed=1)


@pytest.mark.slow
def test_a_hundred_certificates_and_a_thousand_mutations():
    longest, rejected = run(certificates=100, mutants_each=11, seed=2)
    assert rejected >= 1000
    print(f"\nslowest true certificate: {longest:.2f} s of processor time; {rejected} mutations rejected")


def test_the_verifier_shares_no_code_and_is_short():
    source = Path(verifier.__file__).read_text()
    assert len(source.splitlines()) <= 200
    imported = set()
    for node in ast.walk(ast.parse(source)):
        if isinstance(node, ast.Import):
            imported |= {alias.name for alias in node.names}
        elif isinstance(node, ast.ImportFrom):
            assert node.level == 0
            imported.add(node.module)
    assert imported == {"hashlib", "json", "math", "sys", "flint"}


def test_the_verifier_runs_by_itself(tmp_path):
    write_certificate(tmp_path / "c.json", Gaussian(2.0, 3))
    alone = shutil.copy(verifier.__file__, tmp_path / "alone.py")
    command = [sys.executable, str(alone), str(tmp_path / "c.json")]
    done = subprocess.run(command, capture_output=True, text=True)
    assert (done.returncode, done.stdout.strip()) == (0, "proved")
    content = json.loads((tmp_path / "c.json").read_text())
    content["claims"][0]["upper"] -= 0.01
    (tmp_path / "c.json").write_text(json.dumps(signed(content)))
    done = subprocess.run(command, capture_output=True, text=True)
    assert done.returncode == 1 and "not proved: accuracy" in done.stderr


@pytest.mark.parametrize(
    "mechanism",
    [RandomAllocation(500, 10, 0.8344), PoissonSampling(0.01, 1000, 1.0), FixedBins(100, 10, 4.0), Gaussian(3.0, 4)],
    ids=lambda m: m.name,
)
def test_its_ends_hold_the_accountants_and_are_not_much_wider(mechanism):
    certificate = make_certificate(mechanism)
    accuracy = mechanism.accuracy()
    for claim in certificate["claims"]:
        found = accuracy if claim["quantity"] == "accuracy" else mechanism.epsilon(1e-5, claim["direction"])
        assert claim["lower"] <= found.lower + 1e-6 and claim["upper"] >= found.upper - 1e-6
        size = found.upper - (0.5 if claim["quantity"] == "accuracy" else 0.0)
        assert claim["upper"] - claim["lower"] <= 0.02 * size


def test_level_edges_must_meet():
    # cells of a level that end where no eighth of the next one's do would count masses twice; eighths cannot
    grid = {"log_step": 0.0024, "cells": [[0.0537, 125]]}
    for eighth in (1, 3, 17, 125):
        proof = verifier.Proof(RandomAllocation(50, 2, 0.8).record(), grid | {"cells": [[0.0537, eighth]]})
        exact = RandomAllocation(50, 2, 0.8).accuracy()
        assert 0.5 + float(proof.below(0, "add")) / 2 <= exact.upper
        assert 0.5 + float(proof.above(0, "add")) / 2 >= exact.lower


def test_refusals():
    for mechanism in (EpsilonDelta(1.0, 1e-5), GroupPrivacy(RandomAllocation(10, 2, 1.0), 2)):
        with pytest.raises(InputError, match=f"no certificate for {mechanism.name}"):
            make_certificate(mechanism)
    assert verifier.verify([]) is not None and verifier.verify({}) is not None
    assert verifier.verify({"sha256": 1, "claims": []}).startswith("malformed")
