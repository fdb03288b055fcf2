"""Five lines for a model card, and no sixth whatever the audit's texts hold."""

from pathlib import Path

import pytest

from coalmine.reports import model_card
from coalmine.reports.audit_file import read_audit


def test_the_block_of_a_rejected_claim(rejected):
    assert model_card(read_audit(rejected)).split("\n") == [
        "- **Privacy claim:** random allocation, M = 32, E = 20, σ = 4; expected attack accuracy at most 54.0 %; "
        "ε ≤ 0.7288 at δ = 10⁻⁵ (theory; add/remove adjacency).",
        "- **Audit** (noise forgotten): coalmine 0.1.0, 2026-01-02; 500 canaries (mislabelled example), fair coins; "
        "black box, phi; 296 guesses, 285 correct.",
        "- **Result:** claim rejected; p = 6.5 × 10⁻⁹ (class B, α = 0.05); ε ≥ 2.760 at δ = 10⁻⁵ (class A).",
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
