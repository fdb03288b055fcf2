"""`coalmine lira` run for real: recipes, checkpoints, canaries, users' functions, arrays and other tools' folders."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
import torch
from sklearn.datasets import load_digits

from coalmine.attacks import lira, phi
from coalmine.audit import choices
from coalmine.audit.attack import conclude as lira_report
from coalmine.audit.cli import main
from coalmine.audit.training.models import build_model
from coalmine.audit.verdict.scores import load_scores
from coalmine.canaries import CanarySet, draw_coins

RECIPE = ["--steps-per-epoch", "4", "--epochs", "3", "--learning-rate", "0.5"]


@pytest.fixture(scope="module")
def values():
    return np.load(Path(__file__).parents[1] / "data" / "attacks" / "lira_values.npz", allow_pickle=False)


def command_line(*arguments: object) -> int:
    try:
        main([*map(str, arguments)])
    except SystemExit as stop:
        return int(stop.code or 0)
    return 0


def run(capsys, *arguments: object) -> tuple[int, str, str]:
    code = command_line("lira", *arguments)
    captured = capsys.readouterr()
    return code, captured.out, captured.err


@pytest.fixture(scope="module")
def small_data(tmp_path_factory) -> Path:
    """120 random 4 × 4 images of three classes: too small to mean anything, quick to train on."""
    random = np.random.default_rng(0)
    path = tmp_path_factory.mktemp("data") / "small.npz"
    np.savez(
        path,
        x=random.random((120, 1, 4, 4)).astype(np.float32),
        y=random.integers(0, 3, 120),
        x_test=random.random((60, 1, 4, 4)).astype(np.float32),
        y_test=random.integers(0, 3, 60),
    )
    return path


def test_a_recipe_from_start_to_metrics_and_again_without_training(capsys, tmp_path, small_data):
    command = (
        "--data",
        small_data,
        "--shadows",
        6,
        "--targets",
        3,
        "--chunk",
        4,
        *RECIPE,
        "--output",
        tmp_path / "run",
    )
    code, out, err = run(capsys, *command)
    assert code == 0, err
    assert "lira_online*" in out and "not a bound on epsilon" in out
    record = json.loads((tmp_path / "run" / "lira.json").read_text())
    metrics = record["attacks"]["lira_online"]["metrics"]
    assert metrics["members"] + metrics["non_members"] == 3 * 120
    assert metrics["auc_interval"][0] <= metrics["auc"] <= metrics["auc_interval"][1]
    assert {p["false_positive_rate"] for p in metrics["tpr_at_fpr"]} == {0.1, 0.01, 0.001}
    assert record["origin"]["settings"]["epochs"] == 3 and record["origin"]["seed"] == 0
    assert set(record["attacks"]) >= {"lira_online", "lira_offline", "base_online", "rmia_offline", "loss"}
    files = {p: p.stat().st_mtime_ns for p in (tmp_path / "run" / "shadows").iterdir()}
    assert len(files) == 3
    before = (tmp_path / "run" / "scores_target0.csv").read_bytes(), (tmp_path / "run" / "lira.json").read_bytes()
    run(capsys, *command)
    assert {p: p.stat().st_mtime_ns for p in (tmp_path / "run" / "shadows").iterdir()} == files
    assert (
        (tmp_path / "run" / "scores_target0.csv").read_bytes(),
        (tmp_path / "run" / "lira.json").read_bytes(),
    ) == before


def test_json_is_all_that_is_printed(capsys, tmp_path, small_data):
    code, out, _ = run(
        capsys, "--data", small_data, "--shadows", 4, *RECIPE, "--output", tmp_path, "--json", "--attack", "base_online"
    )
    assert code == 0
    record = json.loads(out)
    assert record["attack"] == "base_online" and record["shadows"] == 4
    scores = load_scores(tmp_path / "scores.csv")
    assert scores.score.size == 120 and scores.member is not None


def test_spans_of_a_cluster_then_the_attack(capsys, tmp_path, small_data):
    command = ("--data", small_data, "--shadows", 4, "--chunk", 2, *RECIPE, "--output", tmp_path / "run")
    code, out, _ = run(capsys, *command, "--span", "2:4")
    assert code == 0 and "span" in out and not (tmp_path / "run" / "lira.json").exists()
    assert run(capsys, *command)[0] == 0
    whole = ("--data", small_data, "--shadows", 4, "--chunk", 2, *RECIPE, "--output", tmp_path / "whole")
    run(capsys, *whole)
    for path in (tmp_path / "whole" / "shadows").iterdir():
        assert path.read_bytes() == (tmp_path / "run" / "shadows" / path.name).read_bytes()


def test_dp_sgd_shadows_with_augmentation_and_views(capsys, tmp_path, small_data):
    code, out, err = run(
        capsys, "--data", small_data, "--shadows", 4, *RECIPE, "--clipping-norm", 1, "--noise-multiplier", 1,
        "--augmentation", "flip_shift", "--views", 2, "--output", tmp_path / "run",
    )  # fmt: skip
    assert code == 0, err
    record = json.loads((tmp_path / "run" / "lira.json").read_text())
    assert record["views"] == 2 and record["origin"]["settings"]["noise_multiplier"] == 1
    assert "2 view(s)" in out


def test_a_trained_run_is_attacked_with_shadows_like_itself(capsys, tmp_path, small_data):
    """A model trained before any coins: metrics, and the text says that they are no bound."""
    assert (
        command_line(
            "train", "--data", str(small_data), *RECIPE, "--output", str(tmp_path / "target"), "--quiet", "--seed", "1"
        )
        == 0
    )
    code, out, err = run(
        capsys, "--data", small_data, "--target", tmp_path / "target", "--shadows", 4, "--output", tmp_path / "lira"
    )
    assert code == 0, err
    record = json.loads((tmp_path / "lira" / "lira.json").read_text())
    metrics = record["attacks"]["lira_online"]["metrics"]
    assert (metrics["members"], metrics["non_members"]) == (120, 60)
    assert record["origin"]["settings"]["learning_rate"] == 0.5
    assert "not a bound on epsilon" in out
    assert "rmia_offline" not in record["attacks"]  # no rows are left that lie outside every training set
    members = np.arange(120) < 90
    np.save(tmp_path / "members.npy", np.flatnonzero(members))
    code, _, err = run(
        capsys, "--data", small_data, "--target", tmp_path / "target", "--target-members", tmp_path / "members.npy",
        "--shadows", 4, "--output", tmp_path / "some",
    )  # fmt: skip
    assert code == 0, err
    metrics = json.loads((tmp_path / "some" / "lira.json").read_text())["attacks"]["lira_online"]["metrics"]
    assert (metrics["members"], metrics["non_members"]) == (90, 30)


def test_canaries_are_scored_before_their_coins_are_opened(capsys, tmp_path, small_data):
    random = np.random.default_rng(0)
    canaries = CanarySet(
        random.random((20, 1, 4, 4)).astype(np.float32), random.integers(0, 3, 20), np.full(20, -1), "random", classes=3
    )
    canaries.save(tmp_path / "canaries.safetensors")
    coins = draw_coins(canaries, seed=0)
    coins.save(tmp_path / "coins.json")
    pair = ["--canaries", str(tmp_path / "canaries.safetensors"), "--data", str(small_data)]
    assert (
        command_line(
            "train", *pair, "--coins", str(tmp_path / "coins.json"), *RECIPE, "--output", str(tmp_path / "t"), "--quiet"
        )
        == 0
    )
    command = (*pair, "--target", tmp_path / "t", "--shadows", 8, "--output", tmp_path / "lira")
    code, out, err = run(capsys, *command)
    assert code == 0, err
    assert "metrics were not computed" in out
    assert "Next: coalmine audit --scores" in out and "For a bound, score canaries" not in out  # that is done
    beside = json.loads((tmp_path / "lira" / "scores.json").read_text())
    assert (beside["score"], beside["canaries_sha256"]) == ("lira_online", canaries.sha256)
    assert beside["coins_opened"] is False and beside["shadows"] == 8 and beside["canary_method"] == "random"
    scores = load_scores(tmp_path / "lira" / "scores.csv")
    assert scores.member is None and scores.score.size == 20
    code, out, err = run(capsys, *command, "--coins", tmp_path / "coins.json")
    assert code == 0, err
    opened = load_scores(tmp_path / "lira" / "scores.csv")
    np.testing.assert_array_equal(opened.member, coins.member)
    np.testing.assert_array_equal(opened.score, scores.score)
    assert json.loads((tmp_path / "lira" / "scores.json").read_text())["coins_opened"] is True

    audited = ("audit", "--scores", tmp_path / "lira" / "scores.csv", "--epsilon", 1, "--delta", 1e-5)
    assert command_line(*audited, "--coins", tmp_path / "coins.json") == 0
    others = CanarySet(canaries.x[::-1], canaries.y[::-1], np.full(20, -1), "random", classes=3)
    others.save(tmp_path / "others.safetensors")
    draw_coins(others, seed=0).save(tmp_path / "other_coins.json")  # the same coins by number, of another set
    capsys.readouterr()
    assert command_line(*audited, "--coins", tmp_path / "other_coins.json") == 2
    assert "give the coins that were drawn for the scored set" in capsys.readouterr().err

    shards = {path.name for path in (tmp_path / "lira" / "shadows").iterdir()}
    for other, what in (
        (("--attack", "base_online"), "differ in score (lira_online, now base_online)"),
        (("--shadows", 12), "differ in shadows (8, now 12)"),  # the coins are open: another number is another look
        (("--canaries", tmp_path / "others.safetensors"), "was trained with other canaries"),
    ):
        code, _, err = run(capsys, *command, *other)
        assert code == 2 and what in err and err.count("\n") == 1
    rows = ("--data", small_data, "--target", tmp_path / "t", "--output", tmp_path / "lira")
    code, _, err = run(capsys, *rows, "--shadows", 8)  # of the same model, but rows of the data in place of canaries
    assert code == 2 and "differ in canaries_sha256" in err
    assert {path.name for path in (tmp_path / "lira" / "shadows").iterdir()} == shards


def test_another_attack_does_not_overwrite_scores(capsys, tmp_path, small_data):
    command = ("--data", small_data, "--shadows", 4, *RECIPE, "--output", tmp_path / "run")
    assert run(capsys, *command)[0] == 0
    beside = json.loads((tmp_path / "run" / "scores.json").read_text())
    assert beside["score"] == "lira_online" and "canaries_sha256" not in beside and "checkpoint" not in beside
    before = {path: path.stat().st_mtime_ns for path in (tmp_path / "run").rglob("*")}
    code, _, err = run(capsys, *command, "--attack", "loss")
    assert code == 2 and "lira_online, now loss" in err and "name another folder" in err
    assert {path: path.stat().st_mtime_ns for path in (tmp_path / "run").rglob("*")} == before
    assert run(capsys, *command, "--shadows", 6)[0] == 0  # metrics without canaries: more shadows are no other look


def test_members_given_by_rows_of_another_count(capsys, tmp_path):
    """digits has 1,797 rows, of which the source holds out 355: a user who trained on all numbers them otherwise."""
    x, y = load_digits(return_X_y=True)
    x = (x / 16).astype(np.float32).reshape(-1, 1, 8, 8)
    member = np.random.default_rng(0).random(1797) < 0.5
    np.save(tmp_path / "member.npy", member)
    torch.manual_seed(0)
    model = build_model("mlp", (1, 8, 8), 10, seed=0)
    torch.save(model.state_dict(), tmp_path / "mine.pt")
    right = (model(torch.tensor(x)).argmax(1).numpy() == y)[member].mean()  # untrained, and said to be so
    command = (
        "--training-accuracy", right, "--target", tmp_path / "mine.pt", "--model", "mlp",
        "--target-members", tmp_path / "member.npy",
        "--shadows", 2, "--steps-per-epoch", 2, "--epochs", 1, "--learning-rate", 0.1, "--output", tmp_path / "run",
    )  # fmt: skip
    code, _, err = run(capsys, *command)
    assert code == 2 and "counts 1797 rows" in err and "1442 training rows and 355" in err and "x_test=x[:0]" in err
    np.savez(tmp_path / "rows.npz", x=x, y=y, x_test=x[:0], y_test=y[:0])  # what the message says
    code, _, err = run(capsys, *command, "--data", tmp_path / "rows.npz")
    assert code == 0, err
    metrics = json.loads((tmp_path / "run" / "lira.json").read_text())["attacks"]["lira_online"]["metrics"]
    assert (metrics["members"], metrics["non_members"]) == (member.sum(), (~member).sum())
    np.save(tmp_path / "member.npy", member.astype(int))  # 0 and 1 are flags, not the rows 0 and 1
    assert run(capsys, *command, "--data", tmp_path / "rows.npz")[0] == 0
    assert json.loads((tmp_path / "run" / "lira.json").read_text())["attacks"]["lira_online"]["metrics"] == metrics
    np.save(tmp_path / "member.npy", np.ones(1797, dtype=bool))
    code, _, err = run(capsys, *command, "--data", tmp_path / "rows.npz")
    assert code == 2 and "members and non-members are needed" in err


def test_names_known_before_torch_is_imported_are_those_that_exist():
    assert tuple(lira_report.ATTACKS) == choices.ATTACKS


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["lira", "--output", "run", "--attack", "lira"], "--attack"),
        (["lira", "--output", "run", "--target", "absent.pt"], "absent.pt"),
        (["repeat", "--output", "run", "--runs", "4", "--train", "a:b", "--canaries", "absent.pt"], "absent.pt"),
        (["repeat", "--output", "run", "--runs", "1", "--canaries", "run.json"], "--runs"),
        (["score", "--checkpoint", "absent.pt", "--canaries", "c.safetensors"], "absent.pt"),
        (["score", "--checkpoint", "a.pt", "--canaries", "c.safetensors", "--score", "entropy"], "--score"),
    ],
)
def test_a_mistyped_choice_or_path_is_told_before_torch_is_imported(tmp_path, arguments, message):
    program = (
        "import atexit, sys\n"
        "from coalmine.audit.cli import main\n"
        "atexit.register(lambda: print('imported', *({'torch', 'sklearn', 'pandas'} & set(sys.modules))))\n"
        f"main({arguments!r})"
    )
    result = subprocess.run([sys.executable, "-c", program], cwd=tmp_path, capture_output=True, text=True)
    assert result.returncode == 2 and message in result.stderr
    assert result.stdout.split() == ["imported"]


def test_a_users_own_training_function(tmp_path, small_data):
    """A real process in the user's folder: five shadows and a target, one call each."""
    recipe = tmp_path / "recipe.py"
    recipe.write_text(
        "import numpy as np, torch\n"
        f"stored = np.load({str(small_data)!r})\n"
        "def train(indices, seed):\n"
        "    open('calls.txt', 'a').write(f'{seed}\\n')\n"
        "    generator = torch.Generator().manual_seed(seed)\n"
        "    model = torch.nn.Sequential(torch.nn.Flatten(), torch.nn.Linear(16, 3))\n"
        "    with torch.no_grad():\n"
        "        model[1].weight.copy_(torch.randn(3, 16, generator=generator) * 0.1)\n"
        "        model[1].bias.zero_()\n"
        "    x, y = torch.tensor(stored['x'][indices]), torch.tensor(stored['y'][indices])\n"
        "    optimiser = torch.optim.SGD(model.parameters(), 0.5)\n"
        "    for _ in range(30):\n"
        "        optimiser.zero_grad()\n"
        "        torch.nn.functional.cross_entropy(model(x), y).backward()\n"
        "        optimiser.step()\n"
        "    return model\n"
    )
    command = [
        sys.executable, "-m", "coalmine", "lira", "--train", "recipe:train", "--data", str(small_data),
        "--shadows", "5", "--output", "runs/lira", "--json",
    ]  # fmt: skip

    result = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True)
    assert result.returncode == 0, result.stderr
    record = json.loads(result.stdout)
    assert record["origin"]["train"] == "recipe:train"
    assert record["attacks"]["lira_online"]["metrics"]["auc"] > 0.6  # a linear model of 60 rows overfits
    assert len((tmp_path / "calls.txt").read_text().splitlines()) == 6
    assert len(list((tmp_path / "runs" / "lira" / "shadows").glob("shard-*.npz"))) == 6  # one shard a model


