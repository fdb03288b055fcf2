"""Who was a member, and what that allows to be said.

`coins`: fair independent coins drawn after the canaries were frozen and before training, with their file: classes A
and B. `random_split`: a split at random whose flags are not independent coins (so many in, so many out): no bound on
epsilon, but a test of "no leakage at all" and metrics. `unknown`: metrics only, not a bound.
"""

from __future__ import annotations

import numpy as np
from scipy.special import bdtr

from ...canaries.coins import Coins
from ...foundation import InputError
from .scores import CanaryScores, _some

MEMBERSHIPS = ("coins", "random_split", "unknown")
INCREDIBLE = 1e-6


def join(scores: CanaryScores, coins: Coins | None, membership: str) -> tuple[np.ndarray, np.ndarray]:
    """(m,) scores and (m,) bool members in order of canary id. Errors: InputError that names ids."""
    if membership not in MEMBERSHIPS:
        raise InputError(f"membership {membership!r} is not known: choose one of {', '.join(MEMBERSHIPS)}")
    if membership == "coins":
        if coins is None:
            raise InputError(
                "membership coins needs the coins file (--coins coins.json): fair coins, drawn before training. With "
                "a member column only, say --membership random_split or unknown"
            )
        member = coins.member
        if scores.canary_id.dtype.kind != "i":
            raise InputError("canary_id must be the row numbers 0 … m-1 of the coins file, got names")
        unknown = scores.canary_id[(scores.canary_id < 0) | (scores.canary_id >= member.size)]
        if unknown.size:
            raise InputError(f"scores name canary_id {_some(unknown)}, the coins file has 0 … {member.size - 1}")
        missing = np.setdiff1d(np.arange(member.size), scores.canary_id)
        if missing.size:
            raise InputError(
                f"scores lack canary_id {_some(missing)} of {member.size}: every canary needs a row; where a score is "
                "undefined write NaN, which counts as an abstention"
            )
        if scores.member is not None and not np.array_equal(scores.member, member):
            raise InputError("the member column of the scores contradicts the coins file: drop the column or check ids")
    else:
        if coins is not None:
            raise InputError(f"a coins file was given with membership {membership}: say --membership coins, or drop it")
        if scores.member is None:
            raise InputError(f"membership {membership} needs a column 'member' in the scores")
        member = scores.member
    if not member.any() or member.all():
        raise InputError(
            f"{int(member.sum())} of {member.size} canaries are members: at least one member and one non-member "
            "are needed"
        )
    return scores.score, member


def member_count_remark(member: np.ndarray) -> str | None:
    """A sentence where the number of members is not credible for fair coins (two-sided probability below 1e-6)."""
    k, m = int(member.sum()), member.size
    tail = 2 * min(float(bdtr(k, m, 0.5)), float(bdtr(m - k, m, 0.5)))
    if tail >= INCREDIBLE:
        return None
    return (
        f"{k} members of {m} are not credible for fair coins (probability {tail:.1e}): were the coins fair, and is the "
        "file the right one?"
    )
