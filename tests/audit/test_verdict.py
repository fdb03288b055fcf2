"""The audit: verdicts, what membership allows, multiplicity, and the shape of audit.json."""

import contextlib
import json

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.special import ndtr, ndtri

from coalmine.audit.bounds import EpsilonDelta, Gaussian, RandomAllocation
from coalmine.audit.estimators import f_dp_p_value, guess_rule
from coalmine.audit.estimators.rates import binomial_tail
from coalmine.audit.estimators.tallies import critical_counts
from coalmine.audit.planning.power import detection_power, perfect_tally
from coalmine.audit.training.run_record import RunRecord
from coalmine.audit.verdict.claim import Claim, check_claim_against_run
from coalmine.audit.verdict.facts import ThreatModel
from coalmine.audit.verdict.judge import AuditSettings, Evidence, audit, judge
from coalmine.audit.verdict.text import rounded_down, rounded_up
from coalmine.foundation import InputError


def gaussian_scores(m, mu, seed=0):
    stream = np.random.default_rng(seed)
    members = stream.random(m) < 0.5
    return stream.normal(size=m) + mu * members, members


def test_a_violated_claim_is_rejected_and_says_what_was_shown():
    result = audit(*gaussian_scores(1000, 2.0), Claim(EpsilonDelta(1.0, 1e-5)))
    assert result.verdict == "rejected" and result.p_value < 0.05
    assert "Shown:" in result.verdict_text and "Not shown:" in result.verdict_text


def test_a_claim_that_holds_is_not_rejected():
    result = audit(*gaussian_scores(1000, 1.0), Claim(Gaussian(noise_multiplier=1.0)))
    assert result.verdict == "not_rejected"
    assert "not evidence of privacy" in result.verdict_text


def test_a_claim_out_of_reach_is_no_power_whatever_the_scores():
    members = np.random.default_rng(0).random(100) < 0.5
    result = audit(members.astype(float), members, Claim(EpsilonDelta(8.0, 1e-5)))
    assert result.verdict == "no_power"
    assert result.power.smallest_reportable_p_value >= 0.05
    assert result.power.largest_reportable_epsilon < 8


def test_without_a_claim_there_is_a_bound_and_no_verdict():
    result = audit(*gaussian_scores(1000, 2.0))
    assert result.verdict == "no_claim" and result.p_value is None
    bound = next(e for e in result.estimates if e.quantity == "epsilon")
    assert bound.validity == "A" and 2.5 < bound.value < 9.997


@pytest.mark.parametrize("membership, validity", [("random_split", "C"), ("unknown", "none")])
def test_flags_that_are_no_coins_bound_nothing(membership, validity):
    result = audit(*gaussian_scores(500, 2.0), Claim(EpsilonDelta(0.1, 0.0)), membership=membership)
    assert result.verdict == "no_power" and result.p_value is None
    assert not [e for e in result.estimates if e.quantity == "epsilon"]
    assert {e.validity for e in result.estimates if e.name == "auc"} == {validity}
    assert "coalmine coins" in result.verdict_text


def test_under_a_random_split_leakage_itself_can_be_shown():
    found = {e.name: e for e in audit(*gaussian_scores(500, 1.0), membership="random_split").estimates}
    assert found["no_leakage"].value < 1e-6
    found = {e.name: e for e in audit(*gaussian_scores(500, 0.0), membership="random_split").estimates}
    assert found["no_leakage"].value > 0.01


def test_declared_independence_judges_by_class_c():
    """600 of 1,000 against an accuracy bound of 0.55: binomially clear, nothing for one run of unknown dependence."""
    claim = Claim(Gaussian(noise_multiplier=1 / 0.2513))
    scores, members = gaussian_scores(1000, 0.5)
    by_word = audit(scores, members, claim, AuditSettings(independence="declared"))
    one_run = audit(scores, members, claim)
    classes = [next(e.validity for e in r.estimates if e.name == "claim_p_value") for r in (by_word, one_run)]
    assert classes == ["C", "B"]
    assert by_word.verdict == "rejected" and by_word.p_value < one_run.p_value


@pytest.mark.parametrize("value", [1.0, 0.05001, 2.34567e-9, 1e-300])
def test_numbers_in_the_verdict_are_rounded_to_the_safe_side(value):
    assert value <= float(rounded_up(value)) <= value * 1.01
    assert value * 0.999 <= float(rounded_down(value)) <= value
    assert (rounded_up(1.0), rounded_up(0.05001), rounded_down(2.34567)) == ("1", "0.0501", "2.345")


