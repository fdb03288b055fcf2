"""`coalmine check` at the command line: verdicts, exit codes, JSON, the page, and mistakes."""

from __future__ import annotations

import json
import re
import shlex
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from coalmine.audit.cli import main

ROOT = Path(__file__).parents[2]
EXAMPLE = ROOT / "examples" / "check_my_library.py"
CLAIM = ["--mechanism", "poisson", "--sampling-rate", "0.1", "--steps", "50", "--noise-multiplier", "1"]


@pytest.fixture
def here(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(sys, "path", [*sys.path])
    shutil.copy(EXAMPLE, tmp_path)
    for name in ("check_my_library", "my_trainer"):
        monkeypatch.delitem(sys.modules, name, raising=False)
    return tmp_path


def coalmine(*arguments: str) -> int:
    with pytest.raises(SystemExit) as stopped:
        main(list(arguments))
    return int(stopped.value.code or 0)


def test_the_example_s_commands(here, capsys):
    docstring = EXAMPLE.read_text("utf-8").split('"""')[1]
    commands = [shlex.split(line) for line in re.findall(r"^    coalmine (.*)$", docstring, re.MULTILINE)]
    assert [words[0] for words in commands] == ["check", "check", "report"]
    assert [coalmine(*words, "--quiet") for words in commands] == [0, 0, 0]
    said = capsys.readouterr().out
    assert "Consistent with the claim" in said and "Violates the claim: noise_by_parameter" in said
    page = (here / "report.html").read_text("utf-8")
    assert "Violates the claim" in page and "first.bias" in page and page.count("<svg") >= 3
    assert "<script" not in page and "http://" not in page.replace("http://www.w3.org", "")
    assert coalmine("check", "check_my_library:train_with_a_bug", *CLAIM, "--fail-on-violation", "--quiet") == 1


def test_json_is_all_that_is_printed(here, capsys):
    assert coalmine("check", "check_my_library:train", *CLAIM, "--json", "--no-replays", "--records", "100") == 0
    result = json.loads(capsys.readouterr().out)
    assert result["verdict"] == "consistent" and result["claim"]["mechanism"]["name"] == "poisson"
    assert {f["status"] for f in result["findings"] if f["name"] in ("neighbours", "use")} == {"not_tested"}


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (["check_my_library:train"], "a claim is needed"),
        (["check_my_library:nothing", *CLAIM], "has no function nothing"),
        (["check_my_library:my_library_step", *CLAIM], "wrap it in a function that does"),
        (["no_such_module:train", *CLAIM], "cannot be imported"),
        (["check_my_library", *CLAIM], "must be package.module:function"),
        (["check_my_library:train", *CLAIM, "--records", "10"], "records must be"),
        (["check_my_library:train", *CLAIM, "--shape", "3,x"], "--shape"),
        (["check_my_library:train", *CLAIM, "--shape", "2,2"], "ask for fewer"),
        (["check_my_library:train", *CLAIM, "--supports", "everything"], "supports names everything"),
        (["my_trainer:raises", *CLAIM], "ZeroDivisionError"),
        (["my_trainer:idle", *CLAIM], "never called the model"),
    ],
)
def test_mistakes_are_one_line_and_exit_code_2(here, capsys, arguments, words):
    (here / "my_trainer.py").write_text(
        "def raises(model, dataset):\n    1 / 0\n\ndef idle(model, dataset):\n    pass\n", "utf-8"
    )
    assert coalmine("check", *arguments, "--quiet") == 2
    said = capsys.readouterr().err
    assert words in said and said.count("\n") == 1


def test_an_output_of_another_kind_is_not_replaced(here, capsys):
    (here / "coins.json").write_text('{"member": [0, 1]}', "utf-8")
    assert coalmine("check", "check_my_library:train", *CLAIM, "--output", "coins.json") == 2
    assert "is no check.json" in capsys.readouterr().err


def test_a_damaged_check_file_is_told(here, capsys):
    (here / "check.json").write_text('{"kind": "check", "schema_version": 1}', "utf-8")
    assert coalmine("report", "check.json") == 2
    assert "does not hold what a check.json holds" in capsys.readouterr().err


def test_the_pytest_fixture(here):
    (here / "test_mine.py").write_text(
        "from check_my_library import train, train_with_a_bug\n"
        "from coalmine.audit.bounds import PoissonSampling\n\n"
        "CLAIM = PoissonSampling(0.1, 50, 1.0)\n\n"
        "def test_right(check_dp_trainer):\n"
        "    assert check_dp_trainer(train, CLAIM, records=100).verdict == 'consistent'\n\n"
        "def test_wrong(check_dp_trainer):\n"
        "    check_dp_trainer(train_with_a_bug, CLAIM, records=100)\n",
        "utf-8",
    )
    registered = subprocess.run(
        [sys.executable, "-c", "from importlib.metadata import entry_points as e; print(e(group='pytest11').names)"],
        capture_output=True,
        text=True,
        check=True,
    ).stdout
    plugin = [] if "coalmine" in registered else ["-p", "coalmine.audit.white_box.pytest_plugin"]
    done = subprocess.run(
        [sys.executable, "-m", "pytest", "-q", *plugin, "test_mine.py"], capture_output=True, text=True, cwd=here
    )
    assert "1 failed, 1 passed" in done.stdout, done.stdout
    assert "Violates the claim: noise_by_parameter" in done.stdout
