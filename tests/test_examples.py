"""The examples, run as their first lines say, each in a folder of its own."""

from __future__ import annotations

import json
import os
import re
import shlex
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from coalmine.audit.cli import main

EXAMPLES = Path(__file__).parent.parent / "examples"


@pytest.fixture
def here(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(sys, "path", [*sys.path])
    for module in ("plain_pytorch", "repeat_my_library"):
        monkeypatch.delitem(sys.modules, module, raising=False)
    return tmp_path


def python(*arguments: str) -> str:
    one_thread = os.environ | {"OMP_NUM_THREADS": "1"}  # tiny batches: more threads wait for each other
    done = subprocess.run([sys.executable, *arguments], capture_output=True, text=True, env=one_thread)
    assert done.returncode == 0, done.stderr
    return done.stdout


def coalmine(*arguments: str) -> None:
    try:
        main(list(arguments))
    except SystemExit as error:
        assert not error.code, arguments


def commands_of(example: str) -> list[list[str]]:
    """The indented lines of the docstring that a user would type."""
    docstring = (EXAMPLES / example).read_text("utf-8").split('"""')[1]
    return [shlex.split(line) for line in re.findall(r"^    ((?:python|coalmine) .*)$", docstring, re.MULTILINE)]


def test_a_plain_loop_with_three_lines_more_is_audited_and_its_claim_rejected(here):
    shutil.copy(EXAMPLES / "plain_pytorch.py", here)
    source = (here / "plain_pytorch.py").read_text("utf-8")
    assert len(re.findall(r"# AUDIT \d", source)) == 3
    commands = commands_of("plain_pytorch.py")
    assert [words[:2] for words in commands][-1] == ["coalmine", "report"]
    for program, *arguments in commands:
        python(*arguments) if program == "python" else coalmine(*arguments)
    result = json.loads((here / "audit.json").read_text("utf-8"))
    assert result["verdict"] == "rejected" and result["counts"]["canaries"] == 200
    assert (here / "report.html").stat().st_size > 10_000


def test_a_dp_library_is_told_from_one_with_too_little_noise(here):
    shutil.copy(EXAMPLES / "repeat_my_library.py", here)
    commands = commands_of("repeat_my_library.py")
    assert [words[1] for words in commands] == ["canaries", "claim", "repeat", "repeat"]
    for _, *arguments in commands:
        coalmine(*arguments)
    results = {name: json.loads((here / name / "audit.json").read_text("utf-8")) for name in ("right", "wrong")}
    assert {name: result["verdict"] for name, result in results.items()} == {
        "right": "not_rejected",
        "wrong": "rejected",
    }


def test_a_scikit_learn_model_by_its_scores(here):
    example, audit = commands_of("sklearn_scores.py")
    assert example[1:] == ["examples/sklearn_scores.py"]
    assert "scores of 200 canaries" in python(str(EXAMPLES / "sklearn_scores.py"), "--seed", "1")
    coalmine(*audit[1:], "--output", "audit.json")
    assert json.loads((here / "audit.json").read_text("utf-8"))["verdict"] == "rejected"


@pytest.mark.parametrize(("options", "verdict"), [((), "not_rejected"), (("--forget-noise",), "rejected")])
def test_opacus_keeps_its_claim_with_noise_and_breaks_it_without(here, options, verdict):
    pytest.importorskip("opacus", reason="the extra opacus is not installed")
    out = python("-W", "ignore", str(EXAMPLES / "opacus_digits.py"), "--seed", "1", *options)
    assert "test accuracy" in out
    assert json.loads((here / "runs/opacus/audit.json").read_text("utf-8"))["verdict"] == verdict
    assert (here / "runs/opacus/report.html").stat().st_size > 10_000


def test_a_finished_forest_in_five_lines(here):
    out = python(str(EXAMPLES / "attack_a_forest.py"))
    assert "loss" in out and (here / "runs/forest.html").stat().st_size > 10_000
