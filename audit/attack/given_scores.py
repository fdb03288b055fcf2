"""Scores of another tool, judged as our own: one number a row, higher = more likely a member, and who was a member."""

from __future__ import annotations

from pathlib import Path

import numpy as np

from ...attacks.result import MISSING_VALUES, OK, AttackScores
from ...foundation import InputError
from ..verdict.scores import load_scores
from .candidates import About
from .conclude import NO_BOUND, Conclusion, exposures, thinned_curve
from .examples import Shown, example_table, groups, most_at_risk
from .metrics import membership_metrics
from .result import Attack, AttackResult

NAME = "given_scores"


def attack_of_scores(path: Path, members: Path | None = None, about: Path | None = None) -> Conclusion:
    """path: csv, parquet or npz with canary_id, score and member. members: a .npy in place of the column member.

    Errors: InputError where nothing says who was a member.
    """
    given = load_scores(path)
    member = given.member
    if members is not None:
        from ...attacks.shadow_arrays import load_npy

        listed = np.asarray(load_npy(members)).reshape(-1)
        if listed.shape != given.score.shape or not np.isin(listed, (0, 1)).all():
            raise InputError(
                f"--target-members {str(members)!r} must hold true/false for each of {len(given.score)} rows"
            )
        member = listed.astype(bool)
    if member is None:
        raise InputError(f"nothing says who was a member: give {str(path)!r} a column member, or --target-members")
    if member.all() or not member.any():
        raise InputError(f"{int(member.sum())} of {len(member)} rows are members: members and non-members are needed")
    described = About() if about is None else About.load(about, len(member))
    names = described.names or tuple(str(i) for i in given.canary_id)
    status = np.where(np.isnan(given.score), MISSING_VALUES, OK)
    scores = AttackScores(given.score, status, {"attack": NAME, "file": str(path)})
    shown = Shown(names, columns=described.columns)
    metrics = membership_metrics([given.score], [member])
    point = metrics.at(0.01)
    table = example_table(scores, member, shown)
    result = AttackResult(
        attack=NAME,
        origin={"scores": str(path), "rows": len(member), "members": int(member.sum())},
        shadows=0,
        targets=1,
        examples=len(member),
        views=given.views,
        attacks=(
            Attack(
                NAME, dict(scores.details), scores.counts(), (scores.distinct,), metrics,
                thinned_curve(given.score, member),
            ),
        ),
        warnings=(
            "the scores are another tool's: how its model was fed, and on which rows it was trained, was not checked",
        ),
        not_a_bound=NO_BOUND,
        at_risk=most_at_risk(table, shown),
        groups=groups(table, None if point is None else point.threshold),
        exposures=exposures(metrics),
    )  # fmt: skip
    return Conclusion(result, {NAME: [scores]}, member[None], table)
