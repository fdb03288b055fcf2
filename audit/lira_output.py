"""What `coalmine lira` leaves behind: scores for `coalmine audit`, a record, and a table for people."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from ..foundation import write_json, write_text
from .lira_report import LiraResult


def write_result(output: Path, result: LiraResult, attack: str) -> list[Path]:
    """scores.csv (canary_id, score, member where known), one a target, and lira.json; returns their paths."""
    files, members = [], result.arrays.target_member
    for t, scores in enumerate(result.scores[attack]):
        lines = ["canary_id,score" + (",member" if members is not None else "")]
        for i, value in enumerate(scores.scores):
            flag = f",{int(members[t, i])}" if members is not None else ""
            lines.append(f"{i},{value:.10g}{flag}")
        files.append(output / ("scores.csv" if len(result.scores[attack]) == 1 else f"scores_target{t}.csv"))
        write_text(files[-1], "\n".join(lines) + "\n")
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
