"""The page of a plan without a browser: whole, self-contained, escaped, the same bytes, and true to the file."""

import json
from html.parser import HTMLParser

import pytest

from coalmine.audit.planning.private_selection import SelectionPrice
from coalmine.audit.planning.setting import Setting
from coalmine.audit.planning.utility_plan import Arm, Effort, MeanAccuracy, Point, Source, UtilityPlan
from coalmine.foundation import InputError
from coalmine.reports.plan_page import is_plan_file, render_plan, write_plan_report

HOSTILE = "</title><script>alert('$x$')</script>"


def plan(data="digits", reason=None):
    settings = [Setting(m, e, c, 2.0) for c in (0.5, 1.0) for m in (4, 8) for e in (10, 20)]
    points = tuple(
        Point(s, 1.5 + i, s.epochs if i < 3 else 2, MeanAccuracy.of([0.9 - i / 20, 0.88 - i / 20, 0.91 - i / 20]))
        for i, s in enumerate(settings)
    )
    mechanism = {"name": "random_allocation", "steps_per_epoch": 4, "epochs": 10, "noise_multiplier": 1.5}
    arms = [Arm("random_allocation", mechanism, settings[0], MeanAccuracy.of([0.9, 0.91]), MeanAccuracy.of([0.0, 0.0]))]
    poisson = {"name": "poisson", "sampling_rate": 0.25, "steps": 40, "noise_multiplier": 1.6}
    arms.append(Arm("poisson", poisson, settings[0], MeanAccuracy.of([0.89, 0.895]), MeanAccuracy.of([0.01, 0.015])))
    arms.append(Arm("closed_form", reason=reason or "condition epochs asks for 10 >= 12: more epochs"))
    return UtilityPlan(
        Source(data, "f" * 64, 1000, 200, 250, True, "mlp"),
        {"epsilon": 2.0, "delta": 1e-3},
        points,
        tuple(arms),
        Effort(1200, 800, 9000, ((8, 1), (3, 3)), 3, 2),
        SelectionPrice(24, 2.0, 1e-3, 48.0, 0.024, 8, 4.9),
        0,
        "0.1.0",
    )


class Page(HTMLParser):
    def __init__(self, html):
        super().__init__(convert_charrefs=True)
        self.tags, self.text, self.addresses = [], "", []
        self.feed(html)

    def handle_starttag(self, tag, attributes):
        self.tags.append(tag)
        self.addresses += [value for name, value in attributes if name in ("src", "href") and value[:1] != "#"]

    def handle_data(self, data):
        self.text += data


def test_the_page_is_self_contained_and_says_what_the_file_says():
    html = render_plan(plan(), plan().command())
    page = Page(html)
    assert not page.addresses and "script" not in page.tags and "default-src 'none'" in html
    assert page.tags.count("svg") == 4  # graph and arms, wide and narrow
    text = " ".join(page.text.replace("\u00a0", " ").split())
    for words in (
        "epsilon 2 at delta 0.001",
        "250 records a step",
        "coalmine train --claim claim.json --data digits --model mlp",
        '"noise_multiplier": 1.5',
        "90.5 % [",
        "1.2 points [-1.9, 4.4]",
        "no run: the closed form promises nothing here (condition epochs asks for 10 >= 12: more epochs)",
        "8 settings for 1/3, 3 settings for 3/3 of their runs",
        "epsilon up to 48 (24 trainings)",
        "epsilon at most 4.9 at delta 0.001",
        "2 epochs",
    ):
        assert words in text, words


def test_names_are_escaped():
    html = render_plan(plan(HOSTILE, HOSTILE), "coalmine train " + HOSTILE)
    assert "<script" not in html and "&lt;script&gt;" in html


def test_the_same_plan_gives_the_same_bytes_and_figures(tmp_path):
    file = tmp_path / "plan.json"
    file.write_text(json.dumps(plan().to_json()))
    written = [write_plan_report(file, tmp_path / f"{i}.html", tmp_path / f"figures{i}") for i in range(2)]
    for a, b in zip(*written, strict=True):
        assert a.read_bytes() == b.read_bytes() and a.stat().st_size > 2000
    assert len(written[0]) == 1 + 2 * 3
    assert write_plan_report(plan().to_json(), tmp_path / "2.html")[0].read_bytes() == written[0][0].read_bytes()


def test_what_is_no_plan_is_left_to_the_reader_of_audits(tmp_path):
    for content in ("{}", "[1]", '{"kind": "plan", "schema_version": 2}', "not json"):
        (tmp_path / "x.json").write_text(content)
        assert not is_plan_file(tmp_path / "x.json")
    assert not is_plan_file(tmp_path / "missing.json")


@pytest.mark.parametrize(
    ("path", "value"),
    [
        (("points", 0, "validation_accuracy", "mean"), "high"),
        (("points", 0, "epochs"), -1),
        (("points",), []),
        (("same_budget", 0, "reason"), "none"),
        (("source", "public"), "yes"),
        (("effort", "rounds"), [[1]]),
        (("selection_price", "trainings"), 0),
        (("target",), {"epsilon": None}),
    ],
)
def test_a_damaged_plan_is_one_clear_error(tmp_path, path, value):
    content = json.loads(json.dumps(plan().to_json()))
    place = content
    for key in path[:-1]:
        place = place[key]
    place[path[-1]] = value
    with pytest.raises(InputError):
        write_plan_report(content, tmp_path / "page.html")
    assert not (tmp_path / "page.html").exists()
