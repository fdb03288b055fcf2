"""RMIA, BASE, Attack-P, Attack-R, calibrated loss, midpoint, quantile regression, white-box ratios."""

from __future__ import annotations

import numpy as np
import pytest
from scipy import stats

from coalmine.attacks import (
    attack_p,
    attack_r,
    base,
    calibrated_loss,
    every_step_ratio,
    fixed_bins_ratio,
    global_threshold,
    loss,
    midpoint,
    poisson_ratio,
    quantile_regression,
    random_allocation_ratio,
    rmia,
)
from coalmine.foundation import InputError


def all_attacks(s):
    """name -> scores on one view, every attack that takes shadows or a population."""
    return {
        "rmia_offline": rmia(s.shadow, s.keep, s.target, s.population_shadow, s.population_target),
        "rmia_online": rmia(s.shadow, s.keep, s.target, s.population_shadow, s.population_target, "online"),
        "base_online": base(s.shadow, s.keep, s.target),
        "base_offline": base(s.shadow, s.keep, s.target, "offline"),
        "attack_p": attack_p(s.target, s.population_target),
        "attack_r": attack_r(s.shadow, s.keep, s.target),
        "calibrated_loss": calibrated_loss(s.shadow, s.keep, s.target),
        "midpoint": midpoint(s.shadow, s.keep, s.target),
        "loss": loss(s.target_phi[:, :1]),
    }


def test_single_model_scores_and_rmia_equal_the_reference(values, signals):
    for key, ours in (
        ("global_threshold", global_threshold(signals.target_phi)),
        ("loss_yeom", loss(signals.target_phi[:, :1])),
        ("rmia_offline_a0.3_g1", all_attacks(signals)["rmia_offline"]),
    ):
        expected = values[f"expect__edge__{key}"]
        np.testing.assert_allclose(ours.scores[:64], values[f"expect__reg__{key}"], rtol=1e-9, atol=1e-13)
        finite = np.isfinite(expected)
        np.testing.assert_allclose(ours.scores[finite], expected[finite], rtol=1e-9, atol=1e-13)
        assert np.isnan(ours.scores[~finite]).all()


def test_every_score_equals_its_definition_example_by_example(signals):
    s = signals
    ours = all_attacks(s)
    p, p_t = np.exp(s.shadow), np.exp(s.target)
    z, z_t = np.exp(s.population_shadow), np.exp(s.population_target)
    for j in range(64):
        inside, outside = s.keep[:, j], ~s.keep[:, j]
        expected = {
            "base_online": np.log(p_t[j] / p[:, j].mean()),
            "base_offline": s.target[j] - 0.33 * np.log(p[outside, j].mean()),
            "attack_p": (z_t <= p_t[j]).mean(),
            "attack_r": (p[outside, j] <= p_t[j]).mean(),
            "calibrated_loss": s.target[j] - s.shadow[outside, j].mean(),
            "midpoint": s.target[j] - (s.shadow[inside, j].mean() + s.shadow[outside, j].mean()) / 2,
            "rmia_online": (
                p_t[j] / ((p[inside, j].mean() + p[outside, j].mean()) / 2) / (z_t / z.mean(axis=0)) > 1
            ).mean(),
        }
        for name, value in expected.items():
            np.testing.assert_allclose(ours[name].scores[j], value, rtol=1e-9, atol=1e-12, err_msg=f"{name} {j}")


def test_rmia_rank_form_is_the_matrix_form_with_ties_and_any_gamma():
    random = np.random.default_rng(0)
    shadow = np.log(random.integers(1, 9, (6, 40)) / 8.0)  # powers and ties
    keep = random.random((6, 40)) < 0.5
    keep[:2] = [[True], [False]]
    target, z_t = np.log(random.integers(1, 9, 40) / 8.0), np.log(random.integers(1, 9, 30) / 8.0)
    z = np.log(random.integers(1, 9, (6, 30)) / 8.0)
    for gamma in (0.5, 1.3, 2.1):
        ours = rmia(shadow, keep, target, z, z_t, gamma=gamma).scores
        marginal = [(1.3 * np.exp(shadow[~keep[:, j], j]).mean() + 0.7) / 2 for j in range(40)]
        ratio = np.exp(target) / marginal
        ratio_z = np.exp(z_t) / ((1.3 * np.exp(z).mean(0) + 0.7) / 2)
        matrix = (ratio[:, None] / ratio_z[None] > gamma).mean(axis=1)
        np.testing.assert_allclose(ours, matrix, atol=1e-12)


