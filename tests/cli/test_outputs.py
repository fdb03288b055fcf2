"""No command destroys what it did not write, and the parser's complaints are one line that shows the value."""

import json
import subprocess
import sys

import pytest

from coalmine.audit.cli import main


def run(capsys, *arguments):
    code = 0
    try:
        main([str(a) for a in arguments])
    except SystemExit as end:
        code = end.code or 0
    captured = capsys.readouterr()
    return code, captured.out, captured.err


@pytest.fixture
def here(tmp_path, monkeypatch):
    """Canaries, coins, a claim and scores in the working folder."""
    monkeypatch.chdir(tmp_path)
    for command in (
        "canaries craft --data digits --method noise --count 20 --seed 1 -o canaries.safetensors",
        "coins --canaries canaries.safetensors --seed 1",
        "claim --epsilon 1 --delta 1e-5",
    ):
        try:
            main(command.split())
        except SystemExit as end:
            assert not end.code
    rows = "".join(f"{i},{(i * 7) % 20}\n" for i in range(20))
    (tmp_path / "scores.csv").write_text("canary_id,score\n" + rows)
    return tmp_path


AUDIT = "audit --scores scores.csv --coins coins.json --claim claim.json --sign keep"


@pytest.mark.parametrize(
    "command",
    [
        *(f"{AUDIT} --output {name}" for name in ("coins.json", "scores.csv", "claim.json", "canaries.safetensors")),
        "claim --epsilon 1 --delta 1e-5 --output coins.json",
        "canaries craft --data digits --method noise --count 20 --output canaries.safetensors",
        "canaries craft --data digits --method noise --count 20 --output coins.json",
        "coins --canaries canaries.safetensors --output canaries.safetensors --commitment new.json",
        "coins --canaries canaries.safetensors --output canaries.safetensors --commitment new.json --force",
        "report audit.json --output audit.json",
        "report audit.json --output coins.json",
    ],
)
def test_an_output_never_replaces_a_file_of_another_kind(here, capsys, command):
    assert run(capsys, *f"{AUDIT} --output audit.json".split())[0] == 0
    before = {p.name: p.read_bytes() for p in here.iterdir()}
    code, _, err = run(capsys, *command.split())
    assert code == 2 and err.startswith("error: ") and err.count("\n") == 1
    assert {p.name: p.read_bytes() for p in here.iterdir()} == before


def test_a_file_of_the_same_kind_is_replaced(here, capsys):
    for command in (f"{AUDIT} --output audit.json", "claim --epsilon 2 --delta 1e-5", "report audit.json -o page.html"):
        for _ in range(2):
            assert run(capsys, *command.split())[0] == 0, command
    assert json.loads((here / "claim.json").read_text())["mechanism"]["epsilon"] == 2


@pytest.mark.parametrize(
    ("command", "shown"),
    [
        ("plan --records 1.5 --epochs 3 --epsilon 1", "'1.5'"),
        ("train --steps-per-epoch nan --epochs 1 --learning-rate 1 -o x", "'nan'"),
        ("demo --seed -1", "'-1'"),
        ("bound --nois 1", "--nois"),
        ("bond", "bond"),
        ("bound", "--noise-multiplier"),
    ],
)
def test_what_the_parser_cannot_read_is_one_line(capsys, command, shown):
    code, out, err = run(capsys, *command.split())
    assert code == 2 and out == "" and err.count("\n") == 1
    assert err.startswith("error: ") and shown in err and "--help" in err


def test_a_closed_pipe_is_no_error():
    bound = [sys.executable, "-m", "coalmine", "bound", "--steps-per-epoch", "10", "--noise-multiplier", "1:3:0.01"]
    process = subprocess.Popen([*bound, "--json"], stdout=subprocess.PIPE, stderr=subprocess.PIPE)
    assert process.stdout is not None and process.stderr is not None
    process.stdout.read(1)
    process.stdout.close()
    err = process.stderr.read()
    process.wait(timeout=120)
    assert process.returncode == 0 and b"Traceback" not in err


@pytest.mark.skipif(not sys.platform.startswith("linux"), reason="/dev/full is Linux's")
def test_a_full_disk_is_one_line():
    with open("/dev/full", "w") as full:
        done = subprocess.run(
            [sys.executable, "-m", "coalmine", "bound", "--steps-per-epoch", "10", "--noise-multiplier", "1"],
            stdout=full, stderr=subprocess.PIPE, text=True,
        )  # fmt: skip
    assert done.returncode == 2 and "No space left" in done.stderr and "Traceback" not in done.stderr


def test_a_terminal_without_unicode_is_served():
    environment = {"LC_ALL": "C", "PYTHONUTF8": "0", "PYTHONCOERCECLOCALE": "0", "PATH": "/usr/bin:/bin"}
    done = subprocess.run(
        [sys.executable, "-m", "coalmine", "bound", "--steps-per-epoch", "10", "--noise-multiplier", "1"],
        env=environment, capture_output=True,
    )  # fmt: skip
    assert done.returncode == 0, done.stderr


@pytest.mark.parametrize(
    ("command", "named"),
    [
        ("lira --model mlp --chunk 0 -o x", "--chunk"),
        ("lira --model mlp --shadows 1 -o x", "--shadows"),
        ("power --epsilon 3 --violation 0.5", "--violation"),
        ("selftest --confidence 2", "--confidence"),
        ("bound --steps-per-epoch 5 --noise-multiplier 1e-300", "noise_multiplier"),
        ("plan --records 60000 --epochs 1e300 --epsilon 1", "epochs"),
        ("claim --epsilon inf --delta 1e-5 -o claim.json", "epsilon"),
        ("claim --epsilon 1 --delta 1e-5 --clipping-norm 1 -o claim.json", "--run-output"),
    ],
)
def test_numbers_that_cannot_be_meant_are_refused_at_once(tmp_path, monkeypatch, capsys, command, named):
    monkeypatch.chdir(tmp_path)
    code, _, err = run(capsys, *command.split())
    assert code == 2 and err.count("\n") == 1 and named in err
    assert not list(tmp_path.iterdir())
