"""How often each bound exceeds the truth, and what it shows: the tables of docs/measured/coverage.md.

    python reports/experiments/coverage_table.py                        # 3,000 repeats a cell, a quarter of an hour
    python reports/experiments/coverage_table.py --repeats 300 --canaries 100 --power-repeats 20

A bound exceeds the truth exactly when its test rejects the truth, so critical counts are tabulated once a cell and a
repeat costs one draw and one sort. A judged cell fails when P[Bin(repeats, 0.05) >= exceeding] is below 1e-3 divided
by the number of judged cells. Cells in parentheses are outside the assumption of their estimator: shown, not judged.
"""

from __future__ import annotations

import argparse
import math
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
from scipy.special import ndtri

from coalmine.audit.estimators import (
    calibrated_epsilon,
    clopper_pearson_upper,
    gaussian_epsilon,
    grid_epsilon,
    grid_gaussian_epsilon,
    guess_rule,
    tally_epsilon,
)
from coalmine.audit.estimators.calibrated import calibrated_p_value_of_level, level_boundary
from coalmine.audit.estimators.class_a import EpsilonDeltaCurve
from coalmine.audit.estimators.exact_tail import exact_tail_p_value
from coalmine.audit.estimators.f_dp import f_dp_p_values
from coalmine.audit.estimators.guesses import guess_grid, order_guesses
from coalmine.audit.estimators.one_run import one_run_p_value
from coalmine.audit.estimators.rates import binomial_tail, clopper_pearson_lower
from coalmine.audit.estimators.tallies import Tally, critical_counts
from coalmine.audit.planning.scenarios import Scenario, gaussian, standard_scenarios
from coalmine.foundation import numpy_stream

ALPHA, DELTA = 0.05, 1e-5
ORDER = (
    "one run, all guessed",
    "f-DP, all guessed",
    "one run, 10 % guessed",
    "grid (default)",
    "split",
    "calibrated",
    "grid, own curve",
    "Clopper-Pearson rates",
    "accuracy",
    "Gaussian mu",
    "exact Gaussian tail",
    "best count, uncorrected",
)
CLASSES = dict(zip(ORDER, ["A", "A", "A", "A", "A", "A", "B", "C", "C", "C", "C", "none"], strict=True))


@dataclass(frozen=True)
class Cell:
    estimator: str
    canaries: int
    scenario: str
    above: int
    repeats: int
    judged: bool


def coverage_cells(scenario: Scenario, canaries: int, repeats: int, seed: int) -> list[Cell]:
    """Every estimator on the same draws of one scenario."""
    rejects = exceedance_tests(scenario, canaries)
    above = dict.fromkeys(rejects, 0)
    for repeat in range(repeats):
        stream = numpy_stream(seed, f"coverage/{scenario.name}/{canaries}/{repeat}")
        scores, members = scenario.draw(canaries, stream)
        ordered = order_guesses(scores, members)
        for name, test in rejects.items():
            above[name] += bool(test(scores, members, ordered))
    family = scenario.name.startswith("Gaussian") or scenario.name == "no signal"
    judged = {
        name: (scenario.independent and (family or name not in ("Gaussian mu", "exact Gaussian tail")))
        if CLASSES[name] == "C"
        else CLASSES[name] != "none"
        for name in rejects
    }
    return [Cell(name, canaries, scenario.name, above[name], repeats, judged[name]) for name in rejects]


