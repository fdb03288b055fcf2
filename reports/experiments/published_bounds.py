"""Every number of the closed-form paper's tables that theory alone decides, beside ours. Half a minute, no training.

    python reports/experiments/published_bounds.py [folder]

Ertan and van Dijk, arXiv:2610.09651, Tables 3, 4, 7, 8, 9 and 11. `lower` and `upper` enclose the exact value (of σ: a
noise that provably misses the target, and one that provably meets it). agrees: the published number, which is rounded,
lies in that interval widened by half of its last digit. Writes published_bounds.csv, the same bytes everywhere.
"""

from __future__ import annotations

import sys
from pathlib import Path

from coalmine.audit.bounds import RandomAllocation, closed_form
from coalmine.foundation import write_text

NINE = [(m, e) for m in (100, 250, 500) for e in (10, 20, 40)]
CLOSED = (1.7370, 2.3621, 3.2689, 1.2088, 1.5826, 2.1352, 0.9592, 1.2093, 1.5829)
EXACT = (1.426215, 1.907073, 2.610518, 1.024495, 1.309428, 1.732809, 0.834432, 1.025964, 1.310146)
TV_AT = {  # λ of the closed form: exact TV there, in the order of NINE
    0.10: (0.07885, 0.07887, 0.07888, 0.07880, 0.07886, 0.07887, 0.07870, 0.07884, 0.07887),
    0.20: (0.15193, 0.15254, 0.15270, 0.15079, 0.15223, 0.15262, 0.14923, 0.15172, 0.15249),
    0.35: (0.24117, 0.24572, 0.24724, 0.23524, 0.24318, 0.24643, 0.22923, 0.24004, 0.24523),
}
LARGER = {
    (100, 1): 0.6770, (1000, 1): 0.4520, (10**4, 1): 0.3532, (10**5, 1): 0.2970, (100, 100): 4.0400,
    (1000, 10): 0.7048, (10**4, 10): 0.4821, (1000, 100): 1.4289, (10**4, 100): 0.7085,
}  # fmt: skip
TPR = {(100, 10): (0.1516, 0.0191, 0.0023), (500, 10): (0.1523, 0.0194, 0.0024)}
RATES = (0.1, 0.01, 0.001)
TOLERANCE = 1e-6


def rows() -> list[str]:
    found = ["table,quantity,steps_per_epoch,epochs,at,published,lower,upper,agrees"]

    def add(table: int, quantity: str, cell: tuple[int, int], at: str, published: float, low: float, high: float,
            digits: int) -> None:  # fmt: skip
        half = 0.5 * 10.0**-digits + 1e-9
        agrees = low - half <= published <= high + half
        m, e = cell
        found.append(f"{table},{quantity},{m},{e},{at},{published:.{digits}f},{low:.{digits}f},{high:.{digits}f},"
                     f"{'yes' if agrees else 'no'}")  # fmt: skip

    for cell, closed, exact in zip(NINE, CLOSED, EXACT, strict=True):
        formula = closed_form.noise_multiplier_for_accuracy(*cell, 0.55)
        add(4, "closed_form_noise_multiplier", cell, "accuracy 0.55", closed, formula, formula, 4)
        low, high = bracket(cell, 0.55)
        # the paper rounds its exact σ up to 1e-6, so that ours may lie up to 1e-6 below it
        add(4, "exact_noise_multiplier", cell, "accuracy 0.55", exact, low, high + 1e-6, 6)
    for level, values in TV_AT.items():
        for cell, published in zip(NINE, values, strict=True):
            sigma = closed_form.noise_multiplier_for_accuracy(*cell, 0.5 + level / 2)
            tv = RandomAllocation(*cell, sigma).accuracy(width=5e-7)
            add(11, "total_variation", cell, f"lambda {level}", published, 2 * tv.lower - 1, 2 * tv.upper - 1, 5)
    for cell, published in LARGER.items():
        add(7, "exact_noise_multiplier", cell, "accuracy 0.55", published, *bracket(cell, 0.55, 1e-5), 4)
    for cell, published in TPR.items():
        sigma = EXACT[NINE.index(cell)]
        found_rates = RandomAllocation(*cell, sigma).true_positive_rate(list(RATES))
        for k, rate in enumerate(RATES):
            add(3, "true_positive_rate", cell, f"FPR {rate}", published[k], found_rates.lower[k],
                found_rates.upper[k], 4)  # fmt: skip
    return found


def bracket(cell: tuple[int, int], accuracy: float, tolerance: float = TOLERANCE) -> tuple[float, float]:
    """A noise multiplier that provably misses the target, and one that provably meets it."""
    found = RandomAllocation.calibrate(*cell, accuracy=accuracy, tolerance=tolerance)
    return found.noise_multiplier * (1 - tolerance), found.noise_multiplier


def main(folder: Path) -> None:
    found = rows()
    write_text(folder / "published_bounds.csv", "\n".join(found) + "\n")
    wrong = [row for row in found[1:] if not row.endswith(",yes")]
    print(f"{len(found) - 1} published numbers, {len(wrong)} disagree", *wrong, sep="\n")


if __name__ == "__main__":
    main(Path(sys.argv[1] if len(sys.argv) > 1 else "runs/published_bounds"))
