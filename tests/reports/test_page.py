"""The HTML without a browser: whole, self-contained, escaped, and honest in every word and number."""

import json
import re
from html.parser import HTMLParser

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from coalmine.foundation import InputError
from coalmine.reports import write_report
from coalmine.reports.page import render
from coalmine.reports.read import read_audits

_VOID = {"meta", "br", "hr", "img", "link", "input", "col", "wbr"}
_HOSTILE = "</title></style><script>alert('$x_1$')</script><img src=x onerror=x> \"'&amp; {{ 7*7 }} --> \ud800\x00"


class Page(HTMLParser):
    """Elements with their attributes and texts; raises where a tag closes what is not open."""

    def __init__(self, html: str) -> None:
        super().__init__(convert_charrefs=True)
        self.open: list[tuple[str, dict]] = []
        self.elements: list[tuple[str, dict]] = []
        self.texts: list[tuple[list[str], str]] = []
        self.rows: list[list[str]] = []
        self.feed(html)
        self.close()
        assert not self.open, f"never closed: {self.open}"

    def handle_starttag(self, tag, attributes):
        names = [name for name, _ in attributes]
        assert len(names) == len(set(names)), f"an attribute twice in <{tag}>: {names}"
        self.elements.append((tag, dict(attributes)))
        if tag not in _VOID:
            self.open.append((tag, dict(attributes)))

    def handle_startendtag(self, tag, attributes):
        self.elements.append((tag, dict(attributes)))

    def handle_endtag(self, tag):
        assert self.open and self.open[-1][0] == tag, f"</{tag}> closes {self.open[-1:]}"
        self.open.pop()

    def handle_data(self, data):
        if data.strip():
            self.texts.append(([tag for tag, _ in self.open], data))

    @property
    def text(self) -> str:
        """What a reader sees, without the style sheet and the text inside figures."""
        shown = (data for above, data in self.texts if not {"style", "svg", "title"} & set(above))
        return " ".join(" ".join(shown).replace("\u00a0", " ").split())


@pytest.fixture(scope="module")
def one(_contents):
    return render(read_audits([_contents["rejected"]]))


@pytest.fixture(scope="module")
def both(_contents):
    return render(read_audits([_contents["not_rejected"], _contents["rejected"]]))


def test_every_tag_closes_and_every_id_is_one_of_a_kind(both):
    page = Page(both)
    ids = [attributes["id"] for _, attributes in page.elements if "id" in attributes]
    assert len(ids) == len(set(ids))
    for _, attributes in page.elements:
        for name in ("aria-labelledby", "aria-describedby"):
            assert set((attributes.get(name) or "").split()) <= set(ids)
        for target in re.findall(r"url\(#([^)]+)\)", " ".join(str(value) for value in attributes.values())):
            assert target in ids
        if (attributes.get("href") or "").startswith("#"):
            assert attributes["href"][1:] in ids


def test_nothing_is_loaded_and_nothing_runs(both):
    page = Page(both)
    assert not re.search(r"https?:|//[a-z]|@import|url\((?!#)", both, flags=re.IGNORECASE)
    loading = {"script", "link", "img", "iframe", "object", "embed", "base", "form"}
    assert not loading & {tag for tag, _ in page.elements}
    for _, attributes in page.elements:
        assert not any(name.startswith("on") for name in attributes)
        for name in ("src", "href", "xlink:href", "action", "data"):
            assert (attributes.get(name) or "#").startswith("#")
    policy = next(a["content"] for _, a in page.elements if a.get("http-equiv") == "Content-Security-Policy")
    assert policy == "default-src 'none'; style-src 'unsafe-inline'"


def test_the_same_audits_give_the_same_bytes(both, not_rejected, rejected):
    assert render(read_audits([not_rejected, rejected])) == both


def test_a_hostile_text_stays_text(rejected):
    rejected["label"] = _HOSTILE
    rejected["verdict_text"] = _HOSTILE + " `" + _HOSTILE + "`"
    _no_markup_from(render(read_audits([rejected, rejected])))


def test_hostile_text_in_every_free_field_stays_text(rejected):
    rejected |= {
        "label": _HOSTILE,
        "created": _HOSTILE,
        "versions": {_HOSTILE: _HOSTILE},
        "power": {_HOSTILE: _HOSTILE},
    }
    rejected["run"] = {_HOSTILE: {_HOSTILE: [_HOSTILE]}, "mechanism": {"name": _HOSTILE, _HOSTILE: _HOSTILE}}
    rejected["claim"] |= {"adjacency": _HOSTILE, "membership": _HOSTILE}
    rejected["claim"]["mechanism"] = {"name": _HOSTILE, "noise_multiplier": 2.0, "note": _HOSTILE}
    rejected["remarks"] = [_HOSTILE]
    rejected["repeated"] = {"runs": 2, "design": _HOSTILE}
    rejected["threat_model"] = {"score": _HOSTILE, "access": _HOSTILE, "canary_kind": _HOSTILE}
    rejected["guess_rule"] = {"name": _HOSTILE}
    rejected["estimates"][0] |= {"name": _HOSTILE, "note": _HOSTILE}
    rejected["roc"]["tpr_at_fpr"][0]["refused"] = _HOSTILE
    _no_markup_from(render(read_audits([rejected])))


