"""`coalmine canaries` at the command line."""

import json

import pytest

from coalmine.audit.cli import main
from coalmine.canaries import CanarySet
from coalmine.foundation import InputError


def run(capsys, *arguments):
    code = 0
    try:
        main([str(argument) for argument in arguments])
    except SystemExit as error:
        code = error.code or 0
    out, err = capsys.readouterr()
    return code, out, err


@pytest.mark.parametrize("method", ["random", "mislabelled", "noise", "blank"])
def test_craft_writes_a_set_made_from_the_data(tmp_path, capsys, method):
    out = tmp_path / "c.safetensors"
    arguments = [
        "canaries",
        "craft",
        "--data",
        "digits",
        "--method",
        method,
        "--count",
        30,
        "--output",
        out,
        "--seed",
        1,
    ]
    code, text, _ = run(capsys, *arguments, "--json")
    canaries = CanarySet.load(out)
    assert code == 0
    assert json.loads(text) == {"canaries": str(out), "method": method, "count": 30, "sha256": canaries.sha256}
    assert canaries.x.shape == (30, 1, 8, 8) and canaries.value_range == (0.0, 1.0) and canaries.classes == 10
    before = out.read_bytes()
    run(capsys, *arguments)
    assert out.read_bytes() == before


@pytest.mark.parametrize(
    ("options", "says"),
    [
        (["--method", "magic"], "unknown: use one of"),
        (["--count", "0"], "count"),
        (["--count", "999999", "--method", "random"], "999999"),
        (["--data", "nowhere.csv"], "nowhere.csv"),
        (["--method", "noise", "--start", "greedy"], "--start belongs to"),
        (["--method", "noise", "--restarts", "3", "--round-8-bits"], "--restarts, --round-8-bits belongs to"),
    ],
)
def test_bad_input_is_one_line_and_exit_code_2(tmp_path, capsys, options, says):
    code, out, err = run(capsys, "canaries", "craft", "--data", "digits", "--output", tmp_path / "c", *options)
    lines = [line for line in err.splitlines() if not line.startswith("warning: ")]
    assert code == 2 and out == "" and says in err
    assert len(lines) == 1 and lines[0].startswith("error: ")
    assert not (tmp_path / "c").exists()


QUICK = ["--data", "digits", "--epochs", "1", "--steps-per-epoch", "3", "--model", "mlp"]


def test_a_set_is_crafted_through_models_then_shown_diagnosed_and_evaluated(tmp_path, capsys):
    out, page = tmp_path / "c.safetensors", tmp_path / "c.png"
    craft = ["canaries", "craft", *QUICK, "--method", "ibis", "--count", 20, "--restarts", 2, "--seed", 1, "-o", out]
    code, text, _ = run(capsys, *craft, "--json")
    record = json.loads(text)
    assert code == 0 and len(record["log"]) == 3 and CanarySet.load(out).method == "ibis"
    assert not (tmp_path / "c.safetensors.progress").exists()
    code, _, _ = run(capsys, "canaries", "show", out, "--data", "digits", "-o", page)
    assert code == 0 and page.read_bytes().startswith(b"\x89PNG")
    code, text, _ = run(capsys, "canaries", "diagnose", out, *QUICK, "--json")
    assert code == 0 and 1 <= json.loads(text)["effective_rank"] <= 20 and "margin_separation" in json.loads(text)
    private = ["--noise-multiplier", 1, "--clipping-norm", 1]
    code, text, _ = run(capsys, "canaries", "diagnose", out, *QUICK, *private, "--json")
    assert code == 0 and 1 <= json.loads(text)["effective_rank"] <= 20
    code, text, _ = run(capsys, "canaries", "evaluate", out, *QUICK, "--runs", 2, "--seed", 1, "--json")
    assert code == 0 and len(json.loads(text)["each"]) == 2
    code, text, err = run(capsys, "canaries", "evaluate", out, *QUICK, "--runs", 2, "--seed", 1)
    assert code == 0 and "TPR at FPR 0.05" in text and "fresh run of its own" in err


def test_canaries_for_dp_sgd_take_the_clipping_norm_of_the_recipe(tmp_path, capsys):
    out = tmp_path / "c.safetensors"
    arguments = ["canaries", "craft", "--data", "digits", "--method", "clipped_influence", "--count", 16, "--seed", 1]
    arguments += ["--epochs", 1, "--start", "mislabelled", "--output", out]
    code, _, err = run(capsys, *arguments)
    assert code == 2 and err == (
        "error: method 'clipped_influence' moves clipped gradients: give clipping_norm, that of the audited recipe\n"
    )
    code, _, _ = run(capsys, *arguments, "--noise-multiplier", 1, "--clipping-norm", 0.5)
    assert code == 0
    canaries = CanarySet.load(out)
    assert canaries.method == "clipped_influence" and canaries.parameters["start"] == "mislabelled"
    assert canaries.parameters["clipping_norm"] == 0.5


def test_training_tells_where_its_recipe_is_not_the_one_that_the_canaries_were_crafted_for(tmp_path, capsys):
    out, coins = tmp_path / "c.safetensors", tmp_path / "coins.json"
    assert run(capsys, "canaries", "craft", *QUICK, "--method", "highest_loss", "--count", 20, "-o", out)[0] == 0
    tossed = ["--coins", coins, "--commitment", tmp_path / "commitment.json"]
    assert run(capsys, "coins", "--canaries", out, "--output", coins, *tossed[2:])[0] == 0
    train = ["train", *QUICK, "--canaries", out, *tossed[:2]]
    code, _, err = run(capsys, *train, "--learning-rate", 0.5, "--output", tmp_path / "same")
    assert code == 0 and "another recipe" not in err
    other = ["--learning-rate", 0.5, "--momentum", 0.9, "--model", "cnn"]
    code, _, err = run(capsys, *train, *other, "--output", tmp_path / "other")
    assert code == 0 and "crafted through another recipe (model mlp, now cnn; momentum 0.0, now 0.9)" in err


