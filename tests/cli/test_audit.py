"""coalmine audit, as a user runs it."""

import hashlib
import json
import shlex

import numpy as np
import pandas as pd
import pytest

from coalmine.audit.cli import main


@pytest.fixture
def folder(tmp_path, monkeypatch):
    """1,000 canaries with scores of mu = 2, in files."""
    monkeypatch.chdir(tmp_path)
    stream = np.random.default_rng(1)
    members = stream.random(1000) < 0.5
    scores = stream.normal(size=1000) + 2 * members
    frame = pd.DataFrame({"canary_id": np.arange(1000), "score": scores}).sample(frac=1, random_state=0)
    frame.to_csv("scores.csv", index=False)
    frame.assign(member=members[frame.canary_id].astype(int)).to_parquet("flagged.parquet")
    (tmp_path / "coins.json").write_text(json.dumps({"member": members.astype(int).tolist()}))
    return tmp_path


def run(capsys, *arguments):
    with pytest.raises(SystemExit) as left:
        main(["audit", *arguments])
    out = capsys.readouterr()
    return left.value.code, out.out, out.err


def test_a_rejected_claim(folder, capsys):
    code, out, _ = run(
        capsys, "--scores", "scores.csv", "--coins", "coins.json", "--epsilon", "1", "--output", "runs/x/audit.json"
    )
    assert code == 0 and out.startswith("Rejected")
    written = json.loads((folder / "runs/x/audit.json").read_text())
    assert written["verdict"] == "rejected" and written["claim"]["mechanism"] == {"epsilon": 1.0, "delta": 1e-05}


def test_fail_on_rejection_is_exit_code_1(folder, capsys):
    files = ("--scores", "scores.csv", "--coins", "coins.json", "--fail-on-rejection")
    assert run(capsys, *files, "--epsilon", "1")[0] == 1
    assert run(capsys, *files, "--epsilon", "20")[0] == 0


def test_json_is_all_that_is_on_standard_output(folder, capsys):
    code, out, _ = run(capsys, "--scores", "scores.csv", "--coins", "coins.json", "--json", "--label", "mine")
    assert code == 0 and json.loads(out)["label"] == "mine"


def test_a_claim_from_a_file_and_its_run(folder, capsys):
    with pytest.raises(SystemExit) as left:
        main(
            shlex.split(
                "claim --mechanism full_batch --steps 1 --noise-multiplier 1 --run-output run.json --divisor public"
            )
        )
    assert left.value.code == 0 and capsys.readouterr().out
    files = ("--scores", "scores.csv", "--coins", "coins.json", "--claim", "claim.json", "--run", "run.json")
    code, out, _ = run(capsys, *files, "--json")
    result = json.loads(out)
    assert code == 0 and result["run"]["written_by_hand"] and result["verdict"] == "not_rejected"
    assert {e["name"] for e in result["estimates"]} >= {"claim_p_value", "noise_multiplier", "one_run_grid", "auc"}


def test_a_mechanism_by_options(folder, capsys):
    code, out, _ = run(
        capsys,
        *(shlex.split("--scores scores.csv --coins coins.json --mechanism full_batch --steps 1 --noise-multiplier 4")),
    )
    assert code == 0 and out.startswith("Rejected")


def test_a_random_split_has_metrics_and_no_bound(folder, capsys):
    code, out, _ = run(capsys, "--scores", "flagged.parquet", "--membership", "random_split")
    assert code == 0 and "not a bound" in out and "epsilon," not in out and "no leakage" in out


def test_a_claim_without_coins_is_not_judged_rather_than_too_small(folder, capsys):
    code, out, _ = run(capsys, "--scores", "flagged.parquet", "--membership", "random_split", "--epsilon", "1")
    assert code == 0 and out.startswith("Not judged: ") and "fair coins" in out and "No power" not in out
    _, out, _ = run(capsys, "--scores", "flagged.parquet", "--membership", "random_split", "--epsilon", "1", "--json")
    assert json.loads(out)["verdict"] == "no_power"


