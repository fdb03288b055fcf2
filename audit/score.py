"""Attack a checkpoint: one score per canary, higher = more likely a member, and a record of what was decided before.

The score, its views and the files' hashes are written next to the scores (scores.csv, scores.json). Whoever opens the
coins afterwards can show that the score was not chosen to suit them.
"""

from __future__ import annotations

import hashlib
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import nn

from ..attacks import AttackScores, global_threshold, hinge, loss, phi
from ..attacks.one_run import one_run
from ..attacks.query import query_logits, view_list
from ..canaries import CanarySet
from ..foundation import InputError, sha256_of_file
from .choices import SCORES, SUFFIXES, VIEWS
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


def sha256_of_checkpoint(path: str | Path) -> str:
    """Of a file its SHA-256; of a directory one over the names and hashes of its files."""
    path = Path(path)
    if path.is_file():
        return sha256_of_file(path)
    files = sorted(entry for entry in path.rglob("*") if entry.is_file())
    listing = "".join(f"{entry.relative_to(path).as_posix()} {sha256_of_file(entry)}\n" for entry in files)
    return hashlib.sha256(listing.encode("utf-8")).hexdigest()
