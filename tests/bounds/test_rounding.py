"""The assumptions and the derived bounds of `rounding`, against 40-digit and extended arithmetic."""

import mpmath
import numpy as np
import pytest
from scipy.fft import irfft, rfft
from scipy.special import ndtr

from coalmine.audit.bounds.lattice import Measure, _complex_power, convolution, powers
from coalmine.audit.bounds.rounding import (
    PRODUCT,
    UNIT,
    normal_tail_error,
    pairwise_sum_error,
    sum_error,
    transform_error,
)
from coalmine.audit.bounds.step_law import spread, step_cells
from coalmine.foundation import numpy_stream

mpmath.mp.dps = 40


def test_ndtr_is_within_its_assumed_relative_error():
    z = -np.concatenate((np.linspace(0, 9, 700), numpy_stream(1, "ndtr").uniform(0, 12, 300)))
    exact = [mpmath.ncdf(mpmath.mpf(float(x))) for x in z]
    error = np.array([float(abs(mpmath.mpf(float(c)) - e) / e) for c, e in zip(ndtr(z), exact, strict=True)])
    assert np.all(error <= normal_tail_error(z, 0.0))


def test_log_and_exp_are_within_four_units():
    # over what the laws use: edges and ratios from e^-600 to e^600, small arguments of expm1 and log1p
    rng = numpy_stream(2, "elementary")
    exponents = np.concatenate((rng.uniform(-600, 600, 1500), rng.normal(size=1000), 10.0 ** rng.uniform(-17, 0, 500)))
    positive = np.concatenate((np.exp(exponents), 1 + rng.normal(size=1000) * 1e-3, rng.uniform(0.5, 2, 500)))
    small = exponents[np.abs(exponents) < 0.9]
    for function, exact, arguments in (
        (np.exp, mpmath.exp, exponents),
        (np.expm1, mpmath.expm1, exponents),
        (np.log, mpmath.log, positive),
        (np.log1p, mpmath.log1p, small),
    ):
        true = [exact(mpmath.mpf(x)) for x in arguments.tolist()]
        found = [mpmath.mpf(y) for y in function(arguments).tolist()]
        worst = max(abs(f - t) / abs(t) for f, t in zip(found, true, strict=True) if t != 0)
        assert worst <= 4 * UNIT, function


