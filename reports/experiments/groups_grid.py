"""How far apart the two ends are for replaced records and for users with two records, on the grid of 45 cells.

    python reports/experiments/groups_grid.py

Random allocation; total variation and ε at δ = 1e-5, each relative to its upper end.
"""

from __future__ import annotations

import time

import numpy as np

from coalmine.audit.bounds import GroupPrivacy, RandomAllocation

CASES = ((2, "add_remove"), (1, "replace_one"))


def relative(lower: float, upper: float) -> float:
    return (upper - lower) / upper


def main() -> None:
    widths: dict[tuple[int, str], list[tuple[float, float]]] = {case: [] for case in CASES}
    print("relative width of total variation, of epsilon: users with two records; one record replaced")
    print(f"{'sigma':>5} {'M':>6} {'E':>4} {'2: TV':>9} {'eps':>9} {'replaced: TV':>13} {'eps':>9} {'s':>6}")
    for sigma in (0.5, 0.7, 1.0, 2.0, 5.0):
        for m in (100, 1000, 10_000):
            for e in (1, 10, 100):
                start, cells = time.process_time(), []
                for case in CASES:
                    group = GroupPrivacy(RandomAllocation(m, e, sigma), *case)
                    accuracy, epsilon = group.accuracy(), group.epsilon(1e-5)
                    gained = relative(2 * accuracy.lower - 1, 2 * accuracy.upper - 1)
                    cells += [gained, relative(float(epsilon.lower), float(epsilon.upper))]
                    widths[case].append((gained, cells[-1]))
                seconds = time.process_time() - start
                print(
                    f"{sigma:5g} {m:6} {e:4} {cells[0]:9.4f} {cells[1]:9.4f} {cells[2]:13.4f} {cells[3]:9.4f}"
                    f" {seconds:6.2f}",
                    flush=True,
                )
    for (records, adjacency), found in widths.items():
        tv, epsilon = np.array(found).T
        print(
            f"{records} {adjacency}: median {np.median(tv):.4f} and {np.median(epsilon):.4f}, "
            f"worst {tv.max():.4f} and {epsilon.max():.4f}"
        )


if __name__ == "__main__":
    main()
