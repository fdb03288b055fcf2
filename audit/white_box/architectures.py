"""Models that need care: a layer that is used twice, and one that normalises over the batch.

A trainer for one's own model need not know them, so what goes wrong here is a weakness, not a violation, unless the
trainer is said to support them (`CheckSettings.supports`).
"""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
from torch import nn

from ...attacks.observation import Observation
from ...canaries.probe import Probe, ProbeModel
from ...foundation import InputError
from .finding import Finding, not_tested

TOLERANCE = 0.01
Observe = Callable[[nn.Module, Probe, np.ndarray], Observation]  # model, probe, x -> the run with one fixed seed


def find_shared_layers(observe: Observe, probe: Probe, supported: bool) -> Finding:
    """probe: with a layer that every forward pass calls twice. Its records must contribute as the others do."""
    name = "shared_layers"
    try:
        seen = observe(probe.model(), probe, probe.x)
        silent = observe(probe.model(), probe, probe.silenced(np.arange(len(probe.x))))
    except InputError as error:
        return Finding(name, f"a model that uses a layer twice is refused: {str(error)[:160]}")
    if silent.gradients.shape != seen.gradients.shape or not np.array_equal(seen.use, silent.use):
        return not_tested(name, "the trainer does not repeat itself when torch, numpy and random are seeded alike")
    difference = seen.gradients - silent.gradients
    solo = probe.solo
    once = seen.use[:, solo] == 1
    projected = difference @ probe.own[solo].T
    third = probe.kind[solo] == "solo/third"
    if not np.allclose(difference[:, probe.free], 0, atol=1e-5 * float(np.abs(seen.gradients).max())):
        return not_tested(name, "the noise of two runs with one seed differs")
    of_shared, of_others = projected[:, third][once[:, third]], projected[:, ~third][once[:, ~third]]
    if not of_shared.size or not of_others.size or np.median(of_others) <= 0:
        return not_tested(name, "records contribute nothing that can be measured")
    ratio = float(np.median(of_shared) / np.median(of_others))
    return Finding(
        name,
        f"a record in a layer that is used twice contributes {ratio:.4g} times as much as in others",
        "in models with tied or repeated layers a record exceeds the clipping norm" if ratio > 1 else "",
        "per-example norms: gradients of all uses of a parameter are added before the norm is taken",
        broken=abs(ratio - 1) > TOLERANCE,
        if_wrong=("violated" if supported else "warning") if ratio > 1 else "differs" if supported else "warning",
        value=ratio,
        expected=1.0,
    )


def find_batch_normalisation(observe: Observe, probe: Probe, supported: bool) -> Finding:
    """A model that normalises over the batch must be refused, or trained so that records do not meet in it."""
    name = "batch_normalisation"
    size = int(np.prod(probe.x.shape[1:]))

    def model() -> ProbeModel:
        return ProbeModel(probe.features, probe.classes, size, batch_normalisation=True)

    changed = np.flatnonzero(np.char.startswith(probe.kind, "solo"))[::3]
    x = probe.x.copy()
    x.reshape(len(x), -1)[changed, : probe.features] = 0.0
    try:
        seen, other = observe(model(), probe, probe.x), observe(model(), probe, x)
    except InputError as error:
        return Finding(name, f"a model with BatchNorm is refused: {str(error)[:160]}")
    seen_shape = seen.gradients.shape == other.gradients.shape and np.array_equal(seen.use, other.use)
    if not seen_shape:
        return not_tested(name, "the trainer does not repeat itself when torch, numpy and random are seeded alike")
    own = np.any(probe.gradients[changed] != 0, axis=0)
    kept = ~own & ~probe.free
    mine, theirs = (run.gradients[:, : len(kept)][:, kept] for run in (seen, other))  # the layer's own come last
    others = np.linalg.norm(mine - theirs, axis=1)
    scale = float(np.median(np.linalg.norm(mine, axis=1))) or 1.0
    mixed = float(others.max()) / scale
    return Finding(
        name,
        f"a model with BatchNorm is trained; what others contribute changes by {mixed:.3g} of a step when some do"
        if mixed > 1e-3
        else "a model with BatchNorm is trained, and records do not meet in it",
        "a record changes the gradients of all others in its batch: clipping bounds nothing",
        "refuse such models, or replace the layer (GroupNorm), before training",
        broken=mixed > 1e-3,
        if_wrong="violated" if supported else "warning",
        value=mixed,
        expected=0.0,
    )
