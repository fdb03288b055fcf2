"""Successive halving by scikit-learn: the rounds that were planned are run, and each goes on from the last."""

import pytest

from coalmine.audit.planning.halving import Schedule, halve
from coalmine.audit.planning.setting import Setting, grid
from coalmine.foundation import InputError


@pytest.mark.parametrize("count", [1, 2, 3, 7, 20, 27, 40, 108])
def test_rounds_are_those_of_scikit_learn_and_the_last_is_whole(count):
    settings = [Setting(4, 10, 1.0, 0.1 * (i + 1)) for i in range(count)]
    asked: list[tuple[Setting, int]] = []

    def measure(setting, turns):
        asked.append((setting, turns))
        return setting.learning_rate

    trials = halve(settings, measure, Schedule())
    rounds = Schedule().rounds(count)
    assert [(sum(t == turns for _, t in asked), turns) for _, turns in rounds] == list(rounds)
    assert len(trials) == count and {t.setting for t in trials} == set(settings)
    assert trials[0].setting == settings[-1] and trials[0].turns == rounds[-1][1]


def test_a_setting_that_is_hopeless_early_is_stopped_early():
    settings = [Setting(4, 27, 1.0, rate) for rate in (1.0, 2.0, 3.0, 4.0, 5.0, 6.0, 7.0, 8.0, 9.0)]
    trials = halve(settings, lambda s, turns: -abs(s.learning_rate - 4.0), Schedule(3, 9))
    assert [t.setting.learning_rate for t in trials if t.turns == 9] == [4.0]
    assert sorted(t.setting.learning_rate for t in trials if t.turns == 3) == [3.0, 5.0]


def test_epochs_of_a_part_are_whole_and_the_last_part_is_the_run():
    assert [Setting(4, 10, 1.0, 1.0).epochs_at(turns, 27) for turns in (1, 3, 9, 27)] == [1, 2, 4, 10]


def test_the_default_grid_moves_the_product_of_rate_and_norm():
    assert {round(s.learning_rate * s.clipping_norm, 9) for s in grid()} == {1.0, 2.0, 4.0, 8.0}
    assert len(grid()) == len(set(grid())) == 108
    assert len(grid([4], [10, 20], [1.0], [0.1, 0.2])) == 4
    with pytest.raises(InputError, match="twice"):
        grid([4, 4], [10], [1.0], [0.1])
    with pytest.raises(InputError, match="steps_per_epoch"):
        grid([4.5], [10], [1.0], [0.1])
