"""Sentences about an attack on a finished model, in words that a manager repeats. Every number comes from the result.

One of four cases, by the 95 % interval of the chosen attack's AUC: above 1/2, below it, around it, or no metrics at
all. Nothing is called safe: an attack that finds nothing is one attack.
"""

from __future__ import annotations

from dataclasses import dataclass

from ..audit.attack.result import AttackResult, Exposure, Metrics, OperatingPoint
from .rounding import number, percent

TELLS, BELOW, SILENT, UNKNOWN = "tells", "below", "silent", "unknown"
WORDS = {
    TELLS: "Membership can be told",
    BELOW: "Something is wrong: members look like strangers",
    SILENT: "This attack does not tell members from others",
    UNKNOWN: "Membership is not known here",
}
ATTACKS = {
    "lira_online": "LiRA, online",
    "lira_offline": "LiRA, offline",
    "base_online": "BASE",
    "rmia_offline": "RMIA, offline",
    "calibrated_loss": "calibrated loss",
    "attack_r": "Attack-R",
    "attack_p": "Attack-P",
    "loss": "loss",
    "phi": "confidence (phi)",
    "hinge": "margin (hinge)",
    "given_scores": "the scores given",
}
_ONE_IN = {0.1: "ten", 0.01: "a hundred", 0.001: "a thousand"}


@dataclass(frozen=True)
class Told:
    """What the page says first."""

    case: str
    word: str
    sentence: str
    found: str
    strength: str
    not_shown: str
    next_steps: tuple[str, ...]


def told(result: AttackResult) -> Told:
    case = case_of(result)
    return Told(
        case, WORDS[case], sentence(result), _found(result), _strength(result), not_shown(result), steps(result)
    )


def case_of(result: AttackResult) -> str:
    if result.metrics is None:
        return UNKNOWN
    low, high = result.metrics.auc_interval
    return TELLS if low > 0.5 else BELOW if high < 0.5 else SILENT


def attack_name(name: str) -> str:
    return ATTACKS.get(name, name.replace("_", " "))


def rate_of(metrics: Metrics) -> OperatingPoint | None:
    """The operating point that the first sentence speaks of: the smallest of 1 % and 10 % that was not refused."""
    return metrics.at(0.01) or metrics.at(0.1)


def sentence(result: AttackResult) -> str:
    """The first sentence of the page."""
    case, m = case_of(result), result.metrics
    if m is None:
        return "Scores were written; who was a member is not known here, so nothing can be said of them."
    pairs = f"{_of_100(m.auc)} times out of 100"
    interval = f"{_of_100(m.auc_interval[0])} to {_of_100(m.auc_interval[1])}"
    if case == BELOW:
        return (
            f"Shown a training row and another row, this attack picks the training row only {pairs} (95 % interval "
            f"{interval}), less often than a coin: the list of members, the order of the rows or the way the model was "
            "fed is wrong, or the two kinds of rows differ by themselves."
        )
    if case == SILENT:
        return (
            f"Shown a training row and another row, this attack picks the training row {pairs} (95 % interval "
            f"{interval}); a coin does so 50 times. It does not tell them apart, which is no proof that a stronger one "
            "could not."
        )
    point = rate_of(m)
    if point is not None and point.interval is not None and point.interval[0] > point.false_positive_rate:
        assert point.true_positive_rate is not None
        return (
            f"An attacker who allows one false alarm in {_ONE_IN[point.false_positive_rate]} finds "
            f"{_percent(point.true_positive_rate)} of the training rows (95 % interval "
            f"{_percent(point.interval[0])} to {_percent(point.interval[1])}); by chance it would be "
            f"{_percent(point.false_positive_rate)}."
        )
    return (
        f"Shown a training row and another row, an attacker picks the training row {pairs} (95 % interval {interval}); "
        f"by chance it would be 50. {_no_single_row(m, point)}"
    )


def _no_single_row(m: Metrics, point: OperatingPoint | None) -> str:
    if point is None:
        return f"With {m.non_members} rows outside, how many he finds at few false alarms cannot be told."
    return (
        f"At one false alarm in {_ONE_IN[point.false_positive_rate]} he finds no more of them than by chance, as far "
        "as these rows can tell."
    )


