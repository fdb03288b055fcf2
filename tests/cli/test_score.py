"""`coalmine score`, run as a user runs it: on a checkpoint that was made without coalmine, and on a run of its own."""

from __future__ import annotations

import json
import subprocess
import sys
import textwrap

import numpy as np
import pandas as pd
import pytest
import torch
from safetensors.torch import save_file

from coalmine.audit.cli import main
from coalmine.audit.training.data import load_data
from coalmine.audit.training.models import build_model
from coalmine.canaries import CanarySet, craft, draw_coins
from coalmine.foundation import write_json


def run(capsys, *arguments):
    code = 0
    try:
        main(["score", *map(str, arguments)])
    except SystemExit as error:
        code = error.code or 0
    return code, *capsys.readouterr()


def refused(capsys, *arguments) -> str:
    code, out, err = run(capsys, *arguments)
    assert code == 2 and out == "" and err.startswith("error: ") and err.count("\n") == 1, (code, out, err)
    return err


@pytest.fixture
def here(tmp_path, monkeypatch):
    """A folder with canaries and a checkpoint of the built-in mlp."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(sys, "path", [*sys.path])  # --model train:Net imports from the current folder
    monkeypatch.delitem(sys.modules, "train", raising=False)
    data = load_data("digits")
    canaries = craft("random", data.x, data.y, 10, (0, 1), 20, 0, data_fingerprint=data.fingerprint)
    canaries.save("canaries.safetensors")
    torch.save(build_model("mlp", (1, 8, 8), 10, 1).state_dict(), "model.pt")
    return tmp_path


BASIC = ("--checkpoint", "model.pt", "--model", "mlp", "--canaries", "canaries.safetensors")


def test_one_score_a_canary_and_a_record_of_the_choice(here, capsys):
    code, out, err = run(capsys, *BASIC, "--output", "scores.csv", "--json")
    assert code == 0 and err.count("\n") == 1 and "not measured" in err  # without --data nobody was asked
    printed, beside = json.loads(out), json.loads((here / "scores.json").read_text())
    assert printed["score"] == beside["score"] == "phi" and printed["counts"]["undefined"] == 0
    assert beside["canaries_sha256"] == CanarySet.load("canaries.safetensors").sha256
    frame = pd.read_csv("scores.csv")
    assert list(frame.columns) == ["canary_id", "score"] and frame.canary_id.tolist() == list(range(20))


@pytest.mark.parametrize("score", ["loss", "hinge"])
def test_each_score_by_name(here, capsys, score):
    assert run(capsys, *BASIC, "--score", score, "--output", f"{score}.csv")[0] == 0
    assert json.loads((here / f"{score}.json").read_text())["score"] == score


def test_difference_needs_and_uses_a_reference(here, capsys):
    torch.save(build_model("mlp", (1, 8, 8), 10, 0).state_dict(), "initial.pt")
    assert "--reference-checkpoint" in refused(capsys, *BASIC, "--score", "difference")
    assert "--score difference" in refused(capsys, *BASIC, "--reference-checkpoint", "initial.pt")
    for score, more in (("phi", ()), ("difference", ("--reference-checkpoint", "initial.pt"))):
        assert run(capsys, *BASIC, "--score", score, "--output", f"{score}.csv", *more)[0] == 0
    run(capsys, "--checkpoint", "initial.pt", *BASIC[2:], "--output", "before.csv")
    phi, before, difference = (pd.read_csv(f"{name}.csv").score for name in ("phi", "before", "difference"))
    np.testing.assert_allclose(difference, phi - before, atol=1e-7)


def test_the_scores_do_not_depend_on_the_batch_size(here, capsys):
    for size in (1, 7, 20):
        run(capsys, *BASIC, "--batch-size", size, "--output", f"{size}.csv")
    assert (here / "1.csv").read_bytes() == (here / "7.csv").read_bytes() == (here / "20.csv").read_bytes()


def test_a_checkpoint_made_by_a_script_that_knows_nothing_of_coalmine(here, capsys):
    (here / "train.py").write_text(
        textwrap.dedent("""
            import torch
            from torch import nn

            class Net(nn.Module):
                def __init__(self, hidden=16):
                    super().__init__()
                    self.features = nn.Sequential(nn.Conv2d(1, 4, 3), nn.ReLU(), nn.Flatten())
                    self.module = nn.Linear(144, 10)
                def forward(self, x):
                    return self.module(self.features(x))

            if __name__ == "__main__":
                torch.manual_seed(0)
                model = nn.DataParallel(Net())
                torch.save({"epoch": 7, "model_state_dict": model.state_dict()}, "theirs.pth")
        """)
    )
    subprocess.run([sys.executable, "train.py"], check=True)
    theirs = ("--checkpoint", "theirs.pth", "--model", "train:Net", "--canaries", "canaries.safetensors")
    code, out, err = run(capsys, *theirs, "--pixel-mean", "0.3", "--pixel-std", "0.35")
    assert code == 0, err
    assert "phi of 20 canaries" in out
    assert len(pd.read_csv("scores.csv")) == 20


def test_the_folder_of_a_run_says_all_that_is_needed(here, capsys):
    canaries = CanarySet.load("canaries.safetensors")
    model = {"name": "mlp", "input_shape": [1, 8, 8], "classes": 10}
    record = {"mechanism": {"name": "none"}, "model": model, "finished": True, "canaries_sha256": canaries.sha256}
    write_json("run/run.json", record)
    save_file(build_model("mlp", (1, 8, 8), 10, 1).state_dict(), "run/checkpoint.safetensors")
    save_file(build_model("mlp", (1, 8, 8), 10, 0).state_dict(), "run/initial.safetensors")
    arguments = ("--checkpoint", "run", "--canaries", "canaries.safetensors")
    assert run(capsys, *arguments, "--score", "difference")[0] == 0
    write_json("run/run.json", record | {"finished": False})
    assert "not finished" in refused(capsys, *arguments)
    write_json("run/run.json", record | {"canaries_sha256": "0" * 64})
    assert "other canaries" in refused(capsys, *arguments)


class TestMistakes:
    @pytest.mark.parametrize(
        ("changes", "words"),
        [
            ({"--checkpoint": "absent.pt"}, "does not exist"),
            ({"--canaries": "absent.safetensors"}, "does not exist"),
            ({"--canaries": "model.pt"}, "pickle"),
            ({"--model": "cnn"}, "do not fit the model"),
            ({"--score": "entropy"}, "--score must be one of phi, loss"),
            ({"--views": "3"}, "--views must be"),
            ({"--pixel-mean": "0.5"}, "go together"),
            ({"--output": "scores.txt"}, "must end in"),
            ({"--data": "digits.mat"}, "not a known source"),
            ({"--device": "quantum"}, "--device"),
        ],
    )
    def test_one_line_and_exit_code_2(self, here, capsys, changes, words):
        options = dict(zip(BASIC[::2], BASIC[1::2], strict=True)) | changes
        assert words in refused(capsys, *(part for pair in options.items() for part in pair))
        assert not (here / "scores.csv").exists()

    def test_weights_without_a_model(self, here, capsys):
        assert "--model" in refused(capsys, "--checkpoint", "model.pt", "--canaries", "canaries.safetensors")

    def test_data_that_the_canaries_do_not_belong_to(self, here, capsys):
        x = np.random.default_rng(0).random((20, 1, 8, 8))
        np.savez("other.npz", x=x, y=np.arange(20) % 10, x_test=x, y_test=np.arange(20) % 10)
        assert "other data" in refused(capsys, *BASIC, "--data", "other.npz")
        code, _, err = run(capsys, *BASIC, "--data", "digits")  # these weights were never trained on digits
        assert code == 2 and "--pixel-mean" in err and "--classes" in err

    def test_a_second_score_under_the_same_name(self, here, capsys):
        run(capsys, *BASIC)
        assert "differ in score" in refused(capsys, *BASIC, "--score", "loss")
        assert run(capsys, *BASIC)[0] == 0  # the same again may be repeated


def test_coins_play_no_part(here, capsys):
    """Scores exist before the coins are opened: the command has no option for them."""
    draw_coins(CanarySet.load("canaries.safetensors"), 0).save("coins.json")
    code, _, err = run(capsys, *BASIC, "--coins", "coins.json")
    assert code == 2 and "coins" in err.lower()
