"""Attack a checkpoint: one score per canary, higher = more likely a member, and a record of what was decided before.

The score, its views and the files' hashes are written next to the scores (scores.csv, scores.json). Whoever opens the
coins afterwards can show that the score was not chosen to suit them.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import nn

from ..attacks import AttackScores, global_threshold, hinge, loss, phi
from ..attacks.one_run import one_run
from ..attacks.query import query_logits, view_list
from ..canaries import CanarySet
from ..foundation import InputError
from .attack.target import Target, check_run, open_target
from .choices import SCORES, SUFFIXES, VIEWS
from .feeding import Feeding
from .rows import Universe, universe
from .training.data import Data, load_data
from .training.run_record import RunRecord, load_run
from .verdict.score_record import ScoreRecord, load_score_record


def score_canaries(
    model: nn.Module,
    canaries: CanarySet,
    score: str = "phi",
    *,
    views: int = 1,
    reference: nn.Module | None = None,
    batch_size: int = 256,
    device: str | torch.device = "cpu",
) -> AttackScores:
    """One score a canary (m,) in the order of canary_id, with a status each.

    score   phi         log p/(1 − p) of the canary's label, from the logits
            loss        log p, minus the cross-entropy
            hinge       the label's logit minus the largest other one
            difference  phi minus the phi of `reference`, the model before training or one trained without canaries
    views   1, 2 (mirror), 9, 18, 25, 50: how many shifted and mirrored versions are asked; the score is their mean

    The model is asked in eval mode and in float64 where it allows it: scores do not depend on the batch size or on
    a row's neighbours, to 10 significant digits. The model is left in its own precision. Errors: InputError.
    """
    if score not in SCORES:
        raise InputError(f"score {score!r} is not known: use {', '.join(SCORES)}")
    if views not in VIEWS:
        raise InputError(f"views must be {', '.join(map(str, VIEWS))}, got {views}")
    if views > 1 and canaries.x.ndim != 4:
        raise InputError(
            f"views {views} needs images (channels, height, width), the canaries have {canaries.x.shape[1:]}"
        )
    if (score == "difference") != (reference is not None):
        raise InputError("score 'difference' goes with a reference model: give both or neither")
    asked = [_logits(each, canaries.x, views, batch_size, device) for each in (model, reference) if each is not None]
    classes = max(asked[0].shape[-1], 2)
    if canaries.y.max() >= classes:
        raise InputError(f"a canary has label {int(canaries.y.max())}, the model gives {classes} classes only")
    labels = canaries.y[:, None]
    if score == "hinge":
        return global_threshold(hinge(asked[0], labels), "hinge")
    if score == "loss":
        return loss(phi(asked[0], labels))
    signals = [phi(logits, labels) for logits in asked]
    return one_run(signals[0], signals[1] if reference is not None else None)


def _logits(model: nn.Module, x: np.ndarray, views: int, batch_size: int, device: str | torch.device) -> np.ndarray:
    """(m, views, classes); in float64 if all of the model is float32 and nothing in it insists on that."""
    arguments: dict[str, Any] = {"views": view_list(VIEWS[views]), "batch_size": batch_size, "device": device}
    floating = [t for t in (*model.parameters(), *model.buffers()) if t.is_floating_point()]
    if torch.device(device).type == "mps" or not all(t.dtype == torch.float32 for t in floating):
        return query_logits(model, x.copy(), **arguments)  # a copy: torch warns of read-only arrays
    model.to(device)
    try:
        model.double()
        query_logits(model, x[:1].astype(np.float64), device=device)
    except (RuntimeError, TypeError, InputError):  # a constant or a cast in the model's code
        model.float()
        return query_logits(model, x.copy(), **arguments)
    try:
        return query_logits(model, x.astype(np.float64), **arguments)
    finally:
        model.float()  # exact: each number was a float32 before


_CHOSEN = (  # not the places of the checkpoints: a file may move; its hash says what it is
    "score",
    "views",
    "canaries",
    "canaries_sha256",
    "canary_method",
    "checkpoint_sha256",
    "reference_sha256",
    "model",
    "pixel_mean",
    "pixel_std",
    "classes",
    "transform",
)


def check_scores_output(output: str | Path, record: ScoreRecord) -> None:
    """Refuse an unknown suffix, and a file that holds another score: choosing among several is a multiple test."""
    path = Path(output)
    if path.suffix.lower() not in SUFFIXES:
        raise InputError(f"output {str(path)!r} must end in {', '.join(SUFFIXES)}")
    earlier = load_score_record(path)
    changed = [] if earlier is None else sorted(record.differences(earlier, _CHOSEN))
    if changed:
        raise InputError(
            f"{str(path)!r} holds scores that differ in {', '.join(changed)}: name another output (of several scores "
            "only the one that was fixed before the coins were opened may decide)"
        )


@dataclass(frozen=True, eq=False)
class ScoredSet:
    """What is asked about what: the target, the canaries with labels that count its outputs, the reference, and the
    rows around the canaries where the data is given."""

    target: Target
    canaries: CanarySet
    checkpoint: str
    reference: nn.Module | None
    reference_sha256: str | None
    rows: Universe | None


def scored_set(
    checkpoint: str,
    canaries: CanarySet,
    data: str | None,
    feeding: Feeding,
    model: str | None = None,
    reference: str | None = None,
    trust_code: bool = False,
) -> ScoredSet:
    """Open the model, and the reference beside it, for rows like the canaries. Errors: InputError."""
    run = load_run(checkpoint) if (Path(checkpoint) / "run.json").is_file() else None
    if run is not None:
        check_run(run, Path(checkpoint), canaries.sha256)
    rows = None
    if data is not None:
        source = load_data(data)
        if canaries.data_fingerprint and canaries.data_fingerprint != source.fingerprint:
            raise InputError(
                f"--canaries were crafted from other data than --data {data}: give the data they belong to"
            )
        if source.input_shape != canaries.x.shape[1:]:
            raise InputError(f"--canaries have shape {canaries.x.shape[1:]}, --data {data} has {source.input_shape}")
    else:
        source = _data_like(canaries, run)
        if feeding.classes is not None:
            raise InputError("--classes needs --data, which says what the canaries' classes are called")
    moved = feeding.relabelled(source)
    if moved is not source:
        number = np.array([moved.classes.index(name) for name in source.classes])
        canaries = replace(canaries, y=number[canaries.y], classes=len(moved.classes))
    if data is not None:
        rows = universe(moved, canaries)
    target = open_target(checkpoint, moved, feeding, model, trust_code=trust_code)
    beside = sha256 = None
    if reference is not None:
        opened = open_target(reference, moved, feeding, target.model, trust_code=trust_code)
        beside, sha256 = opened.module, opened.sha256
    path = str(Path(checkpoint) / "checkpoint.safetensors") if run is not None else checkpoint
    return ScoredSet(target, canaries, path, beside, sha256, rows)


def _data_like(canaries: CanarySet, run: RunRecord | None) -> Data:
    """No rows, but the shape and the numbered classes of the canaries' data. Errors: InputError."""
    count = canaries.classes or (run.model.classes if run is not None and run.model is not None else None)
    if not isinstance(count, int):
        raise InputError("--canaries does not state the number of classes: give --data")
    x, y = canaries.x[:0], canaries.y[:0]
    fingerprint = "" if run is None or run.data_fingerprint is None else run.data_fingerprint
    return Data(x, y, x, y, tuple(str(label) for label in range(count)), None, "canaries", fingerprint)
