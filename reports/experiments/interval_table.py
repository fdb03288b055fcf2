"""How often each printed interval misses its truth: ties, small samples and shapes that no formula expects.

    python reports/experiments/interval_table.py                 # 3,000 repeats a cell, about two minutes

A judged cell fails when P[Bin(repeats, 0.05) >= missing] is below 1e-3 divided by the number of judged cells.
coverage_table.py prints this table too, after the one of the bounds on epsilon.
"""

from __future__ import annotations

import argparse
from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
from scipy.special import ndtr, ndtri
from scipy.stats import cauchy

from coalmine.audit.bounds import Gaussian, RandomAllocation
from coalmine.audit.estimators import auc, auc_interval, clopper_pearson, mean_interval, runs_accuracy, tpr_at_fpr
from coalmine.audit.estimators.error_counts import errors_at_the_middle, errors_at_threshold
from coalmine.audit.estimators.guesses import guess_grid, order_guesses
from coalmine.audit.estimators.rates import binomial_tail
from coalmine.audit.estimators.roc_band import roc_band
from coalmine.audit.estimators.tallies import Tally, critical_counts
from coalmine.audit.planning.simulated_scores import attack_scores
from coalmine.foundation import numpy_stream

CONFIDENCE = 0.95
SIZES = ((5, 5), (10, 100), (50, 50), (100, 10), (200, 200), (1000, 1000))

Draw = Callable[[np.random.Generator, int], np.ndarray]


@dataclass(frozen=True)
class World:
    """Independent scores of members and non-members, and their true ROC as a polygon from (0, 0) to (1, 1)."""

    name: str
    member: Draw
    non_member: Draw
    false_positive_rate: np.ndarray
    true_positive_rate: np.ndarray

    def area(self) -> float:
        return float(np.trapezoid(self.true_positive_rate, self.false_positive_rate))

    def true_positive_rates(self, rate: float) -> tuple[float, float]:
        """The TPR of the best whole-block threshold at that FPR, and the interpolated one."""
        whole = self.true_positive_rate[self.false_positive_rate <= rate * (1 + 1e-9)].max()
        return float(whole), float(np.interp(rate, self.false_positive_rate, self.true_positive_rate))

    def middle(self, members: int, non_members: int) -> float:
        """Balanced accuracy where half of all scores are called "member"."""
        share = members / (members + non_members)
        called = share * self.true_positive_rate + (1 - share) * self.false_positive_rate
        balanced = (1 + self.true_positive_rate - self.false_positive_rate) / 2
        return float(np.interp(0.5, called, balanced))


@dataclass(frozen=True)
class Cell:
    interval: str
    world: str
    size: str
    missed: int
    repeats: int
    width: float
    judged: bool = True


def worlds() -> list[World]:
    fine = np.linspace(45, -45, 90_001)
    whole = np.arange(45, -46, -1)

    def world(name: str, member: Draw, non_member: Draw, upper_member, upper_non_member, points=fine) -> World:
        ends = lambda tail: np.concatenate(([0.0], tail(points), [1.0]))  # noqa: E731
        return World(name, member, non_member, ends(upper_non_member), ends(upper_member))

    def normal(shift: float, scale: float = 1.0):
        return lambda s, n: shift + scale * s.standard_normal(n), lambda t: ndtr((shift - t) / scale)

    def rounded(shift: float):
        return lambda s, n: np.round(shift + s.standard_normal(n)), lambda t: ndtr(shift - t + 0.5)

    def split(share: float, high: float, low: float):
        def draw(s: np.random.Generator, n: int) -> np.ndarray:
            return np.where(s.random(n) < share, high, low) + s.standard_normal(n)

        return draw, lambda t: share * ndtr(high - t) + (1 - share) * ndtr(low - t)

    def binary(rate: float):
        return lambda s, n: (s.random(n) < rate).astype(float), lambda t: np.where(t <= 0, 1.0, rate * (t <= 1))

    def pair(name: str, members, non_members, points=fine) -> World:
        return world(name, members[0], non_members[0], members[1], non_members[1], points)

    heavy = (lambda s, n: 1 + 3 * s.standard_cauchy(n), lambda t: cauchy.sf(t, 1, 3))
    return [
        pair("no signal", normal(0), normal(0)),
        pair("normal, shift 1", normal(1), normal(0)),
        pair("normal, shift 3", normal(3), normal(0)),
        pair("rounded to whole numbers", rounded(1), rounded(0), whole),
        pair("two values, 30 % and 2 %", binary(0.3), binary(0.02), whole),
        pair("two values, 90 % and 50 %", binary(0.9), binary(0.5), whole),
        pair("a third memorised", split(1 / 3, 8, 0), normal(0)),
        pair("members on both sides", split(0.8, 8, -8), normal(0)),
        pair("members eight times wider", normal(0, 8), normal(0)),
        pair("heavy tails", heavy, normal(0)),
    ]


