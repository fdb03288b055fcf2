"""`coalmine plan` as a user runs it."""

import json

import pytest

from coalmine.audit.cli import main


def run(capsys, *arguments):
    code = 0
    try:
        main(list(arguments))
    except SystemExit as stop:
        code = stop.code or 0
    out = capsys.readouterr()
    return code, out.out, out.err


def test_budget_first_next_to_the_accountant(capsys):
    code, out, _ = run(capsys, "plan", "--records", "60000", "--epochs", "5", "--epsilon", "2", "--json")
    found = json.loads(out)
    assert code == 0 and found["feasible"]
    assert found["gamma"] == pytest.approx(9.378226, abs=1e-5)
    assert (found["rounds"], found["sample_size"]) == (120, 2500) and isinstance(found["rounds"], int)
    assert found["accountant"]["mechanism"]["sampling_rate"] * 60000 == found["sample_size"]
    assert found["accountant"]["epsilon"]["upper"] < found["epsilon"]
    assert found["noise_standard_deviation"] == found["noise_multiplier"]


def test_replace_one_doubles_the_noise(capsys):
    arguments = (
        "plan",
        "--records",
        "60000",
        "--epochs",
        "5",
        "--epsilon",
        "2",
        "--adjacency",
        "replace_one",
        "--json",
    )
    found = json.loads(run(capsys, *arguments)[1])
    assert found["sensitivity"] == 2.0 and found["clipping_norm"] == 1.0
    assert found["noise_standard_deviation"] == 2 * found["noise_over_sensitivity"] == found["noise_multiplier"]
    assert found["accountant"]["adjacency"] == "replace_one"


def test_run_first_and_noise_first(capsys):
    run_first = json.loads(
        run(capsys, "plan", "--records", "60000", "--epochs", "40", "--sample-size", "64", "--json")[1]
    )
    assert run_first["epsilon"] == pytest.approx(0.0974064, abs=1e-7)
    noise = str(run_first["noise_multiplier"])
    arguments = ("--records", "60000", "--epochs", "40", "--sample-size", "64", "--noise-multiplier", noise, "--json")
    assert json.loads(run(capsys, "plan", *arguments)[1])["epsilon"] == pytest.approx(run_first["epsilon"], rel=1e-9)


INFEASIBLE = ("plan", "--records", "60000", "--epochs", "0.4", "--epsilon", "0.5")


def test_infeasible_is_the_first_line_without_a_noise_and_with_the_way_out(capsys, tmp_path):
    code, out, _ = run(capsys, *INFEASIBLE)
    assert code == 0 and out.splitlines()[0] == "infeasible"
    assert "more epochs" in out and "epochs 0.4: nearest feasible value 0.6292" in out and "noise" not in out
    assert run(capsys, *INFEASIBLE, "--fail-if-infeasible")[0] == 2
    _, _, err = run(capsys, *INFEASIBLE, "--output", str(tmp_path / "claim.json"))
    assert "no claim" in err and not (tmp_path / "claim.json").exists()
    code, out, _ = run(capsys, *INFEASIBLE, "--json", "--fail-if-infeasible")
    found = json.loads(out)
    assert code == 2 and found["feasible"] is False and "noise_multiplier" not in found


def test_too_little_noise_for_the_theorem_is_infeasible(capsys):
    arguments = ("--records", "1000", "--epochs", "5", "--sample-size", "9", "--noise-multiplier", "1")
    code, out, _ = run(capsys, "plan", *arguments)
    assert code == 0 and out.startswith("infeasible") and "√2" in out and "noise multiplier 1: nearest" in out


def test_the_table_shows_the_certified_noise_and_how_far_rounds_may_shrink(capsys):
    arguments = ("--records", "60000", "--epochs", "20", "--epsilon", "3", "--sample-size", "512", "--delta", "1e-5")
    code, out, _ = run(capsys, "plan", *arguments)
    assert code == 0 and "3.1106" in out and "0.89200" in out and "0.87091" in out
    assert "may shrink" in " ".join(out.split())


