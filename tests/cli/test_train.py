"""`coalmine train` as a user runs it: mistakes cost one line, interruptions at most an epoch."""

import json
import os
import signal
import subprocess
import sys
import time

import numpy as np
import pytest

from coalmine.audit.cli import main

SETTINGS = ["--steps-per-epoch", "4", "--epochs", "3", "--learning-rate", "0.5", "--seed", "1", "--quiet"]


def run(capsys, *arguments):
    """(exit code, standard output, standard error) of `coalmine <arguments>` in this process."""
    code = 0
    try:
        main([str(a) for a in arguments])
    except SystemExit as end:
        code = end.code or 0
    captured = capsys.readouterr()
    return code, captured.out, captured.err


@pytest.fixture
def planted(tmp_path, capsys):
    """A folder with canaries and coins for digits."""
    canaries, coins = tmp_path / "canaries.safetensors", tmp_path / "coins.json"
    for command in (
        [
            "canaries",
            "craft",
            "--data",
            "digits",
            "--method",
            "mislabelled",
            "--count",
            20,
            "--seed",
            1,
            "-o",
            canaries,
        ],
        ["coins", "--canaries", canaries, "--output", coins, "--commitment", tmp_path / "commitment.json", "--seed", 1],
    ):
        assert run(capsys, *command)[0] == 0
    return tmp_path


def test_train_then_score_then_audit(planted, capsys):
    files = ["--canaries", planted / "canaries.safetensors", "--coins", planted / "coins.json"]
    code, out, _ = run(capsys, "train", *files, *SETTINGS, "--output", planted / "run", "--json")
    assert code == 0 and json.loads(out)["finished"]
    code, *_ = run(
        capsys, "score", "--checkpoint", planted / "run", *files[:2], "--output", planted / "scores.csv", "--quiet"
    )
    assert code == 0
    code, out, _ = run(
        capsys, "audit", "--scores", planted / "scores.csv", *files[2:], "--run", planted / "run/run.json", "--json"
    )
    found = json.loads(out)
    assert code == 0 and found["verdict"] == "no_claim" and found["threat_model"]["canary_method"] == "mislabelled"


@pytest.mark.parametrize(
    ("change", "named"),
    [
        (["--epochs", "0"], "epochs"),
        (["--learning-rate", "nan"], "learning_rate"),
        (["--noise-multiplier", "1"], "clipping_norm"),
        (["--data", "nothing.csv"], "nothing.csv"),
        (["--data", "galaxies"], "galaxies"),
        (["--model", "resnet"], "resnet"),
        (["--model", "torchvision:resnet18"], "BatchNorm"),
        (["--sampler", "shuffle"], "sampler"),
        (["--device", "cuda:77"], "cuda:77"),
        (["--canaries", "missing.safetensors", "--coins", "missing.json"], "missing.safetensors"),
        (["--canaries", "missing.safetensors"], "--coins"),
    ],
)
def test_a_mistake_is_one_line_and_nothing_is_written(tmp_path, capsys, change, named):
    code, out, err = run(capsys, "train", *SETTINGS, "--output", tmp_path / "run", *change)
    assert code == 2 and out == ""
    assert err.startswith("error: ") and err.count("\n") == 1 and named in err
    assert not (tmp_path / "run").exists()


def test_coins_of_other_canaries_are_refused(planted, capsys):
    other = planted / "other.safetensors"
    run(capsys, "canaries", "craft", "--data", "digits", "--method", "noise", "--count", 20, "--seed", 9, "-o", other)
    code, _, err = run(
        capsys, "train", "--canaries", other, "--coins", planted / "coins.json", *SETTINGS, "-o", planted / "run"
    )
    assert code == 2 and "coins were drawn for" in err


def test_a_pickle_is_never_opened(tmp_path, capsys):
    trap = tmp_path / "canaries.safetensors"
    trap.write_bytes(b"\x80\x04cposix\nsystem\n(S'touch " + str(tmp_path / "executed").encode() + b"'\ntR.")
    (tmp_path / "coins.json").write_text("{}")
    code, _, err = run(
        capsys, "train", "--canaries", trap, "--coins", tmp_path / "coins.json", *SETTINGS, "-o", tmp_path / "run"
    )
    assert code == 2 and "pickle" in err and not (tmp_path / "executed").exists()


def test_nan_pixels_are_refused_before_training(tmp_path, capsys):
    x = np.random.default_rng(0).random((40, 5)).astype(np.float32)
    x[7, 2] = np.nan
    np.savez(tmp_path / "data.npz", x=x, y=np.arange(40) % 2)
    code, _, err = run(capsys, "train", "--data", tmp_path / "data.npz", *SETTINGS, "--output", tmp_path / "run")
    assert code == 2 and "row 7" in err and err.count("\n") == 1


def train_command(folder):
    return [
        sys.executable,
        "-m",
        "coalmine",
        "train",
        "--steps-per-epoch",
        "20",
        "--epochs",
        "40",
        "--learning-rate",
        "0.2",
        "--noise-multiplier",
        "1",
        "--clipping-norm",
        "1",
        "--momentum",
        "0.5",
        "--seed",
        "3",
        "--quiet",
        "-o",
        str(folder),
    ]


@pytest.mark.parametrize("how", [signal.SIGINT, signal.SIGKILL])
def test_a_killed_run_resumes_to_the_same_bytes(tmp_path, how):
    environment = os.environ | {"OMP_NUM_THREADS": "1"}
    subprocess.run(train_command(tmp_path / "unbroken"), check=True, env=environment, capture_output=True)
    process = subprocess.Popen(
        train_command(tmp_path / "broken"),
        env=environment,
        stderr=subprocess.PIPE,
        text=True,
        # a test run in the background of a shell passes on that it ignores Ctrl-C: a user's terminal does not
        preexec_fn=lambda: signal.signal(signal.SIGINT, signal.SIG_DFL),
    )
    record = tmp_path / "broken" / "run.json"
    deadline = time.monotonic() + 120
    while time.monotonic() < deadline and process.poll() is None:
        if record.exists() and json.loads(record.read_text())["epochs_done"] >= 2:
            process.send_signal(how)
            break
        time.sleep(0.005)
    _, err = process.communicate(timeout=60)
    assert process.returncode != 0, "it finished before it could be interrupted: make the run longer"
    assert "Traceback" not in err
    assert not json.loads(record.read_text())["finished"]
    subprocess.run(train_command(tmp_path / "broken"), check=True, env=environment, capture_output=True)
    names = ["checkpoint.safetensors", "initial.safetensors", "run.json"]
    assert sorted(p.name for p in (tmp_path / "broken").iterdir()) == names
    for name in names:
        assert (tmp_path / "broken" / name).read_bytes() == (tmp_path / "unbroken" / name).read_bytes()
