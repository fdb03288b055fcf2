"""Noise for a CIFAR-10-like recipe by each accountant of Opacus, its own and coalmine's, and the percentage saved.

    python reports/experiments/opacus_noise_saved.py          # needs coalmine[opacus]

50,000 records, batches of 1024, 100 epochs (rounded to M = 49 steps), δ = 1e-5.
"""

from __future__ import annotations

import time
import warnings

from opacus.accountants.utils import get_noise_multiplier

from coalmine.audit.opacus_accountant import register

STEPS_PER_EPOCH, EPOCHS, DELTA = 49, 100, 1e-5


def main() -> None:
    register()
    warnings.simplefilter("ignore")
    names = ("rdp", "prv", "coalmine", "coalmine_random_allocation")
    print(f"{'epsilon':>8} " + " ".join(f"{name:>28}" for name in names))
    for epsilon in (1.0, 3.0, 8.0):
        found = []
        for name in names:
            start = time.process_time()
            sigma = get_noise_multiplier(
                target_epsilon=epsilon,
                target_delta=DELTA,
                sample_rate=1 / STEPS_PER_EPOCH,
                steps=STEPS_PER_EPOCH * EPOCHS,
                accountant=name,
                epsilon_tolerance=1e-3,
            )
            found.append((sigma, time.process_time() - start))
        cells = [f"{s:.5f} ({100 * (1 - s / found[0][0]):.2f} %, {t:.1f} s)" for s, t in found]
        print(f"{epsilon:8g} " + " ".join(f"{cell:>28}" for cell in cells))


if __name__ == "__main__":
    main()