def test_sweep_and_plot(capsys, tmp_path):
    file = tmp_path / "plan.png"
    code, out, _ = run(
        capsys,
        *(
            "plan",
            "--records",
            "1000",
            "--epochs",
            "5:15:5",
            "--epsilon",
            "1",
            "--plot",
            str(file),
            "--json",
            "--quiet",
        ),
    )
    found = json.loads(out)["results"]
    assert (
        len({one["noise_multiplier"] for one in found})
        == 1
        < len({one["noise"]["poisson"]["noise_multiplier"] for one in found})
    )
    assert code == 0 and len(found) == 3 and file.stat().st_size > 1000


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (("--records", "1000", "--epochs", "5"), "epsilon"),
        (("--records", "1000", "--epochs", "5", "--epsilon", "1", "--noise-multiplier", "1"), "epsilon"),
        (("--epochs", "5", "--epsilon", "1"), "--records"),
        (("--records", "1000", "--epochs", "5", "--epsilon", "1", "--data", "digits"), "--data"),
        (("--records", "1000", "--epochs", "5", "--epsilon", "1", "--mechanism", "none"), "--mechanism"),
        (("--records", "1000", "--epochs", "5", "--epsilon", "1,2", "--output", "claim.json"), "--output"),
        (("--records", "1000", "--epochs", "5", "--epsilon", "1", "--clipping-norm", "1,2"), "--clipping-norm"),
        (("--measure", "--data", "digits", "--epsilon", "1"), "--model"),
        (("--measure", "--data", "digits", "--model", "mlp"), "--epsilon"),
        (("--measure", "--data", "digits", "--model", "mlp", "--epsilon", "1", "--sample-size", "9"), "--sample-size"),
        (("--measure", "--data", "digits", "--model", "mlp", "--epsilon", "1", "--theta", "2"), "--theta"),
        (("--measure", "--data", "digits", "--model", "mlp", "--epsilon", "1,2"), "--epsilon"),
        (("--records", "1", "--epochs", "5", "--epsilon", "1"), "records"),
        (("--records", "1000", "--epochs", "5", "--epsilon", "-1"), "epsilon"),
        (("--records", "1000", "--epochs", "5", "--epsilon", "1", "--delta", "1"), "delta"),
        (("--records", "1000", "--epochs", "5", "--epsilon", "1", "--theta", "0.1"), "theta"),
        (("--records", "1000", "--epochs", "5", "--epsilon", "1", "--adjacency", "swap"), "adjacency"),
    ],
)
def test_bad_input_is_one_line_and_exit_code_2(capsys, arguments, words):
    code, out, err = run(capsys, "plan", *arguments)
    assert code == 2 and out == ""
    assert words in err and err.count("\n") == 1


@pytest.mark.parametrize("mechanism", ["poisson", "random_allocation", "closed_form"])
def test_the_claim_is_what_train_audit_and_power_take(capsys, tmp_path, mechanism):
    claim, folder = tmp_path / "claim.json", tmp_path / "run"
    arguments = ("--records", "1437", "--epochs", "8", "--epsilon", "4", "--mechanism", mechanism, "--quiet")
    assert run(capsys, "plan", *arguments, "--output", str(claim))[0] == 0
    recipe = (
        "--public-size",
        "1437",
        "--clipping-norm",
        "1",
        "--learning-rate",
        "1",
        "--seed",
        "0",
        "--quiet",
        "--output",
        str(folder),
    )
    assert run(capsys, "train", "--claim", str(claim), *recipe)[0] == 0
    told, ran = json.loads(claim.read_text())["mechanism"], json.loads((folder / "run.json").read_text())["mechanism"]
    assert ran == told and told["name"] == ("random_allocation" if mechanism == "random_allocation" else "poisson")
    scores = tmp_path / "scores.csv"
    scores.write_text("canary_id,score,member\n" + "".join(f"{i},{i % 7},{i % 2}\n" for i in range(40)))
    audit = (
        "audit",
        "--scores",
        str(scores),
        "--claim",
        str(claim),
        "--run",
        str(folder),
        "--membership",
        "unknown",
        "--json",
    )
    code, out, err = run(capsys, *audit, "--output", str(tmp_path / "audit.json"))
    assert code == 0, err
    assert json.loads(out)["claim"]["mechanism"] == told
    assert run(capsys, "power", "--claim", str(claim), "--canaries", "100", "--json")[0] == 0


