"""A file of options: the same run as by hand, what is given by hand wins, what does not exist is said."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from coalmine.audit.cli import main


def run(capsys, *arguments: object) -> tuple[int, str, str]:
    try:
        main([*map(str, arguments)])
        code = 0
    except SystemExit as stop:
        code = int(stop.code or 0)
    captured = capsys.readouterr()
    return code, captured.out, captured.err


@pytest.fixture
def config(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    Path("coalmine.toml").write_text(
        "[bound]\nsteps-per-epoch = 500\nepochs = 10\nnoise-multiplier = 0.9592\n"
        "[canaries.craft]\nmethod = 'binary_noise'\ncount = 4\nseed = 1\n"
    )
    return "coalmine.toml"


def test_options_from_a_file_are_the_options(config, capsys):
    by_hand = run(capsys, "bound", "--steps-per-epoch", 500, "--epochs", 10, "--noise-multiplier", 0.9592, "--json")
    assert by_hand[0] == 0
    assert run(capsys, "--config", config, "bound", "--json") == by_hand
    assert run(capsys, "bound", "--json", f"--config={config}") == by_hand
    other = run(capsys, "bound", "--json", "--config", config, "--epochs", 20)
    assert other[0] == 0 and other[1] != by_hand[1]


def test_a_command_of_a_group_too(config, capsys):
    code, out, err = run(
        capsys, "canaries", "craft", "--config", config, "--data", "digits", "--output", "c.safetensors"
    )
    assert code == 0 and "4 canaries by binary_noise" in out, err


@pytest.mark.parametrize(
    ("text", "named"),
    [
        ("[bound]\nepoch = 3\n", "'epoch'"),
        ("[bond]\nepochs = 3\n", "bond"),
        ("epochs = 3\n", "outside a table"),
        ("[bound\n", "TOML"),
        ("[bound]\nsteps-per-epoch = 5\nnoise-multiplier = 1.0\nepochs = 'many'\n", "many"),
    ],
)
def test_what_does_not_exist_is_one_line(config, capsys, text, named):
    Path(config).write_text(text)
    code, out, err = run(capsys, "bound", "--config", config)
    assert code == 2 and named in err and err.count("\n") == 1 and out == ""
    code, _, err = run(capsys, "bound", "--config", "absent.toml")
    assert code == 2 and "absent.toml" in err


def test_the_shell_completes_commands_and_options():
    for words, expected in (("coalmine att", "attack"), ("coalmine attack --target-m", "--target-members")):
        environment = os.environ | {
            "_COALMINE_COMPLETE": "complete_bash", "COMP_WORDS": words, "COMP_CWORD": str(len(words.split()) - 1),
        }  # fmt: skip
        program = "import sys; from coalmine.audit.cli import main; sys.argv = ['coalmine']; main()"
        told = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, env=environment)
        assert expected in told.stdout.split(), told.stderr