def test_arrays_give_the_same_scores_as_the_function(capsys, tmp_path, values):
    regular = slice(0, 64)
    np.savez(
        tmp_path / "arrays.npz",
        keep=values["keep"][:, regular],
        shadow_logits=values["shadow_logits"][:, regular],
        target_logits=values["target_logits"][regular],
        labels=values["labels"][regular],
        target_member=values["target_member"][regular],
    )
    code, out, err = run(capsys, "--arrays", tmp_path / "arrays.npz", "--output", tmp_path / "run")
    assert code == 0, err
    expected = lira(
        phi(values["shadow_logits"][:, regular], values["labels"][None, regular, None]),
        values["keep"][:, regular],
        phi(values["target_logits"][regular], values["labels"][regular, None]),
    )
    np.testing.assert_allclose(load_scores(tmp_path / "run" / "scores.csv").score, expected.scores, rtol=1e-9)
    assert "10 are needed" in out  # 28 non-members cannot tell a TPR at 1 % FPR
    code, _, err = run(capsys, "--arrays", tmp_path / "arrays.npz", "--output", tmp_path / "run", "--shadows", 99)
    assert code == 0 and "16 shadow models are present of 99 asked for" in err  # privacy_meter #146
    code, _, err = run(capsys, "--arrays", tmp_path / "arrays.npz", "--output", tmp_path / "run", "--shadows", 8)
    assert code == 2 and "holds scores from 16 shadow models" in err
    code, _, err = run(capsys, "--arrays", tmp_path / "arrays.npz", "--output", tmp_path / "eight", "--shadows", 8)
    assert code == 0 and json.loads((tmp_path / "eight" / "lira.json").read_text())["shadows"] == 8
    arrays = dict(np.load(tmp_path / "arrays.npz"))
    np.savez(tmp_path / "other.npz", **(arrays | {"target_logits": arrays["target_logits"] + 1}))
    code, _, err = run(capsys, "--arrays", tmp_path / "other.npz", "--output", tmp_path / "run")
    assert code == 2 and "arrays_sha256" in err


