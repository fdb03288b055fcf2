"""LiRA against the reference arrays, its edge examples, invariances, the 2021 recipe and the shrunk variance."""

from __future__ import annotations

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy import stats
from scipy.special import digamma

from coalmine.attacks import lira, lira_multivariate
from coalmine.attacks.carlini2021 import lira_carlini2021, phi_carlini2021
from coalmine.attacks.joint import fit_mixture
from coalmine.attacks.moments import side_moments
from coalmine.attacks.spread import prior_variance
from coalmine.attacks.trend import fit_trend
from coalmine.audit.estimators.roc import auc
from coalmine.foundation import InputError

REFERENCE_MODES = {"online": "online", "offline_z": "offline", "offline_neglogsf": "offline_neglogsf"}
REFERENCE_VARIANCES = {"per_example": "per_example", "fixed_within": "pooled", "fixed_raw": "fixed_raw"}
EDGE_FREE = {"const_out", "const_in", "one_in_only", "all_equal_logits"}  # depend on the fallback for zero variance


def cells(prefix: str):
    for mode, ours in REFERENCE_MODES.items():
        for variance, our_variance in REFERENCE_VARIANCES.items():
            for centre in ("mean", "median"):
                if (mode, variance) not in {("offline_z", "fixed_raw"), ("offline_neglogsf", "fixed_raw")}:
                    yield f"expect__{prefix}__{mode}__{variance}__{centre}", ours, our_variance, centre


@pytest.mark.parametrize(("key", "mode", "variance", "centre"), list(cells("reg")))
def test_regular_examples_equal_the_reference(values, signals, key, mode, variance, centre):
    ours = lira(signals.shadow_phi[:, :64], signals.keep[:, :64], signals.target_phi[:64], mode, variance, centre)
    np.testing.assert_allclose(ours.scores, values[key], rtol=1e-9)
    assert set(ours.status) == {"ok"}


@pytest.mark.parametrize(("key", "mode", "variance", "centre"), [c for c in cells("edge") if c[2] == "per_example"])
def test_edge_examples_neither_disturb_the_others_nor_get_a_silent_number(values, signals, key, mode, variance, centre):
    ours = lira(signals.shadow_phi, signals.keep, signals.target_phi, mode, variance, centre)
    expected = values[key]
    np.testing.assert_allclose(ours.scores[:64], expected[:64], rtol=1e-9)
    for row, name in enumerate(signals.names, start=64):
        if np.isnan(expected[row]):
            assert np.isnan(ours.scores[row]) and ours.status[row] != "ok", name
        elif name == "inf_logit_target":
            assert np.isnan(ours.scores[row]) and ours.status[row] == "non_finite_target"
        elif name in EDGE_FREE:
            assert np.isfinite(ours.scores[row]), name
            assert abs(ours.scores[row] - expected[row]) < 0.1, name
        else:
            np.testing.assert_allclose(ours.scores[row], expected[row], rtol=1e-9, err_msg=name)


def test_status_says_why(signals):
    online = lira(signals.shadow_phi, signals.keep, signals.target_phi)
    assert dict(zip(signals.names, online.status[64:], strict=True)) == {
        "in_all": "too_few_out",
        "in_none": "too_few_in",
        "const_out": "zero_variance",
        "const_in": "zero_variance",
        "p_one_everywhere": "ok",
        "p_zero_target": "ok",
        "nan_one_shadow": "missing_values",
        "nan_target": "non_finite_target",
        "inf_logit_target": "non_finite_target",
        "one_in_only": "too_few_in",
        "all_equal_logits": "zero_variance",
        "unbalanced_3_13": "ok",
    }
    assert online.counts() == {
        "ok": 67,
        "too_few_in": 2,
        "too_few_out": 1,
        "zero_variance": 3,
        "missing_values": 1,
        "non_finite_target": 2,
        "undefined": 4,
    }
    offline = lira(signals.shadow_phi, signals.keep, signals.target_phi, "offline")
    assert offline.status[64 + signals.names.index("in_none")] == "ok"


