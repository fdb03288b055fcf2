"""One binomial tail under every test, and the one-run p-value held against all mechanisms there are."""

import ast
from fractions import Fraction
from math import comb
from pathlib import Path

import numpy as np
import pytest
from scipy.optimize import linprog
from scipy.sparse import lil_matrix
from scipy.special import expit, ndtri

import coalmine.audit.estimators as estimators
from coalmine.audit.estimators.attack_accuracy import accuracy_p_value
from coalmine.audit.estimators.calibrated import calibrated_p_value_of_counts, level_boundary
from coalmine.audit.estimators.exact_tail import exact_tail_p_value
from coalmine.audit.estimators.one_run import one_run_p_value
from coalmine.audit.estimators.rates import binomial_tail


@pytest.mark.parametrize("v, n, q", [(3, 7, Fraction(1, 2)), (60, 100, Fraction(7, 10)), (990, 1000, Fraction(1, 2))])
def test_the_tail_is_the_sum_of_exact_fractions(v, n, q):
    exact = sum(comb(n, k) * q**k * (1 - q) ** (n - k) for k in range(v, n + 1))
    assert binomial_tail(v, n, float(q)) == pytest.approx(float(exact), rel=1e-11)


def test_the_tail_of_a_hundred_thousand_is_exact_to_a_billionth():
    """Summed in integers, where two implementations once differed by 1.3e-10 of it."""
    n, v = 100_000, 50_500
    term = total = comb(n, v)
    for k in range(v, n):
        term = term * (n - k) // (k + 1)
        total += term
        if term < total >> 60:
            break
    assert binomial_tail(v, n, 0.5) == pytest.approx(float(Fraction(total, 2**n)), rel=1e-10)


@pytest.mark.parametrize("correct, guesses", [(1, 3), (70, 100), (100, 100), (50_700, 100_000)])
def test_every_test_of_a_count_reads_the_same_tail(correct, guesses):
    for epsilon in (0.0, 0.7):
        q = float(expit(epsilon))
        tail = float(binomial_tail(correct, guesses, q))
        grid = np.array([guesses])
        assert one_run_p_value(correct, guesses, guesses, epsilon) == tail
        assert accuracy_p_value(correct, guesses, q) == tail
        assert calibrated_p_value_of_counts(epsilon, 0.0, [correct], grid, guesses)[0] == pytest.approx(tail, rel=1e-8)
        assert calibrated_p_value_of_counts(epsilon, 0.0, [correct], grid, guesses)[0] >= tail * (1 - 1e-12)
        assert level_boundary(grid, epsilon, tail)[0] <= correct
        assert exact_tail_p_value(correct, guesses, guesses, 2 * float(ndtri(q))) == pytest.approx(tail, rel=1e-9)


def test_no_module_brings_a_tail_of_its_own():
    """Only the tail itself, a posterior and the law of order statistics may name the incomplete beta function."""
    folder = Path(estimators.__file__).parent
    users = set()
    for file in folder.glob("*.py"):
        for node in ast.walk(ast.parse(file.read_text())):
            if isinstance(node, ast.ImportFrom):
                names = {alias.name for alias in node.names}
                assert not names & {"bdtr", "bdtrc", "binom", "binomtest"}, file.name
                if "betainc" in names:
                    users.add(file.stem)
    assert users <= {"rates", "joint_beta", "roc_band"}


def test_a_tail_too_small_for_a_double_is_rounded_up():
    assert binomial_tail(3000, 3000, expit(1.0)) > 0 and one_run_p_value(3000, 3000, 3000, 1.0) > 0
    assert binomial_tail(5, 4, 0.5) == 0 and binomial_tail(1, 4, 0.0) == 0


def largest_probability(m, v, epsilon, delta):
    """max P[at least v of m guesses right] over all (epsilon, delta)-DP mechanisms, by linear programming.

    The variables are P[guesses = g | coins = s] and, for each pair of adjacent s, s' and each g, the excess
    (P[g | s] - e^epsilon P[g | s'])_+, whose sum over g is at most delta.
    """
    n = 2**m
    pairs = [(s, s ^ (1 << i)) for s in range(n) for i in range(m)]
    excess = n * n + np.arange(len(pairs) * n).reshape(len(pairs), n)
    bounds = lil_matrix((len(pairs) * (n + 1), n * n + excess.size))
    limit = np.zeros(bounds.shape[0])
    for k, (s, t) in enumerate(pairs):
        for g in range(n):
            bounds[k * n + g, [s * n + g, t * n + g, excess[k, g]]] = [1, -np.exp(epsilon), -1]
        bounds[len(pairs) * n + k, excess[k]] = 1
        limit[len(pairs) * n + k] = delta
    whole = lil_matrix((n, bounds.shape[1]))
    gain = np.zeros(bounds.shape[1])
    for s in range(n):
        whole[s, s * n : (s + 1) * n] = 1
        for g in range(n):
            gain[s * n + g] = (m - (s ^ g).bit_count() >= v) / n
    found = linprog(-gain, A_ub=bounds.tocsr(), b_ub=limit, A_eq=whole.tocsr(), b_eq=np.ones(n), method="highs")
    return -found.fun


@pytest.mark.parametrize("epsilon", [0.0, 1.0])
@pytest.mark.parametrize("delta", [1e-3, 0.1])
@pytest.mark.parametrize("m, v", [(1, 1), (2, 1), (2, 2), (3, 1), (3, 2), (3, 3)])
def test_no_mechanism_is_right_more_often_than_the_p_value(m, v, epsilon, delta):
    assert one_run_p_value(v, m, m, epsilon, delta) >= largest_probability(m, v, epsilon, delta) - 1e-9


def test_one_right_of_three_has_at_least_the_probability_that_is_attained():
    """The product bound says 0.8750075; a mechanism that sees when all would be wrong attains 0.87500875."""
    assert one_run_p_value(1, 3, 3, 0.0, 1e-5) >= 0.87500875
    assert one_run_p_value(3, 3, 3, 0.0, 1e-5) == pytest.approx(
        0.125 + 2 * 3e-5 * 0.375, abs=1e-9
    )  # below 1/2: as published
