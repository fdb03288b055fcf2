"""What can be told of a canary set, of anyone's making, before any audited run.

Canaries of one run are told apart through one model: a set whose gradients span few directions cannot carry m
independent bits, whatever the decoder. A base model shows this in seconds.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import torch
from torch import nn

from ..foundation import InputError
from ..foundation.classification import classification_loss
from .canary_set import CanarySet
from .gradient_gram import gradient_gram
from .influence import influence
from .pool import Pool
from .regulariser import Embedding, mean_squared_cosine

CURVATURE_ROWS = 2000


def diagnose(
    canaries: CanarySet, models: Sequence[nn.Module], pool: Pool | None = None, layer: str | None = None
) -> dict[str, Any]:
    """
    self_over_cross       median over canaries of I(z, z)/max |I(z, z′)|; below 1 a canary is drowned by another
    gradient_cosine       mean squared cosine of the gradients over pairs, averaged over models
    embedding_cosine      the same for embeddings; null with a reason where the model has no usable layer
    effective_rank        exp(entropy of the eigenvalues) of the normalised gradient Gram matrix: at most about this
                          many canaries can be told apart; effective_rank_share divides it by m
    duplicates            canaries with the input of an earlier canary; conflicting: of these, with another label
    in_data               canaries whose input also stands in the data outside the source rows: never "excluded"
    tied_losses           share of canaries whose float32 loss is shared with another canary, the largest over models

    Errors: InputError for BatchNorm and non-finite gradients.
    """
    if not models:
        raise InputError("models is empty: diagnosis looks through at least one base model")
    m = len(canaries)
    among = influence_among(models, canaries, pool)
    cross = np.abs(among - np.diag(np.diagonal(among))).max(axis=1) if m > 1 else np.zeros(m)
    ratio = np.diagonal(among) / np.maximum(cross, np.finfo(float).tiny)
    grams = [unit_gram(model, canaries) for model in models]
    off = [(np.square(gram).sum() - np.square(np.diagonal(gram)).sum()) / max(1, m * (m - 1)) for gram in grams]
    rank = float(np.mean([effective_rank(gram) for gram in grams]))
    first_seen: dict[bytes, int] = {}
    conflicting = 0
    for row, label in zip(canaries.x, canaries.y, strict=True):
        earlier = first_seen.setdefault(row.tobytes(), int(label))
        if earlier != int(label):
            conflicting += 1
    record: dict[str, Any] = {
        "canaries": m,
        "self_over_cross": float(np.median(ratio)),
        "gradient_cosine": float(np.mean(off)),
        "effective_rank": rank,
        "effective_rank_share": rank / m,
        "duplicates": m - len(first_seen),
        "conflicting": conflicting,
        "tied_losses": max(tied_losses(model, canaries) for model in models),
        "labels": np.bincount(canaries.y, minlength=canaries.classes or 0).tolist(),
    }
    try:
        x = torch.tensor(canaries.x, device=next(models[0].parameters()).device)
        with torch.no_grad():
            record["embedding_cosine"] = float(
                np.mean([mean_squared_cosine(Embedding(model, layer)(x)) for model in models])
            )
    except InputError as error:
        record |= {"embedding_cosine": None, "embedding_reason": str(error)}
    if pool is not None:
        stay = np.ones(len(pool), bool)
        stay[canaries.sources()] = False
        natural = {row.tobytes() for row in pool.x[stay]}
        record["in_data"] = sum(row.tobytes() in natural for row in canaries.x)
    return record


def influence_among(models: Sequence[nn.Module], canaries: CanarySet, pool: Pool | None) -> np.ndarray:
    """(m, m) influence among the canaries; the curvature from at most CURVATURE_ROWS rows of the pool, evenly spaced,
    or without a pool from the canaries themselves."""
    data = None
    if pool is not None:
        some = np.linspace(0, len(pool) - 1, min(len(pool), CURVATURE_ROWS)).astype(np.int64)
        data = (pool.x[some], pool.y[some])
    return influence(models, (canaries.x, canaries.y), data).among(np.arange(len(canaries)))


def unit_gram(model: nn.Module, canaries: CanarySet) -> np.ndarray:
    """(m, m) cosines between the canaries' gradients; a zero gradient has cosine 0 with all others."""
    device = next(model.parameters()).device
    rows = (torch.tensor(canaries.x, device=device), torch.tensor(canaries.y, device=device))
    gram = gradient_gram(model, rows).cpu().numpy()
    length = np.sqrt(np.maximum(np.diagonal(gram), 0))
    safe = np.where(length > 0, length, 1.0)
    cosine = gram / safe[:, None] / safe[None, :]
    np.fill_diagonal(cosine, 1.0)
    return cosine


def effective_rank(gram: np.ndarray) -> float:
    """exp of the entropy of the normalised eigenvalues: m for orthogonal gradients, 1 where all point one way."""
    eigenvalues = np.maximum(np.linalg.eigvalsh(gram), 0)
    share = eigenvalues / eigenvalues.sum()
    share = share[share > 0]
    return float(np.exp(-(share * np.log(share)).sum()))


def tied_losses(model: nn.Module, canaries: CanarySet) -> float:
    device = next(model.parameters()).device
    with torch.no_grad():
        logits = model.eval()(torch.tensor(canaries.x, device=device)).float()
        loss = classification_loss(logits, torch.tensor(canaries.y, device=device))
    _, block, size = np.unique(loss.cpu().numpy(), return_inverse=True, return_counts=True)
    return float((size[block] > 1).mean())