def test_every_number_carries_its_class():
    result = audit(*gaussian_scores(300, 1.0), Claim(Gaussian(noise_multiplier=1.0)))
    assert {e.validity for e in result.estimates} <= {"A", "B", "C", "Bayesian", "none"}
    assert all(
        set(e.to_json()) == {"name", "quantity", "value", "interval", "class", "confidence", "delta", "note"}
        for e in result.estimates
    )
    assert result.roc.validity == "C"


def test_metrics_come_with_intervals_counts_and_a_band():
    scores, members = gaussian_scores(4000, 1.0)
    result = audit(scores, members)
    point = result.roc.operating_points[-1]
    tp, fp, fn, _ = point.counts
    assert tp + fn == members.sum() and fp / (~members).sum() <= 0.1
    assert [prior for prior, _ in point.predictive_values] == [0.5, 0.1, 0.01]
    band = result.roc.band
    true = ndtr(ndtri(np.array(band.false_positive_rate)) + 1)
    assert np.all((band.lower <= true) & (true <= band.upper))
    found = {e.name: e for e in result.estimates}
    assert found["balanced_accuracy"].interval[0] < ndtr(0.5) < found["balanced_accuracy"].interval[1]
    assert found["best_balanced_accuracy"].validity == "none"
    assert found["best_balanced_accuracy"].value >= found["balanced_accuracy"].value


def test_the_noise_bound_covers_the_noise_that_ran():
    """Scores of mu = 2, that is noise 1/2: the upper bound lies above 1/2 and below the claimed 2."""
    values = []
    for seed in range(6):
        found = audit(*gaussian_scores(1000, 2.0, seed), Claim(Gaussian(noise_multiplier=2.0)))
        values.append(next(e.value for e in found.estimates if e.name == "noise_multiplier"))
    assert sum(value < 0.5 for value in values) <= 2 and max(values) < 2.0


def test_looks_are_paid_for():
    scores, members = gaussian_scores(400, 1.5)
    claim = Claim(EpsilonDelta(0.5, 1e-6))
    one, ten = (audit(scores, members, claim, AuditSettings(looks=n)) for n in (1, 10))
    assert ten.p_value == pytest.approx(min(1, 10 * one.p_value))
    bounds = [next(e.value for e in r.estimates if e.quantity == "epsilon") for r in (one, ten)]
    assert bounds[1] < bounds[0]


def test_upside_down_scores_are_refused_and_flipping_costs_a_look():
    scores, members = gaussian_scores(400, 1.5)
    with pytest.raises(InputError, match="wrong sign"):
        audit(-scores, members)
    flipped = audit(-scores, members, settings=AuditSettings(sign="flip"))
    assert flipped.guess_rule.looks == 2
    kept = audit(-scores, members, settings=AuditSettings(sign="keep"))
    assert next(e.value for e in kept.estimates if e.quantity == "epsilon") == 0.0


def test_a_boundary_that_delta_eats_up_is_refused():
    with pytest.raises(InputError, match="use guess_rule grid"):
        audit(*gaussian_scores(500, 1.0), settings=AuditSettings(guess_rule=guess_rule("calibrated"), delta=2e-4))


def test_undefined_scores_are_counted_and_stay_in_m():
    scores, members = gaussian_scores(400, 1.5)
    scores[:40] = np.nan
    result = audit(scores, members)
    assert result.counts.undefined == 40 and result.counts.canaries == 400
    assert result.guess_rule.tested_canaries == 400


@pytest.mark.parametrize(
    "rule",
    [guess_rule("fixed", 30, 20), guess_rule("all"), guess_rule("sign"), guess_rule("split"), guess_rule("calibrated")],
)
def test_every_guess_rule_gives_a_whole_audit(rule):
    result = audit(
        *gaussian_scores(400, 2.0), Claim(EpsilonDelta(0.1, 1e-6)), AuditSettings(guess_rule=rule, delta=1e-6)
    )
    json.dumps(result.to_json(), allow_nan=False)
    assert result.guess_rule.name == rule.name
    assert result.verdict in ("rejected", "not_rejected")


