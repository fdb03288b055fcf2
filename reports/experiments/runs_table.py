"""Size and power of the tests over independent training runs: the tables of docs/measured/runs.md.

    python reports/experiments/runs_table.py                    # about two minutes
    python reports/experiments/runs_table.py --repeats 100 --null-repeats 500

Power: the noise of the claimed mechanism divided by a factor, scores of the strongest attack on independent canaries,
all tests on the same runs. Fisher combines the grid's p-value of each run (what coalmine combined before); the bets
count the right guesses of every canary. Size: the claim holds, and canaries of one run err together.
"""

from __future__ import annotations

import argparse

import numpy as np
from scipy.optimize import linprog
from scipy.special import gammaincc

from coalmine.audit.bounds import Gaussian, RandomAllocation
from coalmine.audit.estimators import accuracy_bet, curve_bet, f_dp_p_values, guess_grid, runs_reject
from coalmine.audit.estimators.guesses import order_guesses
from coalmine.audit.estimators.rates import binomial_tail
from coalmine.audit.estimators.run_bets import RunBet, right_guess_tails
from coalmine.audit.planning.simulated_scores import attack_scores
from coalmine.foundation import numpy_stream

ALPHA = 0.05
RUNS = (2, 4, 8, 16, 32, 64)
CLAIMS = {
    "random allocation (100, 10, 1.43)": (RandomAllocation, {"steps_per_epoch": 100, "epochs": 10}, 1.43),
    "random allocation (20, 5, 1.6)": (RandomAllocation, {"steps_per_epoch": 20, "epochs": 5}, 1.6),
    "full batch, noise 4": (Gaussian, {}, 4.0),
}


class Fisher:
    """Fisher's combination of per-run grid p-values, tabulated for every count of right guesses."""

    def __init__(self, claim, canaries: int) -> None:
        self.grid = guess_grid(canaries, ALPHA)
        curve = claim.trade_off_curve()
        self.log_p = [
            np.log(f_dp_p_values(curve, np.arange(g + 1), np.full(g + 1, g), canaries, tolerance=1e-4))
            for g in self.grid
        ]

    def log_p_values(self, correct: np.ndarray) -> np.ndarray:
        """(…, grid) right guesses -> (…) logarithms of the p-values of single runs."""
        each = np.stack([table[correct[..., k]] for k, table in enumerate(self.log_p)], axis=-1)
        return np.minimum(0.0, each.min(axis=-1) + np.log(self.grid.size))

    def reject(self, log_p: np.ndarray) -> np.ndarray:
        return gammaincc(log_p.shape[-1], -log_p.sum(axis=-1)) < ALPHA


def ideal_runs(mechanism, canaries: int, grid: np.ndarray, sets: int, runs: int, seed: int) -> np.ndarray:
    """(sets, runs, grid) right guesses of the strongest attack; the last column guesses every canary."""
    leaking = attack_scores(mechanism, numpy_stream(seed, "runs_table/pool"))
    stream = numpy_stream(seed, f"runs_table/{canaries}")
    counts = np.empty((sets * runs, grid.size), int)
    for row in range(sets * runs):
        members = stream.random(canaries) < 0.5
        while not 0 < members.sum() < canaries:
            members = stream.random(canaries) < 0.5
        counts[row] = order_guesses(leaking.draw(members, stream), members).correct(grid)
    return counts.reshape(sets, runs, grid.size)


def heading(*names: str) -> list[str]:
    columns = [*names, *(f"{runs} runs" for runs in RUNS)]
    return ["| " + " | ".join(columns) + " |", "|---" * len(columns) + "|"]


def power_table(canaries: int, repeats: int, factors: tuple[float, ...], seed: int) -> list[str]:
    lines = heading("claim", "noise", "test")
    for name, (kind, fixed, noise) in CLAIMS.items():
        claim = kind(**fixed, noise_multiplier=noise)
        accuracy, fisher = float(claim.accuracy().upper), Fisher(claim, canaries)
        bets = {
            "curve bet": [curve_bet(claim, canaries, accuracy, runs, ALPHA) for runs in RUNS],
            "accuracy bet": [accuracy_bet(canaries, accuracy, runs, ALPHA) for runs in RUNS],
        }
        for factor in factors:
            ran = kind(**fixed, noise_multiplier=noise / factor)
            counts = ideal_runs(ran, canaries, fisher.grid, repeats, max(RUNS), seed)
            for test, made in bets.items():
                rates = [
                    runs_reject(bet, counts[:, :runs, -1], ALPHA).mean() for bet, runs in zip(made, RUNS, strict=True)
                ]
                lines.append(f"| {name} | /{factor:g} | {test} | " + " | ".join(f"{rate:.2f}" for rate in rates) + " |")
            log_p = fisher.log_p_values(counts)
            rates = [fisher.reject(log_p[:, :runs]).mean() for runs in RUNS]
            lines.append(f"| {name} | /{factor:g} | Fisher | " + " | ".join(f"{rate:.2f}" for rate in rates) + " |")
    return lines


