"""What `coalmine bound` says of one mechanism, as plain numbers: for --json, csv files, tables and figures."""

from __future__ import annotations

import math
from typing import Any

SCHEMA_VERSION = 1


def describe(mechanism: Any, delta: float, rates: list[float], width: float) -> dict[str, Any]:
    """Everything that `bound` says of one mechanism, as plain numbers."""
    from ..bounds import Interval, closed_form

    accuracy = mechanism.accuracy(width)
    epsilon = mechanism.epsilon(delta)
    found = mechanism.true_positive_rate(rates)
    c = getattr(mechanism, "chi_square", None)
    result: dict[str, Any] = {
        "schema_version": SCHEMA_VERSION,
        "mechanism": mechanism.record(),
        "adjacency": getattr(mechanism, "adjacency", "add_remove"),
        "accuracy": {"closed_form": float(mechanism.accuracy_bound()), **accuracy.record()},
        "advantage": {"lower": 2 * float(accuracy.lower) - 1, "upper": 2 * float(accuracy.upper) - 1},
        "epsilon": {"delta": delta, **_finite(epsilon.record())},
        "true_positive_rate": [
            {
                "false_positive_rate": rate,
                "closed_form": None if c is None else closed_form.true_positive_rate_bound(c, rate),
                **Interval(found.lower[i], found.upper[i], found.remark).record(),
            }
            for i, rate in enumerate(rates)
        ],
    }
    if hasattr(mechanism, "certainty"):
        result["certainty"] = mechanism.certainty
    if mechanism.name == "random_allocation":
        m, e, sigma = mechanism.steps_per_epoch, mechanism.epochs, mechanism.noise_multiplier
        result["for_comparison"] = {
            "one_line_bound": float(closed_form.one_line_bound(m, e, sigma)),
            "sum_statistic_lower_bound": 0.5 + float(closed_form.sum_statistic_lower_bound(m, e, sigma)) / 2,
            "gaussian_limit_not_a_bound": 0.5 + float(closed_form.gaussian_limit(m, e, sigma)) / 2,
        }
    return result


def _finite(ends: dict[str, Any]) -> dict[str, Any]:
    """JSON has no infinity: null, and why."""
    plain = {
        key: None if isinstance(value, float) and not math.isfinite(value) else value for key, value in ends.items()
    }
    if None in plain.values():
        plain["reason"] = "infinite: no finite epsilon holds at this delta"
    return plain


def neighbours(mechanism: Any, delta: float, records: int) -> list[dict[str, Any]]:
    """The same for one replaced record, and for groups of `records` where that is more than one."""
    from ..bounds import GroupPrivacy

    cases = [(1, "replace_one")] + ([(records, "add_remove"), (records, "replace_one")] if records > 1 else [])
    found = []
    for number, adjacency in cases:
        group = GroupPrivacy(mechanism, number, adjacency)
        found.append(
            {
                "records": number,
                "adjacency": adjacency,
                "certainty": group.certainty,
                "accuracy": group.accuracy().record(),
                "epsilon": {"delta": delta, **_finite(group.epsilon(delta).record())},
            }
        )
    return found


def flat(result: dict[str, Any]) -> dict[str, Any]:
    """One row of a csv file: parameters, and both ends of everything."""
    row = {key: value for key, value in result["mechanism"].items() if not isinstance(value, list | dict)}
    row |= {"adjacency": result["adjacency"], "accuracy_closed_form": result["accuracy"]["closed_form"]}
    row |= {f"accuracy_{end}": result["accuracy"][end] for end in ("lower", "upper")}
    row |= {"delta": result["epsilon"]["delta"]} | {
        f"epsilon_{end}": result["epsilon"][end] for end in ("lower", "upper")
    }
    for rate in result["true_positive_rate"]:
        row |= {f"tpr_at_fpr_{rate['false_positive_rate']:g}_{end}": rate[end] for end in ("lower", "upper")}
    return row
