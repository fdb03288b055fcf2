"""Is a record worth one contribution, whatever it holds? And is anything learned of it at all?"""

from __future__ import annotations

import numpy as np

from ...attacks.observation import Observation
from ...canaries.probe import LAYERS, Probe
from .contributions import REFERENCE, Contributions, moving
from .exact_tests import two_sided
from .finding import Finding, not_tested
from .replays import ExactContributions

EXACT_TOLERANCE = 0.01
WORDS = {
    "solo": "long gradients",
    "choir": "many records of one direction",
    "spread": "gradients spread over all layers",
    "giant": "gradients a thousand times longer",
    "bias": "gradients that lie in the biases",
}
HINTS = {
    "choir": "a sum or mean is clipped, not each gradient",
    "spread": "each parameter is clipped by itself: the norm must be that of all parameters together",
    "giant": "long gradients are not clipped",
    "bias": "the norm leaves out biases",
}


def find_contributions(c: Contributions, exact: ExactContributions | str) -> Finding:
    """All kinds of long gradients contribute alike, short ones no more: by replays where there are, else t tests."""
    name = "contributions"
    reference, _ = c.reference
    if reference <= 0:
        return not_tested(name, "records contribute nothing that can be measured")
    weights = c.reference_weights
    relative, p, above = {}, {}, {}
    for i, kind in enumerate(c.kinds):
        one = np.zeros(len(c.kinds))
        one[i] = 1.0
        if kind in REFERENCE and sum(k in REFERENCE for k in c.kinds) < 2:
            continue
        difference, low, high = c.contrast(one - weights)
        relative[kind] = 1 + difference / reference
        p[kind] = high if kind.startswith("ladder") else two_sided(low, high)
        above[kind] = difference > 0
    measured = dict(relative)
    broken, precise = "", isinstance(exact, ExactContributions)
    if isinstance(exact, ExactContributions):
        relative |= {kind: value for kind, value in exact.by_kind.items() if kind != "solo"}
        more = {k: v for k, v in exact.by_kind.items() if v > 1 + EXACT_TOLERANCE}
        less = {k: v for k, v in exact.by_kind.items() if v < 1 - EXACT_TOLERANCE and k in WORDS}
        broken = max(more, key=lambda k: more[k]) if more else min(less, key=lambda k: less[k]) if less else ""
    worst = broken or (min(p, key=lambda k: p[k]) if p else "")
    words = ", ".join(
        f"{WORDS.get(k, k.replace('ladder/', 'length '))} {relative[k]:.4g}"
        for k in relative
        if k in WORDS or relative[k] > 1.01
    )
    # deficits are no loss of privacy by themselves
    if_wrong = "violated" if (relative.get(worst, 1.0) > 1 or worst == "choir") else "differs"
    return Finding(
        name,
        f"contribution over that of an ordinary record: {words}",
        "the noise covers a record whose contribution is one clipping norm; more than that is not covered",
        HINTS.get(worst.partition("/")[0], "the clipping: per example, over all parameters together, before the sum"),
        p_value=min(1.0, len(p) * min(p.values())) if p else None,
        broken=bool(broken),
        if_wrong=if_wrong,
        value=max(relative.values(), default=1.0),
        expected=1.0,
        details={"relative": relative, "measured": measured, "p_values": p, "exact": precise},
    )


def find_learning(probe: Probe, seen: Observation, c: Contributions) -> Finding:
    """Every layer receives gradients, and records are in them."""
    name = "learning"
    untouched = [n for n, reached in seen.reached.items() if not reached]
    silent = []
    for layer in LAYERS:
        rows = (probe.kind == f"solo/{layer}") | (probe.kind == f"choir/{layer}")
        used = ~probe.free & moving(probe, seen)
        design = seen.use[:, rows].astype(float) @ probe.directions[np.ix_(rows, used)]
        weight = float(np.sum(design**2))
        value = float(np.sum(design * seen.gradients[:, used])) / weight if weight else 0.0
        deviation = float(np.sqrt(c.variance / weight)) if weight else 0.0
        if weight and seen.reached[f"{layer}.weight"] and value < 6 * deviation and c.reference[0] > 12 * deviation:
            silent.append(layer)
    nothing = c.reference[0] <= 4 * float(np.sqrt(c.variance * c.reference[1]))
    said = [f"no step ever moves {', '.join(untouched)}"] if untouched else []
    said += [f"records never show in {', '.join(silent)}"] if silent else []
    said += ["records do not show in any step"] if nothing and not silent else []
    return Finding(
        name,
        "; ".join(said) or "every parameter receives the records' gradients",
        "nothing is learned there: the privacy that is measured is that of a model that did not train",
        "parameters that the optimiser does not hold, gradients cleared before the step, noise far above gradients",
        broken=bool(said),
        if_wrong="differs",
    )
