"""`coalmine repeat` with an author's own training: called as promised, or refused before anything is trained."""

from __future__ import annotations

import json
import subprocess
import sys

import numpy as np
import pytest

from coalmine.canaries import CanarySet

TRAINING = """
import json, torch
def train(indices, seed):
    assert indices.dtype == "int64"
    open("calls.txt", "a").write(json.dumps([indices.tolist(), seed]) + "\\n")
    torch.manual_seed(seed)
    return torch.nn.Sequential(torch.nn.Flatten(), torch.nn.Linear(4, 2))
def three(model, data, epochs):
    raise AssertionError("never called")
def keyword(*, indices, seed):
    raise AssertionError("never called")
"""


@pytest.fixture
def here(tmp_path):
    """Ten rows of data, of which canaries 0 and 1 were made from rows 3 and 4, and the ten others from none."""
    random = np.random.default_rng(0)
    x = random.random((10, 4)).astype(np.float32)
    np.savez(tmp_path / "data.npz", x=x, y=np.arange(10) % 2, x_test=x, y_test=np.arange(10) % 2)
    canaries = CanarySet(
        random.random((12, 4)).astype(np.float32), np.arange(12) % 2, np.array([3, 4] + 10 * [-1]), "own"
    )
    canaries.save(tmp_path / "canaries.safetensors")
    (tmp_path / "mine.py").write_text(TRAINING, encoding="utf-8")
    (tmp_path / "broken.py").write_text("def train(indices, seed) return 1\n", encoding="utf-8")
    return tmp_path


def repeat(here, *arguments: str) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-m", "coalmine", "repeat", "--canaries", "canaries.safetensors", "--data", "data.npz"]
    command += ["--runs", "6", "--output", "runs", *arguments]
    return subprocess.run(command, cwd=here, capture_output=True, text=True)


def test_the_function_gets_the_natural_rows_then_the_member_canaries(here):
    done = repeat(here, "--train", "mine:train", "--json")
    assert done.returncode == 0, done.stderr
    assert json.loads(done.stdout)["repeated"]["runs"] == 6
    calls = [json.loads(line) for line in (here / "calls.txt").read_text().splitlines()]
    assert len(calls) == 6 and len({seed for _, seed in calls}) == 6
    for indices, _ in calls:
        assert indices[:8] == list(range(8))  # ten rows without the two sources: always in
        assert set(indices[8:]) <= set(range(8, 20)) and indices == sorted(indices)
    assert len({tuple(indices) for indices, _ in calls}) > 1


@pytest.mark.parametrize(
    ("function", "words"),
    [
        ("mine:three", ("three(indices, seed)", "three(model, data, epochs)")),
        ("mine:keyword", ("keyword(*, indices, seed)",)),
        ("mine:absent", ("no function absent",)),
        ("broken:train", ("SyntaxError",)),
        ("mine", ("package.module:function",)),
    ],
)
def test_a_function_that_cannot_be_called_is_refused_at_once(here, function, words):
    done = repeat(here, "--train", function)
    assert done.returncode == 2 and done.stderr.count("\n") == 1, done.stderr
    assert all(word in done.stderr for word in words)
    assert not (here / "runs").exists() and not (here / "calls.txt").exists()


def test_the_score_is_checked_before_anything_is_trained(here):
    done = repeat(here, "--train", "mine:train", "--score", "difference")
    assert done.returncode == 2 and "--score" in done.stderr and not (here / "calls.txt").exists()


def test_help_says_what_the_seed_is_for():
    done = subprocess.run([sys.executable, "-m", "coalmine", "repeat", "--help"], capture_output=True, text=True)
    text = " ".join(done.stdout.replace("│", " ").split())
    assert "Of the coins" in text and "fresh entropy" not in text and "Example" in text


def test_a_claim_that_the_recipe_contradicts_is_refused_before_training(here):
    claim = {"mechanism": {"name": "random_allocation", "steps_per_epoch": 5, "epochs": 3, "noise_multiplier": 3.5}}
    (here / "claim.json").write_text(json.dumps(claim))
    recipe = ["--claim", "claim.json", "--steps-per-epoch", "5", "--epochs", "3", "--learning-rate", "0.1"]
    for wrong in (["--noise-multiplier", "1", "--clipping-norm", "1"], ["--clipping-norm", "1"]):
        done = repeat(here, *recipe, *wrong)
        assert done.returncode == 2 and "claim what was run" in done.stderr
        assert not (here / "runs").exists()
    right = repeat(here, *recipe, "--noise-multiplier", "3.5", "--clipping-norm", "1", "--json")
    assert right.returncode == 0, right.stderr
    assert json.loads(right.stdout)["run"]["mechanism"] == claim["mechanism"]
