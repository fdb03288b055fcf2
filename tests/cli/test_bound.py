"""`coalmine bound` as a user runs it."""

import json
import subprocess
import sys

import pytest

from coalmine.audit.cli import main


def run(capsys, *arguments):
    """(exit code, stdout, stderr)"""
    code = 0
    try:
        main(list(arguments))
    except SystemExit as stop:
        code = stop.code or 0
    out = capsys.readouterr()
    return code, out.out, out.err


def test_json_of_one_setting_holds_the_promised_keys(capsys):
    code, out, _ = run(
        capsys, "bound", "--steps-per-epoch", "100", "--epochs", "1", "--noise-multiplier", "1", "--json"
    )
    found = json.loads(out)
    assert code == 0
    assert found["accuracy"]["closed_form"] == pytest.approx(0.5327708, abs=5e-8)
    assert found["accuracy"]["lower"] <= 0.5257081772 <= found["accuracy"]["upper"]
    assert found["epsilon"]["delta"] == 1e-5 and found["epsilon"]["lower"] <= found["epsilon"]["upper"]
    assert [r["false_positive_rate"] for r in found["true_positive_rate"]] == [0.001, 0.01, 0.1]
    assert found["mechanism"] == {
        "name": "random_allocation",
        "steps_per_epoch": 100,
        "epochs": 1,
        "noise_multiplier": 1.0,
    }
    for rate in found["true_positive_rate"]:
        assert rate["lower"] <= rate["upper"] <= rate["closed_form"]


def test_it_runs_as_a_program_without_importing_torch():
    program = (
        "import sys\nfrom coalmine.audit.cli import main\n"
        "try:\n    main(['bound', '--steps-per-epoch', '100', '--noise-multiplier', '1', '--json'])\n"
        "except SystemExit:\n    pass\nprint('torch' in sys.modules, file=sys.stderr)"
    )
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True)
    assert done.stderr.strip().endswith("False")
    assert json.loads(done.stdout)["accuracy"]["upper"] < 0.53


def test_table_for_people(capsys):
    code, out, _ = run(capsys, "bound", "--steps-per-epoch", "100", "--epochs", "10", "--noise-multiplier", "2")
    assert code == 0
    assert "accuracy" in out and "closed form" in out and "not a bound" in out


def test_sweep_and_plot(capsys, tmp_path):
    file = tmp_path / "bound.png"
    code, out, _ = run(
        capsys,
        *("bound", "--steps-per-epoch", "50", "--epochs", "2", "--noise-multiplier", "1:2:0.5"),
        *("--plot", str(file), "--json", "--quiet"),
    )
    found = json.loads(out)
    assert code == 0 and found["sweep"] == "noise_multiplier"
    assert [r["mechanism"]["noise_multiplier"] for r in found["results"]] == [1.0, 1.5, 2.0]
    uppers = [r["accuracy"]["upper"] for r in found["results"]]
    assert uppers == sorted(uppers, reverse=True)
    assert file.read_bytes().startswith(b"\x89PNG")


