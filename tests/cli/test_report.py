"""coalmine report as a user calls it."""

import json
import subprocess
import sys
from pathlib import Path

import pytest

from coalmine.audit.cli import main
from coalmine.reports.page import Drawing

DATA = Path(__file__).parent.parent / "reports" / "data"
PRIVATE, FORGOTTEN = str(DATA / "not_rejected.json"), str(DATA / "rejected.json")


def run(*arguments, capsys=None):
    """Exit code, standard output, standard error."""
    with pytest.raises(SystemExit) as left:
        main(["report", *map(str, arguments)])
    said = capsys.readouterr()
    return left.value.code or 0, said.out, said.err


def test_two_audits_make_one_page(tmp_path, capsys):
    output = tmp_path / "runs" / "report.html"
    code, out, err = run(PRIVATE, FORGOTTEN, "--output", output, capsys=capsys)
    assert (code, out) == (0, f"{output}\n")
    assert err.splitlines() == [
        "private run: not rejected, p = 1 (class B)",
        "noise forgotten: rejected, p = 2.9\u00a0×\u00a010⁻¹⁰ (class B)",
    ]
    page = output.read_text("utf-8")
    assert "private run" in page and "noise forgotten" in page and page.rstrip().endswith("</html>")


def test_json_is_all_there_is_on_standard_output(tmp_path, capsys):
    output, figures = tmp_path / "report.html", tmp_path / "figures"
    code, out, err = run(FORGOTTEN, "--output", output, "--figures", figures, "--json", capsys=capsys)
    told = json.loads(out)
    assert (code, err, told["report"]) == (0, "", str(output))
    assert all(Path(file).is_file() for file in told["figures"]) and len(told["figures"]) == 12
    (audit,) = told["audits"]
    assert (audit["label"], audit["verdict"]) == ("noise forgotten", "rejected")


def test_an_audit_without_a_label_is_named_by_its_place(tmp_path, capsys, monkeypatch):
    monkeypatch.setattr(Drawing, "inline", lambda _: "")  # the words are what counts here
    monkeypatch.setattr(Drawing, "inline_narrow", lambda _: "")
    audit = json.loads(Path(PRIVATE).read_text("utf-8")) | {"label": ""}
    for place in ("tab/audit.json", "before.json"):
        (tmp_path / place).parent.mkdir(exist_ok=True)
        (tmp_path / place).write_text(json.dumps(audit))
    places = (tmp_path / "tab/audit.json", tmp_path / "before.json")
    _, _, err = run(*places, "--output", tmp_path / "page.html", capsys=capsys)
    assert err.splitlines()[0].startswith("tab: not rejected") and err.splitlines()[2].startswith("before: not")
    assert err.count("coalmine audit --label NAME") == 2


def test_quiet_says_only_where_the_page_is(tmp_path, capsys):
    output = tmp_path / "report.html"
    assert run(PRIVATE, "--output", output, "--quiet", capsys=capsys) == (0, f"{output}\n", "")


@pytest.mark.parametrize(
    "content, told",
    [
        (None, "does not exist"),
        ("{", "is not valid JSON"),
        ("[1]", "holds [1] where an object is needed"),
        ('{"schema_version": 9}', "schema_version must be 1 or 2, got 9"),
        (
            '{"schema_version": 1, "mechanism": {"epsilon": 1, "delta": 0}, "adjacency": "add_remove"}',
            "is a claim, not",
        ),
        ('{"mechanism": {"name": "none"}, "finished": true}', "is a run record, not an audit.json"),
        ('{"attacks": {}, "shadows": 8}', "is a summary of coalmine lira, not an audit.json"),
        ('{"member": [0, 1]}', "is a coins file, not"),
    ],
)
def test_a_bad_file_is_one_line_and_exit_code_2(tmp_path, capsys, content, told):
    path = tmp_path / "audit.json"
    if content is not None:
        path.write_text(content)
    code, out, err = run(PRIVATE, path, "--output", tmp_path / "report.html", capsys=capsys)
    assert (code, out, err.count("\n")) == (2, "", 1)
    assert told in err and str(path) in err
    assert not (tmp_path / "report.html").exists()


def test_help_has_an_example_and_costs_no_heavy_import():
    code = (
        "import sys\nfrom coalmine.audit.cli import main\n"
        "try: main(['report', '--help'])\nexcept SystemExit as e: assert not e.code\n"
        "assert not {'matplotlib', 'torch', 'pandas', 'jinja2'} & set(sys.modules)"
    )
    said = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True).stdout
    assert "Example: coalmine report" in " ".join(said.split())


def test_from_the_shell(tmp_path):
    command = [sys.executable, "-m", "coalmine", "report", PRIVATE, "--output", "page.html"]
    done = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True)
    assert (done.returncode, done.stdout) == (0, "page.html\n"), done.stderr
