"""What `coalmine attack` and `coalmine lira` leave behind: scores for an audit, records, and a table for people.

Beside each scores file stands a record of which attack was chosen, as `coalmine score` writes it (scores.json), so
that scores of one canary set are not audited with another set's coins. Of several attacks only the one that was fixed
before the coins were opened may decide: a folder keeps the attack whose scores it holds.
"""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING

from ...foundation import InputError, write_bytes, write_json, write_text
from ..verdict.score_record import ScoreRecord, load_score_record, save_scores, side_file
from .result import DIRECTION, AttackResult, Interval, OwnAccuracy

if TYPE_CHECKING:
    from .conclude import Conclusion

SHOWN_RATES = (0.01, 0.001)
MEANING = {
    True: "Each row is compared with what models give it that were and were not trained on it.",
    False: "Without shadow models the order is that of the model's confidence: easy rows stand first whether they were "
    "trained on or not. For who is at risk: coalmine lira.",
}

# whatever is opened
_FIXED = ("score", "views", "canaries_sha256", "checkpoint_sha256", "arrays_sha256", "recipe_sha256")
_FIXED_ONCE_OPENED = (*_FIXED, "shadows", "seed")


def check_folder(output: Path, record: ScoreRecord, compared: tuple[str, ...] | None = None) -> None:
    """Refuse a folder with scores of another attack or of other canaries: several scores are several looks.

    compared: the facts that are known already; left out, all. More shadow models may be trained as long as no score
    was written beside its open coin.
    """
    for beside in sorted(output.glob("scores*.json")):
        earlier = load_score_record(beside)
        assert earlier is not None
        fixed = compared or (_FIXED_ONCE_OPENED if earlier.coins_opened else _FIXED)
        if earlier.recipe_sha256 is None:  # older records do not say
            fixed = tuple(name for name in fixed if name != "recipe_sha256")
        changed = earlier.differences(record, fixed)
        if changed:
            told = ", ".join(f"{name} ({getattr(earlier, name)}, now {getattr(record, name)})" for name in changed)
            raise InputError(
                f"--output {str(output)!r} holds scores that differ in {told}: name another folder, and if you look at "
                "several with the coins open, say so by `coalmine audit --looks`; shadow models that fit may be copied "
                "there with the folder shadows"
            )
        if earlier.shadows is not None and record.shadows is not None and record.shadows < earlier.shadows:
            raise InputError(
                f"--output {str(output)!r} holds scores from {earlier.shadows} shadow models, which scores from "
                f"{record.shadows} would replace: name another folder; shadow models may be copied there with the "
                "folder shadows"
            )


def write_result(output: Path, conclusion: Conclusion, record: ScoreRecord, name: str = "lira.json") -> list[Path]:
    """scores.csv and scores.json, one pair a target; the result as `name`; examples.csv, who is at risk, and roc.csv,
    every curve, where membership is known.

    record.score is the attack that is written. Returns the paths of all but the records.
    """
    check_folder(output, record)
    chosen, members, files = conclusion.scores[record.score], conclusion.member, []
    for t, scores in enumerate(chosen):
        files.append(output / ("scores.csv" if len(chosen) == 1 else f"scores_target{t}.csv"))
        earlier = load_score_record(files[-1]) if side_file(files[-1]).is_file() else None
        opened = True if earlier is not None and earlier.coins_opened else record.coins_opened
        told = replace(record, coins_opened=opened, details=dict(scores.details), counts=scores.counts())
        save_scores(files[-1], scores.scores, told, None if members is None else members[t])
    if conclusion.table is not None:
        files.append(output / "examples.csv")
        write_bytes(files[-1], conclusion.table.csv())
    if any(one.curve for one in conclusion.result.attacks):
        files.append(output / "roc.csv")
        write_text(files[-1], curves_csv(conclusion.result))
    write_json(output / name, conclusion.result.to_json())
    return [*files, output / name]


