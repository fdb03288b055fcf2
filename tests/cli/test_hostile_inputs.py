"""What a command reads may be a device, a circle of links, another tool's file, or code: one line, exit code 2."""

import json
import os
import re
import sys
from pathlib import Path

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from coalmine.audit.cli.replacing import kind_of

sys.path.insert(0, str(Path(__file__).parent))
from command_walk import path_options, run, with_value

INPUTS = [(words, param) for words, param in path_options() if kind_of(param) is None]


def named(one):
    return one if isinstance(one, str) else one.opts[0]


@pytest.mark.parametrize(("words", "param"), INPUTS, ids=named)
def test_no_input_is_read_for_ever_or_ends_in_a_traceback(tmp_path, monkeypatch, capsys, words, param):
    monkeypatch.chdir(tmp_path)
    os.mkfifo("pipe")
    os.symlink("loop", "loop")
    for place in ("/dev/zero", "/dev/full", "pipe", "loop"):
        code, _, err = run(capsys, *with_value(words, param, place))
        assert code == 2 and err.startswith("error: ") and err.count("\n") == 1, (words, param.opts, place, err)
        assert "--help" not in err, (words, param.opts, place, err)  # the parser had nothing to say
    assert sorted(os.listdir()) == ["loop", "pipe"]


@pytest.fixture
def poisoned(tmp_path, monkeypatch, capsys):
    """A finished run whose record names code, which writes a file when it is imported."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.syspath_prepend(str(tmp_path))
    for command in (
        "canaries craft --data digits --method noise --count 20 --seed 1 -o canaries.safetensors",
        "coins --canaries canaries.safetensors --seed 1",
        "claim --epsilon 1 --delta 1e-5",
        "train --steps-per-epoch 2 --epochs 1 --learning-rate 1 --seed 1 --canaries canaries.safetensors "
        "--coins coins.json -o run --quiet",
    ):
        assert run(capsys, *command.split())[0] == 0
    record = json.loads((tmp_path / "run" / "run.json").read_text())
    record["model"]["name"] = "evil_module:build"
    (tmp_path / "run" / "run.json").write_text(json.dumps(record))
    (tmp_path / "evil_module.py").write_text(
        "open('owned', 'w').close()\nfrom coalmine.audit.training.models import build_model\n"
        "def build(input_shape, classes, seed):\n    return build_model('mlp', input_shape, classes, seed)\n"
    )
    sys.modules.pop("evil_module", None)
    yield tmp_path
    sys.modules.pop("evil_module", None)


@pytest.mark.parametrize(("words", "param"), INPUTS, ids=named)
def test_no_command_imports_what_only_a_record_names(poisoned, capsys, words, param):
    for place in ("run", "run/run.json", "run/checkpoint.safetensors"):
        run(capsys, *with_value(words, param, place))
        assert not (poisoned / "owned").exists(), (words, param.opts, place)


SCORE = "score --checkpoint run --canaries canaries.safetensors --quiet -o scores.csv"
LIRA = "lira --target run --canaries canaries.safetensors --shadows 2 --quiet -o lira"


@pytest.mark.parametrize("command", [SCORE, LIRA])
def test_code_that_a_record_names_runs_when_the_user_names_it_or_trusts_the_file(poisoned, capsys, command):
    code, _, err = run(capsys, *command.split())
    assert code == 2 and "--model evil_module:build" in err and "--trust-code" in err
    for consent in (["--trust-code"], ["--model", "evil_module:build"]):
        (poisoned / "owned").unlink(missing_ok=True)
        sys.modules.pop("evil_module", None)
        code, _, err = run(capsys, *command.split(), *consent)
        assert code == 0, err
        assert (poisoned / "owned").exists()


TRAIN = "train --steps-per-epoch 2 --epochs 1 --learning-rate 1 -o out"
RAISES = {
    "exits": "raise SystemExit(0)",
    "exits_plainly": "import sys; sys.exit()",
    "fails": "1 / 0",
    "types": "raise TypeError('x' * 9000)",
    "syntax": "def f( return",
    "asserts": "assert False, 'two\\nlines'",
}


@pytest.mark.parametrize("name", [*RAISES, "absent", "./exits", "a b", ""])
@pytest.mark.parametrize("option", ["--model", "--train"])
def test_a_module_that_cannot_be_imported_is_one_line_of_readable_length(tmp_path, monkeypatch, capsys, name, option):
    monkeypatch.chdir(tmp_path)
    monkeypatch.syspath_prepend(str(tmp_path))
    for module, text in RAISES.items():
        (tmp_path / f"{module}.py").write_text(text)
    lira = "lira --data digits --shadows 2 -o out" + (
        "" if option == "--train" else " --steps-per-epoch 2 --epochs 1 --learning-rate 1"
    )
    for command in [TRAIN, lira] if option == "--model" else [lira]:
        code, _, err = run(capsys, *command.split(), option, f"{name}:f")
        assert code == 2 and err.startswith("error: ") and err.count("\n") == 1 and len(err) <= 1010, err
    assert not (tmp_path / "out").exists()


def test_an_interruption_while_a_module_is_imported_is_an_interruption(tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    monkeypatch.syspath_prepend(str(tmp_path))
    (tmp_path / "stops.py").write_text("raise KeyboardInterrupt")
    try:
        code, _, err = run(capsys, *TRAIN.split(), "--model", "stops:f")
        assert code == 130 and "interrupted" in err
    except KeyboardInterrupt:
        pass


@pytest.mark.parametrize(
    "command",
    [
        "claim --json --epsilon -1 --delta 0",
        "audit --json --scores nothing.csv",
        "bound --json --noise-multiplier x",
        "bound --json",
        "train --json --steps-per-epoch nan --epochs 1 --learning-rate 1 -o x",
        "report --json nothing.json",
    ],
)
def test_an_error_under_json_is_json_as_well(tmp_path, monkeypatch, capsys, command):
    monkeypatch.chdir(tmp_path)
    code, out, err = run(capsys, *command.split())
    assert code == 2 and set(json.loads(out)) == {"error"}
    assert err == f"error: {json.loads(out)['error']}\n"


def test_no_error_line_is_longer_than_a_thousand_characters_and_none_holds_a_control_character(
    tmp_path, monkeypatch, capsys
):
    monkeypatch.chdir(tmp_path)
    for bad in ("y" * 8000, "\x1b[31mred\x07", "a\nb\tc" * 900):
        code, _, err = run(capsys, "audit", "--scores", "s.csv", "--sign", bad)
        assert code == 2 and len(err) <= 1008 and err.count("\n") == 1 and err[:-1].isprintable()
        assert err.startswith("error: ")


def test_bytes_that_are_no_text_are_refused_by_every_option(poisoned, capsys):
    for command in (
        "audit --scores scores.csv --label \udcff",
        "audit --scores \udcff.csv",
        "train --steps-per-epoch 2 --epochs 1 --learning-rate 1 -o out --data \udcff.npz",
        "claim --epsilon 1 --delta 1e-5 -o \udcff.json",
        "score --checkpoint run --canaries canaries.safetensors --model \udcff",
    ):
        code, _, err = run(capsys, *command.split())
        assert code == 2 and "UTF-8" in err and err.count("\n") == 1


def test_coins_of_another_tool_are_read_by_training_and_said_to_prove_nothing(poisoned, capsys):
    (poisoned / "mine.json").write_text(json.dumps({"member": [1, 0] * 10}))
    train = "train --steps-per-epoch 2 --epochs 1 --learning-rate 1 --canaries canaries.safetensors -o other --coins"
    code, _, err = run(capsys, *train.split(), "mine.json")
    assert code == 0 and "belongs to no commitment" in err
    assert json.loads((poisoned / "other" / "run.json").read_text()).get("commitment") is None
    (poisoned / "indented.json").write_text(json.dumps(json.loads((poisoned / "coins.json").read_text()), indent=1))
    code, _, err = run(capsys, *train.replace("other", "third").split(), "indented.json")
    assert code == 2 and "written anew by another program" in err and not (poisoned / "third").exists()


@pytest.mark.parametrize("width", [20, 34, 45, 54, 80])
@pytest.mark.parametrize(
    "command",
    [
        "bound --steps-per-epoch 100 --epochs 10 --noise-multiplier 300",
        "bound --steps-per-epoch 100 --epochs 10 --noise-multiplier 1:2:0.5",
        "calibrate --steps-per-epoch 100 --epochs 10 --accuracy 0.55",
        "plan --records 60000 --epochs 10 --epsilon 1",
    ],
)
def test_no_number_is_cut_on_a_narrow_terminal(monkeypatch, capsys, command, width):
    def numbers(columns):
        monkeypatch.setenv("COLUMNS", str(columns))
        code, out, _ = run(capsys, *command.split())
        assert code == 0 and "…" not in out
        words = re.split(r"[\s┃│]+", out)
        return {word.strip(",.") for word in words if word[:1].isdigit() and "." in word}

    assert numbers(300) <= numbers(width) | {"0.01", "0.1"}


def test_a_model_too_large_for_this_machine_is_refused_with_the_numbers(monkeypatch):
    import torch

    from coalmine.audit.training import gradients
    from coalmine.audit.training.engine import initial_stack, train_epochs
    from coalmine.audit.training.models import build_model
    from coalmine.audit.training.settings import TrainingSettings
    from coalmine.foundation import InputError

    stack = initial_stack(lambda seed: build_model("mlp", (3, 64, 64), 2, seed), [0])
    x, y = torch.zeros(4, 3, 64, 64), torch.zeros(4, dtype=torch.int64)
    monkeypatch.setattr(gradients, "_memory", lambda: 2**22)
    for clipping_norm in (None, 1.0):
        with pytest.raises(InputError, match=r"needs about .* GiB for 790,\d+ parameters, this machine has 0\.0 GiB"):
            next(train_epochs(stack, x, y, np.ones((1, 4), bool), TrainingSettings(2, 1, 0.1, 4.0, 0.0, clipping_norm)))


def test_gradients_of_a_large_model_are_taken_a_few_examples_at_a_time():
    from coalmine.audit.training import gradients

    class Large:
        def __init__(self, parameters):
            self.theta = type("T", (), {"numel": lambda _: parameters, "element_size": lambda _: 4})()

    at_once = {p: gradients._examples_at_once(Large(p)) for p in (1_000, 2_750_000, 50_336_002, 10**9)}
    assert at_once == {1_000: 16_777, 2_750_000: 16, 50_336_002: 5, 10**9: 1}


@settings(max_examples=150, deadline=None, suppress_health_check=list(HealthCheck))
@given(data=st.data())
def test_every_json_file_is_read_or_refused_in_one_line_however_it_is_broken(tmp_path_factory, capsys, data):
    files = {
        "--claim": {"mechanism": {"epsilon": 1.0, "delta": 1e-5}, "adjacency": "add_remove", "membership": "coins"},
        "--run": {"mechanism": {"name": "none"}, "finished": True},
        "--coins": {"member": [0, 1, 1, 0]},
    }
    option = data.draw(st.sampled_from(sorted(files)))
    content = bytearray(json.dumps(files[option]).encode())
    for _ in range(data.draw(st.integers(1, 3))):
        at = data.draw(st.integers(0, len(content)))
        content[at : at + data.draw(st.integers(0, 6))] = data.draw(
            st.binary(max_size=4)
            | st.sampled_from([b"null", b"1e999", b"[[[", b'"x":', b"\xff", b"\x00", b"-1", b"true"])
        )
    folder = tmp_path_factory.mktemp("fuzz")
    (folder / "broken.json").write_bytes(content)
    (folder / "scores.csv").write_text("canary_id,score\n0,1\n1,2\n2,0\n3,1\n")
    rest = [] if option == "--coins" else ["--membership", "unknown"]
    code, _, err = run(capsys, "audit", "--scores", folder / "scores.csv", option, folder / "broken.json", *rest)
    assert code in (0, 2) and "Traceback" not in err
    assert code == 0 or (err.count("\n") == 1 and err.startswith("error: "))