@pytest.mark.parametrize("mode", ["online", "offline", "offline_neglogsf"])
@pytest.mark.parametrize("variance", ["per_example", "pooled", "shrunk"])
def test_one_bad_row_never_changes_another(signals, mode, variance):
    """Rows with a remark stay out of every pooled quantity."""
    good = np.arange(64)
    alone = lira(signals.shadow_phi[:, good], signals.keep[:, good], signals.target_phi[good], mode, variance)
    remarks = lira(signals.shadow_phi, signals.keep, signals.target_phi).status
    for row in range(64, 76):
        if remarks[row] == "ok" or (mode != "online" and signals.names[row - 64] in {"in_none", "const_in"}):
            continue
        if mode != "online" and signals.names[row - 64] in {"one_in_only", "nan_one_shadow"}:
            continue  # their trouble lies on the IN side, which offline does not look at
        rows = np.append(good, row)
        joined = lira(signals.shadow_phi[:, rows], signals.keep[:, rows], signals.target_phi[rows], mode, variance)
        np.testing.assert_allclose(joined.scores[:64], alone.scores, rtol=1e-9, err_msg=signals.names[row - 64])


def test_a_wildly_wrong_prediction_is_never_a_top_member(signals):
    row = 64 + signals.names.index("p_zero_target")
    for ours in (
        lira(signals.shadow_phi, signals.keep, signals.target_phi),
        lira(signals.shadow_phi, signals.keep, signals.target_phi, "offline"),
        lira_multivariate(signals.shadow_phi, signals.keep, signals.target_phi),
    ):
        assert ours.scores[row] < np.nanmedian(ours.scores)
    two_sided = lira(signals.shadow_phi, signals.keep, signals.target_phi, "offline_two_sided", "per_example")
    assert np.nanargmax(two_sided.scores) == row  # why the one-sided form is the default


def test_leave_one_out_equals_the_reference(values, signals):
    for model in range(16):
        others = np.arange(16) != model
        ours = lira(
            signals.shadow_phi[others, :64],
            signals.keep[others, :64],
            signals.shadow_phi[model, :64],
            "offline",
            "per_example",
        )
        np.testing.assert_allclose(ours.scores, values["expect__loo__offline_z__per_example__mean"][model], rtol=1e-9)


@pytest.mark.parametrize("mode", ["online", "offline", "offline_neglogsf", "offline_two_sided"])
@pytest.mark.parametrize("variance", ["per_example", "pooled", "shrunk", "fixed_raw"])
def test_invariances(signals, mode, variance):
    shadow, keep, target = signals.shadow_phi[:, :64], signals.keep[:, :64], signals.target_phi[:64]
    base = lira(shadow, keep, target, mode, variance).scores
    random = np.random.default_rng(0)
    rows, models = random.permutation(64), random.permutation(16)
    np.testing.assert_allclose(lira(shadow[:, rows], keep[:, rows], target[rows], mode, variance).scores, base[rows])
    np.testing.assert_allclose(lira(shadow[models], keep[models], target, mode, variance).scores, base)
    doubled = lira(np.repeat(shadow, 2, axis=2), keep, np.repeat(target, 2, axis=1), mode, variance).scores
    np.testing.assert_allclose(doubled, base, rtol=1e-9)
    strided = np.asfortranarray(shadow), np.asfortranarray(keep), np.asfortranarray(target)
    np.testing.assert_allclose(lira(*strided, mode, variance).scores, base, rtol=1e-9)
    tensors = torch.tensor(np.array(shadow)), torch.tensor(np.array(keep)), torch.tensor(np.array(target))
    np.testing.assert_array_equal(lira(*tensors, mode, variance).scores, base)
    np.testing.assert_allclose(
        lira(shadow.astype(np.float32), keep, target, mode, variance).scores, base, rtol=1e-3, atol=1e-4
    )
    if mode == "online" and variance != "shrunk":
        np.testing.assert_allclose(lira(shadow, ~keep, target, mode, variance).scores, -base, rtol=1e-9)


# -- the 2021 recipe -------------------------------------------------------------------------------------------------


