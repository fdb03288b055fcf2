"""Every option of every command that names an output goes through one guard. The commands are found by walking over
the command line itself: one that is new is tried as well, and one that forgets the guard fails here."""

import json
import os
import socket
import sys
from pathlib import Path

import numpy as np
import pytest

from coalmine.audit.cli import main
from coalmine.audit.cli.replacing import kind_of

sys.path.insert(0, str(Path(__file__).parent))
from command_walk import NEEDED, path_options, run

# Options with a path that is read and never written. Whoever adds one says so here.
INPUTS = {
    "about", "audits", "arrays", "canaries", "checkpoint", "claim", "coins", "commitment", "data", "folder",
    "reference_checkpoint", "run", "scores", "target", "target_members",
}  # fmt: skip
OUTPUTS = [(words, param) for words, param in path_options() if kind_of(param)]


def test_every_path_is_a_guarded_output_or_a_named_input():
    found = list(path_options())
    assert len(found) > 30
    for words, param in found:
        if kind_of(param) is None:
            assert param.name in INPUTS, f"{words} {param.opts[0]}: give it replacing(KIND), or name it an input"


def test_every_command_that_writes_is_among_them():
    assert {words for words, _ in OUTPUTS} == {
        "attack", "audit", "bound", "calibrate", "canaries craft", "canaries show", "check", "claim", "coins",
        "compare", "demo", "lira", "plan", "repeat", "report", "score", "train",
    }  # fmt: skip
    assert len(OUTPUTS) == 25


@pytest.fixture(scope="module")
def template(tmp_path_factory):
    """An audit in a folder, with a user's own table and picture beside it."""
    here = tmp_path_factory.mktemp("template")
    before = os.getcwd()
    os.chdir(here)
    try:
        for command in (
            "canaries craft --data digits --method noise --count 20 --seed 1 -o canaries.safetensors",
            "coins --canaries canaries.safetensors --seed 1",
            "claim --epsilon 1 --delta 1e-5",
            "train --steps-per-epoch 2 --epochs 1 --learning-rate 1 --seed 1 --canaries canaries.safetensors "
            "--coins coins.json -o run --quiet",
            "score --checkpoint run --canaries canaries.safetensors -o scores.csv --quiet",
            "audit --scores scores.csv --coins coins.json --claim claim.json --sign keep -o audit.json --quiet",
        ):
            with pytest.raises(SystemExit) as end:
                main(command.split())
            assert not end.value.code, command
        (here / "data.csv").write_text("age,label\n41,1\n23,0\n")
        (here / "photo.png").write_bytes(b"\x89PNG\r\n\x1a\nprecious")
        (here / "index.html").write_text("<!doctype html><title>mine</title>")
        (here / "model.safetensors").write_bytes((here / "run" / "checkpoint.safetensors").read_bytes())
    finally:
        os.chdir(before)
    return here


@pytest.fixture
def here(template, tmp_path, monkeypatch):
    import shutil

    shutil.copytree(template, tmp_path / "work")
    monkeypatch.chdir(tmp_path / "work")
    return tmp_path / "work"


def everything(folder):
    return {p.relative_to(folder).as_posix(): p.read_bytes() for p in sorted(folder.rglob("*")) if p.is_file()}


def call(words, param, value):
    return [*words.split(), *NEEDED.get(words, []), param.opts[0], value, "--quiet"]


def refused(capsys, here, words, param, value):
    before = everything(here)
    code, _, err = run(capsys, *call(words, param, value))
    assert code == 2, (words, param.opts[0], value)
    assert err.startswith("error: ") and err.count("\n") == 1 and "Traceback" not in err
    assert everything(here) == before, (words, param.opts[0], value)


FILES = [
    "coins.json", "canaries.safetensors", "run/run.json", "run/checkpoint.safetensors", "model.safetensors",
    "data.csv", "photo.png", "index.html", "audit.json", "claim.json", "commitment.json", "scores.csv", "scores.json",
]  # fmt: skip
OWN = {  # what an option may replace (with --force where that is needed): its own kind
    "audit.json": "audit.json", "claim.json": "claim.json", "coins.json": "coins.json",
    "commitment.json": "commitment.json", "canary set": "canaries.safetensors",
}  # fmt: skip