@pytest.mark.parametrize(
    "arguments",
    [
        ("--mechanism", "poisson", "--sampling-rate", "0.01", "--steps", "100"),
        ("--mechanism", "fixed_bins", "--steps-per-epoch", "100", "--epochs", "4"),
        ("--mechanism", "full_batch", "--steps", "4"),
    ],
)
def test_other_schemes(capsys, arguments):
    code, out, _ = run(capsys, "bound", *arguments, "--noise-multiplier", "3", "--json")
    assert code == 0 and json.loads(out)["mechanism"]["name"] == arguments[1]


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (("--steps-per-epoch", "100", "--noise-multiplier", "0"), "no privacy"),
        (("--steps-per-epoch", "100", "--noise-multiplier", "-1"), "noise_multiplier"),
        (("--steps-per-epoch", "100", "--noise-multiplier", "nan"), "noise_multiplier"),
        (("--steps-per-epoch", "0", "--noise-multiplier", "1"), "steps_per_epoch"),
        (("--steps-per-epoch", "100", "--epochs", "1.5", "--noise-multiplier", "1"), "epochs"),
        (("--noise-multiplier", "1"), "--steps-per-epoch"),
        (("--steps-per-epoch", "x", "--noise-multiplier", "1"), "--steps-per-epoch"),
        (("--steps-per-epoch", "100", "--noise-multiplier", "2:1:0.1"), "--noise-multiplier"),
        (("--steps-per-epoch", "100", "--noise-multiplier", "1:2:0"), "--noise-multiplier"),
        (("--steps-per-epoch", "100", "--noise-multiplier", "0:9:0.0001"), "larger step"),
        (("--steps-per-epoch", "100,200", "--noise-multiplier", "1,2", "--epochs", "1,2"), "at most two"),
        (("--steps-per-epoch", "100", "--noise-multiplier", "1", "--delta", "1"), "delta"),
        (("--steps-per-epoch", "100", "--noise-multiplier", "1", "--plot", "a.png"), "needs a sweep"),
        (("--steps-per-epoch", "100", "--noise-multiplier", "1,2", "--plot", "a.gif"), ".png"),
        (("--steps-per-epoch", "100", "--noise-multiplier", "1", "--mechanism", "shuffle"), "--mechanism"),
        (("--mechanism", "poisson", "--steps-per-epoch", "9", "--noise-multiplier", "1"), "--sampling-rate"),
        (
            ("--sampling-rate", "0.1", "--steps-per-epoch", "9", "--noise-multiplier", "1"),
            "not interchangeable",
        ),
        (("--steps-per-epoch", "100", "--noise-multiplier", "1", "--false-positive-rate", "2"), "false_positive_rate"),
    ],
)
def test_bad_input_is_one_line_and_exit_code_2(capsys, arguments, words):
    code, out, err = run(capsys, "bound", *arguments)
    assert code == 2 and out == ""
    assert words in err and err.count("\n") == 1 and err.startswith("error: ")


def test_json_is_versioned_and_holds_other_neighbours(capsys):
    code, out, _ = run(
        capsys, "bound", "--steps-per-epoch", "50", "--noise-multiplier", "1.5", "--group-size", "3", "--json"
    )
    found = json.loads(out)
    assert code == 0 and found["schema_version"] == 1
    assert found["advantage"]["upper"] == pytest.approx(2 * found["accuracy"]["upper"] - 1)
    assert [(r["records"], r["adjacency"]) for r in found["neighbours"]] == [
        (1, "replace_one"),
        (3, "add_remove"),
        (3, "replace_one"),
    ]
    for r in found["neighbours"]:
        assert found["epsilon"]["lower"] <= r["epsilon"]["upper"] and r["epsilon"]["lower"] <= r["epsilon"]["upper"]


@pytest.mark.parametrize("columns", ["80", "50"])
def test_tables_fit_the_terminal(capsys, monkeypatch, columns):
    monkeypatch.setenv("COLUMNS", columns)
    for arguments in (
        ("--steps-per-epoch", "100", "--epochs", "3", "--noise-multiplier", "1.4", "--group-size", "2"),
        ("--steps-per-epoch", "100,200", "--noise-multiplier", "1,2"),
    ):
        code, out, _ = run(capsys, "bound", *arguments)
        assert code == 0 and "…" not in out  # nothing is cut off
        numbers = [line for line in out.splitlines() if "0.5" in line and "steps_per_epoch" not in line]
        assert numbers and max(map(len, numbers)) <= int(columns)


def test_two_axes_go_to_a_csv_file_and_a_figure(capsys, tmp_path):
    import csv

    table, figure = tmp_path / "sweep.csv", tmp_path / "sweep.svg"
    arguments = ("--steps-per-epoch", "100,200", "--noise-multiplier", "1,2,4", "--csv", str(table))
    code, out, _ = run(capsys, "bound", *arguments, "--plot", str(figure), "--quantity", "epsilon", "--json", "--quiet")
    found = json.loads(out)
    assert code == 0 and found["sweep"] == ["steps_per_epoch", "noise_multiplier"] and len(found["results"]) == 6
    rows = list(csv.DictReader(table.open()))
    assert [(int(r["steps_per_epoch"]), float(r["noise_multiplier"])) for r in rows] == [
        (m, s) for m in (100, 200) for s in (1.0, 2.0, 4.0)
    ]
    for row, result in zip(rows, found["results"], strict=True):
        assert float(row["epsilon_upper"]) == result["epsilon"]["upper"]
    assert figure.read_text().startswith("<?xml")
    table.write_text("a,b\n1,2\n")  # somebody else's
    code, _, err = run(capsys, "bound", *arguments)
    assert code == 2 and "csv file of a sweep" in err