def test_all_canaries_come_first_and_the_deciding_guesses_where_they_decided(folder, capsys):
    files = ("--scores", "scores.csv", "--coins", "coins.json")
    result = json.loads(run(capsys, *files, "--epsilon", "1", "--json")[1])
    counts = result["counts"]
    assert (counts["all_guesses"], counts["all_correct"]) == (1000, round(result["estimates"][0]["value"] * 1000))
    out = run(capsys, *files, "--epsilon", "1")[1]
    share = f"{counts['all_correct'] / 10:.1f} %"
    first = f"{counts['all_correct']} of 1000 canaries guessed right: {share}"
    then = f"the claim was judged on the {counts['guesses']} most confident guesses, {counts['correct']} right"
    assert out.splitlines()[1:3] == [first, then] and counts["guesses"] < 1000
    kept = run(capsys, *files, "--epsilon", "20")[1]  # p = 1: no guesses spoke against it, but some prove an epsilon
    assert "the claim was judged" not in kept and "epsilon was bounded by the" in kept
    no_signal = pd.DataFrame({"canary_id": np.arange(1000), "score": np.random.default_rng(5).normal(size=1000)})
    no_signal.to_csv("noise.csv", index=False)
    out = run(capsys, "--scores", "noise.csv", "--coins", "coins.json", "--epsilon", "20")[1]
    assert "of 1000 canaries guessed right" in out and "most confident" not in out


def test_the_measured_accuracy_stands_beside_the_allowed_one(folder, capsys):
    """epsilon 1, delta 1e-5: accuracy at most (e + 1e-5) / (1 + e) = 0.73106, shown rounded up."""
    out = run(capsys, "--scores", "scores.csv", "--coins", "coins.json", "--epsilon", "1")[1]
    line = next(line for line in out.splitlines() if line.startswith("  attack accuracy"))
    assert line.endswith("the claim allows at most 73.2 %")
    assert "The claim is epsilon 1 at delta 1e-05" in out


def test_a_bound_on_the_noise_above_the_claimed_one_is_not_informative(folder, capsys):
    claim = shlex.split("--mechanism full_batch --steps 1 --noise-multiplier")
    files = ("--scores", "scores.csv", "--coins", "coins.json")
    kept = run(capsys, *files, *claim, "0.3")[1]
    assert "noise multiplier: not informative" in kept
    broken = run(capsys, *files, *claim, "4")[1]
    assert "noise multiplier: at most" in broken


def test_a_run_is_a_file_or_its_folder(folder, capsys):
    (folder / "training").mkdir()
    mechanism = {"name": "full_batch", "steps": 1, "noise_multiplier": 1}
    (folder / "training" / "run.json").write_text(json.dumps({"mechanism": mechanism}))
    files = ("--scores", "scores.csv", "--coins", "coins.json", "--json")
    assert json.loads(run(capsys, *files, "--run", "training")[1])["run"] == {"mechanism": mechanism}


@pytest.mark.parametrize("suffix", ["csv", "npz"])
def test_another_name_for_the_canary_id_is_asked_to_be_changed(folder, capsys, suffix):
    frame = pd.read_csv("scores.csv").rename(columns={"canary_id": "row"})
    if suffix == "csv":
        frame.to_csv("other.csv", index=False)
    else:
        np.savez("other.npz", row=frame.row, score=frame.score)
    code, _, err = run(capsys, "--scores", f"other.{suffix}", "--coins", "coins.json")
    assert code == 2 and "it has row, score; rename row to canary_id" in err


@pytest.mark.parametrize(
    "arguments, words",
    [
        ("--scores no.csv --coins coins.json", "does not exist"),
        ("--scores scores.csv", "needs the coins file"),
        ("--scores scores.csv --coins coins.json --epsilon 1 --mechanism full_batch", "two claims"),
        ("--scores scores.csv --coins coins.json --noise-multiplier 1", "give --mechanism too"),
        ("--scores scores.csv --coins coins.json --guess-rule best", "guess_rule 'best'"),
        ("--scores scores.csv --coins coins.json --guess-rule fixed", "add --guesses 100"),
        ("--scores scores.csv --coins coins.json --guess-rule fixed --guesses many", "--guesses 'many'"),
        ("--scores scores.csv --coins coins.json --access grey_box", "--access 'grey_box'"),
        ("--scores scores.csv --coins scores.csv", "not valid JSON"),
        ("--scores scores.csv --coins coins.json --claim coins.json", "needs 'mechanism'"),
        ("--scores scores.csv --coins coins.json --run coins.json", "'mechanism'"),
        ("--scores scores.csv --coins coins.json --mechanism fixed_size --steps 3 --noise-multiplier 1", "fixed_size"),
        ("--scores flagged.parquet --membership perhaps", "membership 'perhaps'"),
        ("--scores scores.csv --coins coins.json --delta 2", "delta"),
    ],
)
def test_a_mistake_is_one_line_and_exit_code_2(folder, capsys, arguments, words):
    code, _, err = run(capsys, *arguments.split())
    assert code == 2 and words in err and len(err.strip().splitlines()) == 1 and "Traceback" not in err


