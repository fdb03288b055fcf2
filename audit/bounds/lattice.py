"""Finite measures on a lattice and their convolution powers, with every error counted.

A `Measure` approximates an ideal one: a non-negative measure that exact arithmetic would have produced from the same
base by the same convolutions, kept on the same window. What lies outside a window is *missing*: the functionals of
`profile` hold for every part of a law, so a narrow window costs tightness, never validity, and no mass is ever scaled
back to 1. The distance to the ideal measure is bounded in three parts, so that a functional whose weights are small
or few pays accordingly: Σ w (computed − ideal) ≤ √(Σ w² variance) + rest·max w + relative·Σ w·mass.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy.fft import irfft, rfft

from .rounding import PRODUCT, UNIT, transform_error, unit_of

Array = NDArray[Any]
Spectrum = NDArray[Any]  # complex, of the masses' precision


class MemoryLimit(Exception):
    """The next transform would exceed the length that the caller allows."""


@dataclass(frozen=True)
class Measure:
    """Mass `mass[i]` at the lattice point `start + i`; errors in a weighted ‖·‖₂, in ‖·‖₁, and relative to each mass.

    variance: one number for all points or one for each; for the result of a transform it is its error in ‖·‖₂, squared.
    """

    start: int
    mass: Array
    variance: float | Array = 0.0
    rest: float = 0.0
    relative: float = 0.0

    @property
    def total(self) -> float:
        return float(self.mass.sum())

    @property
    def end(self) -> int:
        return self.start + len(self.mass)

    @property
    def error(self) -> float:
        """All of it in ‖·‖₁."""
        return self.spread(np.ones(len(self.mass))) + self.rest + self.relative * self.total

    def spread(self, squares: Array, first: int = 0) -> float:
        """√(Σ w² variance) for squared weights on the points from index `first` on."""
        variance = self.variance
        weighted = (
            squares * variance[first : first + len(squares)] if isinstance(variance, np.ndarray) else squares * variance
        )
        return math.sqrt(float(weighted.sum())) * (1 + 1e-9)

    def widened(self) -> Measure:
        """The same in extended precision: exact."""
        return Measure(self.start, self.mass.astype(np.longdouble), self.variance, self.rest, self.relative)

    def rounded(self) -> Measure:
        """The same in doubles: one rounding of each mass."""
        if self.mass.dtype == float:
            return self
        return Measure(self.start, self.mass.astype(float), self.variance, self.rest, self.relative + UNIT)

    def reflected(self) -> Measure:
        variance = self.variance[::-1] if isinstance(self.variance, np.ndarray) else self.variance
        return Measure(1 - self.end, self.mass[::-1], variance, self.rest, self.relative)


UNIT_MASS = Measure(0, np.ones(1))


def powers(
    base: Measure, copies: int, firsts: list[Measure], tail: float, longest: int, one_region: bool = False
) -> list[Measure]:
    """first * base^{*copies} for each of `firsts`: the law of a sum, one term of which has a law of its own.

    One transform of each law, one complex power, one inverse transform of each result, all of length n and in the
    precision of the base's masses. Results are kept on windows outside which at most `tail` lies (Chernoff). Sums are
    formed modulo n, so that what lies outside a window is added somewhere inside it: `tail` is part of the error. A
    result lacks at most 3·`tail` (1e-6 of it more for rounding): ends of the laws, and what lies outside the window;
    times max(1, base total)^copies. Errors of `base` are not carried on: that is left to the caller, who knows the
    functional. Raises MemoryLimit where n would exceed `longest`.
    one_region: all results lack the same points, those outside one window, and nothing else: no end of a law is cut.
    """
    if copies == 0:
        return firsts
    if not one_region:
        base = _shortened(base, tail / copies)
        firsts = [_shortened(first, tail) for first in firsts]
    windows = [_window([(first, 1), (base, copies)], tail) for first in firsts]
    if one_region:
        windows = [(min(low for low, _ in windows), max(high for _, high in windows))] * len(firsts)
    length = _length(windows, [base, *firsts], longest)
    powered = _spectral_power(base, copies, length)
    return [_product(first, powered, window, length, tail) for first, window in zip(firsts, windows, strict=True)]


def convolution(parts: Sequence[tuple[Measure, int]], tail: float, longest: int) -> Measure:
    """The law of the sum of `copies` independent terms of each of `parts`, (measure, copies): one transform of each.

    As `powers` in every respect. A result lacks at most 3·`tail`, times Π max(1, total)^copies.
    """
    terms = sum(copies for _, copies in parts)
    if terms == 1:
        return parts[0][0]
    bases = [(_shortened(base, tail / terms), copies) for base, copies in parts]
    window = _window(bases, tail)
    length = _length([window], [base for base, _ in bases], longest)
    result = _spectral_power(*bases[0], length)
    for base, copies in bases[1:]:
        result = result.times(_spectral_power(base, copies, length))
    return _product(UNIT_MASS, result, window, length, tail)


@dataclass(frozen=True)
class SpectralPower:
    """A computed product of powers of transforms. size ≥ |exact|, error ≥ |computed − exact|, at each frequency.

    start: the lattice point at which the law begins; unit: of the arithmetic.
    """

    start: int
    values: Spectrum
    size: Array
    error: Array
    unit: float

    def times(self, other: SpectralPower) -> SpectralPower:
        reach = (self.size + self.error) * (other.size + other.error)
        size = self.size * other.size
        error = reach - size + PRODUCT * self.unit * reach + 8 * UNIT * reach  # the last: rounding of this very line
        return SpectralPower(self.start + other.start, self.values * other.values, size, error, self.unit)


def _spectral_power(base: Measure, copies: int, length: int) -> SpectralPower:
    unit = unit_of(base.mass)
    kappa, product_error = transform_error(length, unit), PRODUCT * unit
    spectrum: Spectrum = np.asarray(rfft(base.mass, length))
    base_one = base.total
    # ≥ |exact transform| but for roundings of a double each, copies·u in all: less than the 1e-6 that `_product` adds
    size = np.abs(spectrum).astype(float) + kappa * base_one
    rest = size ** (copies - 1)
    error = (copies * (kappa * base_one + 1.01 * product_error * size)) * rest
    return SpectralPower(copies * base.start, _complex_power(spectrum, copies), rest * size, error, unit)


def _length(windows: list[tuple[int, int]], laws: list[Measure], longest: int) -> int:
    needed = max(max(high - low for low, high in windows), max(len(law.mass) for law in laws))
    length = 1 << max(1, (needed - 1).bit_length())
    if length > longest:
        raise MemoryLimit
    return length


def _product(first: Measure, power: SpectralPower, window: tuple[int, int], length: int, tail: float) -> Measure:
    """Multiply by the transform of `first`, transform back, cut the window out, bound the error (see `rounding`)."""
    kappa, product_error = transform_error(length, power.unit), PRODUCT * power.unit
    first_one = first.total
    if len(first.mass) == 1:
        factor, factor_error = np.full(1, first.mass[0], dtype=complex), 0.0
    else:
        precision = np.longdouble if power.values.dtype == np.clongdouble else np.float64
        factor, factor_error = np.asarray(rfft(first.mass.astype(precision), length)), kappa * first_one
    factor_size = np.abs(factor).astype(float) + factor_error
    product = power.values * factor
    spectral = (
        power.error * factor_size + power.size * factor_error + product_error * (power.size + power.error) * factor_size
    )
    reach = (power.size + power.error) * factor_size  # ≥ |product|, before and after rounding up to 3u
    two = (_full_norm(spectral, length) + kappa * _full_norm(reach, length)) / math.sqrt(length) * (1 + 1e-6)
    mass = np.asarray(irfft(product, length, overwrite_x=True))
    low, high = window
    count = min(high - low, length)
    begin = (low - first.start - power.start) % length
    mass = np.concatenate((mass[begin : begin + count], mass[: max(0, begin + count - length)]))
    np.maximum(mass, 0.0, out=mass)  # the exact masses are not negative, so this brings each nearer
    return Measure(low, mass, two * two, tail * (1 + 1e-6))


def _complex_power(spectrum: Spectrum, copies: int) -> Spectrum:
    """Binary powering: the relative error is at most (1 + √5 u)^{copies − 1} − 1, one factor for each product."""
    result = spectrum.copy()
    for bit in bin(copies)[3:]:
        result *= result
        if bit == "1":
            result *= spectrum
    return result


def _full_norm(half: Array, length: int) -> float:
    """‖·‖₂ of a spectrum of `length` from its first half: entries between the first and the middle count twice."""
    twice = 2 * float(np.dot(half, half)) - float(half[0]) ** 2
    return math.sqrt(twice) if len(half) > 1 else math.sqrt(length) * abs(float(half[0]))


def _shortened(measure: Measure, tail: float) -> Measure:
    """Remove ends that hold at most about `tail` each."""
    mass = measure.mass
    left = int(np.searchsorted(np.cumsum(mass), tail / 2, side="right"))
    right = len(mass) - int(np.searchsorted(np.cumsum(mass[::-1]), tail / 2, side="right"))
    if right <= left:
        return measure
    variance = measure.variance[left:right] if isinstance(measure.variance, np.ndarray) else measure.variance
    return Measure(measure.start + left, mass[left:right], variance, measure.rest, measure.relative)


# ------------------------------------------------------------------------------------------------------------- windows


def _window(laws: list[tuple[Measure, int]], tail: float) -> tuple[int, int]:
    """[low, high) outside which the sum of `copies` terms of each law has at most mass `tail`.

    Chernoff: P(sum ≥ B) ≤ e^{−θB} Π (E e^{θ term})^copies for every θ > 0, so B = (ln of the product + ln(2/tail))/θ
    will do. The best θ is sought on a histogram, the bound taken on the law itself; its rounding (below 1e-6 in the
    logarithm) is a thousandth of a lattice step's worth and B has one to spare.
    """
    start = sum(copies * law.start for law, copies in laws)
    end = sum(copies * (law.end - 1) for law, copies in laws) + 1
    high = start + _reach([(law.mass, copies) for law, copies in laws], tail / 2)
    low = end - 1 - _reach([(law.mass[::-1], copies) for law, copies in laws], tail / 2)
    return max(start, low), min(end, high + 1)


def _reach(laws: list[tuple[Array, int]], tail: float) -> int:
    """An offset beyond which the sum of offsets (each from 0) has mass below `tail`."""
    laws = [(law.astype(float), copies) for law, copies in laws]  # a bound with room for rounding
    coarse = [(*_histogram(law), copies) for law, copies in laws]

    def bound(log_theta: float, points: list[tuple[Array, Array, int]]) -> float:
        theta = math.exp(log_theta)
        exponent = sum(copies * _log_moment(theta, offsets, law) for offsets, law, copies in points)
        return (exponent - math.log(tail)) / theta

    variance = 0.0
    for offsets, law, copies in coarse:
        mean = float((offsets * law).sum() / law.sum())
        variance += copies * float(((offsets - mean) ** 2 * law).sum() / law.sum())
    longest = sum(len(law) for law, _ in laws)
    scale = 1.0 / math.sqrt(variance + longest)
    low, high = math.log(scale * 1e-3), math.log(scale * 1e3)
    golden = (math.sqrt(5) - 1) / 2
    left, right = high - golden * (high - low), low + golden * (high - low)
    value_left, value_right = bound(left, coarse), bound(right, coarse)
    for _ in range(22):
        if value_left <= value_right:
            high, right, value_right = right, left, value_left
            left = high - golden * (high - low)
            value_left = bound(left, coarse)
        else:
            low, left, value_left = left, right, value_right
            right = low + golden * (high - low)
            value_right = bound(right, coarse)
    exact = [(np.arange(len(law), dtype=float), law, copies) for law, copies in laws]
    return math.ceil(bound((low + high) / 2, exact)) + 1


def _histogram(mass: Array, bins: int = 1024) -> tuple[Array, Array]:
    """At most about `bins` points: the mean offset and the mass of each run."""
    stride = -(-len(mass) // bins)
    if stride == 1:
        chosen = mass > 0
        return np.flatnonzero(chosen).astype(float), mass[chosen]
    starts = np.arange(0, len(mass), stride)
    masses = np.add.reduceat(mass, starts)
    chosen = masses > 0
    return (starts + stride / 2)[chosen], masses[chosen]


def _log_moment(theta: float, points: Array, mass: Array) -> float:
    """ln Σ mass e^{θ·point}, scaled against overflow."""
    exponents = theta * points
    top = float(exponents[-1])
    if top < 600:
        return math.log(float((mass * np.exp(exponents)).sum()))
    exponents = np.where(mass > 0, exponents + np.log(np.where(mass > 0, mass, 1.0)), -np.inf)
    top = float(exponents.max())
    return top + math.log(float(np.exp(exponents - top).sum()))