def published_recipe(shadow, keep, target, online: bool, fixed: bool) -> np.ndarray:
    """The recipe of 2021 in a few lines of its own; lower = member there, hence the sign."""
    n = shadow.shape[1]
    inside = [shadow[keep[:, j], j] for j in range(n)]
    outside = [shadow[~keep[:, j], j] for j in range(n)]
    k_in, k_out = min(map(len, inside)), min(map(len, outside))
    inside, outside = np.array([v[:k_in] for v in inside]), np.array([v[:k_out] for v in outside])
    std_in = np.std(inside) if fixed else np.std(inside, axis=1)
    std_out = (np.std(inside) if online else np.std(outside)) if fixed else np.std(outside, axis=1)
    log_out = stats.norm.logpdf(target, np.median(outside, 1), std_out + 1e-30)
    if not online:
        return -log_out.mean(1)
    return (stats.norm.logpdf(target, np.median(inside, 1), std_in + 1e-30) - log_out).mean(1)


def published_phi(logits, labels):
    result = []
    for z, y in zip(logits.reshape(-1, logits.shape[-1]).astype(np.float32), labels.reshape(-1), strict=True):
        p = np.array(np.exp(z - np.max(z)), dtype=np.float64)
        p = p / np.sum(p)
        result.append(np.log(p[y] + 1e-45) - np.log(np.delete(p, y).sum() + 1e-45))
    return np.array(result).reshape(labels.shape)


def test_carlini2021_saturates_as_published(values):
    regular = values["shadow_logits"][:4, :69]
    labels = np.broadcast_to(values["labels"][None, :69, None], regular.shape[:3])
    np.testing.assert_allclose(phi_carlini2021(regular, labels), published_phi(regular, labels), rtol=1e-12)
    saturated = phi_carlini2021(np.array([[200.0, 0.0], [0.0, 900.0]]), [0, 0])
    np.testing.assert_allclose(saturated, [103.616, -103.616], atol=1e-3)


@pytest.mark.parametrize("mode", ["online", "offline"])
@pytest.mark.parametrize("variance", ["per_example", "fixed_raw"])
def test_carlini2021_equals_the_recipe_with_unequal_counts(mode, variance):
    """Everybody is cut to the smallest counts, so one unbalanced example moves all others: as published."""
    random = np.random.default_rng(1)
    shadow, target = random.normal(0, 2, (12, 40, 2)), random.normal(0, 2, (40, 2))
    keep = random.random((12, 40)) < 0.5
    keep[:, 0] = np.arange(12) < 3
    keep[:, 1] = np.arange(12) >= 2
    shadow[:, 2] = 103.616  # saturated models: variance zero
    ours = lira(shadow, keep, target, mode, variance, variant="carlini2021")
    expected = published_recipe(shadow, keep, target, mode == "online", variance == "fixed_raw")
    np.testing.assert_allclose(ours.scores, expected, rtol=1e-9)
    assert ours.details["variant"] == "carlini2021"
    assert ours.details["truncated_to"]["out"] == 2
    balanced = np.ones(40, dtype=bool)
    balanced[[0, 1]] = False
    without = lira(shadow[:, balanced], keep[:, balanced], target[balanced], mode, variance, variant="carlini2021")
    if variance == "per_example":
        assert not np.allclose(without.scores, ours.scores[balanced])


def test_carlini2021_names_the_example_that_would_make_everything_nan(signals):
    with pytest.raises(InputError, match="64"):
        lira_carlini2021(signals.shadow_phi, signals.keep, signals.target_phi)
    with pytest.raises(InputError, match="carlini2021"):
        lira(signals.shadow_phi, signals.keep, signals.target_phi, variance="shrunk", variant="carlini2021")


# -- the shrunk variance ---------------------------------------------------------------------------------------------


