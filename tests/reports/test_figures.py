"""The figures draw the audit's numbers and theory's curve, nothing else, and leave no trace behind."""

import subprocess
import sys

import matplotlib
import numpy as np
import pytest

from coalmine.audit.bounds import mechanism_from_record
from coalmine.reports import drawing
from coalmine.reports.figure_headline import describe_headline, draw_headline, headlines
from coalmine.reports.figure_roc import draw_roc, smallest_rate
from coalmine.reports.figure_scores import draw_scores
from coalmine.reports.figure_trade_off import draw_trade_off
from coalmine.reports.read import read_audit, read_audits


def line(figure, beginning):
    """The coordinates of the line whose legend entry begins so."""
    found = [one for one in figure.axes[0].get_lines() if str(one.get_label()).startswith(beginning)]
    assert len(found) == 1, [one.get_label() for one in figure.axes[0].get_lines()]
    return np.asarray(found[0].get_xdata(), float), np.asarray(found[0].get_ydata(), float)


def points(figure):
    """(x, y, low, high) of every interval drawn."""
    drawn = []
    for container in figure.axes[0].containers:
        data, _, bars = container
        (x,), (y,) = data.get_data()
        (_, low), (_, high) = bars[0].get_segments()[0]
        drawn.append((x, y, low, high))
    return drawn


def _roc(audit):
    return audit.roc.false_positive_rate, audit.roc.true_positive_rate


def test_the_headline_curve_is_the_claims_bound_and_passes_its_closed_form(rejected):
    (headline,) = headlines(read_audits([rejected]))
    noise, bound = line(draw_headline(headline), "upper bound, closed form")
    claimed = rejected["claim"]["mechanism"]
    for at in (0, 60, 160):
        mechanism = mechanism_from_record(claimed | {"noise_multiplier": float(noise[at])})
        assert bound[at] == mechanism.accuracy_bound()
    at_claim = np.interp(np.log(4.0), np.log(noise), bound)
    assert at_claim == pytest.approx(rejected["claim"]["accuracy"]["closed_form"], abs=1e-5)


def test_the_exact_value_lies_under_the_closed_form(rejected):
    (headline,) = headlines(read_audits([rejected]))
    ((_, curve),) = headline.curves
    assert curve.exact_values.size > 4
    assert np.all(curve.exact_lower <= curve.exact_upper)
    assert np.all(curve.exact_upper - curve.exact_lower <= 2e-3)
    closed_form = np.interp(np.log(curve.exact_values), np.log(curve.values), curve.bound)
    assert np.all(curve.exact_lower <= closed_form + 1e-6)
    assert np.all(np.diff(curve.exact_lower) < 0)


def test_each_run_is_a_point_with_its_interval_at_the_claimed_noise(not_rejected, rejected):
    (headline,) = headlines(read_audits([not_rejected, rejected]))
    assert len(headline.curves) == 1  # the same claim is one curve
    for content, (x, y, low, high) in zip((not_rejected, rejected), points(draw_headline(headline)), strict=True):
        accuracy = content["estimates"][0]
        assert x == pytest.approx(4.0, rel=0.05)  # side by side
        assert (y, low, high) == pytest.approx((accuracy["value"], *accuracy["interval"]))


def test_different_claims_are_different_curves_and_a_bare_claim_is_a_figure_of_its_own(not_rejected, rejected):
    bare = read_audit(rejected | {"claim": rejected["claim"] | {"mechanism": {"epsilon": 1.0, "delta": 1e-5}}})
    rejected["claim"]["mechanism"]["epochs"] = 3
    three = [*read_audits([not_rejected, rejected]), bare]
    by_noise, by_epsilon = headlines(three)
    assert [len(by_noise.curves), len(by_epsilon.curves)] == [2, 1]
    epsilon, bound = line(draw_headline(by_epsilon), "upper bound")
    assert bound == pytest.approx((np.exp(epsilon) + 1e-5) / (1 + np.exp(epsilon)), abs=1e-12)
    assert "epsilon 1" in describe_headline(by_epsilon)


@pytest.mark.parametrize(
    "mechanism, formula_is_exact",
    [
        ({"name": "fixed_bins", "steps_per_epoch": 50, "epochs": 4, "noise_multiplier": 3.0}, False),
        ({"name": "full_batch", "noise_multiplier": 20.0, "steps": 100}, True),
        ({"epsilon": 1.0, "delta": 1e-5}, True),
    ],
)
def test_every_mechanism_has_its_curve(rejected, mechanism, formula_is_exact):
    rejected["claim"] |= {"mechanism": mechanism, "accuracy": None, "epsilon": None}
    (headline,) = headlines(read_audits([rejected]))
    ((_, curve),) = headline.curves
    assert curve.formula_is_exact == formula_is_exact and (curve.exact_values.size == 0) == formula_is_exact
    at_claim = np.interp(curve.claimed, curve.values, curve.bound)
    assert at_claim == pytest.approx(mechanism_from_record(mechanism).accuracy_bound(), abs=1e-3)
    assert headline.low < curve.claimed < headline.high


def test_poisson_sampling_has_no_formula_and_is_drawn_by_its_exact_value(rejected):
    mechanism = {"name": "poisson", "sampling_rate": 0.01, "steps": 500, "noise_multiplier": 1.5}
    rejected["claim"] |= {"mechanism": mechanism, "accuracy": None, "epsilon": None}
    (headline,) = headlines(read_audits([rejected]))
    ((_, curve),) = headline.curves
    assert curve.values.size == 0 and curve.exact_values.size > 4
    assert np.all(np.diff(curve.exact_upper) < 0) and np.all(curve.exact_lower <= curve.exact_upper)
    _, bound = line(draw_headline(headline), "upper bound, exact value")
    assert list(bound) == list(curve.exact_upper)


