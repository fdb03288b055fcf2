"""A measured plan on real digits: the same bytes after a kill, private rows refused, the cap kept, the file checked."""

import json
from dataclasses import replace

import numpy as np
import pytest

from coalmine.audit.bounds import mechanism_from_record
from coalmine.audit.planning.halving import Schedule
from coalmine.audit.planning.measure import MeasureRequest, closed_form_run, measure_plan, validation_rows
from coalmine.audit.planning.setting import Setting, grid
from coalmine.audit.planning.stacked_runs import BudgetSpent
from coalmine.audit.planning.utility_plan import MeanAccuracy, UtilityPlan
from coalmine.audit.training.data import load_data
from coalmine.foundation import InputError

DIGITS = load_data("digits")
FEW = replace(DIGITS, x=DIGITS.x[:300], y=DIGITS.y[:300], fingerprint="the first 300 digits")


def request(**changed):
    told = {
        "data": FEW,
        "model": "mlp",
        "target": {"epsilon": 2.0, "delta": 1e-3},
        "settings": grid([2], [3], [1.0], [0.25, 0.5, 1.0, 2.0]),
        "public": True,
        "seed": 0,
        "search_seeds": 2,
        "fresh_seeds": 2,
    }
    return MeasureRequest(**(told | changed))


@pytest.fixture(scope="module")
def unbroken(tmp_path_factory):
    return measure_plan(request(), tmp_path_factory.mktemp("unbroken"))


class Killed(Exception):
    pass


@pytest.mark.parametrize("steps", [5, 150])
def test_killed_anywhere_and_resumed_to_the_same_bytes(unbroken, tmp_path, steps):
    def kill(done, planned):
        if done > steps:
            raise Killed

    with pytest.raises(Killed):
        measure_plan(request(), tmp_path, on_steps=kill)
    resumed = measure_plan(request(), tmp_path)
    assert json.dumps(resumed.to_json()) == json.dumps(unbroken.to_json())


def test_a_damaged_piece_is_trained_again(unbroken, tmp_path):
    measure_plan(request(), tmp_path)
    for piece in (tmp_path / "pieces").iterdir():
        piece.write_bytes(piece.read_bytes()[:40])
    assert measure_plan(request(), tmp_path).to_json() == unbroken.to_json()


def test_the_plan_meets_its_budget_and_its_arms_are_what_they_say(unbroken):
    assert [arm.name for arm in unbroken.arms] == ["random_allocation", "poisson", "closed_form"]
    for arm in unbroken.arms:
        assert mechanism_from_record(dict(arm.mechanism)).epsilon(1e-3).upper <= 2.0
        assert len(arm.accuracy.values) == 2 and 0 <= arm.accuracy.mean <= 1
        lost = np.subtract(unbroken.chosen.accuracy.values, arm.accuracy.values)
        assert arm.lost.values == pytest.approx(lost.tolist())
    assert unbroken.claim()["mechanism"] == unbroken.chosen.mechanism
    whole = [point for point in unbroken.points if point.whole]
    assert unbroken.winner is unbroken.points[0] and unbroken.winner in whole
    assert unbroken.winner.accuracy.mean == max(point.accuracy.mean for point in whole)
    assert unbroken.effort.rounds == ((4, 1), (2, 3))
    assert unbroken.effort.search_steps == 2 * 2 * (1 + 1 + 3 + 3) < unbroken.effort.full_grid_steps == 2 * 2 * 4 * 3


def test_the_file_comes_back_and_a_damaged_one_is_told(unbroken):
    content = json.loads(json.dumps(unbroken.to_json()))
    assert UtilityPlan.from_json(content) == unbroken
    for key in ("source", "target", "points", "same_budget", "selection_price", "effort", "coalmine_version"):
        with pytest.raises(InputError):
            UtilityPlan.from_json(content | {key: None})
        with pytest.raises(InputError):
            UtilityPlan.from_json(content | {key: [3]})
    with pytest.raises(InputError, match="no plan"):
        UtilityPlan.from_json({"kind": "audit"})


def test_an_attack_accuracy_as_the_budget(tmp_path):
    found = measure_plan(request(target={"accuracy": 0.6}, settings=grid([2], [2], [1.0], [1.0])), tmp_path)
    for arm in found.arms:
        assert mechanism_from_record(dict(arm.mechanism)).accuracy().upper <= 0.6 + 1e-9
    assert found.arms[2].mechanism["noise_multiplier"] > found.arms[0].mechanism["noise_multiplier"]


def test_private_rows_are_refused_unless_the_budget_is_spent(tmp_path):
    with pytest.raises(InputError, match="--spends-budget"):
        request(public=False)
    small = {"public": False, "spends_budget": True, "seed": None, "settings": grid([2], [2], [1.0], [1.0])}
    found = measure_plan(request(**small), tmp_path)
    assert not found.source.public and found.price.trainings == 2 and found.price.composed_epsilon == 4.0
    assert json.loads((tmp_path / "request.json").read_text())["seed"] is None  # a drawn seed gives the noise away
    assert found.seed is None


def test_the_cap_stops_the_search_and_a_higher_one_goes_on(unbroken, tmp_path):
    with pytest.raises(BudgetSpent, match="CPU minutes"):
        measure_plan(request(cpu_minutes=1e-6), tmp_path)
    assert measure_plan(request(), tmp_path).to_json() == unbroken.to_json()


def test_a_folder_of_another_plan_is_refused(tmp_path):
    with pytest.raises(BudgetSpent):
        measure_plan(request(cpu_minutes=1e-6), tmp_path)
    with pytest.raises(InputError, match="another plan"):
        measure_plan(request(seed=1), tmp_path)


def test_validation_rows_are_a_fifth_of_each_class_and_never_the_test_rows():
    rows = validation_rows(DIGITS)
    assert len(rows.y) + len(rows.y_measured) == len(DIGITS.y)
    for label in range(10):
        assert (rows.y_measured == label).sum() == (DIGITS.y == label).sum() // 5
    few = replace(DIGITS, x=DIGITS.x[:4], y=np.arange(4))
    with pytest.raises(InputError, match="too few"):
        validation_rows(few)


def test_the_closed_form_takes_more_steps_where_its_sample_must_be_smaller():
    target = {"epsilon": 2.0, "delta": 1 / 1437}
    steps, noise = closed_form_run(1437, Setting(4, 20, 1.0, 1.0), target)
    assert steps > 4 and noise == pytest.approx(3.0447, abs=1e-3)
    assert closed_form_run(1437, Setting(400, 20, 1.0, 1.0), target)[0] == 400


def test_the_interval_of_a_mean_covers_as_often_as_it_says():
    rng = np.random.default_rng(0)
    covered = [
        found.low <= 0.7 <= found.high for found in (MeanAccuracy.of(rng.normal(0.7, 0.02, 10)) for _ in range(2000))
    ]
    assert 0.93 < np.mean(covered) < 0.97
    assert MeanAccuracy.of([0.5]).low is None


@pytest.mark.parametrize(
    ("changed", "word"),
    [
        ({"settings": ()}, "grid"),
        ({"fresh_seeds": 1}, "fresh_seeds"),
        ({"cpu_minutes": 0.0}, "cpu_minutes"),
        ({"data": replace(DIGITS, x_test=DIGITS.x[:0], y_test=DIGITS.y[:0])}, "test rows"),
    ],
)
def test_bad_requests(changed, word):
    with pytest.raises(InputError, match=word):
        request(**changed)


def test_schedule_of_a_single_setting_is_one_whole_round():
    assert Schedule().rounds(1) == ((1, 1),)
