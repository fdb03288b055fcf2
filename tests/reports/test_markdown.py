"""Five lines for a model card, and no sixth whatever the audit's texts hold."""

from pathlib import Path

import pytest

from coalmine.reports import model_card
from coalmine.reports.read import read_audit


def test_the_block_of_a_rejected_claim(rejected):
    assert model_card(read_audit(rejected)).split("\n") == [
        "- **Privacy claim:** random allocation, 32 steps per epoch (M), 20 epochs (E), noise multiplier σ = 4; "
        "expected attack accuracy at most 54.0 %; ε ≤ 0.7288 at δ = 10⁻⁵ (theory; add/remove adjacency).",
        "- **Audit** (noise forgotten): coalmine 0.1.0, 2026-01-02; 500 canaries (mislabelled example), fair coins; "
        "black box, phi; 424 of 500 canaries guessed right: 84.8 %; the claim was judged on the 296 most confident "
        "guesses, 285 right.",
        "- **Result:** claim rejected; p = 2.9 × 10⁻¹⁰ (class B, α = 0.05); ε ≥ 2.760 at δ = 10⁻⁵ (class A).",
        "- **Validity:** class B assumes fair coins, and that the mechanism's trade-off curve is the claimed one; "
        "class A assumes fair independent coins and nothing else: any mechanism, any dependence between canaries.",
        "- **Caveat:** the bound is a lower bound: the run may leak more.",
    ]


def test_the_documentation_shows_this_block(rejected):
    documentation = Path(__file__).parents[2] / "docs" / "report.md"
    assert model_card(read_audit(rejected)) in documentation.read_text("utf-8")


def test_not_rejected_carries_its_caveat(not_rejected):
    lines = model_card(read_audit(not_rejected)).split("\n")
    assert lines[2].startswith("- **Result:** claim not rejected; p = 1 (class B, α = 0.05)")
    assert lines[4] == (
        "- **Caveat:** not rejected is not evidence of privacy; a stronger attack or more canaries may still reject."
    )


def test_a_claim_that_was_not_tested_is_not_called_too_small(not_rejected):
    not_rejected |= {"verdict": "no_power", "p_value": None, "membership": "random_split"}
    lines = model_card(read_audit(not_rejected)).split("\n")
    assert lines[2].startswith("- **Result:** claim not judged")
    assert lines[4] == "- **Caveat:** the claim was not tested, because membership was not drawn by fair coins."


def test_repeated_runs_are_counted_as_runs_and_no_bound_is_spoken_of(repeated):
    lines = model_card(read_audit(repeated)).split("\n")
    assert "; 4 independent runs × 125 canaries (mislabelled example), fair coins;" in lines[1]
    assert "most confident" not in lines[1] and "ε ≥" not in lines[2]
    assert lines[4] == "- **Caveat:** no bound on ε is given: how much leaks is not said."


@pytest.mark.parametrize("text", ["a\nb", "`x` **y** [z](http://w)", "<script>", "| a | b |", "\u2028- more", "# top"])
def test_a_text_from_the_file_adds_no_line_and_no_markup(rejected, text):
    rejected["label"] = text
    rejected["threat_model"] = {"score": text, "access": text, "canary_method": text}
    lines = model_card(read_audit(rejected)).splitlines()
    assert len(lines) == 5
    for line in lines[1:2]:
        for mark in ("`", "[", "|", "#", "**"):
            assert mark not in line.replace("- **Audit**", "").replace("\\" + mark[0], "")
        assert "<" not in line