def _no_markup_from(html):
    html.encode("utf-8")
    page = Page(html)  # the injected tags would unbalance it
    assert not {"script", "img"} & {tag for tag, _ in page.elements}
    assert not any("onerror" in attributes for _, attributes in page.elements)
    assert "49" not in re.findall(r"\{\{ 7\*7 \}\}|\b49\b", html.split("<body>")[1].split("<figure")[0])
    assert "\x00" not in html


def test_a_reader_learns_what_the_rejection_shows_and_what_to_check(one):
    text = Page(one).text
    for said in (
        "Claim rejected",
        "What was claimed",
        "random allocation, 32 steps per epoch (M), 20 epochs (E), noise multiplier σ = 4",
        "424 of 500 canaries guessed right: 84.8 %; the claim was judged on the 296 most confident guesses, 285 right.",
        "p = 2.9 × 10⁻¹⁰ (class B)",
        "It leaked as if the noise multiplier had been σ ≤ 1.061 (class B)",
        "What it does not show",
        "Noise:",
        "Sampling:",
        "Divisor:",
    ):
        assert said in text
    order = [text.index(title) for title in ("What was claimed", "Attack accuracy against", "Estimates", "Facts of")]
    assert order == sorted(order)


def test_not_rejected_is_never_called_private(not_rejected, words_only):
    not_rejected["label"] = "run 7"
    text = Page(render(read_audits([not_rejected]))).text
    assert "Claim not rejected" in text and "That is not evidence of privacy" in text
    assert "even a perfect attack could report no more than ε = 4.456, and no p-value below 1.1 × 10⁻¹⁰" in text
    assert "274 of 500 canaries guessed right: 54.8 %; ε was bounded by the 36 most confident guesses" in text
    noise = next(row for row in text.split("σ, noise multiplier ")[1:])
    assert noise.startswith("not informative")  # the bound, 51.1, lies above the claimed 4
    for sentence in re.split(r"(?<=[.:;])\s", text):
        if re.search(r"\bprivate\b|\bsafe\b", sentence):
            assert re.search(r"never as|does not show|That the model is", sentence), sentence
    assert "color: green" not in text


def test_an_audit_without_power_or_claim_says_so(not_rejected, words_only):
    not_rejected |= {"verdict": "no_power", "p_value": 0.4}
    not_rejected["power"] = {"smallest_reportable_p_value": 0.0801}
    text = Page(render(read_audits([not_rejected]))).text
    assert "The smallest p-value that even a perfect attack could have reached is 0.080, not below α = 0.05" in text
    not_rejected |= {"verdict": "no_claim", "claim": None, "p_value": None}
    not_rejected["estimates"] = [one for one in not_rejected["estimates"] if one["class"] != "B"]
    text = Page(render(read_audits([not_rejected]))).text
    assert "Nothing was claimed." in text and "class B" not in text


def test_a_claim_that_was_not_tested_is_not_called_too_small(not_rejected, words_only):
    not_rejected |= {"verdict": "no_power", "p_value": None, "membership": "random_split"}
    text = Page(render(read_audits([not_rejected]))).text
    assert "The claim was not tested: membership was not drawn by fair coins." in text
    assert "Claim not judged" in text and "too small" not in text and "No power" not in text


def test_repeated_runs_are_shown_run_by_run_and_no_bound_of_the_whole_is_spoken_of(repeated, words_only):
    text = Page(render(read_audits([repeated]))).text
    for said in (
        "noise forgotten: 4 training runs",
        "The training runs leak more than the privacy claim allows.",
        "4 independent runs × 125 canaries: 256 trained on, 244 left out",
        "Run by run, p lies between 2.1 × 10⁻⁴ and 0.0031 (class B).",
        "The runs' own lower bounds on ε go from 2.451 to 3 (class A",
        "Run by run Each run alone",
        "1 106 of 125 0.0031 class B ≥ 2.451 class A 2 105 of 125 2.4 × 10⁻⁴ class B ≥ 2.9 class A 3",
        "the point is their mean",
        "varies 1.39 times as much between runs",
    ):
        assert said in text
    assert "The attack proves" not in text and "lower bound says" not in text and "500 canaries:" not in text


def test_the_classes_are_explained_above_the_first_number(both):
    text = Page(both).text
    assert text.index("class A holds for any training, given fair coins") < text.index("At a glance")


def test_commands_are_set_as_code(both):
    assert "<code>coalmine power --claim claim.json --violation 2</code>" in both


def test_points_beside_the_claimed_value_are_accounted_for(one, both):
    assert "stand beside its dotted line" in both and "stand beside its dotted line" not in one


