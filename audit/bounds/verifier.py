"""Checks a certificate of coalmine from scratch, in exact integer and interval arithmetic: verifier.py certificate.json

Needs python-flint (arb: intervals; fmpz_poly: exact products) and nothing of coalmine. It proves the claims on lattices
of its own, whose steps the certificate names. Masses are multiples of 2^-90, rounded DOWN wherever they are rounded:
what a law lacks of 1 in the end is counted against the claim, so that a bad grid can only fail to prove it.
One part's pair: Q without the record, P with it, R = dP/dQ. Random allocation: R = (X_1 + ... + X_M)/M, with
X = exp(Z/s - 1/(2s^2)), Z standard normal under Q; Poisson sampling: R = 1 - q + qX; full batch: q = 1. Under Q,
P(X <= x) = Phi(z) and E[X; X <= x] = Phi(z - 1/s), where z = s ln x + 1/(2s).
Above: E_Q of a convex function of X, or of R, only grows when a cell's mass moves to its ends and the mean stays.
Below: P(region) - e^eps Q(region); regions consist of cell numbers, summed and merged.
Sums with some X beyond a level (class C) stand on an eight times coarser lattice than those with none (class A)."""

import hashlib
import json
import math
import sys

from flint import arb, ctx, fmpz_poly

BITS, POINTS, RATIO = 90, 2048, 8
ONE, ctx.prec, FORMAT = 1 << BITS, 150, "coalmine certificate 1"
SIDES = {"remove": ["remove"], "add": ["add"], "both": ["remove", "add"]}


def down(x):  # the largest multiple of 2^-90 that is certainly below x, at least 0, as an integer
    return max(0, int((x * ONE).lower().floor().unique_fmpz()))


def cells(edges, noise):  # (Q-mass, E[X; cell]) between neighbouring edges, as intervals; an edge <= 0 stands for 0
    ends = [(arb(0), arb(0))] * len(edges)
    for i, z in ((i, noise * x.log() + 1 / (2 * noise)) for i, x in enumerate(edges) if x > 0):
        ends[i] = tuple((-y / arb(2).sqrt()).erfc() / 2 for y in (z, z - 1 / noise))
    return [(b[0] - a[0], b[1] - a[1]) for a, b in zip(ends, ends[1:])]