def test_coins_of_other_canaries_are_refused(folder, capsys):
    coins = json.loads((folder / "coins.json").read_text()) | {"canaries_sha256": "a" * 64}
    (folder / "coins.json").write_text(json.dumps(coins))
    mechanism = {"name": "full_batch", "steps": 1, "noise_multiplier": 1}
    (folder / "run.json").write_text(json.dumps({"mechanism": mechanism, "canaries_sha256": "b" * 64}))
    code, _, err = run(capsys, "--scores", "scores.csv", "--coins", "coins.json", "--run", "run.json")
    assert code == 2 and "do not belong together" in err


def test_coins_that_the_run_did_not_commit_to_are_refused(folder, capsys):
    mechanism = {"name": "full_batch", "steps": 1, "noise_multiplier": 1}
    committed = hashlib.sha256((folder / "coins.json").read_bytes()).hexdigest()
    files = ("--scores", "scores.csv", "--coins", "coins.json", "--run", "run.json")
    (folder / "run.json").write_text(json.dumps({"mechanism": mechanism, "commitment": committed}))
    assert run(capsys, *files)[0] == 0
    (folder / "run.json").write_text(json.dumps({"mechanism": mechanism, "commitment": "0" * 64}))
    code, _, err = run(capsys, *files)
    assert code == 2 and "committed to" in err


def test_a_number_of_guesses_is_a_rule_by_itself(folder, capsys):
    code, out, _ = run(capsys, "--scores", "scores.csv", "--coins", "coins.json", "--guesses", "101", "--json")
    rule = json.loads(out)["guess_rule"]
    assert code == 0 and (rule["name"], rule["highest"], rule["lowest"]) == ("fixed", 51, 50)


def test_flipped_scores_ask_for_the_sign(folder, capsys):
    frame = pd.read_csv("scores.csv")
    frame.assign(score=-frame.score).to_csv("flipped.csv", index=False)
    code, _, err = run(capsys, "--scores", "flipped.csv", "--coins", "coins.json")
    assert code == 2 and "wrong sign" in err and "--sign flip" in err
    code, out, _ = run(capsys, "--scores", "flipped.csv", "--coins", "coins.json", "--sign", "flip", "--json")
    assert code == 0 and json.loads(out)["guess_rule"]["looks"] == 2


def test_help_has_an_example(capsys):
    for command in ("audit", "claim", "power", "selftest"):
        with pytest.raises(SystemExit):
            main([command, "--help"])
        assert f"coalmine {command}" in capsys.readouterr().out


def test_the_record_beside_the_scores_says_what_they_are_and_of_which_set(tmp_path, capsys):
    rng = np.random.default_rng(0)
    member = rng.random(60) < 0.5
    (tmp_path / "coins.json").write_text(
        json.dumps({"member": member.astype(int).tolist(), "canaries_sha256": "a" * 64})
    )
    (tmp_path / "scores.csv").write_text(
        "canary_id,score\n" + "".join(f"{i},{rng.normal() + m}\n" for i, m in enumerate(member))
    )
    (tmp_path / "scores.json").write_text(
        json.dumps({"score": "hinge", "views": 2, "canary_method": "noise", "canaries_sha256": "a" * 64})
    )
    arguments = ["--scores", str(tmp_path / "scores.csv"), "--coins", str(tmp_path / "coins.json"), "--json"]
    code, out, _ = run(capsys, *arguments)
    found = json.loads(out)["threat_model"]
    assert code == 0 and (found["score"], found["views"], found["canary_method"]) == ("hinge", 2, "noise")
    (tmp_path / "scores.json").write_text(json.dumps({"score": "hinge", "canaries_sha256": "b" * 64}))
    code, _, err = run(capsys, *arguments)
    assert code == 2 and "give the coins that were drawn for the scored set" in err
    (tmp_path / "scores.json").write_text("[]")
    code, _, err = run(capsys, *arguments)
    assert code == 2 and "no score record" in err
