"""Seconds and widths of the certified intervals over a grid of (M, E, σ), each cell from a cold cache.

    python tests/benchmarks/bounds_grid.py

Asked: width 1e-6 on accuracy, 1e-3 relative on ε at δ = 1e-5. "!" marks what missed its width.
"""

from __future__ import annotations

import resource
import time

from coalmine.audit.bounds import RandomAllocation
from coalmine.audit.bounds.refine import profile_of


def main() -> None:
    print(
        f"{'sigma':>5} {'M':>6} {'E':>4} {'accuracy':>10} {'width':>8} {'s':>6} {'epsilon':>9} {'relative':>9} {'s':>6}"
    )
    for sigma in (0.5, 0.7, 1.0, 2.0, 5.0):
        for m in (100, 1000, 10_000):
            for e in (1, 10, 100):
                mechanism = RandomAllocation(m, e, sigma)
                profile_of.cache_clear()
                start = time.process_time()
                accuracy = mechanism.accuracy(1e-6)
                middle = time.process_time()
                profile_of.cache_clear()
                epsilon = mechanism.epsilon(1e-5)
                end = time.process_time()
                relative = epsilon.width / epsilon.upper
                print(
                    f"{sigma:5g} {m:6d} {e:4d} {accuracy.upper:10.7f} {accuracy.width:8.1e}"
                    f"{'!' if accuracy.width > 1e-6 else ' '}{middle - start:6.2f} {epsilon.upper:9.5f} {relative:9.1e}"
                    f"{'!' if relative > 1e-3 else ' '}{end - middle:6.2f}",
                    flush=True,
                )
    print(f"peak memory {resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 2**20:.2f} GiB")


if __name__ == "__main__":
    main()