# A law is (start, level, polynomials): coefficient i of each belongs to the lattice point (start + i)·2^level.
def one_kind(a, b):  # products of the law of R, or of the statistic's under Q and P
    return [x * y // ONE for x, y in zip(a, b)]


def two_classes(a, b):  # of a sum's law: (A, C)
    return [a[0] * b[0] // ONE, (a[1] * (b[0] + b[1]) + a[0] * b[1]) // ONE]


def with_means(a, b):  # of a sum's cell numbers: Q-masses (A, C) and E[sum; number] (A, C)
    mean = a[3] * (b[0] + b[1]) + a[2] * b[1] + a[1] * (b[2] + b[3]) + a[0] * b[3]
    return [*two_classes(a, b), (a[2] * b[0] + a[0] * b[2]) // ONE, mean // ONE]


def halve(law, weights):  # even points stay; odd ones are split between neighbours, or (None) join the lower one
    start, level, found = law[0], law[1], []
    for p in law[2]:
        c = [0] * (start % 2) + p.coeffs()
        even, odd = fmpz_poly(c[0::2]), fmpz_poly(c[1::2])
        left, right = weights(level) if weights else (ONE, 0)
        found.append(even + odd * left // ONE + fmpz_poly([0, 1]) * (odd * right // ONE))
    return start // 2, level + 1, found


def combine(a, b, times, weights):
    while a[1] != b[1]:
        a, b = (halve(a, weights), b) if a[1] < b[1] else (a, halve(b, weights))
    found = times(a[2], b[2])
    low = min((next((i for i, x in enumerate(p.coeffs()) if x), 0) for p in found if len(p)), default=0)
    law = (a[0] + b[0] + low, a[1], [fmpz_poly(p.coeffs()[low:]) for p in found])
    while max(map(len, law[2])) > POINTS:
        law = halve(law, weights)
    return law


def power(law, copies, times, weights):
    result = None
    while copies:
        if copies % 2:
            result = law if result is None else combine(result, law, times, weights)
        copies //= 2
        law = combine(law, law, times, weights) if copies else law
    return result


def collect(points, kinds):  # [(lattice point, mass of each kind ...)] as a law
    start = min(p[0] for p in points)
    columns = [[0] * (max(p[0] for p in points) - start + 1) for _ in range(kinds)]
    for k, *masses in points:
        for column, mass in zip(columns, masses):
            column[k - start] += mass
    return start, 0, [fmpz_poly(column) for column in columns]


def allocation(steps, noise, cell, eighth, step):  # R of an epoch on the lattice e^(k step); the statistic's laws
    upper, lower, shift, count = [], [], float(1 / noise), RATIO * eighth  # an eighth of a level is the one below
    top = math.exp(min(shift * (shift + 8) - shift * shift / 2, 300.0))
    for number in range(max(1, 1 + math.ceil(math.log(top / (count * cell)) / math.log(RATIO)))):
        h, kept = arb(cell) * RATIO**number, int(number > 0)  # level 0 keeps sums without a large term, others with one
        spread, masses = [[0] * (count + 1) for _ in range(2)], [[0] * count for _ in range(4)]
        for k, (mass, mean) in enumerate(cells([h * k for k in range(count + 1)], noise)):
            c, right = int(kept and k >= eighth), (mean - h * k * mass) / h
            spread[c][k] += down(mass - right)
            spread[c][k + 1] += down(right)
            masses[c][k], masses[2 + c][k] = down(mass), down(mean)
        law = power((0, 0, list(map(fmpz_poly, spread))), steps, two_classes, lambda level: (ONE // 2, ONE // 2))
        for i, mass in enumerate(law[2][kept].coeffs(), law[0]):
            if mass and i > 0:
                value = h * (i << law[1]) / steps
                k = math.floor(float(value.log().mid()) / step)
                right = ((value / (arb(step) * k).exp()) - 1) / arb(step).expm1()
                if right >= 0 and right <= 1:
                    upper += [(k, down(1 - right) * mass // ONE), (k + 1, down(right) * mass // ONE)]
        law = power((0, 0, list(map(fmpz_poly, masses))), steps, with_means, None)[2]
        for q, p in zip(law[kept].coeffs(), law[2 + kept].coeffs()):
            if q > 0 and p >= steps:
                lower.append((round(math.log(int(p) / int(q) / steps) / step), q, p // steps))
    return collect(upper, 1), collect(lower, 2)


def poisson(rate, noise, step):  # the same for one step of Poisson sampling
    upper, lower, shift = [], [], float(1 / noise)
    logs = (-8 * shift - shift**2 / 2, min(8 * shift + shift**2 / 2, 300.0))  # of X, eight deviations out
    low, high = (math.floor(math.log1p(float(rate) * math.expm1(x)) / step) for x in logs)
    points = range(low - 1, high + 3)
    ratio = [(arb(step) * k).exp() for k in points]
    for i, (mass, mean) in enumerate(cells([1 + (r - 1) / rate for r in ratio], noise)):
        present = (1 - rate) * mass + rate * mean
        right = (present - ratio[i] * mass) / (ratio[i + 1] - ratio[i])
        upper += [(points[i], down(mass - right)), (points[i + 1], down(right))]
        lower.append((points[i], down(mass), down(present)))
    return collect(upper, 1), collect(lower, 2)


def terms(record):  # [(M, or None with a sampling rate; rate; noise; copies)]
    name = record["name"]
    if name == "composition":
        return [t for phase in record["phases"] for t in terms(phase)]
    bins = ["poisson", "full_batch", "random_allocation", "fixed_bins"].index(name) > 1
    size, copies = (record["steps_per_epoch"], record["epochs"]) if bins else (None, record["steps"])
    if not all(type(n) is int and n >= 1 for n in (copies, size if bins else 1)):
        raise ValueError("numbers of steps and epochs are whole and at least 1")
    noise, rate = arb(float(record["noise_multiplier"])), float(record["sampling_rate"]) if name == "poisson" else 1.0
    if name == "fixed_bins" or (rate == 1 and size in (None, 1)):  # equal to one part with less noise
        noise, copies = noise / arb(copies).sqrt(), 1
    return [(size if bins and size != 1 else None, arb(rate), noise, copies)]


class Proof:  # both laws of the whole run
    def __init__(self, mechanism, grid):
        step, upper, lower, parts = float(grid["log_step"]), None, None, terms(mechanism)
        if not all(s > 0 and 0 < q <= 1 for _, q, s, _ in parts) or len(parts) != len(grid["cells"]) or not parts:
            raise ValueError("mechanism or grid is not sound")

        def weights(level):
            ratio = (arb(step) * 2**level).exp()
            return down(ratio / (1 + ratio)), down(1 / (1 + ratio))

        for (size, rate, noise, copies), (cell, eighth) in zip(parts, grid["cells"]):
            a, b = poisson(rate, noise, step) if size is None else allocation(size, noise, cell, eighth, step)
            a, b = power(a, copies, one_kind, weights), power(b, copies, one_kind, None)
            upper = a if upper is None else combine(upper, a, one_kind, weights)
            lower = b if lower is None else combine(lower, b, one_kind, None)
        law = enumerate(upper[2][0].coeffs(), upper[0])
        self.upper = [(arb(a) / ONE, (arb(step) * (k << upper[1])).exp()) for k, a in law if a]
        self.lower = [[int(p[i]) for i in range(max(map(len, lower[2])))] for p in lower[2]]

    def above(self, epsilon, side):  # remove: E_P (1 - e^eps/R)+, add: E_Q (1 - e^eps R)+, and all that is lacking
        e = arb(epsilon).exp()
        return 1 - sum(((a * r).min(a * e) if side == "remove" else a.min(a * e * r) for a, r in self.upper), arb(0))

    def below(self, epsilon, side):  # the best region: {bin >= c} for remove, {bin < c} for add
        null, other = (x[::-1] for x in self.lower) if side == "remove" else self.lower[::-1]
        factor = int((arb(epsilon).exp() * ONE).upper().ceil().unique_fmpz())
        gain, paid, best = 0, ONE - sum(null), 0  # what the null's law lacks is counted against the claim
        for x, y in zip(null, other):
            gain, paid = gain + y, paid + x
            best = max(best, (gain << BITS) - factor * paid)
        return arb(best) / ONE / ONE

    def holds(self, claim):
        lower, upper = (arb(float(claim[end])) for end in ("lower", "upper"))
        if claim["quantity"] == "accuracy":
            return 1 + self.above(0, "add") <= 2 * upper and 1 + self.below(0, "add") >= 2 * lower
        delta, sides = arb(float(claim["delta"])), SIDES[claim["direction"]]
        met = claim["quantity"] == "epsilon" and all(self.above(upper, side) <= delta for side in sides)
        return met and (lower == 0 or any(self.below(lower, side) > delta for side in sides))


def verify(certificate):  # None where every claim is proved, else what is wrong, in words
    try:
        content = {key: value for key, value in certificate.items() if key != "sha256"}
        digest = hashlib.sha256(json.dumps(content, sort_keys=True, separators=(",", ":")).encode()).hexdigest()
        if (certificate["format"], certificate["adjacency"], certificate["sha256"]) != (FORMAT, "add_remove", digest):
            return "not a certificate of this format, or its content is not what was certified: its sha256 differs"
        proof = Proof(certificate["mechanism"], certificate["grid"])
        failed = [claim["quantity"] for claim in certificate["claims"] if not proof.holds(claim)]
        return f"not proved: {', '.join(failed)}" if failed or not certificate["claims"] else None
    except (KeyError, TypeError, ValueError, AttributeError, ArithmeticError, IndexError) as error:
        return f"malformed: {type(error).__name__}: {error}"


if __name__ == "__main__":
    with open(sys.argv[1]) as file:
        sys.exit(verify(json.load(file)) or print("proved"))
