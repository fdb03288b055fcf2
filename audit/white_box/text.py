"""A check in words, for a terminal and for the message of a failed test."""

from __future__ import annotations

from .finding import WORDS
from .result import CheckResult

VERDICTS = {
    "consistent": "Consistent with the claim",
    "differs": "Not the mechanism that is claimed, but no weaker",
    "violated": "Violates the claim",
}


def headline(result: CheckResult) -> str:
    names = [f.name for f in result.violated] or [f.name for f in result.findings if f.status == "differs"]
    by = f": {', '.join(names)}" if names else ""
    return (
        f"{VERDICTS[result.verdict]}{by} ({result.trainer}, familywise alpha {result.alpha:g}, {result.seconds:.1f} s)"
    )


def lines(result: CheckResult, everything: bool = False) -> list[str]:
    """The verdict, then what is wrong with what to do about it; all findings where `everything`."""
    said = [headline(result)]
    for finding in result.notable:
        p = "" if finding.p_value is None or finding.broken else f" [p = {finding.p_value:.2g}]"
        said += ["", f"{finding.name}: {WORDS[finding.status]}{p}", f"  seen      {finding.seen}"]
        said += [f"  means     {finding.meaning}", f"  look at   {finding.look}"]
    if result.supported is not None:
        mechanism = result.supported.get("mechanism")
        said += [
            "",
            f"What the observations would support: {_supported(result) if mechanism else result.supported['why']}",
        ]
    passed = [f for f in result.findings if f.status == "passed"]
    untested = [f for f in result.findings if f.status == "not_tested"]
    said.append("")
    if everything:
        said += [f"{f.name}: {f.seen}" for f in passed]
    else:
        said.append(f"As claimed: {', '.join(f.name for f in passed)}")
    said += [f"Not tested: {f.name} ({f.seen})" for f in untested]
    return said


def _supported(result: CheckResult) -> str:
    assert result.supported is not None
    mechanism = dict(result.supported["mechanism"])
    name = mechanism.pop("name")
    words = ", ".join(f"{key} {value:.6g}" for key, value in mechanism.items())
    return f"{name} ({words}), epsilon {result.supported['epsilon']:.4g} at delta {result.supported['delta']:g}"