def metric_cells(world: World, members: int, non_members: int, repeats: int, seed: int) -> list[Cell]:
    """Every metric of one audit on the same draws."""
    flags = np.arange(members + non_members) < members
    rates = [rate for rate in (0.01, 0.1) if non_members * rate >= 10]
    names = ["AUC", "balanced accuracy, middle", "balanced accuracy, threshold", *(f"TPR at FPR {r:g}" for r in rates)]
    names += ["ROC band"] if min(members, non_members) >= 10 else []
    beside = ["AUC, Newcombe's method 5", *(f"TPR at FPR {r:g}, realised threshold" for r in rates)]
    names += beside  # what others print: shown, not judged
    missed, width = dict.fromkeys(names, 0), dict.fromkeys(names, 0.0)
    at = 0.5  # the fixed threshold, and the shares of members and of non-members above it
    above = [
        float(np.mean(draw(numpy_stream(seed, "interval/threshold"), 10**6) >= at))
        for draw in (world.member, world.non_member)
    ]
    truths = {
        "AUC": (world.area(),),
        "balanced accuracy, middle": (world.middle(members, non_members),),
        "balanced accuracy, threshold": ((1 + above[0] - above[1]) / 2,),
        **{f"TPR at FPR {rate:g}": world.true_positive_rates(rate) for rate in rates},
    }
    for repeat in range(repeats):
        stream = numpy_stream(seed, f"interval/{world.name}/{members}/{non_members}/{repeat}")
        scores = np.concatenate((world.member(stream, members), world.non_member(stream, non_members)))
        # Rows in any order: whatever rests on it would show.
        order = stream.permutation(flags.size)
        scores, inside = scores[order], flags[order]
        found = {
            "AUC": auc_interval(auc(scores, inside), members, non_members, CONFIDENCE),
            "balanced accuracy, middle": errors_at_the_middle(scores, inside).balanced_accuracy_interval(CONFIDENCE),
            "balanced accuracy, threshold": errors_at_threshold(scores, inside, at).balanced_accuracy_interval(
                CONFIDENCE
            ),
            **{f"TPR at FPR {rate:g}": tpr_at_fpr(scores, inside, rate, CONFIDENCE).interval for rate in rates},
        }
        found["AUC, Newcombe's method 5"] = newcombe(auc(scores, inside), members, non_members)
        for rate in rates:
            hits = tpr_at_fpr(scores, inside, rate).tp
            found[f"TPR at FPR {rate:g}, realised threshold"] = clopper_pearson(hits, members, CONFIDENCE)
        for name, (low, high) in found.items():
            wanted = truths[name.split(",")[0] if name in beside else name]
            missed[name] += any(not low - 1e-9 <= truth <= high + 1e-9 for truth in wanted)
            width[name] += (high - low) / repeats
        if "ROC band" in missed:
            band = roc_band(scores, inside, CONFIDENCE)
            curve = np.interp(band.false_positive_rate, world.false_positive_rate, world.true_positive_rate)
            slack = 1e-4  # of the polygon that stands for a smooth curve
            missed["ROC band"] += bool(np.any((curve < band.lower - slack) | (curve > band.upper + slack)))
            width["ROC band"] += float(np.mean(band.upper - band.lower)) / repeats
    size = f"{members} + {non_members}"
    return [Cell(name, world.name, size, missed[name], repeats, width[name], name not in beside) for name in names]


def newcombe(area: float, members: int, non_members: int) -> tuple[float, float]:
    """Newcombe 2006, method 5: |area - t| <= z sqrt(V(t)) with the variance of the exponential model."""
    t = np.linspace(0, 1, 2001)
    half = (members + non_members) / 2 - 1
    variance = t * (1 - t) * (1 + half * (1 - t) / (2 - t) + half * t / (1 + t)) / (members * non_members)
    inside = t[np.abs(area - t) <= ndtri(0.5 + CONFIDENCE / 2) * np.sqrt(variance) + 1e-12]
    return float(inside[0]), float(inside[-1])


INSIDE = {
    "canaries independent": (lambda s, m, n: s.binomial(m, 0.6, n), 0.6),
    "all right or all wrong": (lambda s, m, n: m * s.binomial(1, 0.55, n), 0.55),
    "all right in 5 %": (lambda s, m, n: m * s.binomial(1, 0.05, n), 0.05),
    "runs of two kinds": (lambda s, m, n: np.where(np.arange(n) % 2, m, s.binomial(m, 0.2, n)), 0.6),
}


