"""Random allocation on twenty cells: PLD_accounting against coalmine at the width that it returned.

    python tests/benchmarks/allocation_peers.py [seconds allowed a cell, 600]

Needs `pip install PLD_accounting` next to coalmine, in an environment of its own. Each peer's cell runs in a process of
its own, so that it can be ended. Prints processor seconds, both intervals of the total variation, and ratios; asserts
that the intervals overlap and that coalmine's is never wider.
"""

from __future__ import annotations

import subprocess
import sys
import time

from coalmine.audit.bounds import Interval, RandomAllocation
from coalmine.audit.bounds.refine import profile_of

# M, E, sigma, loss discretisation: one epoch at two steps each, then several epochs at coarse ones
CELLS = [
    *((m, 1, s, d) for m, s in ((10, 1.0), (100, 1.0), (100, 2.0), (1000, 0.5), (1000, 1.0)) for d in (0.05, 0.02)),
    (100, 1, 0.7, 0.05),
    (100, 1, 4.0, 0.02),
    (10_000, 1, 0.5, 0.05),
    (10, 2, 1.0, 0.1),
    (10, 5, 2.0, 0.1),
    (100, 2, 1.0, 0.1),
    (100, 3, 1.0, 0.1),
    (100, 10, 2.0, 0.1),
    (500, 10, 1.0, 0.1),
    (100, 10, 1.4262, 0.05),
]

PEER = """
import sys, time
import numpy as np
from PLD_accounting import (AllocationSchemeConfig, BoundType, ConvolutionMethod, Direction, PrivacyParams,
                            gaussian_allocation_directional_pld)
m, e, sigma, step = int(sys.argv[1]), int(sys.argv[2]), float(sys.argv[3]), float(sys.argv[4])
start = time.process_time()
for bound in (BoundType.IS_DOMINATED, BoundType.DOMINATES):
    pld = gaussian_allocation_directional_pld(
        params=PrivacyParams(sigma=sigma, num_steps=m, num_selected=1, num_epochs=e),
        config=AllocationSchemeConfig(loss_discretization=step, tail_truncation=1e-10,
                                      convolution_method=ConvolutionMethod.GEOM),
        bound_type=bound, direction=Direction.REMOVE)
    print(float((pld.prob_arr * np.maximum(0.0, -np.expm1(-np.asarray(pld.x_array)))).sum() + pld.p_max))
print(time.process_time() - start)
"""


def main(allowed: float) -> None:
    RandomAllocation(50, 2, 1.0).accuracy(1e-3)  # imports and FFT tables, which a peer's second side has warm too
    print(
        f"{'M, E, sigma, step':>24} {'theirs':>22} {'seconds':>9} {'coalmine':>22} {'seconds':>9} {'times':>8}"
        f" {'width':>7}"
    )
    for m, e, sigma, step in CELLS:
        name = f"{m}, {e}, {sigma}, {step}"
        try:
            command = [sys.executable, "-c", PEER, *(str(x) for x in (m, e, sigma, step))]
            done = subprocess.run(command, capture_output=True, text=True, timeout=allowed)
            low, high, seconds = (float(x) for x in done.stdout.split())
        except (subprocess.TimeoutExpired, ValueError) as error:
            print(
                f"{name:>24} {type(error).__name__:>22} (more than {allowed:g} s of wall time, or failed)", flush=True
            )
            continue
        best = float("inf")
        for _ in range(3):
            profile_of.cache_clear()
            start = time.process_time()
            found = RandomAllocation(m, e, sigma).accuracy((high - low) / 2)
            best = min(best, time.process_time() - start)
        ours = Interval(2 * found.lower - 1, 2 * found.upper - 1)
        assert ours.overlaps(Interval(low, high)) and ours.width <= high - low, name
        print(
            f"{name:>24} [{low:.6f}, {high:.6f}] {seconds:9.2f} [{ours.lower:.6f}, {ours.upper:.6f}] {best:9.4f} "
            f"{seconds / best:8.0f} {(high - low) / ours.width:7.1f}",
            flush=True,
        )


if __name__ == "__main__":
    main(float(sys.argv[1]) if len(sys.argv) > 1 else 600.0)