def test_another_tools_folder(capsys, tmp_path, values):
    for i in range(6):
        place = tmp_path / "exp" / f"model_{i}" / "logits"
        place.mkdir(parents=True)
        np.save(place / "logits.npy", values["shadow_logits"][i, :64, None])
    np.save(tmp_path / "exp" / "keep_indices.npy", values["keep"][:6, :64])
    np.save(tmp_path / "exp" / "labels.npy", values["labels"][:64])
    command = ("--folder", tmp_path / "exp", "--layout", "lira_analysis", "--output", tmp_path / "run")
    code, _, err = run(capsys, *command)
    assert code == 2 and "target" in err
    code, _, err = run(capsys, *command, "--target-index", 2)
    assert code == 0, err
    assert json.loads((tmp_path / "run" / "lira.json").read_text())["origin"]["target_model"] == 2


def test_data_that_leak_are_called_out(capsys, tmp_path):
    random = np.random.default_rng(0)
    x, x_test = random.random((200, 1, 4, 4)), random.random((100, 1, 4, 4)) * 0.5
    y, y_test = (x.mean((1, 2, 3)) > 0.5).astype(int), (x_test.mean((1, 2, 3)) > 0.25).astype(int)
    path = tmp_path / "leaky.npz"
    np.savez(path, x=x.astype(np.float32), y=y, x_test=x_test.astype(np.float32), y_test=y_test)
    recipe = ["--steps-per-epoch", "4", "--epochs", "4", "--learning-rate", "0.5"]
    assert (
        command_line("train", "--data", str(path), *recipe, "--output", str(tmp_path / "t"), "--quiet", "--seed", "0")
        == 0
    )
    code, _, err = run(
        capsys, "--data", path, "--target", tmp_path / "t", "--epochs", 1, "--shadows", 4, "--output", tmp_path / "run"
    )
    assert code == 0
    assert "blind baseline" in err


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["--epochs", 1], "steps-per-epoch"),
        ([*RECIPE, "--attack", "lira"], "--attack must be one of lira_online, lira_offline"),
        ([*RECIPE, "--canaries", "absent.safetensors"], "absent.safetensors"),
        ([*RECIPE, "--target", "absent.pt"], "absent.pt"),
        ([*RECIPE, "--shadows", 0], "--shadows"),
        ([*RECIPE, "--fraction", 1.5], "fraction"),
        ([*RECIPE, "--views", 3], "views"),
        ([*RECIPE, "--span", "a:b"], "span"),
        ([*RECIPE, "--model", "no-such-model"], "no-such-model"),
        ([*RECIPE, "--coins", "coins.json"], "--coins"),
        ([*RECIPE, "--target-members", "m.npy"], "--target-members"),
        ([*RECIPE, "--arrays", "a.npz", "--model", "mlp"], "exclude"),
        ([*RECIPE, "--noise-multiplier", 1.0], "clipping_norm"),
        (["--train", "nowhere:train"], "nowhere"),
        (["--train", "nowhere:train", "--epochs", 5, "--momentum", 0.9], "drop --epochs, --momentum"),
        (["--arrays", "absent.npz"], "absent.npz"),
        (["--folder", "absent"], "--layout"),
        (["--scheduler", "tcp://127.0.0.1:1", *RECIPE], "scheduler"),
    ],
)
def test_mistakes_are_one_line_before_any_training(capsys, tmp_path, small_data, arguments, message):
    given = ["--output", tmp_path / "run", *arguments]
    if "--arrays" not in arguments and "--folder" not in arguments:
        given += ["--data", small_data]
    code, out, err = run(capsys, *given)
    assert code == 2 and out == ""
    assert message in err and err.count("\n") == 1 and "Traceback" not in err
    assert not (tmp_path / "run" / "lira.json").exists()


def test_help_has_an_example_the_attacks_and_what_the_seed_is_for():
    result = subprocess.run([sys.executable, "-m", "coalmine", "lira", "--help"], capture_output=True, text=True)
    text = " ".join(result.stdout.replace("│", " ").split())
    assert result.returncode == 0 and "Example" in text
    assert all(name in text for name in choices.ATTACKS)
    assert "no privacy" in text and "fresh entropy" not in text