def exceedance_tests(scenario: Scenario, m: int) -> dict[str, Callable[[Any, Any, Any], bool]]:
    """For each estimator, whether its bound on these data exceeds the truth of the scenario."""
    truth = scenario.epsilon(DELTA)
    claim = EpsilonDeltaCurve(truth, DELTA)
    grid = guess_grid(m, ALPHA)
    tenth = max(6, m // 10)

    def reaches(counts: np.ndarray, critical: np.ndarray):
        return lambda scores, members, ordered: np.any(ordered.correct(counts) >= critical)

    def critical_single(guesses: int, p_value: Callable[[int], float], error: float = ALPHA) -> np.ndarray:
        low, high = 0, guesses + 1
        while high - low > 1:
            middle = (low + high) // 2
            low, high = (low, middle) if p_value(middle) <= error else (middle, high)
        return np.array([high])

    all_of_them = np.array([m])
    tests = {
        "one run, all guessed": reaches(
            all_of_them, critical_single(m, lambda v: one_run_p_value(v, m, m, truth, DELTA))
        ),
        "f-DP, all guessed": reaches(
            all_of_them, critical_single(m, lambda v: float(f_dp_p_values(claim, [v], [m], m)[0]))
        ),
        "one run, 10 % guessed": reaches(
            np.array([tenth]), critical_single(tenth, lambda v: one_run_p_value(v, tenth, m, truth, DELTA))
        ),
        "grid (default)": reaches(grid, critical_counts(claim, Tally(m, grid, grid), ALPHA)),
        "grid, own curve": reaches(grid, critical_counts(scenario.curve, Tally(m, grid, grid), ALPHA)),
        "best count, uncorrected": reaches(
            grid,
            np.array([critical_counts(claim, Tally(m, np.array([g]), np.array([g])), ALPHA)[0] for g in grid]),
        ),
        "calibrated": reaches(grid, _calibrated_boundary(grid, m, truth)),
    }

    splits: dict[tuple[int, int], int] = {}

    def split(scores: Any, members: Any, ordered: Any) -> bool:
        found = guess_rule("split").tally(scores, members, ALPHA)
        key = (found.canaries, int(found.guesses[0]))
        if key not in splits:
            splits[key] = int(critical_counts(claim, found, ALPHA)[0])
        return int(found.correct[0]) >= splits[key]

    tests["split"] = split

    accuracy = (math.exp(truth) + DELTA) / (1 + math.exp(truth))
    tests["accuracy"] = reaches(all_of_them, critical_single(m, lambda v: float(binomial_tail(v, m, accuracy))))
    mu = _mu_of(truth)
    tests["exact Gaussian tail"] = reaches(all_of_them, critical_single(m, lambda v: exact_tail_p_value(v, m, m, mu)))

    def rate_limits(members: np.ndarray, ordered: Any) -> tuple[float, float]:
        high, low = (m + 1) // 2, m // 2
        n1 = int(members.sum())
        return (
            float(clopper_pearson_upper(high - int(ordered.right_high[high]), m - n1, 1 - ALPHA / 2)),
            float(clopper_pearson_upper(low - int(ordered.right_low[low]), n1, 1 - ALPHA / 2)),
        )

    def rates(scores: Any, members: Any, ordered: Any) -> bool:
        fpr, fnr = rate_limits(members, ordered)
        return max(1 - fnr - DELTA - math.exp(truth) * fpr, 1 - fpr - DELTA - math.exp(truth) * fnr) > 0

    def gaussian_mu(scores: Any, members: Any, ordered: Any) -> bool:
        fpr, fnr = rate_limits(members, ordered)
        return fpr < 1 and fnr < 1 and -ndtri(fpr) - ndtri(fnr) > mu

    tests["Clopper-Pearson rates"] = rates
    tests["Gaussian mu"] = gaussian_mu
    return {name: tests[name] for name in ORDER}


def _calibrated_boundary(grid: np.ndarray, m: int, truth: float) -> np.ndarray:
    """The boundary of the largest level whose p-value is still at most alpha."""
    low, high = ALPHA / grid.size / 1e3, ALPHA
    if calibrated_p_value_of_level(truth, DELTA, grid, m, low) > ALPHA:
        return grid + 1
    while high / low > 1 + 1e-6:
        middle = math.sqrt(low * high)
        if calibrated_p_value_of_level(truth, DELTA, grid, m, middle) <= ALPHA:
            low = middle
        else:
            high = middle
    return level_boundary(grid, truth, low)


def _mu_of(epsilon: float) -> float:
    low, high = 0.0, 40.0
    for _ in range(100):
        middle = (low + high) / 2
        low, high = (middle, high) if gaussian_epsilon(middle, DELTA) <= epsilon else (low, middle)
    return low


def power_rows(canaries: int, repeats: int, seed: int) -> list[tuple[str, str, int, float]]:
    """Mean bounds on Gaussian scores, every estimator on the same draws."""
    rows = []
    for mu in (1.0, 2.0):
        scenario = gaussian(mu)
        values: dict[str, list[float]] = {}
        for repeat in range(repeats):
            stream = numpy_stream(seed, f"power/{scenario.name}/{canaries}/{repeat}")
            scores, members = scenario.draw(canaries, stream)
            each = canaries // 20 or 3
            fixed = guess_rule("fixed", each, each)
            everything = guess_rule("all").tally(scores, members, ALPHA)
            for name, value in (
                ("grid (default), A", grid_epsilon(scores, members, DELTA)),
                ("calibrated, A", calibrated_epsilon(scores, members, DELTA) if canaries * DELTA < ALPHA else math.nan),
                ("split, A", tally_epsilon(guess_rule("split").tally(scores, members), DELTA, 1 - ALPHA).value),
                ("10 % guessed, fixed, A", tally_epsilon(fixed.tally(scores, members), DELTA, 1 - ALPHA).value),
                ("all guessed, A", tally_epsilon(everything, DELTA, 1 - ALPHA).value),
                ("grid, Gaussian family, B", grid_gaussian_epsilon(scores, members, DELTA)),
                ("accuracy, C", _accuracy(int(everything.correct[0]), canaries)),
            ):
                values.setdefault(name, []).append(value)
        rows += [(name, scenario.name, canaries, float(np.mean(found))) for name, found in values.items()]
    return rows


def _accuracy(correct: int, canaries: int) -> float:
    limit = float(clopper_pearson_lower(correct, canaries, 1 - ALPHA))
    return max(0.0, math.log((limit - DELTA) / (1 - limit))) if limit > DELTA else 0.0


def failing(cells: list[Cell]) -> list[Cell]:
    """Judged cells whose count is below 1e-3/number of judged cells under the nominal error."""
    judged = [cell for cell in cells if cell.judged]
    return [c for c in judged if float(binomial_tail(c.above, c.repeats, ALPHA)) < 1e-3 / len(judged)]


def markdown(cells: list[Cell], sizes: list[int], scenarios: list[str]) -> str:
    found = {(c.estimator, c.canaries, c.scenario): c for c in cells}
    bad = failing(cells)
    lines = ["| estimator | class | m | " + " | ".join(scenarios) + " |", "|---" * (3 + len(scenarios)) + "|"]
    for name in ORDER:
        for m in sizes:
            texts = []
            for scenario in scenarios:
                cell = found[name, m, scenario]
                text = f"{100 * cell.above / cell.repeats:.1f}"
                texts.append(f"**{text}**" if cell in bad else text if cell.judged else f"({text})")
            lines.append(f"| {name} | {CLASSES[name]} | {m} | " + " | ".join(texts) + " |")
    return "\n".join(lines)


def main() -> None:
    import interval_table  # beside this script

    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--repeats", type=int, default=3000)
    parser.add_argument("--power-repeats", type=int, default=200)
    parser.add_argument("--canaries", type=int, nargs="+", default=[100, 1000, 10000])
    parser.add_argument("--seed", type=int, default=0)
    options = parser.parse_args()
    scenarios = standard_scenarios()
    cells = [
        cell
        for scenario in scenarios
        for m in options.canaries
        for cell in coverage_cells(scenario, m, options.repeats, options.seed)
    ]
    judged = sum(cell.judged for cell in cells)
    print(
        f"Runs whose bound exceeds the truth, per cent; nominal 5, {options.repeats} repeats a cell, delta {DELTA:g}."
    )
    print(markdown(cells, options.canaries, [scenario.name for scenario in scenarios]))
    print(f"\n{judged} judged cells, {len(failing(cells))} fail.")
    print(f"\nIntervals that miss the truth, per cent · mean width; nominal 5, {options.repeats} repeats a cell.")
    intervals = interval_table.interval_cells(options.repeats, options.seed)
    print(interval_table.markdown(intervals))
    print(f"\n{sum(cell.judged for cell in intervals)} judged cells, {len(interval_table.failing(intervals))} fail.")
    if options.power_repeats:
        print(f"\nMean bound on epsilon, delta {DELTA:g}, 95 %, {options.power_repeats} repeats.")
        rows = [row for m in options.canaries for row in power_rows(m, options.power_repeats, options.seed)]
        names = list(dict.fromkeys(row[0] for row in rows))
        columns = list(dict.fromkeys((row[1], row[2]) for row in rows))
        value = {(row[0], row[1], row[2]): row[3] for row in rows}
        print("| rule, class | " + " | ".join(f"{scenario}, m = {m}" for scenario, m in columns) + " |")
        print("|---" * (1 + len(columns)) + "|")
        for name in names:
            texts = ["–" if math.isnan(v := value[name, s, m]) else f"{v:.2f}" for s, m in columns]
            print(f"| {name} | " + " | ".join(texts) + " |")


if __name__ == "__main__":
    main()
