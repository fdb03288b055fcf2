"""What can be told of a canary set, of anyone's making, before any audited run.

Canaries of one run are told apart through one model: a set whose gradients span few directions cannot carry m
independent bits, whatever the decoder. A base model shows this in seconds. Whether canaries are remembered at all shows
in a pair of trainings with complementary halves of them: every canary is once in and once out.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from torch import Tensor, nn

from ..foundation import InputError, torch_stream
from ..foundation.classification import class_logits, classification_loss
from .base_models import TrainMany, model_seeds, replicas
from .bilevel import complementary_masks, margins
from .canary_set import CanarySet
from .gradient_gram import gradient_gram
from .influence import influence
from .injection import remaining_rows
from .pool import Pool
from .regulariser import Embedding, mean_squared_cosine

CURVATURE_ROWS = 2000


@dataclass(frozen=True, eq=False)
class Pair:
    """Two models, trained by the recipe on the data and each on one half of the canaries: masks (2, m) of 0 and 1."""

    models: Sequence[nn.Module]
    masks: Tensor


def complementary_pair(canaries: CanarySet, pool: Pool, train_many: TrainMany, seed: int = 0) -> Pair:
    """From the crafting's own stream. Errors: InputError below 2 canaries."""
    masks = complementary_masks(2, len(canaries), torch_stream(seed, "craft/diagnose"))
    stay, x = remaining_rows(canaries, len(pool)), torch.from_numpy(canaries.x.copy())
    return Pair(replicas(pool, stay, x, canaries.y, masks, train_many, model_seeds(seed, "diagnose", 2)), masks)


def margin_gap(canaries: CanarySet, pair: Pair) -> dict[str, float]:
    """margin_gap: mean over canaries of the logit margin where it is included minus where it is not; margin_separation:
    that over the root mean variance of the included and of the excluded margins. Its order of
    sets agrees with their detectability in part only (docs/canaries.md): two trainings stand for all."""
    phi = np.stack([_margins(model, canaries) for model in pair.models])
    included = pair.masks.numpy() > 0
    inside, outside = phi[included], phi[~included]
    gap = float(inside.mean() - outside.mean())
    spread = float(np.sqrt((inside.var(ddof=1) + outside.var(ddof=1)) / 2))
    return {"margin_gap": gap, "margin_separation": gap / spread if spread > 0 else 0.0}


def _margins(model: nn.Module, canaries: CanarySet) -> np.ndarray:
    device = next(model.parameters()).device
    with torch.no_grad():
        logits = class_logits(model.eval()(torch.tensor(canaries.x, device=device))).double()
    return margins(logits, torch.tensor(canaries.y, device=device)).cpu().numpy()


def diagnose(
    canaries: CanarySet,
    models: Sequence[nn.Module],
    pool: Pool | None = None,
    layer: str | None = None,
    pair: Pair | None = None,
) -> dict[str, Any]:
    """
    margin_gap, margin_separation    of `pair`, where it is given: whether canaries are remembered
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
    if pair is not None:
        record |= margin_gap(canaries, pair)
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