def test_a_mechanism_that_theory_does_not_know_still_shows_its_points(rejected):
    rejected["claim"]["mechanism"] = {"name": "astrology", "noise_multiplier": 2.0}
    (headline,) = headlines(read_audits([rejected]))
    assert headline.curves == () and len(points(draw_headline(headline))) == 1
    draw_roc(read_audit(rejected)), draw_trade_off(read_audit(rejected))


def test_the_roc_is_the_audits_and_the_forbidden_region_starts_at_the_claimed_curve(rejected):
    audit = read_audit(rejected)
    figure = draw_roc(audit)
    x, y = line(figure, "this attack")
    measured = {(round(a, 9), round(b, 9)) for a, b in zip(*_roc(audit), strict=True)}
    drawn = {(round(a, 9), round(b, 9)) for a, b in zip(x, y, strict=True) if a > smallest_rate(audit)}
    assert len(drawn) > 10 and drawn <= measured
    region = next(one for one in figure.axes[0].collections if one.get_label() == "forbidden by the claim")
    curve = mechanism_from_record(rejected["claim"]["mechanism"]).trade_off_curve()
    corners = region.get_paths()[0].vertices
    lower_edge = corners[(corners[:, 1] < 1.9) & (corners[:, 0] > 1e-3)]
    assert len(lower_edge) > 50
    assert lower_edge[:, 1] == pytest.approx(1.0 - curve(np.minimum(lower_edge[:, 0], 1.0)), abs=1e-9)


def test_a_block_of_ties_is_a_straight_line_in_rates_on_log_axes_too(rejected):
    rejected["roc"] |= {"false_positive_rate": [0.0, 0.2, 1.0], "true_positive_rate": [0.0, 0.6, 1.0]}
    x, y = line(draw_roc(read_audit(rejected)), "this attack")
    inside = (x > 0.02) & (x < 0.2)
    assert inside.sum() > 3
    assert y[inside] == pytest.approx(3 * x[inside], rel=1e-6)


def test_intervals_are_drawn_at_the_reported_rates_and_refused_ones_are_not(rejected):
    (point,) = points(draw_roc(read_audit(rejected)))
    reported = rejected["roc"]["tpr_at_fpr"][2]
    assert point == pytest.approx((0.1, reported["true_positive_rate"], *reported["interval"]))


def test_a_band_is_drawn_where_the_audit_has_one(rejected):
    rates = rejected["roc"]["true_positive_rate"]
    rejected["roc"]["band"] = {"lower": [r * 0.9 for r in rates], "upper": [min(1, r * 1.1) for r in rates]}
    labels = [one.get_label() for one in draw_roc(read_audit(rejected)).axes[0].collections]
    assert "band (class C)" in labels


def test_the_trade_off_plot_is_the_roc_by_its_errors(rejected):
    audit = read_audit(rejected)
    x, y = line(draw_trade_off(audit), "this attack")
    assert x == pytest.approx(audit.roc.false_positive_rate)
    assert y == pytest.approx(1 - np.asarray(audit.roc.true_positive_rate))


def test_histograms_hold_the_audits_counts(rejected):
    members, non_members = draw_scores(read_audit(rejected)).axes[0].patches
    assert list(members.get_data().values) == rejected["histogram"]["members"]
    assert list(non_members.get_data().values) == rejected["histogram"]["non_members"]
    assert members.get_fill() and not non_members.get_fill()


@pytest.mark.parametrize(
    "label", ["$\\frac{1}{0}$", "实验 🐤", "a" * 500, "<b>&amp;", "--> ]]>", 'id="x" url(#y) #0072b2']
)
def test_any_label_can_be_drawn(rejected, label):
    rejected["label"] = label
    (headline,) = headlines(read_audits([rejected]))
    svg = drawing.as_inline_svg(draw_headline(headline), "name", "title", describe_headline(headline))
    assert "http" not in svg and "<b>" not in svg


def test_a_million_points_make_a_small_drawing(rejected):
    rates = np.linspace(0, 1, 200_001)
    rejected["roc"] |= {"false_positive_rate": rates.tolist(), "true_positive_rate": np.sqrt(rates).tolist()}
    svg = drawing.as_inline_svg(draw_roc(read_audit(rejected)), "roc", "t", "d")
    assert len(svg) < 250_000


@pytest.mark.parametrize("format", drawing.FORMATS)
def test_a_figure_is_the_same_to_the_byte(rejected, format):
    audit = read_audit(rejected)
    assert drawing.as_bytes(draw_roc(audit), format) == drawing.as_bytes(draw_roc(audit), format)


def test_drawing_leaves_the_users_settings_alone(rejected):
    before = dict(matplotlib.rcParams)
    drawing.as_inline_svg(draw_scores(read_audit(rejected)), "scores", "t", "d")
    assert dict(matplotlib.rcParams) == before


def test_pyplot_is_never_loaded_nor_torch():
    code = (
        "import sys; from coalmine.reports.page import write_report;"
        "assert not {'matplotlib.pyplot', 'torch', 'pandas'} & set(sys.modules), sorted(sys.modules)"
    )
    subprocess.run([sys.executable, "-c", code], check=True)
