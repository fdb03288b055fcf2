"""Values of dp-accounting for runs of several phases: both sides of its privacy-loss distributions.

    python reports/experiments/composition_dp_accounting.py tests/data/bounds/composition_dp_accounting.csv

Needs `pip install dp-accounting` (0.6.0 made the file) in an environment of its own: its pins disturb others.
Nothing of coalmine is imported. Each row: the phases as JSON, δ(1), ε at δ = 1e-5 and δ(0), lower from the optimistic
estimate, upper from the pessimistic one (connect-the-dots where it is the smaller), at the discretisation stated.
"""

from __future__ import annotations

import csv
import itertools
import json
import sys

from dp_accounting.pld import privacy_loss_distribution as pld

INTERVAL = 1e-4
DELTA = 1e-5


def settings() -> list[list[dict]]:
    """30 runs: one, two or three phases of Poisson sampling and full batches, noise and rates far apart and near."""
    poisson = [(0.01, 1000, 1.0), (0.001, 5000, 0.7), (0.05, 200, 2.0), (0.004, 2500, 1.2), (0.2, 40, 3.0)]
    gaussian = [(10.0, 3), (4.0, 1), (60.0, 50)]
    phases_p = [{"name": "poisson", "sampling_rate": q, "steps": t, "noise_multiplier": s} for q, t, s in poisson]
    phases_g = [{"name": "full_batch", "noise_multiplier": s, "steps": t} for s, t in gaussian]
    found = [list(pair) for pair in itertools.combinations(phases_p, 2)]  # 10
    found += [[p, g] for p, g in itertools.product(phases_p, phases_g)]  # 15
    found += [[phases_p[i], phases_p[(i + 1) % 5], phases_g[i % 3]] for i in range(5)]  # 5
    return found


def law(phases: list[dict], pessimistic: bool, dots: bool):
    total = None
    for phase in phases:
        one = pld.from_gaussian_mechanism(
            phase["noise_multiplier"],
            sampling_prob=phase.get("sampling_rate", 1.0),
            value_discretization_interval=INTERVAL,
            pessimistic_estimate=pessimistic,
            use_connect_dots=dots,
        ).self_compose(phase["steps"])
        total = one if total is None else total.compose(one)
    return total


def main(path: str) -> None:
    with open(path, "w", newline="") as file:
        out = csv.writer(file, lineterminator="\n")
        names = ["delta_at_1", "epsilon", "total_variation"]
        out.writerow(["phases", "interval", *(f"{n}_{end}" for n in names for end in ("lower", "upper"))])
        for phases in settings():
            laws = [law(phases, False, False), law(phases, True, True), law(phases, True, False)]
            ends: list[float] = []
            for question in (
                lambda x: x.get_delta_for_epsilon(1.0),
                lambda x: x.get_epsilon_for_delta(DELTA),
                lambda x: x.get_delta_for_epsilon(0.0),
            ):
                lower, *upper = (float(question(x)) for x in laws)
                ends += [lower, min(upper)]
            out.writerow([json.dumps(phases), INTERVAL, *(f"{x:.10g}" for x in ends)])
            file.flush()


if __name__ == "__main__":
    main(sys.argv[1])
