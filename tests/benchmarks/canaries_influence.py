"""Influence of many candidates in bounded memory.

    python tests/benchmarks/canaries_influence.py --candidates 2000        # scaled down: prints the cost a candidate
    python tests/benchmarks/canaries_influence.py --candidates 50000       # the 137k-parameter network, k = 512

Prints CPU seconds and the peak resident memory of the process.
"""

import argparse
import resource
import time

import numpy as np
import torch

from coalmine.audit.training.models import build_model
from coalmine.canaries.greedy import select_greedy
from coalmine.canaries.influence import influence


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--candidates", type=int, default=2000)
    parser.add_argument("--projection", type=int, default=512)
    parser.add_argument("--fisher-rows", type=int, default=1000)
    parser.add_argument("--count", type=int, default=1000)
    arguments = parser.parse_args()
    torch.set_num_threads(1)
    stream = np.random.default_rng(0)
    x = stream.random((arguments.candidates, 3, 32, 32), dtype=np.float32)
    y = stream.integers(0, 10, arguments.candidates)
    model = build_model("cnn-137k", (3, 32, 32), 10, 0)
    started = time.process_time()
    among = influence(
        [model], (x, y), (x[: arguments.fisher_rows], y), method="projected", projection=arguments.projection
    )
    made = time.process_time()
    select_greedy(among, min(arguments.count, arguments.candidates // 2))
    chosen = time.process_time()
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 2**20
    print(
        f"{arguments.candidates} candidates, k = {arguments.projection}: influence {made - started:.1f} CPU s "
        f"({(made - started) / arguments.candidates * 1e3:.2f} ms each), greedy {chosen - made:.1f} CPU s, "
        f"peak memory {peak:.2f} GiB"
    )


if __name__ == "__main__":
    main()
