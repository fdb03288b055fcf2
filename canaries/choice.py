"""Which iterate of a refinement is returned, and how it stands beside its start. Ours.

The figures by which a refinement walks are noisy, and its last iterate is not its best one. So the best few by the
walk's own figures are measured again, with their corners, by replicas that moved and chose nothing; the best of these
is measured a third time, beside the start, by replicas that again chose nothing. If it is worse than the start there,
the start is returned. Corners: every value at the end of its range that is nearer, where a small network is taught by
contrast and refinement from the ends of the range has lost some.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import asdict, dataclass
from typing import Any

import torch
from torch import Tensor

KEPT = 2  # iterates of the walk that are measured again
FALSE_POSITIVE_RATE = 0.05
HARDEST = 0.2  # share of the excluded canaries that the partial AUC looks at


@dataclass(frozen=True)
class Figures:
    """How replicas tell their included canaries from their excluded ones, each a mean over replicas."""

    true_positive_rate: float  # at a false positive rate of at most 0.05
    auc: float
    partial_auc: float  # against the fifth of the excluded that score highest

    def order(self) -> float:
        """What sets are compared by, larger is better: the mean of the AUC and the partial one. The rate at one
        threshold is coarse, the AUC alone says little of the low false positive rates of an audit, the partial one
        alone hangs on few excluded canaries."""
        return (self.auc + self.partial_auc) / 2


@dataclass(frozen=True, eq=False)
class Choice:
    """restart: which restart's measurement saw the chosen iterate first (0 is the start, `restarts` the end of the
    walk); corners: whether its corners were taken; start and chosen: figures on replicas that chose nothing; returned:
    "refined" or "start"."""

    canaries: Tensor
    restart: int
    corners: bool
    start: Figures
    chosen: Figures

    @property
    def returned(self) -> str:
        return "start" if self.chosen.order() < self.start.order() else "refined"

    def stated(self) -> dict[str, Any]:
        return {
            "returned": self.returned,
            "restart": self.restart,
            "corners": self.corners,
            "start_figures": asdict(self.start),
            "refined_figures": asdict(self.chosen),
        }


def figures(phi: Tensor, masks: Tensor) -> Figures:
    """Of margins phi (R, m) and masks (R, m) of 0 and 1, with members and non-members in every row."""
    rates, areas, partial = [], [], []
    for scores, mask in zip(phi, masks > 0, strict=True):
        members, others = scores[mask], scores[~mask].sort(descending=True).values
        threshold = others[int(FALSE_POSITIVE_RATE * len(others))]
        rates.append((members > threshold).double().mean())
        ahead, ties = members[:, None] > others[None, :], members[:, None] == others[None, :]
        won = ahead.double() + 0.5 * ties.double()
        areas.append(won.mean())
        partial.append(won[:, : math.ceil(HARDEST * len(others))].mean())
    return Figures(*(float(torch.stack(each).mean()) for each in (rates, areas, partial)))


def best_restarts(log: list[dict[str, Any]], count: int = KEPT) -> list[int]:
    """The restarts after the start, by the figures of their records, best first; of equals the later."""
    moved = [record for record in log if record["restart"] > 0]
    ordered = sorted(moved, key=lambda r: (r["auc"] + r["partial_auc"], r["restart"]), reverse=True)
    return [record["restart"] for record in ordered[:count]]


def corners(canaries: Tensor, low: Tensor, high: Tensor) -> Tensor:
    """(m, …) each value at the nearer end of [low, high]."""
    return torch.where(canaries - low < high - canaries, low.expand_as(canaries), high.expand_as(canaries))


def choose(
    start: Tensor,
    iterates: dict[int, Tensor],
    best: list[int],
    snap: Callable[[Tensor], Tensor],
    measure: Callable[[Tensor, str], Figures],
) -> Choice:
    """The choice among iterates[restart] for the restarts of `best`, best first, and the corners of the first.

    snap(canaries): their corners.

    measure(canaries, purpose) trains fresh replicas for the purpose: the same replicas' masks and seeds for the same
    purpose, so that sets are compared pairwise, and others for another.
    """
    contenders = [(restart, False, iterates[restart]) for restart in best]
    snapped = snap(iterates[best[0]])
    if not torch.equal(snapped, iterates[best[0]]):
        contenders.append((best[0], True, snapped))
    if len(contenders) > 1:
        contenders.sort(key=lambda contender: measure(contender[2], "choice").order(), reverse=True)
    restart, snapped_too, canaries = contenders[0]
    return Choice(canaries, restart, snapped_too, measure(start, "judge"), measure(canaries, "judge"))
