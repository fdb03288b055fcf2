"""The figures of a check: noise by parameter, batches over steps, contribution by length, accuracy and bound."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
from matplotlib.figure import Figure

from ..audit.bounds import Mechanism, mechanism_from_record
from ..audit.white_box.result import CheckResult
from .drawing import FORBIDDEN, INK, MUTED, colour, log_axis, new_figure, style

WIDTH, HEIGHT = 470, 320


def draw_noise(result: CheckResult) -> Figure | None:
    """Deviation by parameter, the median being 1, with exact intervals at 99 %."""
    details = _details(result, "noise_by_parameter")
    relative, intervals = details.get("relative_deviation", {}), details.get("interval", {})
    if not relative or set(relative) != set(intervals):
        return None
    with style():
        figure, axes = new_figure(WIDTH, HEIGHT)
        for place, name in enumerate(relative):
            low, high = intervals[name]
            axes.plot([low, high], [place, place], color=colour(0), linewidth=2)
            axes.plot(relative[name], place, "o", color=colour(0), markersize=6)
        axes.axvline(1.0, color=MUTED, linewidth=1, linestyle="--")
        axes.set_yticks(range(len(relative)), list(relative))
        axes.invert_yaxis()
        axes.set_xlabel("noise deviation, the median parameter being 1")
        axes.set_xlim(min(0.75, min(low for low, _ in intervals.values()) - 0.02), None)
    return figure


def draw_batches(result: CheckResult) -> Figure | None:
    """Records and noise in each step."""
    sizes, noise = result.figures.get("batch_sizes"), result.figures.get("noise_by_step")
    if not sizes or not noise or len(sizes) != len(noise):
        return None
    with style():
        figure, axes = new_figure(WIDTH, HEIGHT)
        steps = np.arange(len(sizes))
        axes.bar(steps, sizes, width=1.0, color=colour(0), alpha=0.45, linewidth=0)
        axes.set_xlabel("step")
        axes.set_ylabel("records in the batch (bars)")
        axes.set_ylim(0, 1.6 * max(1, *sizes))
        other = axes.twinx()
        other.plot(steps, noise, color=colour(1), linewidth=1.4)
        other.set_ylabel("noise deviation (line)")
        other.set_ylim(0, 1.25 * max(noise) or 1)
        other.tick_params(length=0)
    return figure


def draw_curve(result: CheckResult) -> Figure | None:
    """Contribution of a record against the length of its gradient: linear up to the clipping norm, flat beyond."""
    curve = [(a, b) for a, b in result.figures.get("curve") or [] if a and b and a > 0 and b > 0]
    reference = result.figures.get("reference")
    if not curve or not reference:
        return None
    with style():
        figure, axes = new_figure(WIDTH, HEIGHT)
        axes.axhline(reference, color=MUTED, linewidth=1, linestyle="--")
        axes.plot(*zip(*curve, strict=True), "o", color=colour(0), markersize=5, alpha=0.6)
        axes.set_xscale("log")
        axes.set_yscale("log")
        log_axis(axes.xaxis)
        log_axis(axes.yaxis)
        axes.set_xlabel("length of the record's gradient")
        axes.set_ylabel("contribution to a step")
    return figure


def draw_accuracy(result: CheckResult) -> Figure | None:
    """The one-run accuracy on the exact curve of the claim."""
    details = _details(result, "one_run_audit")
    mechanism = mechanism_from_record(dict(result.claim["mechanism"]))
    sigma: Any = getattr(mechanism, "noise_multiplier", None)
    if "correct" not in details or sigma is None:
        return None
    finding = result["one_run_audit"]
    sigmas = sigma * np.geomspace(0.4, 2.5, 13)
    with style():
        figure, axes = new_figure(WIDTH, HEIGHT)
        exact = [float(_with_noise(mechanism, s).accuracy(1e-3).upper) for s in sigmas.tolist()]
        axes.plot(sigmas, exact, color=INK, linewidth=1.6)
        axes.fill_between(sigmas, exact, 1.0, color=FORBIDDEN, alpha=0.12, linewidth=0)
        value = finding.value or 0.0
        low, high = finding.interval or (value, value)
        axes.plot([sigma, sigma], [low, high], color=colour(1), linewidth=2)
        axes.plot(sigma, value, "o", color=colour(1), markersize=7)
        axes.set_xscale("log")
        axes.set_xticks([round(sigma * f, 3) for f in (0.5, 1, 2)], [f"{sigma * f:.3g}" for f in (0.5, 1, 2)])
        axes.set_ylim(0.45, 1.0)
        axes.set_xlabel("noise multiplier")
        axes.set_ylabel("accuracy of the best attack")
    return figure


def _with_noise(mechanism: Mechanism, noise_multiplier: float) -> Mechanism:
    return replace(mechanism, noise_multiplier=noise_multiplier)  # type: ignore[type-var]


def _details(result: CheckResult, name: str) -> dict[str, Any]:
    try:
        return dict(result[name].details)
    except KeyError:
        return {}