def test_what_can_be_resumed_after_an_interruption_is_said_truly(capsys, monkeypatch):
    from coalmine.audit import cli

    monkeypatch.setattr(cli, "app", lambda *_, **__: cli.INTERRUPTED)
    for arguments, resumes in (
        (["canaries", "craft", "--method", "ibis", "--seed", "1"], True),
        (["canaries", "craft", "--method", "ibis"], False),
        (["canaries", "evaluate", "c.safetensors"], False),
        (["train", "--epochs", "3"], True),
        (["lira"], True),
    ):
        code, _, err = run(capsys, *arguments)
        assert code == 130 and ("the same command resumes" in err) == resumes, arguments


def test_a_refinement_is_not_resumed_under_another_recipe(tmp_path, capsys, monkeypatch):
    from coalmine.canaries import refine

    out, save = tmp_path / "c.safetensors", refine.save
    craft = ["canaries", "craft", *QUICK, "--method", "ibis", "--count", 20, "--restarts", 2, "--seed", 1, "-o", out]

    def save_and_stop(*arguments):
        save(*arguments)
        raise InputError("stopped after a restart")

    monkeypatch.setattr(refine, "save", save_and_stop)
    assert run(capsys, *craft)[0] == 2 and (tmp_path / "c.safetensors.progress").exists()
    monkeypatch.setattr(refine, "save", save)
    code, _, err = run(capsys, *craft, "--learning-rate", 5)
    assert code == 2 and "belongs to another start, recipe, seed or settings" in err
    assert run(capsys, *craft)[0] == 0


def test_a_set_that_is_no_better_than_its_start_is_said_to_be_its_start(tmp_path, capsys, monkeypatch):
    from coalmine.canaries import choice

    out = tmp_path / "c.safetensors"
    craft = ["canaries", "craft", *QUICK, "--method", "ibis", "--count", 20, "--restarts", 1, "--seed", 1, "-o", out]
    craft += ["--start", "binary_noise", "--force"]

    def judged(start, refined):
        real = choice.choose

        def fake(*arguments):
            made, figures = real(*arguments), [choice.Figures(0.1, value, 0.1) for value in (start, refined)]
            return choice.Choice(made.canaries, made.restart, made.corners, *figures)

        monkeypatch.setattr("coalmine.canaries.refine.choose", fake)

    judged(0.9, 0.8)
    code, text, err = run(capsys, *craft)
    assert code == 0 and "warning: refinement did not help: AUC 0.800, TPR at FPR 0.05 0.100 against AUC 0.900" in err
    assert "kept the start itself" in text
    start = tmp_path / "start.safetensors"
    assert (
        run(capsys, *craft[:3], *QUICK[1:2], "--method", "binary_noise", "--count", 20, "--seed", 1, "-o", start)[0]
        == 0
    )
    assert (CanarySet.load(out).x == CanarySet.load(start).x).all()
    monkeypatch.undo()
    judged(0.8, 0.9)
    code, text, err = run(capsys, *craft)
    assert code == 0 and "did not help" not in err and "kept the iterate of restart 1" in text
    assert "AUC 0.900, TPR at FPR 0.05 0.100 refined, AUC 0.800" in text
    assert "the implicit term is not solved: its residual is" in err


def test_a_derivative_through_training_is_refused_where_it_would_be_anothers(tmp_path, capsys):
    out = tmp_path / "c"
    craft = ["canaries", "craft", *QUICK[:2], "--method", "ibis", "--start", "binary_noise", "--count", 20, "-o", out]
    craft += ["--steps-per-epoch", 3, "--direction", "reverse", "--restarts", 1, "--seed", 1, "--epochs", 2]
    code, _, err = run(capsys, *craft, "--clipping-norm", 1)
    assert code == 2 and err == (
        "error: the recipe clips gradients: a derivative through plain SGD is not its derivative\n"
    )
    assert run(capsys, *craft)[0] == 0
    assert CanarySet.load(out).parameters["refinement"]["direction"] == "reverse"


@pytest.mark.parametrize(
    ("arguments", "says"),
    [
        (["craft", "--method", "ibis", "--restarts", "0"], "restarts"),
        (["craft", "--method", "ibis", "--start", "ibis"], "start"),
        (["craft", "--method", "greedy", "--model", "nonsense"], "nonsense"),
        (["craft", "--method", "greedy", "--count", "5000"], "5000"),
        (["craft", "--method", "greedy", "--noise-multiplier", "1"], "clipping_norm"),
        (["craft", "--method", "ibis", "--embedding", "nowhere", "--regulariser", "1"], "nowhere"),
    ],
)
def test_mistakes_in_the_recipe_are_one_line(tmp_path, capsys, arguments, says):
    code, out, err = run(capsys, "canaries", *arguments, *QUICK[:-2], "--output", tmp_path / "c", "--quiet")
    assert code == 2 and out == "" and says in err
    assert err.startswith("error: ") and err.count("\n") == 1
