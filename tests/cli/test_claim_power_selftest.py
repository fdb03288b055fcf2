"""coalmine claim, power and selftest, as a user runs them."""

import json
import re
import shlex
import subprocess
import sys

import pytest

from coalmine.audit.cli import main


def run(capsys, *arguments):
    with pytest.raises(SystemExit) as left:
        main(list(arguments))
    out = capsys.readouterr()
    return left.value.code, out.out, out.err


def test_claim_writes_what_the_audit_reads(tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    mechanism = shlex.split("--mechanism random_allocation --steps-per-epoch 100 --epochs 10 --noise-multiplier 1.43")
    code, out, _ = run(capsys, "claim", *mechanism, "--run-output", "run.json", "--divisor", "realised", "--json")
    assert code == 0
    claim, record = (json.loads((tmp_path / name).read_text()) for name in ("claim.json", "run.json"))
    assert json.loads(out) == {"claim": claim, "run": record}
    assert claim["mechanism"] == {
        "name": "random_allocation",
        "steps_per_epoch": 100,
        "epochs": 10,
        "noise_multiplier": 1.43,
    }
    assert record["divisor_is_public"] is False


def test_a_bare_claim(tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    assert run(capsys, "claim", "--epsilon", "3", "--delta", "1e-6", "--output", "c.json")[0] == 0
    assert json.loads((tmp_path / "c.json").read_text())["mechanism"] == {"epsilon": 3.0, "delta": 1e-6}


def test_a_claim_says_what_it_allows_and_rounds_it_up(tmp_path, monkeypatch, capsys):
    """Theory: accuracy 0.6392214 … 0.6392221, epsilon 2.97136 … 2.97338 at 1e-5."""
    monkeypatch.chdir(tmp_path)
    mechanism = shlex.split("--mechanism random_allocation --steps-per-epoch 10 --epochs 60 --noise-multiplier 3.5")
    code, out, err = run(capsys, "claim", *mechanism)
    assert code == 0 and "attack accuracy at most 64.0 %" in out and "written: claim.json" in err
    shown = float(re.search(r"epsilon at delta 1e-05 at most ([\d.]+)", out).group(1))
    assert 2.97136 < shown < 2.975
    assert "epsilon at delta 0.001" in run(capsys, "claim", *mechanism, "--delta", "1e-3")[1]
    code, out, _ = run(capsys, "claim", "--epsilon", "1", "--delta", "1e-5")
    assert code == 0 and "attack accuracy at most 73.2 %" in out and "epsilon at delta 1e-05 at most 1" in out
    assert run(capsys, "claim", "--epsilon", "1", "--delta", "0", "--quiet") == (0, "", "")


def test_power_of_a_bare_epsilon_says_which_delta_it_took(capsys):
    assert "claim is epsilon 2 at delta 1e-05" in run(capsys, "power", "--canaries", "100", "--epsilon", "2")[1]
    named = run(capsys, "power", "--canaries", "100", "--epsilon", "2", "--delta", "1e-6")[1]
    assert "claim is epsilon" not in named and "delta 1e-06" in named


@pytest.mark.parametrize(
    "arguments, words",
    [
        ("claim", "give --mechanism"),
        ("claim --epsilon 3", "add --delta 1e-5"),
        ("claim --mechanism none", "no noise"),
        ("claim --mechanism random_allocation --epochs 3", "missing"),
        ("claim --epsilon 1 --delta 0 --run-output run.json --divisor public", "--ran"),
        (
            "claim --mechanism full_batch --steps 1 --noise-multiplier 1 --run-output run.json",
            "needs --divisor: say public",
        ),
        (
            "claim --mechanism full_batch --steps 1 --noise-multiplier 1 --run-output claim.json --divisor public",
            "must differ",
        ),
        ("claim --mechanism full_batch --steps 1 --noise-multiplier nan", "noise_multiplier"),
        ("power", "give --canaries"),
        ("power --canaries 100 --violation 2", "needs a claim"),
        ("power --canaries 1", "canaries"),
        ("power --epsilon 1 --violation 0", "violation"),
        ("power --epsilon 1 --violation 2 --power 1.5", "power"),
        ("selftest nothing_of_ours", "package.module:function"),
    ],
)
def test_a_mistake_is_one_line_and_exit_code_2(tmp_path, monkeypatch, capsys, arguments, words):
    monkeypatch.chdir(tmp_path)
    code, _, err = run(capsys, *arguments.split())
    assert code == 2 and words in err and len(err.strip().splitlines()) == 1
    assert list(tmp_path.iterdir()) == []


def test_power_says_before_training_that_an_audit_has_none(capsys):
    code, out, _ = run(capsys, "power", "--canaries", "100", "--epsilon", "8")
    assert code == 0 and "can never be rejected" in out


def test_power_counts_canaries(capsys):
    arguments = "power --canaries 200 --epsilon 1 --delta 1e-6 --violation 3 --repeats 50 --json"
    code, out, _ = run(capsys, *arguments.split())
    result = json.loads(out)
    assert code == 0 and result["can_reject"] is True
    assert 20 <= result["violation"]["canaries_needed"] < 1000
    low, high = result["violation"]["canaries_needed_power_interval"]
    assert low < 0.8 <= result["violation"]["canaries_needed_power"] < high
    assert result["violation"]["power_interval"][0] <= result["violation"]["power"]


def test_selftest_of_a_users_function(tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "users_estimator.py").write_text(
        "def honest(scores, members, delta, confidence):\n    return 0.0\n"
        "def boastful(scores, members, delta, confidence):\n    return 5.0\n"
    )
    code, out, _ = run(capsys, "selftest", "users_estimator:honest", "--repeats", "10", "--canaries", "50")
    assert code == 0 and "passed" in out
    code, out, _ = run(capsys, "selftest", "users_estimator:boastful", "--repeats", "10", "--canaries", "50", "--json")
    assert code == 1 and json.loads(out)["passed"] is False


def test_estimators_and_their_commands_never_load_torch():
    """Auditing scores is light: neither the estimators nor the audit of a scores file pay for torch."""
    code = (
        "import sys, coalmine.audit.estimators, coalmine.audit.verdict.judge, coalmine.audit.planning.power, "
        "coalmine.audit.planning.selftest, coalmine.audit.cli.audit; "
        "print([m for m in ('torch', 'matplotlib', 'sklearn', 'pandas') if m in sys.modules])"
    )
    found = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert found.stdout.strip() == "[]"