@pytest.mark.parametrize(
    "scores",
    [
        np.full(50, np.nan),
        np.zeros(50),
        np.where(np.arange(50) < 25, np.inf, -np.inf),
        np.full(50, 1e308) * np.linspace(-1, 1, 50),
    ],
)
def test_strange_scores_give_json_without_nan(scores):
    members = np.arange(50) % 2 == 0
    result = audit(scores, members, Claim(EpsilonDelta(1.0, 0.0)), AuditSettings(sign="keep"))
    json.dumps(result.to_json(), allow_nan=False)


@pytest.mark.parametrize(
    "change", [{"delta": 1.0}, {"confidence": 0.4}, {"alpha": 0.5}, {"looks": 0}, {"sign": "x"}, {"independence": "x"}]
)
def test_impossible_settings_are_refused(change):
    with pytest.raises(InputError, match=next(iter(change))):
        AuditSettings(**change)


ALLOCATION = {"name": "random_allocation", "steps_per_epoch": 50, "epochs": 3, "noise_multiplier": 1.0}


@pytest.mark.parametrize(
    "run, words",
    [
        ({"mechanism": ALLOCATION | {"name": "fixed_bins"}}, "fixed_bins"),
        ({"mechanism": ALLOCATION | {"name": "poisson"}}, "says poisson"),
        ({"mechanism": ALLOCATION | {"noise_multiplier": 0.5}}, "noise_multiplier"),
        ({"mechanism": ALLOCATION | {"steps_per_epoch": 49}}, "steps_per_epoch"),
        ({"mechanism": ALLOCATION | {"epochs": 4}}, "epochs"),
        ({"mechanism": ALLOCATION, "epochs_done": 4}, "4 were done"),
        ({"mechanism": ALLOCATION, "divisor_is_public": False}, "realised batch size"),
        ({"mechanism": ALLOCATION, "finished": False}, "finished"),
        ({"mechanism": {"name": "none"}}, "says none, that is, no noise"),
        ({"mechanism": ALLOCATION | {"noise_multiplier": 0}}, "0, that is, no noise"),
    ],
)
def test_a_claim_that_the_run_contradicts_is_refused(run, words):
    with pytest.raises(InputError, match=words):
        check_claim_against_run(Claim.from_json({"mechanism": ALLOCATION}), RunRecord.from_json(run))


def test_a_claim_that_the_run_confirms_is_judged():
    run = RunRecord(dict(ALLOCATION), epochs_done=3, divisor_is_public=True, finished=True)
    claim = Claim.from_json({"mechanism": ALLOCATION})
    assert check_claim_against_run(claim, run) == []
    result = judge(Evidence(*gaussian_scores(400, 2.0), run=run), claim, AuditSettings())
    assert result.run == run and result.claim.record == ALLOCATION
    assert result.claim.accuracy.lower <= result.claim.accuracy.upper


def test_a_full_batch_run_confirms_a_gaussian_claim():
    run = RunRecord({"name": "full_batch", "steps": 4, "noise_multiplier": 2.0})
    assert check_claim_against_run(Claim(Gaussian(noise_multiplier=2.0, steps=4)), run) == []


@pytest.mark.parametrize(
    "content",
    [
        None,
        [],
        {},
        {"mechanism": 3},
        {"mechanism": {"name": "magic"}},
        {"mechanism": {"name": "none"}},
        {"epsilon": "x", "delta": 0},
        {"epsilon": -1, "delta": 0},
        {"epsilon": 3},
        {"mechanism": {"epsilon": 3}},
        {"mechanism": ALLOCATION, "adjacency": "both"},
        {"mechanism": ALLOCATION, "membership": 3},
        {"mechanism": ALLOCATION | {"noise_multiplier": -1}},
    ],
)
def test_claims_that_are_none_are_refused(content):
    with pytest.raises(InputError):
        Claim.from_json(content)


json_values = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False, allow_infinity=False) | st.text(max_size=8),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=8), inner, max_size=3),
    max_leaves=6,
)
mechanisms = st.fixed_dictionaries(
    {"name": st.sampled_from(["random_allocation", "fixed_bins", "poisson", "full_batch"]) | json_values},
    optional={name: json_values for name in (*ALLOCATION, "sampling_rate", "steps") if name != "name"},
)


@settings(max_examples=150, deadline=None)
@given(
    json_values
    | st.fixed_dictionaries({"mechanism": mechanisms | json_values}, optional={"adjacency": json_values})
    | st.fixed_dictionaries({"epsilon": json_values}, optional={"delta": json_values})
)
def test_any_json_is_a_claim_or_refused(content):
    try:
        claim = Claim.from_json(content)
    except InputError:
        return
    assert claim.to_json()["mechanism"] == claim.record


