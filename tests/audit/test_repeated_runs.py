"""Runs repeated with fresh coins: the designs, the combination, and what each may conclude."""

import numpy as np
import pytest

from coalmine.audit.bounds import EpsilonDelta, Gaussian
from coalmine.audit.estimators import runs_reject
from coalmine.audit.recipe import engine_recipe
from coalmine.audit.repeat import RepeatedRuns, repeat_training
from coalmine.audit.rows import universe
from coalmine.audit.training.data import load_data
from coalmine.audit.training.settings import TrainingSettings
from coalmine.audit.verdict.claim import Claim
from coalmine.audit.verdict.facts import Repeated
from coalmine.audit.verdict.repeated import judge_repeated, planned_bet
from coalmine.audit.work import Work
from coalmine.canaries import craft
from coalmine.foundation import InputError, numpy_stream

DATA = load_data("digits")
CANARIES = craft(
    "binary_noise", DATA.x, DATA.y, len(DATA.classes), DATA.value_range, 12, 3, data_fingerprint=DATA.fingerprint
)
ROWS = universe(DATA, CANARIES)
SETTINGS = TrainingSettings(steps_per_epoch=4, epochs=2, learning_rate=0.5, public_size=len(DATA.y) + 6.0)


def train(folder, runs=5, **options):
    work = Work(folder, seed=4, chunk=3)
    return repeat_training(ROWS, CANARIES, engine_recipe(ROWS, "mlp", SETTINGS, 3), work, runs, **options)


def simulated(rng, runs, canaries, shift, one_canary=False):
    """Scores N(shift, 1) for members, N(0, 1) for others: the Gaussian mechanism with mu = shift."""
    members = rng.random((runs, canaries)) < 0.5
    scores = rng.normal(size=(runs, canaries)) + shift * members
    return RepeatedRuns(scores, members, np.arange(runs) % canaries if one_canary else None)


def test_each_run_has_coins_of_its_own_and_natural_rows_always_in(tmp_path):
    runs = train(tmp_path)
    assert runs.scores.shape == runs.members.shape == (5, 12)
    assert len({tuple(row) for row in runs.members}) == 5
    assert np.isfinite(runs.scores).all()


def test_a_rerun_trains_nothing_and_more_runs_keep_the_first(tmp_path):
    first = train(tmp_path, runs=3)
    times = {p.name: p.stat().st_mtime_ns for p in tmp_path.iterdir()}
    again = train(tmp_path, runs=6)
    assert all((tmp_path / name).stat().st_mtime_ns == t for name, t in times.items())
    assert np.array_equal(again.scores[:3], first.scores)
    assert np.array_equal(again.members[:3], first.members)


def test_a_folder_holds_one_experiment(tmp_path):
    train(tmp_path, runs=3)
    with pytest.raises(InputError, match="differ in one_canary"):
        train(tmp_path, runs=30, one_canary=True)


def test_with_one_canary_a_run_all_others_stay_out(tmp_path):
    runs = train(tmp_path, runs=30, one_canary=True)
    assert runs.members.sum(axis=1).max() <= 1
    scores, members = runs.one_per_run()
    assert np.array_equal(runs.canary, np.arange(30) % 12)
    assert np.array_equal(members, runs.members.any(axis=1))
    assert scores.shape == (30,) and 0 < members.sum() < 30


def test_one_canary_a_run_is_judged_in_class_c_and_rejects_a_false_claim():
    runs = simulated(np.random.default_rng(0), 400, 5, shift=3.0, one_canary=True)
    honest, false = Claim(Gaussian(noise_multiplier=1 / 3)), Claim(Gaussian(noise_multiplier=1.0))
    assert judge_repeated(runs, honest).verdict == "not_rejected"
    result = judge_repeated(runs, false)
    assert result.verdict == "rejected"
    assert {e.validity for e in result.estimates if e.name == "claim_p_value"} == {"C"}
    assert result.repeated == Repeated(400, "one_canary")


def test_runs_that_alone_show_little_reject_together():
    """Noise at a third, 32 runs of 60 canaries: every run by itself is consistent with the claim."""
    claimed = Claim(Gaussian(noise_multiplier=4.0))
    runs = simulated(np.random.default_rng(1), 32, 60, shift=0.75)
    result = judge_repeated(runs, claimed)
    assert result.verdict == "rejected" and result.p_value_class == "runs"
    assert sorted(result.repeated.p_values)[16] > 0.05
    assert "neither the largest nor the mean is a bound" in result.verdict_text
    assert result.counts.canaries == 32 * 60
    accuracy = result.named("attack_accuracy_over_runs")
    assert accuracy.validity == "runs" and accuracy.interval[0] < accuracy.value < accuracy.interval[1]


