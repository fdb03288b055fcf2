"""`coalmine calibrate` as a user runs it."""

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


def test_accuracy_target_is_certified_on_both_sides(capsys):
    code, out, _ = run(
        capsys, "calibrate", "--steps-per-epoch", "100", "--epochs", "10", "--accuracy", "0.55", "--json"
    )
    found = json.loads(out)
    assert code == 0 and found["two_sided"]
    assert found["certificate"]["upper"] <= 0.55 < found["misses"]["lower"]
    assert found["misses"]["noise_multiplier"] < 1.426215 < found["noise_multiplier"] * 1.0001
    assert found["noise_saved"] == pytest.approx(0.17891, abs=3e-4)


def test_sweep_over_the_target_draws_and_prints(capsys, tmp_path):
    file = tmp_path / "noise.svg"
    code, out, _ = run(
        capsys,
        *("calibrate", "--steps-per-epoch", "50", "--epochs", "2", "--accuracy", "0.55:0.65:0.05"),
        *("--tolerance", "1e-2", "--plot", str(file), "--quiet"),
    )
    assert code == 0 and "noise" in out and file.read_text().lstrip().startswith("<?xml")


def test_largest_number_of_epochs(capsys):
    code, out, _ = run(
        capsys, "calibrate", "--steps-per-epoch", "100", "--noise-multiplier", "2", "--accuracy", "0.55", "--json"
    )
    found = json.loads(out)
    assert code == 0 and found["two_sided"]
    assert found["certificate"]["upper"] <= 0.55 < found["misses"]["lower"]
    assert found["misses"]["epochs"] == found["epochs"] + 1


def test_poisson_with_epsilon(capsys):
    code, out, _ = run(
        capsys,
        *("calibrate", "--mechanism", "poisson", "--sampling-rate", "0.01", "--steps", "500"),
        *("--epsilon", "2", "--delta", "1e-5", "--json"),
    )
    assert code == 0 and json.loads(out)["certificate"]["upper"] <= 2


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (("--steps-per-epoch", "100", "--epochs", "10"), "exactly one"),
        (("--steps-per-epoch", "100", "--epochs", "10", "--accuracy", "1"), "accuracy"),
        (("--steps-per-epoch", "100", "--epochs", "10", "--accuracy", "0.4"), "accuracy"),
        (("--steps-per-epoch", "100", "--epochs", "10", "--epsilon", "1"), "delta"),
        (("--steps-per-epoch", "100", "--epochs", "10", "--epsilon", "1", "--delta", "1"), "delta"),
        (("--steps-per-epoch", "100", "--accuracy", "0.6"), "--epochs"),
        (("--steps-per-epoch", "100", "--epochs", "2.5", "--accuracy", "0.6"), "epochs"),
        (("--steps-per-epoch", "100", "--noise-multiplier", "0.2", "--accuracy", "0.55"), "even one epoch"),
        (("--mechanism", "shuffle", "--accuracy", "0.6"), "--mechanism"),
        (("--noise-multiplier", "1", "--epochs", "3", "--accuracy", "0.6"), "leave --epochs out"),
    ],
)
def test_bad_input_is_one_line_and_exit_code_2(capsys, arguments, words):
    code, out, err = run(capsys, "calibrate", *arguments)
    assert code == 2 and out == ""
    assert words in err and err.count("\n") == 1


def test_an_advantage_is_a_target_and_the_sweep_goes_to_a_csv_file(capsys, tmp_path):
    table = tmp_path / "noise.csv"
    code, out, _ = run(
        capsys,
        "calibrate",
        "--steps-per-epoch",
        "100",
        "--epochs",
        "2",
        "--advantage",
        "0.1,0.2",
        "--csv",
        str(table),
        "--json",
        "-q",
    )
    found = json.loads(out)
    assert code == 0 and found["schema_version"] == 1 and found["sweep"] == "advantage"
    assert [r["advantage"] for r in found["results"]] == [0.1, 0.2]
    assert found["results"][0]["target"] == {"accuracy": 0.55}
    assert len(table.read_text().splitlines()) == 3
    code, _, err = run(
        capsys, "calibrate", "--steps-per-epoch", "9", "--epochs", "2", "--advantage", "0.1", "--accuracy", "0.6"
    )
    assert code == 2 and "same target" in err


def test_full_batches_are_calibrated_and_stray_options_refused(capsys):
    code, out, _ = run(capsys, "calibrate", "--mechanism", "full_batch", "--steps", "10", "--accuracy", "0.6", "--json")
    found = json.loads(out)
    assert code == 0 and found["two_sided"] and found["mechanism"] == "full_batch"
    assert found["noise_multiplier"] == pytest.approx(10**0.5 / (2 * 0.2533471), rel=2e-4)  # Φ(√10/(2σ)) = 0.6
    code, _, error = run(
        capsys, "calibrate", "--mechanism", "full_batch", "--epochs", "10", "--steps", "3", "--accuracy", "0.6"
    )
    assert code == 2 and "--epochs" in error


def test_a_large_epsilon_uses_its_budget(capsys):
    code, out, _ = run(
        capsys, "calibrate", "--steps-per-epoch", "10", "--epochs", "10", "--epsilon", "45", "--delta", "1e-5", "--json"
    )
    found = json.loads(out)
    assert code == 0 and found["two_sided"] and 44.5 < found["certificate"]["upper"] <= 45 < found["misses"]["lower"]


def test_a_tolerance_that_cannot_be_held_is_refused_in_one_line(capsys):
    code, _, error = run(
        capsys,
        *("calibrate", "--steps-per-epoch", "10", "--epochs", "10", "--epsilon", "45", "--delta", "1e-5"),
        *("--tolerance", "1e-308"),
    )
    assert code == 2 and "tolerance" in error and "1e-10" in error and "Traceback" not in error


def test_what_could_not_be_certified_is_printed(capsys):
    code, out, _ = run(
        capsys,
        *("calibrate", "--steps-per-epoch", "10", "--epochs", "1", "--epsilon", "5", "--delta", "1e-16"),
        *("--tolerance", "0.02"),
    )
    said = " ".join(out.split())
    assert code == 0 and "as wide as was asked for" in said and "contains the target 5; the noise returned" in said