@settings(max_examples=100, deadline=None)
@given(
    st.fixed_dictionaries(
        {"mechanism": mechanisms}, optional=dict.fromkeys(("epochs_done", "divisor", "finished"), json_values)
    )
)
def test_any_run_record_fits_or_is_refused(run):
    with contextlib.suppress(InputError):
        check_claim_against_run(Claim.from_json({"mechanism": ALLOCATION}), RunRecord.from_json(run))


def test_replacing_a_record_is_no_claim_of_a_mechanism():
    with pytest.raises(InputError, match="add_remove"):
        Claim.from_json({"mechanism": ALLOCATION, "adjacency": "replace_one"})


def test_coins_that_decide_in_or_out_do_not_test_a_replace_one_claim():
    """A mechanism that publishes the number of records is 0-DP under replace-one and gives every such coin away."""
    claim = Claim.from_json({"epsilon": 0.5, "delta": 1e-5, "adjacency": "replace_one"})
    scores, members = gaussian_scores(200, 1.0)
    with pytest.raises(InputError, match="--insertion replace_one"):
        audit(1000 + members.astype(float), members, claim)
    swapped = Evidence(scores, members, threat_model=ThreatModel(insertion="replace_one"))
    assert judge(swapped, claim, AuditSettings()).threat_model.insertion == "replace_one"
    with pytest.raises(InputError, match="--insertion add_remove"):
        judge(swapped, Claim(EpsilonDelta(0.5, 1e-5)), AuditSettings())


def test_bare_epsilon_at_the_top_is_a_claim():
    assert Claim.from_json({"epsilon": 2, "delta": 1e-6}).record == {"epsilon": 2.0, "delta": 1e-6}


def test_random_allocation_against_the_reference_curve():
    """m = 1,000, all guessed, against an independent lattice: certified p-values lie above, by at most a third."""
    for (steps, epochs, sigma), cells in {
        (100, 10, 1.426215): [(600, 0.2772), (650, 0.0421), (700, 0.00317)],
        (100, 1, 1.0): [(600, 0.0214), (650, 7.83e-4), (700, 4.80e-5)],
    }.items():
        curve = RandomAllocation(steps_per_epoch=steps, epochs=epochs, noise_multiplier=sigma).trade_off_curve()
        for correct, reference in cells:
            p_value = f_dp_p_value(curve, correct, 1000, 1000)
            assert reference * 0.995 <= p_value <= reference * 1.35


def allocation_scores(m, steps, epochs, sigma, seed):
    """White-box scores of the mechanism itself: the exact log-likelihood ratio of every canary, guess by the sign."""
    stream = np.random.default_rng(seed)
    members = stream.random(m) < 0.5
    total = np.zeros(m)
    for _ in range(epochs):
        x = stream.normal(size=(m, steps)) * sigma
        x[np.arange(m), stream.integers(0, steps, m)] += members
        total += np.log(np.mean(np.exp((x - 0.5) / sigma**2), axis=1))
    return total, members


def test_a_run_with_half_the_noise_is_rejected_as_often_as_power_predicted():
    """Claimed noise 1.0, run with 0.5, on the mechanism itself; the honest run stays within alpha."""
    mechanism = {"name": "random_allocation", "steps_per_epoch": 20, "epochs": 2, "noise_multiplier": 1.0}
    claim, m, repeats = Claim.from_json({"mechanism": mechanism}), 200, 200
    predicted = detection_power(m, claim, 2.0, repeats=400)
    critical = critical_counts(claim.mechanism.trade_off_curve(), perfect_tally(guess_rule(), m, 0.05), 0.05)

    def rejected(sigma, seed):
        return np.any(guess_rule().tally(*allocation_scores(m, 20, 2, sigma, seed)).correct >= critical)

    flawed = np.mean([rejected(0.5, seed) for seed in range(repeats)])
    honest = sum(rejected(1.0, seed) for seed in range(repeats))
    spread = np.sqrt(predicted.power * (1 - predicted.power) * (1 / 400 + 1 / repeats))
    assert 0.4 < predicted.power < 0.9
    assert abs(flawed - predicted.power) < 4 * spread
    assert binomial_tail(honest, repeats, 0.05) > 1e-3