def test_prior_is_recovered_from_simulated_variances():
    random = np.random.default_rng(0)
    for nu, s2 in ((4.0, 2.0), (20.0, 0.5)):
        sigma2 = s2 * nu / random.chisquare(nu, 20_000)
        freedom = random.integers(1, 9, 20_000)
        fitted_nu, fitted_s2 = prior_variance(freedom, sigma2 * random.chisquare(freedom))
        assert fitted_nu == pytest.approx(nu, rel=0.1)
        assert fitted_s2 == pytest.approx(s2, rel=0.05)
    nu, s2 = prior_variance(np.full(500, 7), 3.0 * random.chisquare(7, 500) * 0 + 21.0)
    assert nu == np.inf and s2 == pytest.approx(3.0)


def test_predictive_is_calibrated_when_its_prior_is_true():
    """The next value of a side is Student t exactly: its distribution function there is uniform, at every count."""
    random = np.random.default_rng(1)
    n, nu = 40_000, 6.0
    sigma = np.sqrt(nu / random.chisquare(nu, n))
    centre = random.normal(0, 30, n)
    shadow = (centre + sigma * random.normal(size=(9, n)))[:, :, None]
    keep = np.zeros((9, n), dtype=bool)
    keep[:, : n // 2] = random.random((9, n // 2)) < 0.5  # OUT counts 0 … 9
    target = (centre + sigma * random.normal(size=n))[:, None]
    p = np.exp(-lira(shadow, keep, target, "offline_neglogsf").scores)
    count = (~keep).sum(axis=0)
    for k in (1, 2, 4, 9):
        rows = (count == k) & ~np.isnan(p)
        assert rows.sum() > 200
        assert stats.kstest(p[rows], "uniform").pvalue > 1e-3, k
    assert np.isnan(p[count == 0]).all()


def test_no_difference_between_variances_means_the_pooled_normal():
    random = np.random.default_rng(2)
    shadow = np.concatenate([np.tile([-1.0, 1.0], (400, 1)).T, np.tile([2.0, 4.0], (400, 1)).T])[:, :, None]
    keep = np.repeat([[False], [False], [True], [True]], 400, axis=1)
    target = random.normal(0, 1, (400, 1))
    ours = lira(shadow, keep, target, "offline")
    s0 = np.sqrt(2.0)  # S = 2 on one degree of freedom
    np.testing.assert_allclose(ours.scores, target[:, 0] / (s0 * np.sqrt(3 / 2)))
    assert ours.details["fitted"]["out"]["prior_degrees_of_freedom"] is None


def test_two_shadows_of_every_example_are_enough_and_fewer_are_named():
    random = np.random.default_rng(0)
    shadow, target = random.normal(size=(2, 30, 1)), random.normal(size=(30, 1))
    keep = np.zeros((2, 30), dtype=bool)
    keep[:, :5] = True
    with pytest.raises(InputError, match=r"IN side.*|OUT side.*"):
        lira(shadow, np.ones_like(keep), target)
    offline = lira(shadow, keep, target, "offline")
    assert (offline.status[:5] == "too_few_out").all() and np.isfinite(offline.scores[5:]).all()
    one_each = np.array([[True], [False]]).repeat(30, axis=1)
    with pytest.raises(InputError, match="two usable shadow values"):
        lira(shadow, one_each, target)


# -- both centres at once --------------------------------------------------------------------------------------------


def few_shadow_design(
    n: int, shadows: int, seed: int, related: bool = True
) -> tuple[np.ndarray, np.ndarray, np.ndarray, np.ndarray]:
    """IN centre = 5 + 0.3 OUT centre + noise, or unrelated and far apart; spreads that differ between examples.

    The last model is the target.
    """
    random = np.random.default_rng(seed)
    out = random.normal(2, 3 if related else 30, n)
    inside = 5 + 0.3 * out + random.normal(0, 1, n) if related else random.normal(8, 30, n)
    keep = random.random((shadows + 1, n)) < 0.5
    spread = 2 * np.sqrt(8 / random.chisquare(8, n))
    values = np.where(keep, inside, out) + spread * random.normal(size=keep.shape)
    return values[:-1, :, None], keep[:-1], values[-1, :, None], keep[-1]


@pytest.mark.parametrize("nu", [8.0, np.inf])
def test_the_trend_of_the_prior_variance_is_recovered(nu):
    random = np.random.default_rng(0)
    centre, freedom = random.uniform(-5, 5, 20_000), random.integers(1, 7, 20_000)

    def prior(x):
        return np.exp(0.3 * np.sin(x / 1.5) + 0.1 * x)

    scatter = 1.0 if nu == np.inf else nu / random.chisquare(nu, 20_000)
    fitted = fit_trend(centre, freedom, prior(centre) * scatter * random.chisquare(freedom))
    grid = np.linspace(-4, 4, 9)
    np.testing.assert_allclose(fitted.variance(grid), prior(grid), rtol=0.06)
    assert fitted.freedom > 50 if nu == np.inf else fitted.freedom == pytest.approx(nu, rel=0.1)
    assert fitted.variance(np.array([-99.0])) == fitted.variance(centre.min(keepdims=True))  # no wild extrapolation


def test_without_a_trend_the_prior_is_the_constant_one():
    random = np.random.default_rng(1)
    centre, freedom = random.normal(size=20_000), random.integers(1, 7, 20_000)
    squares = 2.0 * 8 / random.chisquare(8, 20_000) * random.chisquare(freedom)
    fitted = fit_trend(centre, freedom, squares)
    assert fitted.freedom == pytest.approx(8, rel=0.15)
    np.testing.assert_allclose(fitted.variance(np.linspace(-3, 3, 7)), 2.0, rtol=0.1)
    same = fit_trend(np.zeros(500), np.full(500, 7), np.full(500, 21.0))  # nothing to regress on, no scatter
    assert same.freedom == np.inf
    assert same.variance(np.ones(1)) == pytest.approx(np.exp(np.log(3.0) - digamma(3.5) + np.log(3.5)))


def test_the_mixture_of_centres_is_recovered_from_noisy_means():
    random = np.random.default_rng(0)
    mean = np.array([[2, -10], [6, 5], [10, 10]])
    covariance = np.array([[[2, 0], [0, 16]], [[1, 1.5], [1.5, 4]], [[2, 1], [1, 2]]])
    which = random.choice(3, 5000, p=[0.1, 0.6, 0.3])
    centre = mean[which] + np.einsum("nij,nj->ni", np.linalg.cholesky(covariance)[which], random.normal(size=(5000, 2)))
    noise = random.uniform(0.5, 4, (5000, 2))
    fitted = fit_mixture(centre + np.sqrt(noise) * random.normal(size=(5000, 2)), noise, 3)
    order = np.argsort(fitted.mean[:, 1])
    np.testing.assert_allclose(fitted.weight[order], [0.1, 0.6, 0.3], atol=0.03)
    np.testing.assert_allclose(fitted.mean[order], mean, atol=0.8)
    np.testing.assert_allclose(fitted.covariance[order][1:], covariance[1:], atol=0.6)
    posterior = fitted.posterior(centre, np.full((5000, 2), 1e-9))[1]  # exact means are believed
    np.testing.assert_allclose(posterior, np.repeat(centre[:, None], 3, axis=1), atol=1e-6)


def test_one_component_is_the_bivariate_posterior():
    random = np.random.default_rng(2)
    observed, noise = random.normal(size=(300, 2)), random.uniform(0.2, 2, (300, 2))
    fitted = fit_mixture(observed, noise, 1)
    weight, centre, covariance = fitted.posterior(observed, noise)
    prior = np.linalg.inv(fitted.covariance[0])
    for j in range(0, 300, 50):
        data = np.diag(1 / noise[j])
        expected = np.linalg.inv(prior + data)
        np.testing.assert_allclose(centre[j, 0], expected @ (prior @ fitted.mean[0] + data @ observed[j]))
        np.testing.assert_allclose(covariance[j, 0], [expected[0, 0], expected[1, 1], expected[0, 1]])
    assert (weight == 0).all()


def test_the_joint_centre_helps_at_few_shadows():
    gains = []
    for seed in range(4):
        shadow, keep, target, member = few_shadow_design(2000, 8, seed)
        drawn, plain = lira(shadow, keep, target), lira(shadow, keep, target, centre="mean")
        centres = drawn.details["fitted"]["centres"]
        assert drawn.details["centre"] == "joint" and sum(centres["weights"]) == pytest.approx(1)
        gains.append(auc(drawn.scores, member) - auc(plain.scores, member))
    assert np.mean(gains) > 0.006 and min(gains) > 0


@pytest.mark.parametrize("n", [60, 600])
def test_the_joint_centre_loses_nothing_where_the_sides_and_examples_have_nothing_in_common(n):
    losses = []
    for seed in range(8):
        shadow, keep, target, member = few_shadow_design(n, 8, seed, related=False)
        drawn, plain = lira(shadow, keep, target).scores, lira(shadow, keep, target, centre="mean").scores
        losses.append(auc(plain, member) - auc(drawn, member))
    assert abs(np.mean(losses)) < 0.002


def test_with_many_shadows_the_example_s_own_values_take_over():
    apart = []
    for shadows in (20, 100, 500):
        shadow, keep, target, _ = few_shadow_design(300, shadows, 0)
        drawn, plain = lira(shadow, keep, target).scores, lira(shadow, keep, target, centre="mean").scores
        apart.append(np.abs(drawn - plain).mean())
    assert apart[0] > 3 * apart[1] > 9 * apart[2]


def test_examples_with_a_remark_are_scored_by_the_others_and_move_none_of_them():
    shadow, keep, target, _ = few_shadow_design(400, 8, 0)
    sound = lira(shadow, keep, target).status == "ok"
    shadow, keep, target = shadow[:, sound], keep[:, sound], target[sound]
    alone = lira(shadow, keep, target)
    bad = shadow[:, :4].copy()
    bad[0, 0] = np.nan
    bad[:, 1] = 1e6  # constant on both sides, far away
    also = keep[:, :4].copy()
    also[:, 2] = [True] + [False] * 7
    also[:, 3] = False
    joined = lira(
        np.concatenate([shadow, bad], axis=1),
        np.concatenate([keep, also], axis=1),
        np.concatenate([target, target[:4]]),
    )
    np.testing.assert_allclose(joined.scores[:-4], alone.scores, rtol=1e-9)
    assert list(joined.status[-4:]) == ["missing_values", "zero_variance", "too_few_in", "too_few_in"]
    assert np.isfinite(joined.scores[-4:-1]).all() and np.isnan(joined.scores[-1])


@pytest.mark.parametrize("absurd", [1e6, 1e30, 1e55, 1e150])
@pytest.mark.parametrize("centre", ["joint", "mean"])
def test_one_absurd_value_leaves_the_others_as_if_its_example_were_not_there(absurd, centre):
    shadow, keep, target, _ = few_shadow_design(300, 8, 1)
    one = int(np.flatnonzero(keep.sum(axis=0) == 4)[0])
    others = np.arange(300) != one
    without = lira(shadow[:, others], keep[:, others], target[others], centre=centre).scores
    for place in np.flatnonzero(keep[:, one])[:1], np.flatnonzero(~keep[:, one])[:1]:
        spoilt = shadow.copy()
        spoilt[place, one] = absurd
        result = lira(spoilt, keep, target, centre=centre)
        np.testing.assert_allclose(result.scores[others], without, rtol=1e-9, atol=1e-9)
        assert result.status[one] == ("missing_values" if absurd > 1e60 else "ok")
        assert np.isfinite(result.scores[one])


@pytest.mark.parametrize("unit", [2.0**-330, 1e-100, 1e-3, 1e50])
def test_scores_do_not_depend_on_the_unit(unit):
    shadow, keep, target, _ = few_shadow_design(300, 8, 2)
    expected = lira(shadow, keep, target).scores
    np.testing.assert_allclose(lira(unit * shadow, keep, unit * target).scores, expected, rtol=1e-7, atol=1e-7)


def test_a_target_beyond_all_models_is_named_and_not_scored():
    shadow, keep, target, _ = few_shadow_design(300, 8, 3)
    target[5] = 1e200
    result = lira(shadow, keep, target)
    assert result.status[5] == "non_finite_target" and np.isnan(result.scores[5])


def test_the_order_of_many_examples_does_not_matter_to_the_ones_that_the_mixture_is_fitted_to():
    shadow, keep, target, _ = few_shadow_design(6000, 8, 0)
    order = np.random.default_rng(1).permutation(6000)
    np.testing.assert_allclose(
        lira(shadow[:, order], keep[:, order], target[order]).scores,
        lira(shadow, keep, target).scores[order],
        rtol=1e-6,
    )


def test_the_joint_centre_needs_enough_examples():
    shadow, keep, target, _ = few_shadow_design(25, 16, 0)
    np.testing.assert_array_equal(lira(shadow, keep, target).scores, lira(shadow, keep, target, centre="mean").scores)
    with pytest.raises(InputError, match="joint"):
        lira(shadow, keep, target, "offline", centre="joint")


# -- moments, multivariate, input ------------------------------------------------------------------------------------


@settings(max_examples=40, deadline=None)
@given(st.integers(0, 2**32 - 1), st.integers(1, 9), st.integers(1, 40), st.integers(1, 3))
def test_moments_equal_numpy_on_ragged_sides(seed, shadows, n, views):
    random = np.random.default_rng(seed)
    values = random.normal(5, 3, (shadows, n, views))
    values[random.random(values.shape) < 0.1] = np.nan
    side = random.random((shadows, n)) < 0.5
    mean, median = side_moments(values, side), side_moments(values, side, "median")
    for j in range(n):
        for a in range(views):
            mine = values[side[:, j], j, a]
            used = mine[np.isfinite(mine)]
            assert mean.count[j, a] == len(used) and mean.missing[j, a] == len(mine) - len(used)
            if len(used):
                np.testing.assert_allclose(mean.centre[j, a], used.mean())
                np.testing.assert_allclose(median.centre[j, a], np.median(used))
                np.testing.assert_allclose(mean.squares[j, a], ((used - used.mean()) ** 2).sum(), atol=1e-12)
                assert mean.constant[j, a] == (len(set(used)) == 1)
            else:
                assert np.isnan(mean.centre[j, a])


def test_multivariate_equals_scipy(signals):
    shadow, keep, target = signals.shadow_phi[:, :64], signals.keep[:, :64], signals.target_phi[:64]
    ours = lira_multivariate(shadow, keep, target, "per_example").scores
    for j in range(64):
        sides = [shadow[keep[:, j], j], shadow[~keep[:, j], j]]
        logs = [
            stats.multivariate_normal.logpdf(target[j], v.mean(0), np.cov(v.T, ddof=1) + 1e-6 * np.eye(2))
            for v in sides
        ]
        np.testing.assert_allclose(ours[j], logs[0] - logs[1], rtol=1e-7)
    one = lira_multivariate(shadow[:, :, :1], keep, target[:, :1], "pooled").scores
    assert np.corrcoef(one, lira(shadow[:, :, :1], keep, target[:, :1], variance="pooled").scores)[0, 1] > 0.99
    edges = lira_multivariate(signals.shadow_phi, signals.keep, signals.target_phi, "per_example")
    assert edges.status[64 + signals.names.index("const_in")] == "zero_variance"


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"shadow_phi": np.zeros((3, 4, 1, 2))}, "shape"),
        ({"keep": np.zeros((3, 5), dtype=bool)}, "keep"),
        ({"keep": np.full((3, 4), 2)}, "keep"),
        ({"target_phi": np.zeros((4, 2))}, "target"),
        ({"mode": "off"}, "mode"),
        ({"variance": "fixed"}, "variance"),
        ({"centre": "mode"}, "centre"),
        ({"variant": "2021"}, "variant"),
    ],
)
def test_wrong_input_is_named(change, message):
    random = np.random.default_rng(0)
    given = {
        "shadow_phi": random.normal(size=(3, 4)),
        "keep": np.array([[1, 1, 0, 0], [1, 0, 0, 1], [0, 0, 0, 1]]),
        "target_phi": np.zeros(4),
    }
    with pytest.raises(InputError, match=message):
        lira(**{**given, **change})