@pytest.mark.parametrize(("words", "param"), OUTPUTS, ids=lambda one: one if isinstance(one, str) else one.opts[0])
def test_no_output_replaces_a_file_of_another_kind(here, capsys, words, param):
    own = OWN.get(kind_of(param).name)
    for name in FILES:
        if name == own or (name == "scores.csv" and words == "score"):
            continue
        refused(capsys, here, words, param, name)


@pytest.mark.parametrize(("words", "param"), OUTPUTS, ids=lambda one: one if isinstance(one, str) else one.opts[0])
def test_no_output_is_a_device_a_pipe_a_socket_a_circle_or_a_place_that_cannot_be_written(
    here, tmp_path, capsys, words, param
):
    odd = tmp_path / "odd"
    odd.mkdir()
    os.mkfifo(odd / "pipe")
    (odd / "loop").symlink_to(odd / "loop")
    (odd / "null").symlink_to("/dev/null")
    (odd / "plain").write_text("")
    bound = socket.socket(socket.AF_UNIX)
    bound.bind(str(odd / "s"))
    for place in ("/dev/null", "/dev/full", "/dev/zero", *(odd / n for n in ("pipe", "loop", "null", "s", "plain/x"))):
        refused(capsys, here, words, param, place)
    if kind_of(param).folder == ():
        refused(capsys, here, words, param, odd)
    refused(capsys, here, words, param, "/proc/nothing/here")
    bound.close()


FORCED = [(words, param) for words, param in OUTPUTS if kind_of(param).kept]


@pytest.mark.parametrize(("words", "param"), FORCED, ids=lambda one: one if isinstance(one, str) else one.opts[0])
def test_force_replaces_nothing_of_another_kind(here, capsys, words, param):
    for name in ("data.csv", "audit.json", "run/run.json", "scores.csv", "model.safetensors"):
        before = everything(here)
        force = [] if "--force" in NEEDED.get(words, []) else ["--force"]
        assert run(capsys, *call(words, param, name), *force)[0] == 2
        assert everything(here) == before


@pytest.mark.parametrize(("words", "param"), OUTPUTS, ids=lambda one: one if isinstance(one, str) else one.opts[0])
def test_an_output_is_no_input_of_its_command_and_no_other_output(here, capsys, words, param):
    paths = [p for w, p in path_options() if w == words and p.name != param.name and p.opts[0].startswith("-")]
    if kind_of(param).folder:
        return
    os.link(here / "coins.json", here / "hard.json")
    for other in paths:
        for value in ("new.json", "hard.json"):
            again = "coins.json" if value == "hard.json" else value
            before = everything(here)
            code, _, err = run(capsys, *call(words, param, value), other.opts[0], again)
            assert code == 2 and err.count("\n") == 1, (words, param.opts, other.opts)
            assert everything(here) == before


FAULTS = [  # each was done once, with exit code 0
    "demo --output .",
    "canaries show canaries.safetensors -o coins.json",
    "canaries show canaries.safetensors -o canaries.safetensors",
    "claim --epsilon 1 --delta 1e-5 --ran poisson --divisor public --run-output coins.json",
    "claim --epsilon 1 --delta 1e-5 --ran poisson --divisor public --run-output run/run.json",
    "score --checkpoint run --canaries canaries.safetensors -o data.csv",
    "score --checkpoint run --canaries canaries.safetensors -o coins.csv",
    "audit --scores scores.csv --coins coins.json -o scores.json --sign keep",
    "train --steps-per-epoch 2 --epochs 1 --learning-rate 1 -o foreign",
    "coins --canaries canaries.safetensors -o data.csv --force",
    "canaries craft --data digits --method noise --count 20 -o coins.json --force",
    "repeat --canaries canaries.safetensors --runs 2 --steps-per-epoch 2 --epochs 1 --learning-rate 1 -o .",
    "lira --steps-per-epoch 2 --epochs 1 --learning-rate 1 --shadows 2 -o foreign",
    "report audit.json -o page.html --figures foreign",
]