def test_rmia_with_unequal_counts_and_tiny_confidences():
    """Peers average the larger half of the shadows: right only with exactly half of them OUT."""
    shadow = np.array([[-800.0], [-790.0], [-1.0], [-900.0]])
    keep = np.array([[False], [False], [True], [False]])
    ours = base(shadow, keep, np.array([-795.0]), "offline", a=1.0)
    np.testing.assert_allclose(ours.scores[0], -795 - (-790 + np.log1p(np.exp(-10.0)) - np.log(3)), rtol=1e-12)


def test_edge_examples(signals):
    ours = all_attacks(signals)
    edge = {name: 64 + k for k, name in enumerate(signals.names)}
    for name, result in ours.items():
        assert np.isnan(result.scores[edge["nan_target"]]), name
        assert np.isnan(result.scores[edge["inf_logit_target"]]), name
        assert result.status[edge["inf_logit_target"]] == "non_finite_target", name
        assert np.isfinite(result.scores[edge["p_one_everywhere"]]), name
        assert result.scores[edge["p_zero_target"]] <= np.nanmin(result.scores[:64]), name
    assert np.isfinite(ours["base_online"].scores[[edge["in_all"], edge["in_none"]]]).all()
    assert np.isfinite(ours["loss"].scores[[edge["in_all"], edge["in_none"]]]).all()
    for name in ("attack_r", "calibrated_loss", "rmia_offline", "base_offline"):
        assert ours[name].status[edge["in_all"]] == "too_few_out" and np.isnan(ours[name].scores[edge["in_all"]])
        assert ours[name].status[edge["in_none"]] == "ok"
    assert ours["midpoint"].status[edge["in_none"]] == "too_few_in"


def test_one_bad_row_never_changes_another(signals):
    whole = all_attacks(signals)
    from types import SimpleNamespace

    regular = SimpleNamespace(**{**vars(signals)})
    for name in ("shadow", "keep"):
        setattr(regular, name, getattr(signals, name)[:, :64])
    for name in ("target", "target_phi"):
        setattr(regular, name, getattr(signals, name)[:64])
    for name, result in all_attacks(regular).items():
        np.testing.assert_array_equal(whole[name].scores[:64], result.scores, err_msg=name)


def test_flipping_keep(signals):
    s = signals
    for attack, sign in ((midpoint, 1), (lambda *a: rmia(*a, s.population_shadow, s.population_target, "online"), 1)):
        straight = attack(s.shadow[:, :64], s.keep[:, :64], s.target[:64]).scores
        np.testing.assert_allclose(attack(s.shadow[:, :64], ~s.keep[:, :64], s.target[:64]).scores, sign * straight)
    np.testing.assert_array_equal(base(s.shadow, ~s.keep, s.target).scores, base(s.shadow, s.keep, s.target).scores)


def test_missing_values_are_left_out_and_counted():
    shadow = np.array([[0.5, -1.0], [np.nan, -2.0], [-0.25, -3.0]])
    keep = np.zeros((3, 2), dtype=bool)
    target = np.array([0.0, -1.5])
    for attack in (attack_r, calibrated_loss, base):
        result = attack(shadow, keep, target)
        assert list(result.status) == ["missing_values", "ok"], attack
        assert np.isfinite(result.scores).all()
    assert attack_r(shadow, keep, target).scores[0] == 0.5
    population = attack_p(target, np.array([np.nan, -5.0, -1.0]))
    assert population.details["population_left_out"] == 1
    np.testing.assert_array_equal(population.scores, [1.0, 0.5])
    with pytest.raises(InputError, match="population"):
        attack_p(target, [np.nan])
    with pytest.raises(InputError, match="one view"):
        base(np.zeros((3, 2, 2)), keep, np.zeros((2, 2)))