def _found(result: AttackResult) -> str:
    m = result.metrics
    if m is None:
        return "No member is known, so there are scores and no metrics."
    text = (
        f"{m.members:,} training rows and {m.non_members:,} others were asked about, with "
        f"{attack_name(result.attack)}"
        + (f" and {result.shadows} shadow models" if result.shadows else ", no shadow model")
        + f". AUC {number(m.auc, 3)} ({number(m.auc_interval[0], 3)} to {number(m.auc_interval[1], 3)})."
    )
    a = result.accuracy
    if a is None:
        return text
    gap = a.on_members - a.on_non_members if a.non_members else None
    others = "" if gap is None else f" and {percent(a.on_non_members)} of the others, a gap of {_points(gap)}"
    return (
        f"{text} The model labels {percent(a.on_members)} of its training rows right{others}; naming the most frequent "
        f"class would get {percent(a.majority)}."
    )


def _strength(result: AttackResult) -> str:
    """How well, and what that means for the people in the data, at a stated prior."""
    m = result.metrics
    if m is None:
        return "Nothing can be said before membership is known."
    exposures = result.exposures
    if not exposures:
        least = 100 if m.non_members < 100 else 1000
        return (
            f"{m.non_members} rows outside are too few to say how many people are found at few false alarms: "
            f"{least} allow one in {'ten' if least == 100 else 'a hundred'}."
        )
    one = next((e for e in exposures if e.prior == 0.1), exposures[0])
    return exposed(one, m)


def exposed(one: Exposure, m: Metrics) -> str:
    low, high = one.found_interval
    if not above_chance(one, m):
        return (
            f"At one false alarm in {_ONE_IN[one.false_positive_rate]} this attack finds {_count(one.found)} of these "
            f"{m.members:,} training rows ({_count(low)} to {_count(high)}); naming people by lot would find "
            f"{_count(one.false_positive_rate * m.members)}. It exposes nobody beyond chance, as far as these rows can "
            "tell."
        )
    share = percent(one.prior)
    sure = (
        "He would name nobody."
        if one.precision is None
        else f"Of those whom he names, {percent(one.precision)} were in the training data."
    )
    return (
        f"If {share} of the people he asks about were in the training data, an attacker who allows one false alarm in "
        f"{_ONE_IN[one.false_positive_rate]} would find {_count(one.found)} of these {m.members:,} training rows "
        f"({_count(low)} to {_count(high)}), and name {_count(one.false_alarms)} others beside them. {sure}"
    )


def above_chance(one: Exposure, m: Metrics) -> bool:
    """Whether more are found than by lot, by the interval."""
    return one.found_interval[0] > one.false_positive_rate * m.members


def not_shown(result: AttackResult) -> str:
    lines = ["No bound on epsilon: membership was not drawn by coins for an audit, and no claim is tested."]
    if case_of(result) != TELLS:
        lines.append("That this attack finds little is no evidence of privacy.")
    if result.shadows == 0:
        lines.append("Who is most at risk: without shadow models easy rows stand first, in the training data or not.")
    return " ".join(lines)


def steps(result: AttackResult) -> tuple[str, ...]:
    case = case_of(result)
    lines = []
    if case == UNKNOWN:
        lines.append("Say who was trained on: `--target-members`, or the coins of the canaries with `--coins`.")
    if case == BELOW:
        lines.append(
            "Check that `--target-members` counts the rows of `--data` in their order, and the feeding: "
            "`--pixel-mean`, `--transform`, `--classes`."
        )
    if result.next_attack:
        lines.append(f"Attack with shadow models, which compare each row with itself: `{result.next_attack}`")
    elif result.shadows and result.shadows < 16:
        lines.append("Give `coalmine lira` 16 `--shadows`: those that are there stay, and the attack gets stronger.")
    if case == TELLS:
        lines.append(
            "Lower it and measure again: fewer epochs, weight decay, augmentation, fewer duplicates; or train with "
            "DP-SGD, and choose its noise by `coalmine calibrate --help`."
        )
        if result.at_risk and result.shadows:
            lines.append("Look at the rows below: mislabelled, rare and doubled rows are where leaks begin.")
    lines.append(
        "For a bound that holds whatever the attack: plant canaries before the next training, `coalmine canaries "
        "craft`, and audit it, `coalmine audit`."
    )
    return tuple(lines)


