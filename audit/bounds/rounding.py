"""What floating point can do to the lattice computation, bounded. u = 2⁻⁵³.

Assumptions, each checked against 40-digit arithmetic in the tests:
(a) IEEE double arithmetic, round to nearest; complex products and sums by the ordinary formulas (a fused
    multiply-add only lessens the error);
(b) scipy.special.ndtr(z) has relative error at most (16 + 4z²)u for z ≤ 0, numpy's log,
    exp, expm1 and log1p at most 4u;
(c) numpy's and scipy's FFT of a length n = 2^l is a product of radix-2^k butterflies (pocketfft's algorithm), whose
    twiddle factors have error at most 8u. pocketfft multiplies two table entries: each has an argument x·(π/4n) of
    at most π/4 with two roundings (error ≤ 1.6u), a sine and a cosine (≤ 1u), and the product adds √5 u:
    2·2.6u + 2.3u < 8u.

The FFT. Write one radix-2 level of the transform as y = B(Dx): D multiplies by twiddles, B adds and subtracts pairs.
A product with a computed twiddle has relative error at most 8u + √5u (Brent, Percival and Zimmermann 2007), an
addition 1u, and the constants √½ inside a radix-4 or radix-8 butterfly at most 2u more: 13.3u, rounded up to
LEVEL = 14 u, for each of the l levels (a radix-4 butterfly has one twiddle for two levels, so this is generous).
Every output is a sum over the inputs, each carried along one path of l levels, so with κ = (1 + 14u)^l − 1

    |ŷ_k − y_k| ≤ κ Σ_j |x_j|      and, as every level is √2 times a unitary matrix,      ‖ŷ − y‖₂ ≤ κ √n ‖x‖₂

(Higham 2002, section 24.1, with the constants of this algorithm). The same holds for the inverse transform with its
factor 1/n, a power of two and therefore exact, and for the real transforms, which leave out mirrored outputs.

A law q * f^{*m} (`lattice.powers`): with F, G the exact transforms of f and q and hats for computed ones,
|F̂ − F| ≤ κ‖f‖₁ at every frequency, so with s = |F̂| + κ‖f‖₁ ≥ |F|

    |F̂^m − F^m| ≤ m κ‖f‖₁ s^{m−1},     binary powering adds a relative (1 + √5u)^{m−1} − 1 ≤ 1.01 m √5u,

since a power is a tree of m − 1 products (for m·√5u < 0.01; beyond, the bound is of no use anyway). The product with
Ĝ, |Ĝ − G| ≤ κ‖q‖₁, adds its own error and a relative √5u. Call the sum of these errors, frequency by frequency, s̃.
By Parseval the inverse transform turns it into ‖s̃‖₂/√n in ‖·‖₂ and adds κ times the same of what it is given.
Setting negative entries to 0 cannot increase an error, since the exact ones are not negative. A functional Σ w_k p_k
pays ‖w‖₂ times that (Cauchy–Schwarz). Where s ≪ 1 powers underflow harmlessly: the bound may lose 2^{-1074} an entry,
but at frequency 0 it is above 1e-16, and the factor (1 + 1e-6) on the norm outweighs all of them.

Errors that an epoch's law f already carries, when it is composed E times, are those of E functionals, each of one
factor: Σ_k w_k (f'^{*E} − f^{*E})_k = Σ_{i<E} Σ_j (f' − f)_j W_i(j), where W_i(j) is the functional's value with one
factor fixed at j and i of the others taken from f', the rest from f. `profile` bounds W and pays ‖W‖₂.

Extended precision. The same bounds hold in long double, where that is wider, with LONG_UNIT = 2⁻⁶³ for u: twice the
roundoff of x87 arithmetic, so that each assumption on its exp, log, sine and cosine may be twice as loose. pocketfft
computes its twiddle factors in the precision of the transform. Where long double is not wider (MSVC, Apple silicon) or
is not an IEEE format (pairs of doubles), EXTENDED is False and everything stays in doubles.
"""

from __future__ import annotations

import math
from typing import Any

import numpy as np
from numpy.typing import NDArray

Array = NDArray[Any]

UNIT = 2.0**-53
LEVEL = 14  # both in units of u
PRODUCT = math.sqrt(5)
LONG_UNIT = 2.0**-63
# x87 extended or IEEE quadruple precision, and really computed in it (not under an emulator that rounds to doubles)
EXTENDED = np.finfo(np.longdouble).machep in (-63, -112) and bool(np.longdouble(1) + np.longdouble(LONG_UNIT) > 1)


def unit_of(mass: Array) -> float:
    """u of the arithmetic that an array's type brings with it."""
    return LONG_UNIT if mass.dtype == np.longdouble and EXTENDED else UNIT


def transform_error(length: int, unit: float = UNIT) -> float:
    """κ for a transform of `length` = 2^l points."""
    return math.expm1(length.bit_length() * LEVEL * unit)  # bit_length is l + 1: one level to spare


def sum_error(count: int) -> float:
    """Relative error of numpy's sum or dot product of `count` non-negative numbers, any order of addition."""
    return count * UNIT * (1 + 1e-9)


def normal_tail_error(z: Array, z_error: Array | float, unit: float = UNIT) -> Array:
    """Relative error of min(Φ(z), Φ(−z)) computed by ndtr at an argument that is itself off by z_error.

    |d ln Φ(−|z|)/dz| ≤ |z| + 1, so an argument error e costs a relative e(|z| + 1) to first order; doubled for more.
    """
    size = np.abs(z)
    return (16 + 4 * size * size) * unit + 2 * z_error * (size + 1)


def pairwise_sum_error(count: int) -> float:
    """Relative error of numpy's sum of a contiguous array of non-negative numbers.

    numpy adds blocks of 128 by eight accumulators (at most 16 + 3 additions a path), then the blocks by a binary tree.
    """
    return (24 + count.bit_length()) * UNIT