def worst_law(bet: RunBet, accuracy: float, tail: np.ndarray) -> np.ndarray:
    """The law of right guesses in one run that pays a bet most among all that the claim allows."""
    m = bet.guesses
    v, heavy = np.arange(m + 1), [k for k in range(m // 2 + 1, m + 1) if tail[k] > 1e-9]
    rows = [v / m, *(v >= k for k in heavy), *(v <= m - k for k in heavy)]
    limits = np.array([accuracy, *tail[heavy], *tail[heavy]])
    scale = np.maximum(bet.payoff, 1)
    found = linprog(
        -bet.payoff / scale,
        A_ub=np.array(rows, float) / scale / limits[:, None],
        b_ub=np.ones(limits.size),
        A_eq=(1 / scale)[None],
        b_eq=[1.0],
        method="highs",
    )
    law = np.maximum(found.x, 0) / scale
    return law / law.sum()


def size_table(canaries: int, repeats: int, seed: int) -> tuple[list[str], list[str]]:
    """Rejections of a true claim, per cent; and the judged cells that fail. Parentheses: not allowed by the curve."""
    m, failing = canaries, []
    kind, fixed, noise = next(iter(CLAIMS.values()))
    claim = kind(**fixed, noise_multiplier=noise)
    a = float(claim.accuracy().upper)
    tail = right_guess_tails(claim, m, ALPHA)
    lines = heading("null", "test")
    for null in (
        "canaries independent",
        "worst law that the claim allows",
        "all right or all wrong",
        "all right sometimes",
    ):
        for test in ("accuracy bet", "curve bet"):
            texts = []
            for runs in RUNS:
                make = (
                    accuracy_bet(m, a, runs, ALPHA) if test == "accuracy bet" else curve_bet(claim, m, a, runs, ALPHA)
                )
                stream = numpy_stream(seed, f"runs_table/size/{null}/{runs}")
                shape = (repeats, runs)
                if null == "canaries independent":
                    counts = stream.binomial(m, a, shape)
                elif null == "worst law that the claim allows":
                    counts = stream.choice(m + 1, shape, p=worst_law(make, a, tail))
                elif null == "all right or all wrong":
                    counts = m * stream.binomial(1, a, shape)
                else:
                    counts = np.where(stream.random(shape) < 2 * a - 1, m, stream.binomial(m, 0.5, shape))
                above = int(runs_reject(make, counts, ALPHA).sum())
                judged = test == "accuracy bet" or not null.startswith("all right")
                text = f"{100 * above / repeats:.1f}"
                if judged and binomial_tail(above, repeats, ALPHA) < 1e-3 / (6 * len(RUNS)):
                    failing.append(f"{null}, {test}, {runs} runs")
                    text = f"**{text}**"
                texts.append(text if judged else f"({text})")
            lines.append(f"| {null} | {test} | " + " | ".join(texts) + " |")
    return lines, failing


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--repeats", type=int, default=400, help="sets of runs for the power")
    parser.add_argument("--null-repeats", type=int, default=5000)
    parser.add_argument("--canaries", type=int, default=60)
    parser.add_argument("--factors", type=float, nargs="+", default=[2.0, 3.0])
    parser.add_argument("--seed", type=int, default=0)
    options = parser.parse_args()
    lines, failing = size_table(options.canaries, options.null_repeats, options.seed)
    print(
        f"Rejections of a true claim at alpha {ALPHA}, per cent, {options.null_repeats} repeats, "
        f"{options.canaries} canaries."
    )
    print("\n".join(lines))
    print(f"\n{len(failing)} judged cells fail. {'; '.join(failing)}")
    print(f"\nPower at alpha {ALPHA}, {options.repeats} repeats, {options.canaries} canaries, the strongest attack.")
    print("\n".join(power_table(options.canaries, options.repeats, tuple(options.factors), options.seed)))


if __name__ == "__main__":
    main()
