"""Histograms of the scores of members and non-members: what the attack saw.

Counts as the audit binned them. Members are filled, non-members outlined, so that the two stay apart without colour.
"""

from __future__ import annotations

import numpy as np
from matplotlib.figure import Figure

from ..audit.verdict.result import AuditResult
from . import drawing
from .drawing import INK


def draw_scores(audit: AuditResult, place: int = 0, width: int = 410, height: int = 360) -> Figure:
    """Errors: ValueError for an audit without a histogram; the page asks first."""
    histogram = audit.histogram
    if histogram is None:
        raise ValueError(f"audit {audit.label!r} holds no histogram")
    score = str(audit.threat_model.score or "").strip()
    with drawing.style():
        figure, axes = drawing.new_figure(width, height)
        axes.stairs(
            *(histogram.members, histogram.edges),
            **{"fill": True, "color": drawing.colour(place), "alpha": 0.45, "label": "members"},
        )
        axes.stairs(histogram.non_members, histogram.edges, color=INK, linewidth=1.4, label="non-members")
        axes.set_xlim(histogram.edges[0], histogram.edges[-1])
        axes.set_ylim(0, 1.08 * max(1.0, *histogram.members, *histogram.non_members))
        axes.grid(False, axis="x")
        axes.set_xlabel(f"score ({drawing.shortened(score)}), higher = more likely a member" if score else "score")
        axes.set_ylabel("canaries")
        figure.legend(*axes.get_legend_handles_labels(), loc="outside upper left", ncols=2, **drawing.TIGHT_LEGEND)
    return figure


def describe_scores(audit: AuditResult) -> str:
    histogram = audit.histogram
    assert histogram is not None
    parts = []
    for name, counts in (("members", histogram.members), ("non-members", histogram.non_members)):
        fullest = int(np.argmax(counts))
        parts.append(
            f"{name}: {sum(counts):g} canaries, the fullest bin from {histogram.edges[fullest]:.3g} "
            f"to {histogram.edges[fullest + 1]:.3g} with {counts[fullest]:g}"
        )
    return f"Score histograms of {audit.label}. {'; '.join(parts)}."