def test_quantile_regression_keeps_its_false_positive_rate_where_difficulty_varies():
    random = np.random.default_rng(0)

    def draw(n):
        x = random.normal(size=(n, 3))
        return x, 3 * x[:, 0] + (1 + (x[:, 1] > 0)) * random.normal(size=n)

    x_fit, s_fit = draw(1500)
    x_out, s_out = draw(1500)
    x_in, s_in = draw(1500)
    audited, signal = np.concatenate([x_out, x_in]), np.concatenate([s_out, s_in + 3.0])
    result = quantile_regression(x_fit, s_fit, audited, signal, false_positive_rate=0.1)
    rate = (result.scores[:1500] > 0).mean()
    assert 0.07 < rate < 0.14
    global_rate = (signal[1500:] > np.quantile(s_fit, 0.9)).mean()
    assert (result.scores[1500:] > 0).mean() > global_rate + 0.2
    again = quantile_regression(x_fit, s_fit, audited[:7], signal[:7], false_positive_rate=0.1)
    np.testing.assert_array_equal(again.scores, result.scores[:7])  # not only the last batch
    signal[3] = np.nan
    marked = quantile_regression(x_fit, s_fit, audited, signal, false_positive_rate=0.1)
    assert marked.status[3] == "non_finite_target" and np.isfinite(np.delete(marked.scores, 3)).all()
    with pytest.raises(InputError, match="100"):
        quantile_regression(x_fit[:50], s_fit[:50], audited, signal, false_positive_rate=0.1)


def test_white_box_ratios_are_the_likelihood_ratios():
    random = np.random.default_rng(0)
    sigma, epochs, steps, n = 0.7, 3, 4, 5
    x = random.normal(0.3, sigma, (epochs, steps, n))

    def density(rows, mean):
        return np.prod(stats.norm.pdf(rows, mean, sigma))

    for j in range(n):
        ratio = 1.0
        for e in range(epochs):
            used = np.mean([density(x[e, :, j], np.eye(steps)[t]) for t in range(steps)])
            ratio *= used / density(x[e, :, j], 0.0)
        np.testing.assert_allclose(random_allocation_ratio(x, sigma).scores[j], np.log(ratio), rtol=1e-9)
        bins = np.mean([density(x[:, :, j], np.eye(steps)[t]) for t in range(steps)]) / density(x[:, :, j], 0.0)
        np.testing.assert_allclose(fixed_bins_ratio(x, sigma).scores[j], np.log(bins), rtol=1e-9)
        flat = x[:, :, j].reshape(-1)
        poisson = np.prod(0.8 + 0.2 * stats.norm.pdf(flat, 1, sigma) / stats.norm.pdf(flat, 0, sigma))
        rows = x.reshape(-1, n)
        np.testing.assert_allclose(poisson_ratio(rows, sigma, 0.2).scores[j], np.log(poisson), rtol=1e-9)
        every = density(flat, 1.0) / density(flat, 0.0)
        np.testing.assert_allclose(every_step_ratio(rows, sigma).scores[j], np.log(every), rtol=1e-9)
        np.testing.assert_allclose(poisson_ratio(rows, sigma, 1.0).scores[j], np.log(every), rtol=1e-9)
    one_step = x[:, :1]
    np.testing.assert_allclose(
        random_allocation_ratio(one_step, sigma).scores, every_step_ratio(one_step[:, 0], sigma).scores
    )


def test_white_box_with_tiny_noise_and_missing_values():
    x = np.zeros((2, 3, 2))
    x[:, 1, 0] = 1.0
    ratios = random_allocation_ratio(x, 1e-3).scores
    assert ratios[0] == pytest.approx(2 * (0.5e6 - np.log(3))) and ratios[1] == pytest.approx(-1e6)
    x[0, 0, 1] = np.nan
    assert list(random_allocation_ratio(x, 1.0).status) == ["ok", "non_finite_target"]
    with pytest.raises(InputError, match="noise_multiplier"):
        random_allocation_ratio(x, 0.0)
    with pytest.raises(InputError, match="3 dimension"):
        random_allocation_ratio(x[0], 1.0)


def test_the_sign_of_the_random_allocation_ratio_attains_the_optimal_accuracy():
    """M = 10 steps, 3 epochs, sigma = 1: the accuracy is 1/2 + TV/2, TV by an independent simulation of the ratio."""
    random = np.random.default_rng(5)
    n, steps, epochs, sigma = 40_000, 10, 3, 1.0
    x = random.normal(0, sigma, (epochs, steps, n))
    member = random.random(n) < 0.5
    used = random.integers(0, steps, (epochs, n))
    for e in range(epochs):
        x[e, used[e], np.arange(n)] += member
    accuracy = ((random_allocation_ratio(x, sigma).scores > 0) == member).mean()
    z = random.normal(size=(200_000, epochs, steps))
    ratio = np.exp(z / sigma - 0.5 / sigma**2).mean(axis=2).prod(axis=1)
    optimal = 0.5 + np.maximum(1 - ratio, 0).mean() / 2
    assert accuracy == pytest.approx(optimal, abs=0.01)