def run_cells(repeats: int, seed: int) -> list[Cell]:
    """Accuracy over runs; beside it, outside its assumption where canaries err together, the t interval."""
    cells = []
    for world, (draw, truth) in INSIDE.items():
        for canaries, runs in ((1, 20), (60, 2), (60, 16), (60, 64)):
            stream = numpy_stream(seed, f"interval/runs/{world}/{canaries}/{runs}")
            found = [runs_accuracy(draw(stream, canaries, runs), canaries, CONFIDENCE) for _ in range(repeats)]
            missed = sum(not each.lower <= truth <= each.upper for each in found)
            width = float(np.mean([each.upper - each.lower for each in found]))
            cells.append(Cell("accuracy over runs", world, f"{runs} × {canaries}", missed, repeats, width))
            if canaries == 1:
                continue
            means = [mean_interval(draw(stream, canaries, runs) / canaries, CONFIDENCE) for _ in range(repeats)]
            missed = sum(not each.lower <= truth <= each.upper for each in means)  # type: ignore[operator]
            width = float(np.mean([2 * (each.half_width or 0) for each in means]))
            judged = world == "canaries independent" and runs > 2
            cells.append(Cell("t interval", world, f"{runs} × {canaries}", missed, repeats, width, judged))
    for m in (5, 100, 1000):
        stream = numpy_stream(seed, f"interval/accuracy/{m}")
        low, high = clopper_pearson(stream.binomial(m, 0.7, repeats), m, CONFIDENCE)
        missed = int(np.sum((low > 0.7) | (high < 0.7)))
        cells.append(
            Cell("attack accuracy", "canaries independent", f"{m}", missed, repeats, float(np.mean(high - low)))
        )
    return cells


def noise_cells(repeats: int, seed: int) -> list[Cell]:
    """The upper bound on the noise multiplier lies below the truth exactly where the truth is rejected."""
    cells = []
    for name, mechanism in (
        ("full batch, noise 1", Gaussian(noise_multiplier=1.0)),
        ("random allocation (20, 5, 0.8)", RandomAllocation(steps_per_epoch=20, epochs=5, noise_multiplier=0.8)),
    ):
        leaking = attack_scores(mechanism, numpy_stream(seed, "interval/pool"))
        for m in (20, 100, 1000):
            grid = guess_grid(m, 1 - CONFIDENCE)
            critical = critical_counts(mechanism.trade_off_curve(), Tally(m, grid, grid), 1 - CONFIDENCE)
            missed = 0
            for repeat in range(repeats):
                stream = numpy_stream(seed, f"interval/noise/{name}/{m}/{repeat}")
                inside = stream.random(m) < 0.5
                if 0 < inside.sum() < m:
                    counts = order_guesses(leaking.draw(inside, stream), inside).correct(grid)
                    missed += bool(np.any(counts >= critical))
            cells.append(Cell("noise multiplier, upper", name, f"{m}", missed, repeats, float("nan")))
    return cells


def failing(cells: list[Cell]) -> list[Cell]:
    judged = [cell for cell in cells if cell.judged]
    error = 1 - CONFIDENCE
    return [c for c in judged if float(binomial_tail(c.missed, c.repeats, error)) < 1e-3 / len(judged)]


def markdown(cells: list[Cell]) -> str:
    """Misses in per cent (mean width) for each interval and world, a column a size."""
    bad, lines = failing(cells), []
    for interval in dict.fromkeys(cell.interval for cell in cells):
        some = [cell for cell in cells if cell.interval == interval]
        sizes = list(dict.fromkeys(cell.size for cell in some))
        lines += ["", f"| {interval} | " + " | ".join(sizes) + " |", "|---" * (1 + len(sizes)) + "|"]
        for world in dict.fromkeys(cell.world for cell in some):
            texts = []
            for size in sizes:
                cell = next((c for c in some if c.world == world and c.size == size), None)
                if cell is None:
                    texts.append("–")
                    continue
                share = f"{100 * cell.missed / cell.repeats:.1f}"
                share = f"**{share}**" if cell in bad else share if cell.judged else f"({share})"
                texts.append(share if np.isnan(cell.width) else f"{share} · {cell.width:.3f}")
            lines.append(f"| {world} | " + " | ".join(texts) + " |")
    return "\n".join(lines)


def interval_cells(repeats: int, seed: int, sizes=SIZES) -> list[Cell]:
    cells = [c for world in worlds() for n1, n0 in sizes for c in metric_cells(world, n1, n0, repeats, seed)]
    return cells + run_cells(repeats, seed) + noise_cells(repeats, seed)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--repeats", type=int, default=3000)
    parser.add_argument("--seed", type=int, default=0)
    options = parser.parse_args()
    cells = interval_cells(options.repeats, options.seed)
    print(f"Intervals that miss the truth, per cent · mean width; nominal 5, {options.repeats} repeats a cell.")
    print(markdown(cells))
    print(f"\n{sum(cell.judged for cell in cells)} judged cells, {len(failing(cells))} fail.")


if __name__ == "__main__":
    main()
