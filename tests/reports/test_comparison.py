"""The page of a comparison: theory's curves over the whole range, many audits in one figure, scores at the edge."""

import copy
import csv
import re

import numpy as np
import pytest

from coalmine.audit.bounds import RandomAllocation
from coalmine.audit.cli import main
from coalmine.audit.compare.conclude import Attacked, conclude
from coalmine.audit.compare.grid import Grid
from coalmine.audit.compare.table import write_table
from coalmine.foundation import InputError, numpy_stream, write_json
from coalmine.reports.comparison import families, line, points_of_table
from coalmine.reports.comparison_page import write_comparison_page


def table_rows(scores_of=lambda members: members + 0.0, noise=(0.5, 2.0), runs=3, m=20, **grid):
    """Rows as `coalmine compare` makes them, from simulated scores."""
    grid = Grid(
        **{"noise_multiplier": noise, "steps_per_epoch": (10,), "epochs": (5,), "runs": runs, "canaries": m, **grid}
    )
    rows = []
    for number, cell in enumerate(grid.cells()):
        members = numpy_stream(number, "test/page").random((runs, m)) < 0.5
        members[:, 0], members[:, 1] = True, False
        attacked = [Attacked(a, "phi", scores_of(members), members) for a in ("black_box", "white_box")]
        rows += conclude(cell, grid, attacked, np.ones(runs))
    return rows


def call(capsys, *words):
    with pytest.raises(SystemExit) as end:
        main([str(word) for word in words])
    said = capsys.readouterr()
    return end.value.code, said.out, said.err


def test_the_curve_is_the_certified_value_at_many_points_beyond_both_ends_of_what_was_run():
    family = families(points_of_table(table_rows()))[0]
    curve = line(family, "attack_accuracy")
    assert curve.values.size > 100 and curve.values[0] <= 0.25 and curve.values[-1] >= 4
    assert np.all(curve.upper - curve.lower <= 1e-3) and np.all(curve.upper <= curve.closed_form + 1e-12)
    assert np.all(np.diff(curve.upper) <= 1e-3) and curve.upper[0] > 0.99
    for place in (0, 40, 120):
        exact = RandomAllocation(10, 5, float(curve.values[place])).accuracy(width=1e-6)
        assert curve.lower[place] <= exact.upper and exact.lower <= curve.upper[place]


def test_the_axis_is_the_parameter_with_the_most_values():
    rows = table_rows(noise=(2.0,), steps_per_epoch=(10,), epochs=(1, 5, 20))
    (family,) = families(points_of_table(rows))
    assert family.axis == "epochs" and family.name == "random allocation, M = 10, σ = 2"
    curve = line(family, "attack_accuracy")
    assert np.all(curve.values == np.round(curve.values)) and np.all(np.diff(curve.upper) > -1e-3)


@pytest.mark.parametrize(
    "scores_of",
    [lambda k: k + 0.0, lambda k: np.zeros(k.shape), lambda k: np.full(k.shape, np.nan), lambda k: 1.0 - k],
    ids=["perfect separation", "no information", "all NaN", "upside down"],
)
def test_a_page_of_scores_at_the_edge_says_nothing_that_is_not_so(tmp_path, scores_of):
    rows = table_rows(scores_of)
    page, drawn, *figures = write_comparison_page(points_of_table(rows), tmp_path / "p.html", tmp_path / "figures")
    text = page.read_text("utf-8")
    assert "nan" not in re.sub(r"<svg.*?</svg>", "", text, flags=re.DOTALL).lower().replace("finance", "")
    assert len(figures) == 6 and all(file.stat().st_size > 1000 for file in figures)
    read = list(csv.DictReader(drawn.read_text("utf-8").splitlines()))
    assert sum(row["kind"] == "point" for row in read) == sum(r["quantity"] != "p_value" for r in rows)
    assert sum(row["kind"] == "curve" for row in read) > 150


def test_the_page_loads_nothing_and_is_the_same_to_the_byte(tmp_path):
    points = points_of_table(table_rows())
    first, second = (write_comparison_page(points, tmp_path / name)[0].read_bytes() for name in ("a.html", "a.html"))
    assert first == second
    assert (
        b"<script" not in first
        and b"default-src 'none'" in first
        and b"http:" not in first.replace(b"http://www.w3", b"")
    )


def test_two_hundred_audits_are_one_figure_and_one_table(tmp_path, capsys, rejected):
    files = []
    for number in range(200):
        one = copy.deepcopy(rejected)
        one["label"] = f"run {number}"
        one["claim"]["mechanism"]["noise_multiplier"] = 1 + 0.02 * number
        files.append(tmp_path / f"{number}.json")
        write_json(files[-1], one)
    code, _, err = call(capsys, "report", *files, "-o", tmp_path / "page.html")
    assert code == 0, err
    text = (tmp_path / "page.html").read_text("utf-8")
    assert text.count("<svg") == 4 and "run 199" in text and "200 audits" in text
    assert len(text) < 3_000_000


def test_a_table_is_known_by_its_content_and_never_overwritten(tmp_path, capsys):
    write_table(table_rows(), tmp_path / "t.csv")
    code, _, _ = call(capsys, "report", tmp_path / "t.csv", "-o", tmp_path / "page.html")
    assert code == 0 and (tmp_path / "page.csv").is_file()
    code, _, err = call(capsys, "report", tmp_path / "t.csv", "-o", tmp_path / "t.html")
    assert code == 2 and "t.csv" in err
    (tmp_path / "mine.csv").write_text("my,own\n1,2\n", "utf-8")
    code, _, err = call(capsys, "report", tmp_path / "t.csv", "-o", tmp_path / "mine.html")
    assert code == 2 and "mine.csv" in err and not (tmp_path / "mine.html").exists()
    (tmp_path / "other.csv").write_text("a,b\n1,2\n", "utf-8")
    assert call(capsys, "report", tmp_path / "other.csv", "-o", tmp_path / "o.html")[0] == 2


def test_audits_without_a_place_on_the_axis_are_told(tmp_path):
    with pytest.raises(InputError, match="nothing to compare"):
        write_comparison_page([], tmp_path / "p.html")