def test_few_runs_of_a_gross_leak_reject_by_the_curve():
    """Four runs cannot reject by their accuracy alone, right as they may be: the claim's curve is used, and said."""
    result = judge_repeated(simulated(np.random.default_rng(1), 4, 60, shift=5.0), Claim(EpsilonDelta(0.3, 0.0)))
    assert result.verdict == "rejected" and result.p_value_class == "A"


def test_a_bare_epsilon_and_thousands_of_canaries_end_in_a_verdict():
    runs = simulated(np.random.default_rng(4), 2, 3000, shift=3.0)
    assert judge_repeated(runs, Claim(EpsilonDelta(1.0, 0.0))).verdict == "rejected"


def test_runs_whose_canaries_err_together_are_not_rejected_for_it():
    """Each run is all right with the claim's own probability, else all wrong: the size stays below alpha."""
    claim = Claim(Gaussian(noise_multiplier=4.0))
    bound, rng = float(claim.mechanism.accuracy().upper), np.random.default_rng(5)
    bet = planned_bet(claim, 60, 16, 0.05)
    assert bet.validity == "runs"
    rejected = int(runs_reject(bet, np.where(rng.random((5000, 16)) < bound, 60, 0), 0.05).sum())
    assert rejected <= 250 + 4 * np.sqrt(5000 * 0.05 * 0.95)


def test_a_true_claim_is_rejected_no_more_often_than_alpha():
    """200 audits of 4 runs without any signal against the smallest claim: at most a binomial(200, 0.05) tail."""
    rng = np.random.default_rng(2)
    claim = Claim(EpsilonDelta(0.0, 0.0))
    rejected = sum(judge_repeated(simulated(rng, 4, 20, 0.0), claim).verdict == "rejected" for _ in range(200))
    assert rejected <= 21  # P[Bin(200, 0.05) > 21] < 1e-3


def test_dependent_canaries_show_as_over_dispersion():
    rng = np.random.default_rng(3)
    runs = simulated(rng, 40, 50, 0.0)
    loud = rng.random(40) < 0.5  # a shared coin: some runs tell everything, some nothing
    scores = np.where(loud[:, None], runs.members + rng.normal(size=runs.members.shape) * 0.1, runs.scores)
    spread = judge_repeated(RepeatedRuns(scores, runs.members, None)).repeated
    assert spread.over_dispersion_p_value < 0.001 and spread.over_dispersion > 5
    independent = judge_repeated(runs).repeated
    assert independent.over_dispersion_p_value > 0.001


@pytest.mark.parametrize("runs", [0, 1, 2.5])
def test_the_number_of_runs_is_checked_before_anything_is_trained(tmp_path, runs):
    with pytest.raises(InputError, match="runs must be"):
        train(tmp_path, runs=runs)
    assert not list(tmp_path.iterdir())


def test_coins_that_all_fell_on_one_side_are_told():
    runs = RepeatedRuns(np.zeros((2, 1)), np.ones((2, 1), dtype=bool), np.zeros(2, dtype=int))
    with pytest.raises(InputError, match="train more runs"):
        judge_repeated(runs)


@pytest.mark.parametrize(("one_canary", "runs"), [(False, 20), (True, 2)])
def test_and_before_anything_is_trained(tmp_path, one_canary, runs):
    two = craft(
        "binary_noise", DATA.x, DATA.y, len(DATA.classes), DATA.value_range, 2, 3, data_fingerprint=DATA.fingerprint
    )
    rows = universe(DATA, two)

    def own_coins(seed):
        return [bool(numpy_stream(seed, f"coins/{r}").random(2)[r % 2] < 0.5) for r in range(runs)]

    seed = next(s for s in range(100) if not one_canary or len(set(own_coins(s))) == 1)
    with pytest.raises(InputError, match="all fell on one side"):  # of 20 runs with two tosses, half agree
        repeat_training(
            rows, two, engine_recipe(rows, "mlp", SETTINGS, 3), Work(tmp_path, seed), runs, one_canary=one_canary
        )
    assert not list(tmp_path.iterdir())