@pytest.mark.parametrize("length", [2, 16, 256, 4096, 2**16])
def test_twiddle_factors_are_within_8u(length):
    # the transform of a unit impulse at 1 is the row of twiddle factors, each one table entry's error
    impulse = np.zeros(length)
    impulse[1] = 1.0
    found = rfft(impulse)
    index = np.unique(np.linspace(0, length // 2, 400).astype(int))
    exact = [mpmath.expjpi(mpmath.mpf(-2 * int(k)) / length) for k in index]
    error = [float(abs(mpmath.mpc(complex(found[k])) - e)) for k, e in zip(index.tolist(), exact, strict=True)]
    assert max(error) <= 8 * UNIT


@pytest.mark.parametrize("length", [8, 64, 512, 2048])
def test_transforms_are_within_their_bound(length):
    rng = numpy_stream(length, "fft")
    for x in (rng.random(length), rng.exponential(size=length) ** 4, np.eye(length)[length // 3]):
        k = np.arange(length // 2 + 1)
        angles = np.outer(k, np.arange(length)) % length  # exact integers
        table = [mpmath.expjpi(mpmath.mpf(-2 * i) / length) for i in range(length)]
        real = np.array([float(t.real) for t in table], dtype=np.longdouble)
        imaginary = np.array([float(t.imag) for t in table], dtype=np.longdouble)
        long_x = x.astype(np.longdouble)
        exact = (real[angles] @ long_x), (imaginary[angles] @ long_x)
        found = rfft(x)
        error = np.hypot((found.real - exact[0]).astype(float), (found.imag - exact[1]).astype(float))
        assert error.max() <= transform_error(length) * np.abs(x).sum()
        back = irfft(found, length)
        assert np.linalg.norm(back - x) <= 2 * transform_error(length) * np.linalg.norm(x)


def test_complex_powers_are_within_their_bound():
    rng = numpy_stream(3, "power")
    z = np.exp(2j * np.pi * rng.random(50)) * (1 - 1e-5 * rng.random(50))
    for copies in (2, 3, 100, 12345):
        found = _complex_power(z, copies)
        for value, base in zip(found.tolist(), z.tolist(), strict=True):
            exact = mpmath.power(mpmath.mpc(base), copies)
            assert float(abs(mpmath.mpc(value) - exact) / abs(exact)) <= 1.01 * copies * PRODUCT * UNIT


def test_sums_are_within_their_bounds():
    from math import fsum

    x = numpy_stream(4, "sum").exponential(size=100_003) ** 6
    exact = fsum(x)
    assert abs(float(x.sum()) - exact) <= pairwise_sum_error(len(x)) * exact
    assert abs(float(np.cumsum(x)[-1]) - exact) <= sum_error(len(x)) * exact


@pytest.mark.parametrize("copies", [1, 2, 7, 64, 1000])
def test_convolution_powers_contain_the_binomial_law(copies):
    base = Measure(3, np.array([0.75, 0.25]))
    found = convolution([(base, copies)], 1e-13, 1 << 20)
    k = np.arange(copies + 1)
    logs = [mpmath.log(mpmath.binomial(copies, int(i))) for i in k]
    exact = np.array(
        [
            float(mpmath.exp(c + int(i) * mpmath.log("0.25") + int(copies - i) * mpmath.log("0.75")))
            for c, i in zip(logs, k, strict=True)
        ]
    )
    inside = exact[found.start - 3 * copies : found.end - 3 * copies]
    assert np.abs(found.mass - inside).sum() <= found.error
    assert 1 - inside.sum() <= 3e-13  # what the window lacks
    assert found.error < 1e-9


def test_first_times_power_is_the_law_of_the_sum():
    rng = numpy_stream(5, "first")
    base, first = rng.random(20), rng.random(30)
    base, first = base / base.sum(), first / first.sum()
    direct = first
    for _ in range(6):
        direct = np.convolve(direct, base)
    (found,) = powers(Measure(-4, base), 6, [Measure(10, first)], 1e-13, 1 << 20)
    start = found.start - (10 - 24)
    assert np.abs(found.mass - direct[start : start + len(found.mass)]).sum() <= found.error + 1e-15


@pytest.mark.parametrize("sigma", [0.3, 1.0, 4.0])
def test_cell_masses_against_forty_digits_and_the_spread_keeps_the_mean(sigma):
    edges = 0.0625 * np.arange(0, 400)
    cells = step_cells(edges, sigma)
    s = mpmath.mpf(sigma)

    def below(x, shift):
        return mpmath.ncdf(s * mpmath.log(x) + 1 / (2 * s) - shift) if x > 0 else mpmath.mpf(0)

    for k in (1, 2, 17, 100, 399):
        exact = below(mpmath.mpf(float(edges[k])), 0), below(mpmath.mpf(float(edges[k])), 1 / s)
        assert abs(float(mpmath.fsum(map(float, cells.absent[:k])) - exact[0])) <= cells.error
        assert abs(float(mpmath.fsum(map(float, cells.present[:k])) - exact[1])) <= cells.error
    masses, raised = spread(cells)
    assert masses.min() >= 0 and not raised.any()
    assert float(masses.sum()) == pytest.approx(float(cells.absent.sum()), abs=1e-14)
    assert float((masses * edges).sum()) == pytest.approx(float(cells.present.sum()), abs=1e-13)
    # connect the dots: the put price at every edge is kept, which is what makes the spread an upper law
    for k in (3, 50, 200):
        put = float(((edges[k] - edges[:k]) * masses[:k]).sum())
        x = mpmath.mpf(float(edges[k]))
        assert put == pytest.approx(float(x * below(x, 0) - below(x, 1 / s)), abs=1e-13)
