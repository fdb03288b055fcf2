"""What `coalmine lira` leaves behind: scores for `coalmine audit`, records, and a table for people.

Beside each scores file stands a record of which attack was chosen, as `coalmine score` writes it (scores.json), so
that scores of one canary set are not audited with another set's coins. Of several attacks only the one that was fixed
before the coins were opened may decide: a folder keeps the attack whose scores it holds.
"""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from ...foundation import InputError, write_json
from ..verdict.score_record import ScoreRecord, load_score_record, save_scores, side_file

if TYPE_CHECKING:
    from .conclude import LiraResult

_FIXED = ("score", "views", "canaries_sha256", "checkpoint_sha256", "arrays_sha256")  # whatever is opened
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


def write_result(output: Path, result: LiraResult, record: ScoreRecord) -> list[Path]:
    """scores.csv (canary_id, score, member where known) and scores.json, one pair a target, and lira.json.

    record.score is the attack that is written. Returns the paths of all but the records.
    """
    check_folder(output, record)
    files, members = [], result.arrays.target_member
    for t, scores in enumerate(result.scores[record.score]):
        files.append(output / ("scores.csv" if len(result.scores[record.score]) == 1 else f"scores_target{t}.csv"))
        earlier = load_score_record(files[-1]) if side_file(files[-1]).is_file() else None
        opened = True if earlier is not None and earlier.coins_opened else record.coins_opened
        told = replace(record, coins_opened=opened, details=dict(scores.details), counts=scores.counts())
        save_scores(files[-1], scores.scores, told, None if members is None else members[t])
    write_json(output / "lira.json", result.record)
    return [*files, output / "lira.json"]


def summary(record: dict[str, Any]) -> str:
    """The record of a LiraResult as a table for a terminal."""
    lines = [
        f"{record['examples']} examples, {record['shadows']} shadow models, {record['targets']} target(s), "
        f"{record['views']} view(s); {record['direction']}"
    ]
    sections = record["attacks"]
    if not any("metrics" in section for section in sections.values()):
        return lines[0] + "\nmembership of the target is not known here: scores were written, metrics were not computed"
    sample = sections[record["attack"]]["metrics"]
    lines.append(
        f"{sample['members']} members, {sample['non_members']} non-members; intervals {sample['confidence']:.0%}: "
        f"{sample['interval_method']}"
    )
    lines.append(f"{'attack':18}{'AUC':26}{'balanced accuracy':26}{'TPR at 1% FPR':26}{'TPR at 0.1% FPR':26}undefined")
    for name, section in sections.items():
        m = section["metrics"]
        accuracy = m["balanced_accuracy"] or {"value": None, "interval": None}
        cells = [_cell(m["auc"], m["auc_interval"]), _cell(accuracy["value"], accuracy["interval"])]
        cells += [_cell(p["true_positive_rate"], p["interval"]) for p in m["tpr_at_fpr"]]
        star = "*" if name == record["attack"] else " "
        lines.append(f"{name + star:18}" + "".join(f"{cell:26}" for cell in cells) + str(m["undefined"]))
    lines.append("* the attack chosen; balanced accuracy at a threshold chosen on a shadow model")
    lines += [
        f"TPR at {p['false_positive_rate']:.1%} FPR: {p['refused']}" for p in sample["tpr_at_fpr"] if p["refused"]
    ]
    return "\n".join(lines)


def _cell(value: float | None, interval: list[float] | None) -> str:
    if value is None:
        return "-"
    return f"{value:.4f}" + (f" [{interval[0]:.4f}, {interval[1]:.4f}]" if interval else "")
