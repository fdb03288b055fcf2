"""Extended precision, where the platform has it: the same bounds with u = 2⁻⁶³, against 40-digit arithmetic."""

import mpmath
import numpy as np
import pytest
from scipy.fft import irfft, rfft

from coalmine.audit.bounds import PoissonSampling, RandomAllocation, refine
from coalmine.audit.bounds.lattice import Measure, powers
from coalmine.audit.bounds.normal_tail import SERIES_ERROR, SWITCH, extended_tail, normal_tails
from coalmine.audit.bounds.profile import Profile
from coalmine.audit.bounds.rounding import EXTENDED, LONG_UNIT, normal_tail_error, transform_error
from coalmine.audit.bounds.step_law import step_cells
from coalmine.foundation import numpy_stream

mpmath.mp.dps = 40
extended_only = pytest.mark.skipif(not EXTENDED, reason="long double is no wider than double on this platform")


def exactly(x):
    """A long double as an mpf: the sum of two doubles, without loss (x87) or nearly (quadruple)."""
    high = float(x)
    return mpmath.mpf(high) + mpmath.mpf(float(x - np.longdouble(high)))


@extended_only
def test_normal_tail():
    z = np.concatenate((np.linspace(0, 12, 800), numpy_stream(1, "tail").uniform(0, 30, 400), [SWITCH, 5.0]))
    found = extended_tail(z.astype(np.longdouble))
    relative = normal_tail_error(z, 0.0, LONG_UNIT)
    for x, tail, bound in zip(z.tolist(), found, relative.tolist(), strict=True):
        exact = mpmath.ncdf(-mpmath.mpf(x))
        assert abs(exactly(tail) - exact) <= (SERIES_ERROR if x < SWITCH else bound * exact)


def test_normal_tails_in_both_precisions_agree_and_reach_the_ends():
    z = np.array([-np.inf, -20.0, -3.0, -1.0, -0.0, 0.5, 2.5, 6.0, np.inf])
    below, above, error = normal_tails(z, np.zeros(len(z)))
    long_below, long_above, long_error = normal_tails(z.astype(np.longdouble), np.zeros(len(z)))
    for short, long in ((below, long_below), (above, long_above)):
        assert np.all(np.abs(short - long) <= error + long_error + 1e-16)
    assert np.all(np.isfinite(error)) and np.all(np.isfinite(long_error))
    assert long_below[0] == 0 and long_above[-1] == 0


@extended_only
@pytest.mark.parametrize(("function", "exact"), [(np.exp, mpmath.exp), (np.log, mpmath.log), (np.sqrt, mpmath.sqrt)])
def test_long_exp_log_sqrt_are_within_four_units(function, exact):
    x = np.abs(numpy_stream(2, "long").normal(size=1000).astype(np.longdouble)) * 20 + np.longdouble(1e-9)
    for argument, value in zip(x, function(x), strict=True):
        true = exact(exactly(argument))
        assert abs(exactly(value) - true) <= 4 * LONG_UNIT * abs(true)


