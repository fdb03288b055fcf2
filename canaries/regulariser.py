"""The orthogonality regulariser on embeddings, and where embeddings come from.

raw   R(C) = λ Σ_{i≠j} ⟨φ(c_i), φ(c_j)⟩²                as IBIS writes it (arXiv 2605.27292); λ has units of ‖φ‖⁻⁴
unit  R(C) = λ/(m(m−1)) Σ_{i≠j} cos(φ(c_i), φ(c_j))²     ours: the mean squared cosine, which cannot fall by
                                                        shrinking embeddings
"""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor, nn
from torch.nn.functional import normalize

from ..foundation import InputError
from .gradient_gram import last_linear

FORMS = ("unit", "raw")


def orthogonality(embeddings: Tensor, form: str = "unit") -> Tensor:
    """Scalar R(C)/λ of embeddings (m, d). A zero embedding counts as orthogonal to all, without NaN."""
    if form not in FORMS:
        raise InputError(f"regulariser {form!r} is unknown: use one of {', '.join(FORMS)}")
    m = len(embeddings)
    if form == "unit":
        embeddings = normalize(embeddings, dim=1)  # divides by max(‖φ‖, 1e-12): 0 stays 0, its gradient finite
    gram = embeddings @ embeddings.T if m <= embeddings.shape[1] else embeddings.T @ embeddings
    off_diagonal = gram.square().sum() - embeddings.square().sum(dim=1).square().sum()  # ‖ΦΦᵀ‖ = ‖ΦᵀΦ‖
    return off_diagonal / (m * (m - 1)) if form == "unit" else off_diagonal


class Embedding:
    """φ(x) of a base model: the input of its last Linear layer, or the output of a layer named by the user."""

    def __init__(self, model: nn.Module, layer: str | None = None) -> None:
        modules = dict(model.named_modules())
        if layer is None:
            layer_name = last_linear(model)
            if layer_name is None:
                raise InputError(
                    "the model has no Linear layer whose input could serve as embedding: name a layer, one of "
                    f"{_some(list(modules))}"
                )
            self._target, self._take_input = modules[layer_name], True
        else:
            if layer not in modules or not layer:
                raise InputError(f"embedding layer {layer!r} does not exist: the layers are {_some(list(modules))}")
            self._target, self._take_input = modules[layer], False
        self.model = model.eval()

    def __call__(self, x: Tensor) -> Tensor:
        """(n, d) embeddings, differentiable in x."""
        seen: list[Any] = []
        if self._take_input:
            handle = self._target.register_forward_pre_hook(lambda _, inputs: seen.append(inputs[0]))
        else:
            handle = self._target.register_forward_hook(lambda _, __, output: seen.append(output))
        try:
            self.model(x)
        finally:
            handle.remove()
        if len(seen) != 1 or not isinstance(seen[0], Tensor):
            raise InputError("the embedding layer was not called exactly once on a tensor: name another layer")
        return seen[0].flatten(1)


def mean_squared_cosine(embeddings: Tensor) -> float:
    """Mean of cos² over pairs i ≠ j."""
    return float(orthogonality(embeddings.detach().double(), "unit"))


def _some(names: list[str]) -> str:
    named = [name for name in names if name]
    return ", ".join(named[:12]) + (" …" if len(named) > 12 else "")


def mean_orthogonality(embeddings: list[Embedding], x: Tensor, form: str) -> Tensor:
    """R(C)/λ averaged over base models."""
    return torch.stack([orthogonality(embedding(x), form) for embedding in embeddings]).mean()
