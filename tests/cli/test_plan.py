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
    assert found["gamma"] == pytest.approx(9.378226, abs=1e-6)
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
    assert found["sensitivity"] == 2.0 and found["noise_standard_deviation"] == 2 * found["noise_multiplier"]


def test_run_first_and_noise_first(capsys):
    run_first = json.loads(
        run(capsys, "plan", "--records", "60000", "--epochs", "40", "--sample-size", "64", "--json")[1]
    )
    assert run_first["epsilon"] == pytest.approx(0.0974064, abs=1e-7)
    noise = str(run_first["noise_multiplier"])
    arguments = ("--records", "60000", "--epochs", "40", "--sample-size", "64", "--noise-multiplier", noise, "--json")
    assert json.loads(run(capsys, "plan", *arguments)[1])["epsilon"] == pytest.approx(run_first["epsilon"], rel=1e-9)


def test_table_names_the_failing_condition(capsys):
    code, out, _ = run(capsys, "plan", "--records", "60000", "--epochs", "0.4", "--epsilon", "0.5")
    assert code == 0 and "more epochs" in out and "no" in out


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
    assert code == 0 and len(json.loads(out)["results"]) == 3 and file.stat().st_size > 1000


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (("--records", "1000", "--epochs", "5"), "--epsilon"),
        (("--records", "1000", "--epochs", "5", "--epsilon", "1", "--sample-size", "10"), "--epsilon"),
        (("--records", "1", "--epochs", "5", "--epsilon", "1"), "records"),
        (("--records", "1000", "--epochs", "5", "--epsilon", "-1"), "epsilon"),
        (("--records", "1000", "--epochs", "5", "--epsilon", "1", "--delta", "1"), "delta"),
        (("--records", "1000", "--epochs", "5", "--epsilon", "1", "--theta", "0.1"), "theta"),
        (("--records", "1000", "--epochs", "5", "--epsilon", "1", "--adjacency", "swap"), "adjacency"),
        (("--records", "1000", "--epochs", "5", "--sample-size", "9", "--noise-multiplier", "1"), "noise_multiplier"),
    ],
)
def test_bad_input_is_one_line_and_exit_code_2(capsys, arguments, words):
    code, out, err = run(capsys, "plan", *arguments)
    assert code == 2 and out == ""
    assert words in err and err.count("\n") == 1