@pytest.mark.parametrize("command", FAULTS)
def test_what_was_once_destroyed_stays(here, capsys, command):
    (here / "foreign").mkdir()
    (here / "foreign" / "checkpoint.safetensors").write_bytes(b"weights of weeks")
    (here / "foreign" / "scores.csv").write_text("customer,score\n1,2\n")
    (here / "foreign" / "roc-1.png").write_bytes(b"\x89PNG\r\n\x1a\nprecious")
    before = everything(here)
    code, _, err = run(capsys, *command.split(), "--quiet")
    assert code == 2 and err.startswith("error: ") and err.count("\n") == 1
    assert everything(here) == before


def test_a_command_replaces_its_own_earlier_output(here, capsys):
    for command in (
        "audit --scores scores.csv --coins coins.json --claim claim.json --sign keep -o audit.json",
        "claim --epsilon 2 --delta 1e-5 -o claim2.json --ran poisson --divisor public --run-output ran.json",
        "report audit.json -o page.html --figures figures",
        "score --checkpoint run --canaries canaries.safetensors -o scores.csv",
        "canaries show canaries.safetensors -o sheet.png",
        "bound --noise-multiplier 1:2:1 --steps-per-epoch 5 --plot bound.svg",
        "bound --noise-multiplier 1:2:1 --steps-per-epoch 5 --plot bound.pdf",
        "bound --noise-multiplier 1:2:1 --steps-per-epoch 5 --plot bound.png",
        "train --steps-per-epoch 2 --epochs 1 --learning-rate 1 --seed 1 -o trained",
        "coins --canaries canaries.safetensors --force",
        "canaries craft --data digits --method noise --count 20 --seed 1 -o again.safetensors --force",
    ):
        for _ in range(2):
            code, _, err = run(capsys, *command.split(), "--quiet")
            assert code == 0, (command, err)


def test_a_link_is_followed_and_stays(here, capsys):
    (here / "elsewhere").mkdir()
    (here / "link.json").symlink_to(here / "elsewhere" / "claim.json")
    for _ in range(2):
        assert run(capsys, *["claim", "--epsilon", "2", "--delta", "1e-5", "-o", "link.json"])[0] == 0
    assert (here / "link.json").is_symlink()
    assert json.loads((here / "elsewhere" / "claim.json").read_text())["mechanism"]["epsilon"] == 2
    (here / "to_coins.json").symlink_to(here / "coins.json")
    before = everything(here)
    assert run(capsys, *["claim", "--epsilon", "2", "--delta", "1e-5", "-o", "to_coins.json"])[0] == 2
    assert everything(here) == before


def test_another_recipe_does_not_replace_the_scores_of_a_lira_folder(here, capsys):
    np.savez(here / "rows.npz", x=np.random.default_rng(0).random((40, 3)), y=np.arange(40) % 2)
    lira = "lira --data rows.npz --model mlp --shadows 4 --steps-per-epoch 2 --epochs 1 -o lira --quiet --learning-rate"
    assert run(capsys, *lira.split(), "0.1")[0] == 0
    before = everything(here)
    code, _, err = run(capsys, *lira.split(), "0.2")
    assert code == 2 and "recipe_sha256" in err and everything(here) == before
    assert run(capsys, *lira.split(), "0.1")[0] == 0


def test_repeated_runs_that_were_judged_are_not_judged_again_with_fewer_or_more(here, capsys):
    command = (
        "repeat --canaries canaries.safetensors --steps-per-epoch 2 --epochs 1 --learning-rate 1 -o repeat --quiet "
        "--runs"
    )
    code, _, err = run(capsys, *command.split(), "4")
    assert code == 0, err
    before = everything(here)
    for runs in ("3", "6"):
        code, _, err = run(capsys, *command.split(), runs)
        assert code == 2 and "verdict over 4 runs" in err and everything(here) == before
    assert run(capsys, *command.split(), "4")[0] == 0