def test_phases_are_composed(capsys):
    phases = (
        "--phase",
        "random_allocation:steps_per_epoch=100,epochs=4,noise_multiplier=1.4",
        "--phase",
        '{"name": "random_allocation", "steps_per_epoch": 100, "epochs": 6, "noise_multiplier": 1.4}',
    )
    code, out, _ = run(capsys, "bound", *phases, "--json")
    _, whole, _ = run(
        capsys, "bound", "--steps-per-epoch", "100", "--epochs", "10", "--noise-multiplier", "1.4", "--json"
    )
    found, expected = json.loads(out), json.loads(whole)
    assert code == 0 and found["mechanism"]["name"] == "composition" and len(found["mechanism"]["phases"]) == 2
    assert found["epsilon"]["upper"] == pytest.approx(expected["epsilon"]["upper"], rel=1e-9)
    for bad, words in (
        (("--phase", "random_allocation:steps"), "no key=value"),
        (("--phase", "{"), "no JSON object"),
        (("--phase", "fixed_size"), "no known upper bound"),
        ((*phases, "--noise-multiplier", "1"), "whole mechanism"),
    ):
        code, _, err = run(capsys, "bound", *bad)
        assert code == 2 and words in err and err.count("\n") == 1


@pytest.mark.parametrize(
    ("mechanism", "shape", "words"),
    [
        ("random_allocation", {"steps_per_epoch": 97}, "taken as 97, since fewer steps reveal more"),
        ("poisson", {"sampling_rate": 512 / 50000, "steps": 980}, "taken as 98, since more steps reveal more"),
    ],
)
def test_records_and_batch_size_round_to_the_safe_side(capsys, mechanism, shape, words):
    arguments = ("--records", "50000", "--batch-size", "512", "--epochs", "10", "--noise-multiplier", "2")
    code, out, err = run(capsys, "bound", "--mechanism", mechanism, *arguments, "--json")
    found = json.loads(out)["mechanism"]
    assert code == 0 and words in err and shape.items() <= found.items()
    code, _, err = run(capsys, "bound", "--records", "50000", "--noise-multiplier", "2")
    assert code == 2 and "go together" in err


def test_a_certificate_is_written_and_proved(capsys, tmp_path):
    verifier = pytest.importorskip("coalmine.audit.bounds.verifier")
    path = tmp_path / "c.json"
    code, _, _ = run(
        capsys,
        "bound",
        "--mechanism",
        "full_batch",
        "--steps",
        "3",
        "--noise-multiplier",
        "2",
        "--certificate",
        str(path),
    )
    assert code == 0 and verifier.verify(json.loads(path.read_text())) is None
    code, _, err = run(
        capsys, "bound", "--steps-per-epoch", "9", "--noise-multiplier", "1,2", "--certificate", str(path)
    )
    assert code == 2 and "one setting" in err


def test_a_width_that_is_missed_is_said_beside_the_number(capsys):
    arguments = ("bound", "--steps-per-epoch", "100", "--epochs", "10", "--noise-multiplier", "1", "--delta", "1e-18")
    code, out, _ = run(capsys, *arguments)
    assert code == 0 and "Width not met. epsilon at delta 1e-18" in " ".join(out.split())
    code, out, _ = run(capsys, *arguments, "--json")
    found = json.loads(out)
    assert "as wide" in found["epsilon"]["remark"] and "remark" not in found["accuracy"]
    code, out, _ = run(capsys, *arguments[:-2])
    assert "Width not met" not in out


def test_an_older_spelling_of_a_mechanism_is_understood(capsys):
    code, out, _ = run(capsys, "bound", "--mechanism", "gaussian", "--steps", "4", "--noise-multiplier", "2", "--json")
    assert code == 0 and json.loads(out)["mechanism"]["name"] == "full_batch"