@extended_only
@pytest.mark.parametrize("length", [16, 256, 4096, 2**16])
def test_twiddle_factors(length):
    impulse = np.zeros(length, dtype=np.longdouble)
    impulse[1] = 1
    found = rfft(impulse)
    assert found.dtype == np.clongdouble
    for k in np.unique(np.linspace(0, length // 2, 300).astype(int)).tolist():
        exact = mpmath.expjpi(mpmath.mpf(-2 * k) / length)
        assert abs(mpmath.mpc(exactly(found[k].real), exactly(found[k].imag)) - exact) <= 8 * LONG_UNIT


@extended_only
@pytest.mark.parametrize("length", [8, 64, 256])
def test_transforms(length):
    x = numpy_stream(length, "fft").exponential(size=length) ** 3
    table = [mpmath.expjpi(mpmath.mpf(-2 * i) / length) for i in range(length)]
    given = [mpmath.mpf(v) for v in x.tolist()]
    found = rfft(x.astype(np.longdouble))
    for k in range(0, length // 2 + 1, max(1, length // 32)):
        exact = mpmath.fsum(v * table[j * k % length] for j, v in enumerate(given))
        error = abs(mpmath.mpc(exactly(found[k].real), exactly(found[k].imag)) - exact)
        assert error <= transform_error(length, LONG_UNIT) * x.sum()
    back = np.asarray(irfft(found, length))
    assert np.linalg.norm((back - x).astype(float)) <= 2 * transform_error(length, LONG_UNIT) * np.linalg.norm(x)


@extended_only
@pytest.mark.parametrize("copies", [2, 7, 1000, 20_000])
def test_convolution_powers_contain_the_binomial_law(copies):
    base = Measure(3, np.array([0.75, 0.25])).widened()
    unit = Measure(0, np.ones(1))
    (found,) = powers(base, copies, [unit], 1e-20, 1 << 20)
    assert found.mass.dtype == np.longdouble
    first = found.start - 3 * copies
    quarter, rest = mpmath.log("0.25"), mpmath.log("0.75")
    inside = []
    for i in range(first, first + len(found.mass)):
        choose = mpmath.loggamma(copies + 1) - mpmath.loggamma(i + 1) - mpmath.loggamma(copies - i + 1)
        inside.append(mpmath.exp(choose + i * quarter + (copies - i) * rest))
    difference = mpmath.fsum(abs(exactly(m) - e) for m, e in zip(found.mass, inside, strict=True))
    (short,) = powers(Measure(3, np.array([0.75, 0.25])), copies, [unit], 1e-20, 1 << 20)
    assert difference <= found.error < short.error / 500


@extended_only
@pytest.mark.parametrize("sigma", [0.3, 1.0, 4.0])
def test_cell_masses(sigma):
    edges = 0.0625 * np.arange(0, 1200)
    cells = step_cells(edges, sigma, extended=True)
    assert cells.error < step_cells(edges, sigma).error / 40
    s = mpmath.mpf(sigma)
    absent = np.cumsum(cells.absent)  # its rounding: 1200 u at most, less than the tolerance added below
    present = np.cumsum(cells.present)
    for k in (1, 2, 17, 100, 399, 1199):
        x = mpmath.mpf(float(edges[k]))
        z = s * mpmath.log(x) + 1 / (2 * s)
        allowed = cells.error + k * LONG_UNIT / 2
        assert abs(exactly(absent[k - 1]) - mpmath.ncdf(z)) <= allowed
        assert abs(exactly(present[k - 1]) - mpmath.ncdf(z - 1 / s)) <= allowed
    # from the right, times the edge: what makes a heavy tail harmless
    for k in (100, 399, 1000):
        right = mpmath.fsum(exactly(m) for m in cells.absent[k:])
        exact = mpmath.ncdf(-(s * mpmath.log(edges[k]) + 1 / (2 * s)))
        beyond = mpmath.ncdf(-(s * mpmath.log(edges[-1]) + 1 / (2 * s)))
        assert abs(right - (exact - beyond)) * edges[k] <= 2 * cells.error


@extended_only
@pytest.mark.parametrize(
    "mechanism",
    [RandomAllocation(200, 5, 0.6), RandomAllocation(1000, 50, 0.5), PoissonSampling(0.01, 2000, 0.8)],
    ids=lambda m: f"{m.name}-{m.copies}",
)
def test_both_precisions_contain_the_exact_value_and_extended_is_narrower(mechanism):
    short, long = (
        Profile([(mechanism.ratio_law(0.03, 1e-15, 1 << 20, extended), mechanism.copies)], 1e-13, 1 << 20)
        for extended in (False, True)
    )
    for direction in ("remove", "add"):
        for epsilon in (0.0, 0.5, 3.0):
            narrow, wide = long.delta(epsilon, direction), short.delta(epsilon, direction)
            assert narrow.overlaps(wide)
            # same grid, same laws: only the allowance for rounding differs
            assert narrow.upper <= wide.upper and narrow.lower >= wide.lower


@extended_only
@pytest.mark.parametrize(("m", "e", "sigma"), [(300, 20, 0.5), pytest.param(2000, 10, 0.6, marks=pytest.mark.slow)])
def test_grids_agree_to_their_narrow_widths(m, e, sigma):
    # an error that the allowance for rounding forgot would show: the widths are a thousandth of δ
    mechanism = RandomAllocation(m, e, sigma)
    profiles = [
        Profile([(mechanism.ratio_law(r, 1e-15, 1 << 20, True), e)], 1e-13, 1 << 20) for r in (0.04, 0.029, 0.019)
    ]
    for direction in ("remove", "add"):
        for epsilon in (0.0, 0.3, 1.0, 2.0):
            found = [profile.delta(epsilon, direction) for profile in profiles]
            assert max(i.lower for i in found) <= min(i.upper for i in found)
            assert found[-1].width <= 3e-3 * found[-1].upper + 1e-10


# the cells of the benchmark grid that doubles cannot answer to a relative 1e-3
RARE = [
    (1000, 10, 0.5),
    (10_000, 1, 0.5),
    (10_000, 10, 0.7),
    (1000, 100, 0.5),
    (1000, 100, 0.7),
    (10_000, 10, 0.5),
    (10_000, 100, 0.5),
    (10_000, 100, 0.7),
    (10_000, 100, 1.0),
]


@extended_only
@pytest.mark.parametrize(
    "cell", [c if i == 0 else pytest.param(c, marks=pytest.mark.slow) for i, c in enumerate(RARE)], ids=str
)
def test_epsilon_where_doubles_do_not_suffice(cell, monkeypatch):
    mechanism = RandomAllocation(*cell)
    found = mechanism.epsilon(1e-5)
    assert found.width <= 1e-3 * found.upper
    assert mechanism.delta(float(found.lower)).upper >= 1e-5 >= mechanism.delta(float(found.upper)).lower
    monkeypatch.setattr(refine, "EXTENDED", False)  # another platform: valid, and wide
    wide = mechanism.epsilon(1e-5)
    assert wide.width > 1e-3 * wide.upper
    assert wide.lower <= found.upper and found.lower <= wide.upper