def meaning_of_order(result: AttackResult) -> str:
    if not result.shadows:
        return (
            "Without shadow models the order is that of the model’s confidence: easy rows stand first whether they "
            "were trained on or not."
        )
    return (
        "Each row is compared with what models give it that were and were not trained on it. Membership was not tossed "
        "for an audit, so a high place says how this model treats the row, not how likely a stranger is to be here."
    )


def stability_words(result: AttackResult) -> str:
    s = result.stability
    if s is None:
        return ""
    strong = "stable" if s.rank_correlation > 0.7 else "fairly stable" if s.rank_correlation > 0.4 else "unstable"
    return (
        f"The order is {strong}: rank correlation {number(s.rank_correlation, 2)} between the orders by {s.shadows[0]} "
        f"and by the other {s.shadows[1]} shadow models, and {s.in_both} of the {s.top} highest are the same."
    )


def model_card(result: AttackResult) -> str:
    """Five lines of Markdown, one item a line."""
    m = result.metrics
    target = _plain(str(result.origin.get("target", result.origin.get("scores", "a trained model"))))
    data = _plain(str(result.origin.get("data", "unnamed data")))
    if m is None:
        found = "membership is not known here; no metrics"
    else:
        found = (
            f"AUC {number(m.auc, 3)} (95 % interval {number(m.auc_interval[0], 3)} to {number(m.auc_interval[1], 3)})"
        )
        point = rate_of(m)
        if point is not None and point.interval is not None and point.true_positive_rate is not None:
            found += (
                f"; {_percent(point.true_positive_rate)} of members found at {_percent(point.false_positive_rate)} "
                f"false alarms ({_percent(point.interval[0])} to {_percent(point.interval[1])})"
            )
    shadows = f"{result.shadows} shadow models" if result.shadows else "no shadow models"
    a = result.accuracy
    fit = (
        "accuracy of the model not measured"
        if a is None
        else f"accuracy {percent(a.on_members)} on training rows"
        + (f", {percent(a.on_non_members)} on others" if a.non_members else "")
    )
    size = "" if m is None else f", {m.members} members and {m.non_members} non-members"
    lines = (
        f"- **Membership inference:** {found}.",
        f"- **Attack:** {attack_name(result.attack)}, {shadows}, chosen beforehand; made by coalmine.",
        f"- **Data:** {data}{size}.",
        f"- **Model:** {target}; {fit}.",
        f"- **Caveat:** {_caveat(result)}",
    )
    return "\n".join(lines).replace("\u00a0", " ")


def _caveat(result: AttackResult) -> str:
    case = case_of(result)
    if case == SILENT:
        return "metrics of one attack, no bound; that it finds little is not evidence of privacy."
    if case == BELOW:
        return "worse than chance: the member list or the feeding of the model is probably wrong; do not quote this."
    return "metrics of one attack, no bound: a stronger attack may find more."


def _of_100(value: float) -> str:
    """An AUC as times out of 100: whole, but never 0, 50 or 100 where it is not."""
    times = 100 * value
    rounded = round(times)
    if (rounded in (0, 50, 100) and abs(times - rounded) > 1e-9) or abs(times - 50) < 5:
        return f"{times:.1f}"
    return f"{rounded}"


def _percent(rate: float) -> str:
    """A share in percent: whole above ten, one digit below, more where it would vanish."""
    if rate == 0:
        return "0\u00a0%"
    hundred = 100 * rate
    if hundred >= 10:
        return f"{hundred:.0f}\u00a0%" if hundred < 99.5 or rate == 1 else f"{hundred:.1f}\u00a0%"
    return f"{hundred:.1f}\u00a0%".replace(".0\u00a0", "\u00a0") if hundred >= 0.1 else f"{hundred:.2g}\u00a0%"


def _points(gap: float) -> str:
    return f"{100 * gap:.1f} percentage points"


def _count(value: float) -> str:
    """A number of people: whole, with thousands apart; a part of one person is said to be less than one."""
    return "less than one" if 0 < value < 1 else f"{round(value):,}"


def _plain(text: str) -> str:
    from ..foundation.fields import clean

    return "".join(f"\\{c}" if c in "\\`*_[]<>#|" else c for c in clean(text))