def curves_csv(result: AttackResult) -> str:
    """attack,false_positive_rate,true_positive_rate of every attack."""
    lines = ["attack,false_positive_rate,true_positive_rate"]
    for one in result.attacks:
        if one.curve is not None:
            points = zip(one.curve.false_positive_rate, one.curve.true_positive_rate, strict=True)
            lines += [f"{one.name},{fpr:.10g},{tpr:.10g}" for fpr, tpr in points]
    return "\n".join(lines) + "\n"


def summary(result: AttackResult) -> str:
    """The result as a table for a terminal."""
    lines = [
        f"{result.examples} examples, {result.shadows} shadow models, {result.targets} target(s), "
        f"{result.views} view(s); {DIRECTION}"
    ]
    if result.accuracy is not None:
        lines.append(told_accuracy(result.accuracy))
    if result.metrics is None:
        return (
            "\n".join(lines)
            + "\nmembership of the target is not known here: scores were written, metrics were not computed"
        )
    sample = result.metrics
    lines.append(
        f"{sample.members} members, {sample.non_members} non-members; intervals {sample.confidence:.0%}, class C: "
        f"{sample.interval_method}"
    )
    lines.append(f"{'attack':18}{'AUC':26}{'balanced accuracy':26}{'TPR at 1% FPR':26}{'TPR at 0.1% FPR':26}undefined")
    for one in result.attacks:
        m = one.metrics
        assert m is not None
        at = m.balanced_accuracy
        points = [p for p in m.tpr_at_fpr if p.false_positive_rate in SHOWN_RATES]
        cells = [_cell(m.auc, m.auc_interval), "-" if at is None else _cell(at.value, at.interval)]
        cells += [_cell(p.true_positive_rate, p.interval) for p in points]
        star = "*" if one.name == result.attack else " "
        lines.append(f"{one.name + star:18}" + "".join(f"{cell:26}" for cell in cells) + str(m.undefined))
    note = "; balanced accuracy at a threshold chosen on a shadow model" if result.shadows else ""
    lines.append(f"* the attack chosen{note}")
    lines += [
        f"TPR at {p.false_positive_rate:.1%} FPR: {p.refused}"
        for p in sample.tpr_at_fpr
        if p.refused and p.false_positive_rate in SHOWN_RATES
    ]
    return "\n".join(lines)


def told_accuracy(accuracy: OwnAccuracy) -> str:
    return (
        f"accuracy of the target: {accuracy.on_members:.1%} on its own {accuracy.members} training rows, "
        f"{accuracy.on_non_members:.1%} on the {accuracy.non_members} others "
        f"(naming the most frequent class: {accuracy.majority:.1%})"
        if accuracy.non_members
        else f"accuracy of the target: {accuracy.on_members:.1%} on {accuracy.members} of its own training rows "
        f"(naming the most frequent class: {accuracy.majority:.1%})"
    )


def table_of_examples(result: AttackResult, top: int) -> str:
    """The members most at risk as a table for a terminal, what their order means and how stable it is."""
    if not result.at_risk or top < 1:
        return ""
    lines = [f"members with the highest scores of {result.attack} (all rows: examples.csv)"]
    lines.append(f"{'row':>8}  {'name':24}{'label':16}{'score':>12}{'FPR there':>12}  status")
    for one in result.at_risk[:top]:
        score = "-" if one.score is None else f"{one.score:.4g}"
        rate = "-" if one.false_positive_rate is None else f"{one.false_positive_rate:.4f}"
        lines.append(f"{one.row:>8}  {one.name[-23:]:24}{one.label[:15]:16}{score:>12}{rate:>12}  {one.status}")
    lines.append(MEANING[result.shadows > 0])
    if result.stability is not None:
        s = result.stability
        lines.append(
            f"stability: rank correlation {s.rank_correlation:.2f} between the orders by {s.shadows[0]} and the other "
            f"{s.shadows[1]} shadows; {s.in_both} of the {s.top} highest are the same"
        )
    return "\n".join(lines)


def _cell(value: float | None, interval: Interval | None) -> str:
    if value is None:
        return "-"
    return f"{value:.4f}" + (f" [{interval[0]:.4f}, {interval[1]:.4f}]" if interval else "")