def test_every_statistical_number_carries_its_class(both, rejected):
    page = both.split("<body>")[1]
    for row in re.findall(r"<tr.*?</tr>", page, flags=re.DOTALL):
        if "<td" not in row or "refused" in row:
            continue
        assert "badge" in row, row
    # In the table at the top each measured or promised number has a badge of its own.
    cells = re.findall(r'data-label="(attack accuracy|theory allows|ε proved|p-value)">(.*?)</td>', page, re.DOTALL)
    assert len(cells) == 8
    for name, cell in cells:
        assert 'class="badge' in cell, (name, cell)
    text = Page(re.sub(r'<p class="quoted">.*?</p>', "", both)).text
    for found in re.finditer(r"p = [\d.]+(?: × 10[⁻⁰¹²³⁴⁵⁶⁷⁸⁹]+)?(?![\d.⁻⁰¹²³⁴⁵⁶⁷⁸⁹]| ×)(?! \(class|, class)", text):
        raise AssertionError(text[found.start() - 40 : found.end() + 40])
    assert "What the classes mean" in text


def test_without_coins_nothing_is_called_a_bound(not_rejected, words_only):
    not_rejected["membership"] = "unknown"
    for estimate in not_rejected["estimates"]:
        estimate["class"] = "none"
    text = Page(render(read_audits([not_rejected]))).text
    assert "these are metrics, not bounds" in text and "decided not by coins" in text
    assert "class A" not in text and "class B" not in text


def test_many_audits_share_one_figure_and_one_table(both):
    page = Page(both)
    assert sum(tag == "svg" for tag, _ in page.elements) == 2 + 2 * 3  # headline wide and narrow, three an audit
    assert "At a glance" in page.text
    headline = next(data for above, data in page.texts if above[-1] == "desc")
    assert "private run (circle)" in headline and "noise forgotten (square)" in headline


def test_figures_speak_to_those_who_cannot_see_them(both):
    page = Page(both)
    drawn = [attributes for tag, attributes in page.elements if tag == "svg"]
    assert all(attributes["role"] == "img" and attributes["aria-labelledby"] for attributes in drawn)
    described = [data for above, data in page.texts if above[-1] == "desc"]
    assert len(described) == len(drawn) and all(len(words) > 40 for words in described)


def test_an_audit_of_bare_minimum_still_makes_a_page(not_rejected):
    for name in ("run", "roc", "histogram", "power", "threat_model", "versions", "guess_rule", "created"):
        not_rejected.pop(name)
    not_rejected |= {"verdict": "no_claim", "claim": None, "p_value": None, "estimates": []}
    page = Page(render(read_audits([not_rejected])))
    assert "The audit holds none." in page.text and not any(tag == "svg" for tag, _ in page.elements)


def test_undefined_scores_and_ties_are_told(not_rejected, words_only):
    not_rejected["counts"] |= {"ties": 3, "undefined": 17}
    text = Page(render(read_audits([not_rejected]))).text
    assert "17 undefined scores are not drawn" in text and "ties 3" in text


_EXTREMES = st.sampled_from([0, 1, 2, -1, 0.5, 1e-300, 1e-9, 1e300, 2**53 - 1, None, [], {}, "x"])


@settings(max_examples=8, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(data=st.data())
def test_an_extreme_number_gives_a_page_or_one_clear_line(_contents, data):
    """Whatever the reader accepts the page can draw. The claim's numbers are bounds' business and stay."""
    content = json.loads(json.dumps(_contents["rejected"]))
    content["run"] = None
    places = [place for place in leaves(content) if place[0] not in ("schema_version", "claim")]
    for _ in range(data.draw(st.integers(1, 4))):
        *above, last = data.draw(st.sampled_from(places))
        holder = content
        for name in above:
            holder = holder[name]
        holder[last] = data.draw(_EXTREMES)
    try:
        audits = read_audits([content])
    except InputError:
        return
    Page(render(audits))


def leaves(content, above=()):
    """The places of single values; of a list, the first and the last."""
    if isinstance(content, dict):
        for name, value in content.items():
            yield from leaves(value, (*above, name))
    elif isinstance(content, list) and content:
        for place in (0, len(content) - 1):
            yield from leaves(content[place], (*above, place))
    else:
        yield above


def test_the_report_is_written_whole_with_its_figures(rejected, tmp_path):
    files = write_report([rejected], tmp_path / "new" / "report.html", figures=tmp_path / "figures")
    assert files[0].read_text("utf-8").startswith("<!doctype html>")
    assert sorted(file.name for file in files[1:]) == sorted(
        f"{name}.{format}"
        for name in ("headline-noise-multiplier", "roc-1", "trade-off-1", "scores-1")
        for format in ("svg", "pdf", "png")
    )
    assert all(file.stat().st_size > 1000 for file in files)


def test_a_place_that_cannot_be_written_is_told_before_drawing(rejected, tmp_path):
    with pytest.raises(InputError, match="is a directory"):
        write_report([rejected], tmp_path)
    (tmp_path / "file").write_text("")
    with pytest.raises(InputError, match="lies below a file"):
        write_report([rejected], tmp_path / "file" / "report.html")
    with pytest.raises(InputError, match="name a folder"):
        write_report([rejected], tmp_path / "report.html", figures=tmp_path / "file")
    assert [path.name for path in tmp_path.iterdir()] == ["file"]
