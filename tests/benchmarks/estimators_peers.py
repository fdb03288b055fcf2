"""Our class A bounds beside jax-privacy's, on the same Gaussian scores. Needs jax-privacy; an oracle, no dependency.

python tests/benchmarks/estimators_peers.py
"""

from __future__ import annotations

import numpy as np

from coalmine.audit.estimators import calibrated_epsilon, grid_epsilon
from coalmine.audit.planning.scenarios import gaussian, no_signal
from coalmine.foundation import numpy_stream

DELTA, REPEATS = 1e-5, {100: 100, 1000: 50, 10000: 10}


def main() -> None:
    from jax_privacy import auditing  # pyright: ignore[reportMissingImports]

    def peer(strategy):
        def bound(scores, members):
            auditor = auditing.CanaryScoreAuditor(scores[members], scores[~members])
            return auditor.epsilon_one_run(0.05, DELTA, threshold_strategy=strategy)

        return bound

    rules = {
        "grid (default)": lambda scores, members: grid_epsilon(scores, members, DELTA),
        "calibrated": lambda scores, members: calibrated_epsilon(scores, members, DELTA),
        "jax-privacy Bonferroni (default, invalid)": peer(auditing.Bonferroni()),
        "jax-privacy Split": peer(auditing.Split()),
        "jax-privacy MultiSplit": peer(auditing.MultiSplit()),
    }
    print("mean bound on epsilon (share of draws above the truth)")
    for scenario in (gaussian(2.0), no_signal()):
        truth = scenario.epsilon(DELTA)
        for m, repeats in REPEATS.items():
            draws = [scenario.draw(m, numpy_stream(0, f"peers/{scenario.name}/{m}/{k}")) for k in range(repeats)]
            for name, bound in rules.items():
                if name == "calibrated" and m * DELTA >= 0.05:
                    continue
                found = np.array([float(bound(*draw)) for draw in draws])
                above = np.mean(found > truth + 1e-6)
                print(f"{scenario.name:12} m = {m:6} {name:42} {found.mean():6.2f} ({100 * above:.0f} %)", flush=True)


if __name__ == "__main__":
    main()
