"""What `coalmine lira` leaves behind: scores for `coalmine audit`, records, and a table for people.

Beside each scores file stands a record of which attack was chosen, as `coalmine score` writes it (scores.json), so
that scores of one canary set are not audited with another set's coins. Of several attacks only the one that was fixed
before the coins were opened may decide: a folder keeps the attack whose scores it holds.
"""

from __future__ import annotations

from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING, Any

from ... import __version__
from ...foundation import InputError, read_json, write_json, write_text

if TYPE_CHECKING:
    from .conclude import LiraResult

_FIXED = (
    "score",
    "views",
    "canaries_sha256",
    "checkpoint_sha256",
    "arrays_sha256",
)  # of scores under one name, whatever is opened
_FIXED_ONCE_OPENED = (*_FIXED, "shadows", "seed")


def score_record(attack: str, **facts: Any) -> dict[str, Any]:
    """What is fixed before the coins are opened: score = the attack's name, and whatever facts are known (not None)."""
    return {"schema_version": 1, "score": attack} | {name: value for name, value in facts.items() if value is not None}


def check_folder(output: Path, record: dict[str, Any], compared: tuple[str, ...] | None = None) -> None:
    """Refuse a folder with scores of another attack or of other canaries: several scores are several looks.

    compared: the facts that are known already; left out, all. More shadow models may be trained as long as no score
    was written beside its open coin.
    """
    for beside in sorted(output.glob("scores*.json")):
        earlier = read_json(beside, "score record")
        if not isinstance(earlier, dict) or not isinstance(earlier.get("score"), str):
            raise InputError(f"{str(beside)!r} is no score record: name another --output")
        fixed = compared or (_FIXED_ONCE_OPENED if earlier.get("coins_opened") else _FIXED)
        changed = [name for name in fixed if earlier.get(name) != record.get(name)]
        if changed:
            told = ", ".join(f"{name} ({earlier.get(name)}, now {record.get(name)})" for name in changed)
            raise InputError(
                f"--output {str(output)!r} holds scores that differ in {told}: name another folder, and if you look at "
                "several with the coins open, say so by `coalmine audit --looks`; shadow models that fit may be copied "
                "there with the folder shadows"
            )
        before, now = earlier.get("shadows"), record.get("shadows")
        if isinstance(before, int) and isinstance(now, int) and now < before:
            raise InputError(
                f"--output {str(output)!r} holds scores from {before} shadow models, which scores from {now} would "
                "replace: name another folder; shadow models may be copied there with the folder shadows"
            )


def write_result(output: Path, result: LiraResult, record: dict[str, Any]) -> list[Path]:
    """scores.csv (canary_id, score, member where known) and scores.json, one pair a target, and lira.json.

    record: of `score_record`; its score is the attack that is written. Returns the paths of all but the records.
    """
    check_folder(output, record)
    attack = record["score"]
    files, members = [], result.arrays.target_member
    for t, scores in enumerate(result.scores[attack]):
        lines = ["canary_id,score" + (",member" if members is not None else "")]
        for i, value in enumerate(scores.scores):
            flag = f",{int(members[t, i])}" if members is not None else ""
            lines.append(f"{i},{value:.10g}{flag}")
        files.append(output / ("scores.csv" if len(result.scores[attack]) == 1 else f"scores_target{t}.csv"))
        beside = files[-1].with_suffix(".json")
        opened = beside.is_file() and read_json(beside, "score record").get("coins_opened")
        write_json(
            beside,
            {
                **record,
                **({"coins_opened": True} if opened else {}),
                "details": dict(scores.details),
                "counts": scores.counts(),
                "versions": {"coalmine": __version__},
                "created": datetime.now(UTC).isoformat(timespec="seconds"),
            },
        )
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
