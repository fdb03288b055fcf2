"""What choosing among private runs costs, where the rows that are trained on are the ones to be protected.

A search looks at the accuracy of many runs, so each of them is published in part. Two accounts:

composed    n trainings, each (ε, δ)-DP, seen one after another: at most (nε, nδ). This covers a search of any kind,
            successive halving too, and is what `coalmine plan --measure` on private rows spends.
geometric   draw the number of runs from the geometric distribution with mean n, each at a setting drawn uniformly,
            and keep the best. With δ(·) the worst profile of one run, for every e1 >= 0 (Koskela, Redberg and Wang,
            ICML 2024, arXiv:2402.06137; before in Rényi terms Papernot and Steinke, ICLR 2022, arXiv:2110.03620, and
            for pure DP Liu and Talwar, STOC 2019, arXiv:1811.07971)

                δ_selected(ε) <= n·δ(ε - ln(exp(e1) + (n - 1)·δ(e1))).

            Successive halving is no such draw: its price is the composed one. The score of a run must itself be part
            of what is private, that is measured on rows that need no protection, or with noise of its own.

Proof of the second: with q the distribution function of a run's score, the selected run's density is f'(q)·Q, f the
generating function of the number of runs, and f'(q)/f'(q') <= exp(e1) + (n - 1)·δ(e1) since 1 - q' <= exp(e1)(1 - q) +
δ(e1); f' is at most n.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from typing import Any

from ...foundation import InputError
from ..bounds.mechanism import Mechanism
from ..bounds.parameters import check_delta, positive, whole_number


@dataclass(frozen=True)
class SelectionPrice:
    """Of n trainings that are each (epsilon, delta)-DP. None where the account promises nothing."""

    trainings: int
    epsilon: float
    delta: float
    composed_epsilon: float
    composed_delta: float | None
    geometric_mean_runs: int
    geometric_epsilon: float | None

    def to_json(self) -> dict[str, Any]:
        return asdict(self)

    @classmethod
    def from_json(cls, content: dict[str, Any]) -> SelectionPrice:
        """Errors: InputError naming the field."""
        try:
            n, runs = (whole_number(name, content[name]) for name in ("trainings", "geometric_mean_runs"))
            epsilon, delta = positive("epsilon", content["epsilon"]), check_delta(content["delta"])
            composed = content["composed_delta"]
            geometric = content["geometric_epsilon"]
            return cls(
                n,
                epsilon,
                delta,
                positive("composed_epsilon", content["composed_epsilon"]),
                None if composed is None else check_delta(composed),
                runs,
                None if geometric is None else positive("geometric_epsilon", geometric),
            )
        except (KeyError, TypeError) as error:
            raise InputError(f"selection_price lacks {error}: write it with coalmine plan --measure") from None


def selection_price(
    mechanisms: Sequence[Mechanism], trainings: int, mean_runs: int, epsilon: float, delta: float
) -> SelectionPrice:
    """mechanisms: one for each shape of run among which is chosen, all of them (epsilon, delta)-DP."""
    total = trainings * delta
    return SelectionPrice(
        trainings,
        epsilon,
        delta,
        trainings * epsilon,
        total if total < 1 else None,
        mean_runs,
        geometric_selection_epsilon(mechanisms, mean_runs, delta),
    )


def geometric_selection_epsilon(mechanisms: Sequence[Mechanism], mean_runs: float, delta: float) -> float | None:
    """ε at δ of the best of a geometric number of runs, an upper bound; None where it is infinite.

    Whatever e1 is taken, the bound holds; a few are tried, placed by their δ.
    """
    n = mean_runs
    if n < 1:
        raise InputError(f"mean_runs must be at least 1, got {mean_runs!r}")
    own = max(float(m.epsilon(delta / n).upper) for m in mechanisms)
    if n == 1 or math.isinf(own):
        return own if math.isfinite(own) else None
    found = math.inf
    for share in (1e-3, 1e-2, 1e-1):
        rare = share / (n - 1)
        e1 = max(float(m.epsilon(rare).upper) for m in mechanisms)
        if e1 < 600:
            found = min(found, own + math.log(math.exp(e1) + share))
    return found if math.isfinite(found) else None
