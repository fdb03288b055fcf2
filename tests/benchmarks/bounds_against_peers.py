"""Certified intervals of coalmine against PLD_accounting and a riskcal search, in one run, as ratios.

    python tests/benchmarks/bounds_against_peers.py

Needs coalmine next to `pip install PLD_accounting riskcal` (their pins suit no audit environment, so use one of their
own; nothing of coalmine needs them). Prints seconds, widths and ratios; asserts only that the intervals overlap.
"""

from __future__ import annotations

import time

import numpy as np

from coalmine.audit.bounds import Interval, PoissonSampling, RandomAllocation, closed_form
from coalmine.audit.bounds.refine import profile_of


def timed(function):
    profile_of.cache_clear()
    start = time.process_time()  # one core each; wall time would measure the neighbours
    return function(), time.process_time() - start


def pld_accounting_total_variation(m: int, e: int, sigma: float, step: float) -> Interval:
    """Both sides of PLD_accounting 2.0, geometric convolution, at its loss discretisation `step`."""
    from PLD_accounting import (
        AllocationSchemeConfig,
        BoundType,
        ConvolutionMethod,
        Direction,
        PrivacyParams,
        gaussian_allocation_directional_pld,
    )

    ends = []
    for bound_type in (BoundType.IS_DOMINATED, BoundType.DOMINATES):
        pld = gaussian_allocation_directional_pld(
            params=PrivacyParams(sigma=sigma, num_steps=m, num_selected=1, num_epochs=e),
            config=AllocationSchemeConfig(
                loss_discretization=step, tail_truncation=1e-10, convolution_method=ConvolutionMethod.GEOM
            ),
            bound_type=bound_type,
            direction=Direction.REMOVE,
        )
        # δ(0) of a privacy-loss distribution: E(1 − e^{−loss})₊, an infinite loss counted in full
        finite = float((pld.prob_arr * np.maximum(0.0, -np.expm1(-np.asarray(pld.x_array)))).sum())
        ends.append(finite + float(pld.p_max))
    return Interval(*ends)


def against_pld_accounting() -> None:
    print("total variation of random allocation, both sides, one core")
    print(
        f"{'M, E, sigma':>16} {'PLD_accounting':>22} {'seconds':>8} {'coalmine, equal width':>24} {'seconds':>8}"
        f" {'times faster':>13} {'width in its time':>18}"
    )
    for m, e, sigma, step in ((100, 1, 1.0, 0.02), (1000, 1, 0.5, 0.05)):
        theirs, their_seconds = timed(lambda m=m, e=e, s=sigma, h=step: pld_accounting_total_variation(m, e, s, h))
        mechanism = RandomAllocation(m, e, sigma)
        mechanism.accuracy(1e-2)  # warm caches of the FFT and of the interpreter, as theirs are by their first side
        ours, seconds = timed(lambda x=mechanism, w=theirs.width / 2: x.accuracy(w))
        ours = Interval(2 * ours.lower - 1, 2 * ours.upper - 1)
        fine, fine_seconds = timed(lambda x=mechanism: x.accuracy(1e-8))
        assert ours.overlaps(theirs)
        print(
            f"{m:>6}, {e:>2}, {sigma:>4} [{theirs.lower:.6f}, {theirs.upper:.6f}] {their_seconds:8.2f}"
            f"   [{ours.lower:.6f}, {ours.upper:.6f}] {seconds:8.3f} {their_seconds / seconds:13.0f}"
            f" {2 * fine.width:10.1e} ({fine_seconds:.1f} s)"
        )


def against_riskcal() -> None:
    from riskcal.calibration import find_noise_multiplier_for_advantage_dpsgd

    print("\nnoise for an advantage of 0.10 (accuracy 0.55): a search with riskcal is for Poisson sampling")
    print(
        f"{'M, E':>10} {'riskcal':>9} {'seconds':>8} {'coalmine Poisson':>17} {'seconds':>8} {'ratio':>6}"
        f" {'coalmine random allocation':>27} {'seconds':>8} {'closed form':>12} {'theirs/exact':>12}"
    )
    for m, e in ((100, 10), (500, 10), (500, 40)):
        theirs, their_seconds = timed(
            lambda m=m, e=e: find_noise_multiplier_for_advantage_dpsgd(
                advantage=0.1, sample_rate=1 / m, num_steps=m * e, grid_step=1e-3
            )
        )
        theirs = float(getattr(theirs, "noise_multiplier", theirs))
        poisson, seconds = timed(lambda m=m, e=e: PoissonSampling.calibrate(1 / m, m * e, accuracy=0.55))
        exact, exact_seconds = timed(lambda m=m, e=e: RandomAllocation.calibrate(m, e, accuracy=0.55))
        assert poisson.two_sided and exact.two_sided
        formula = closed_form.noise_multiplier_for_accuracy(m, e, 0.55)
        print(
            f"{m:>6}, {e:>2} {theirs:9.5f} {their_seconds:8.2f} {poisson.noise_multiplier:17.6f} {seconds:8.2f}"
            f" {theirs / poisson.noise_multiplier:6.4f} {exact.noise_multiplier:27.6f} {exact_seconds:8.2f}"
            f" {formula:12.6f} {theirs / exact.noise_multiplier:12.4f}"
        )


def closed_form_cost() -> None:
    import timeit

    scalar = min(timeit.repeat(lambda: closed_form.accuracy_bound(100, 10, 1.0), number=100_000, repeat=5)) / 100_000
    sigma = np.linspace(0.3, 10, 10**6)
    array = min(timeit.repeat(lambda: closed_form.accuracy_bound(100, 10, sigma), number=1, repeat=5))
    print(f"\nclosed form: {1e6 * scalar:.2f} microseconds a scalar call, {array:.3f} s for a million settings")


if __name__ == "__main__":
    closed_form_cost()
    against_riskcal()
    against_pld_accounting()
