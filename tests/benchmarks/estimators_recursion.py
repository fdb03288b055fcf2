"""Speed of the f-DP recursion, as ratios to the plain one and, where it installs, to jax-privacy.

python tests/benchmarks/estimators_recursion.py
"""

from __future__ import annotations

import math
import time

from scipy.special import ndtr, ndtri

from coalmine.audit.estimators import f_dp_epsilon, gaussian_family_epsilon, grid_epsilon


def plain_gaussian_mu(correct: int, guesses: int, canaries: int, alpha: float = 0.05) -> float:
    """The recursion number by number and a bisection in mu, without early exits."""

    def certified(mu: float) -> bool:
        x, h = alpha * correct / canaries, alpha * (guesses - correct) / canaries
        for i in range(correct - 1, -1, -1):
            raised = max(h, float(ndtr(ndtri(x) - mu)))
            x = min(1.0, x + i / (guesses - i) * (raised - h))
            h = raised
        return x + h > guesses / canaries

    low, high = 0.0, 40.0
    if not certified(0.0):
        return 0.0
    while high - low > 1e-9:
        middle = (low + high) / 2
        low, high = (middle, high) if certified(middle) else (low, middle)
    return low


def seconds(function, *arguments, at_least: float = 0.2):
    start, calls = time.perf_counter(), 0
    while (elapsed := time.perf_counter() - start) < at_least or calls == 0:
        function(*arguments)
        calls += 1
    return elapsed / calls


def main() -> None:
    print("f_dp_epsilon and gaussian_family_epsilon at delta 1e-6, 70 % of all m guesses right")
    for m in (100, 1_000, 10_000, 100_000, 1_000_000):
        ours = seconds(f_dp_epsilon, m * 7 // 10, m, m, 1e-6)
        gauss = seconds(gaussian_family_epsilon, m * 7 // 10, m, m, 1e-6)
        line = f"m = {m:>8}: (epsilon, delta) {1e3 * ours:8.2f} ms, Gaussian {1e3 * gauss:8.2f} ms"
        if m <= 10_000:
            plain = seconds(plain_gaussian_mu, m * 7 // 10, m, m)
            line += f", plain recursion / ours {plain / gauss:7.1f}"
            line += _jax_ratio(m, gauss)
        print(line)
    import numpy as np

    for m in (1_000, 10_000, 1_000_000):
        stream = np.random.default_rng(0)
        members = stream.random(m) < 0.5
        scores = stream.normal(size=m) + 2 * members
        print(f"grid_epsilon, m = {m:>8}: {1e3 * seconds(grid_epsilon, scores, members, 1e-6):8.2f} ms")


def _jax_ratio(m: int, ours: float) -> str:
    try:
        from jax_privacy.auditing import _epsilon_one_run_fdp  # pyright: ignore[reportMissingImports]
    except ImportError:
        return ""
    theirs = seconds(lambda: _epsilon_one_run_fdp(0.0, m, m, m * 7 // 10, 0.05, 1e-6))
    return f", jax-privacy / ours {theirs / ours:7.1f}" if math.isfinite(theirs) else ""


if __name__ == "__main__":
    main()