def test_under_replace_one_the_claim_is_bare_and_train_says_what_to_give(capsys, tmp_path):
    claim = tmp_path / "claim.json"
    arguments = ("--records", "1437", "--epochs", "8", "--epsilon", "4", "--adjacency", "replace_one", "--quiet")
    assert run(capsys, "plan", *arguments, "--output", str(claim))[0] == 0
    told = json.loads(claim.read_text())
    assert told["mechanism"] == {"epsilon": 4.0, "delta": 1 / 1437} and told["adjacency"] == "replace_one"
    recipe = ("--clipping-norm", "1", "--learning-rate", "1", "--output", str(tmp_path / "run"))
    code, _, err = run(capsys, "train", "--claim", str(claim), *recipe)
    assert code == 2 and "--noise-multiplier" in err and not (tmp_path / "run").exists()


def test_train_refuses_options_that_contradict_the_claim(capsys, tmp_path):
    claim = tmp_path / "claim.json"
    arguments = ("--records", "1437", "--epochs", "8", "--epsilon", "4", "--quiet", "--output", str(claim))
    assert run(capsys, "plan", *arguments)[0] == 0
    recipe = ("--claim", str(claim), "--learning-rate", "1", "--clipping-norm", "1", "--output", str(tmp_path / "run"))
    code, _, err = run(capsys, "train", *recipe, "--noise-multiplier", "0.1")
    assert code == 2 and "--noise-multiplier" in err and "contradicts" in err
    code, _, err = run(capsys, "train", "--learning-rate", "1", "--output", str(tmp_path / "run"))
    assert code == 2 and "--steps-per-epoch" in err and "--claim" in err


SMALL = ("--steps-per-epoch", "2", "--epochs", "2", "--clipping-norm", "1", "--search-seeds", "2", "--fresh-seeds", "2")
MEASURE = ("plan", "--measure", "--data", "digits", "--model", "mlp", "--epsilon", "4", "--seed", "0", *SMALL)


def test_measure_report_and_train_by_the_printed_command(capsys, tmp_path):
    import shlex

    folder = tmp_path / "plan"
    code, out, _ = run(capsys, *MEASURE, "--folder", str(folder), "--quiet")
    assert code == 0 and "random allocation" in out and "fresh seeds" in out and "geometric" in out
    first = (folder / "plan.json").read_bytes()
    pages = [tmp_path / "a.html", tmp_path / "b.html"]
    for page in pages:
        assert run(capsys, "report", str(folder / "plan.json"), "--output", str(page))[0] == 0
    assert pages[0].read_bytes() == pages[1].read_bytes() and b"Utility graph" in pages[0].read_bytes()
    assert run(capsys, *MEASURE, "--folder", str(folder), "--quiet")[0] == 0
    assert (folder / "plan.json").read_bytes() == first
    content = json.loads(first)
    command = shlex.split(content["command"])[1:]
    command[command.index("--output") + 1] = str(tmp_path / "run")
    assert run(capsys, *command, "--quiet")[0] == 0
    ran = json.loads((tmp_path / "run" / "run.json").read_text())
    assert (
        ran["mechanism"]
        == content["claim"]["mechanism"]
        == json.loads((folder / "claim.json").read_text())["mechanism"]
    )


def test_measuring_on_private_rows_is_refused_before_any_work(capsys, tmp_path):
    rows = "".join(f"{i % 5},{i % 3},{i % 2}\n" for i in range(60))
    (tmp_path / "table.csv").write_text("a,b,label\n" + rows)
    arguments = ("--data", str(tmp_path / "table.csv"), "--model", "mlp", "--epsilon", "2")
    code, out, err = run(capsys, "plan", "--measure", *arguments, "--folder", str(tmp_path / "plan"))
    assert code == 2 and out == "" and "--public" in err and "--spends-budget" in err
    assert not (tmp_path / "plan").exists()
