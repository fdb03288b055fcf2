"""A model that is only a function: scikit-learn, ONNX, JAX, a remote service, named as package.module:function.

    function(rows) -> answers     rows (n, …) numpy; logits or probabilities (n, classes), or (n,) of the second class
    function() -> model           a torch module, a fitted scikit-learn classifier, or such a function
    a torch module or callable object by that name itself

Answers that lie in [0, 1] and sum to one in every row are probabilities and become logarithms; the first answer decides
for all, and one that does not fit it later is refused.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable
from typing import Any

import numpy as np
import torch
from torch import Tensor, nn

from ...foundation import InputError
from ...foundation.named_code import named_function, reason_of
from .estimator import as_module
from .models import ask_with_whole_numbers, check_output


def open_function(
    name: str, input_shape: tuple[int, ...], classes: tuple[str, ...], whole_numbers: bool = False
) -> nn.Module:
    """The named model in eval mode, checked to answer rows of `input_shape`. Errors: InputError."""
    found: Any = named_function(name, "target")
    if _takes_nothing(found):
        try:
            found = found()
        except Exception as error:
            raise InputError(f"target {name!r} failed when called: {reason_of(error)}") from error
    if isinstance(found, nn.Module):
        ask_with_whole_numbers(found, input_shape)
        check_output(found, name, input_shape, len(classes))
        return found.eval()
    if hasattr(found, "classes_"):
        return as_module(found, classes)
    if not callable(found):
        raise InputError(
            f"target {name!r} is a {type(found).__name__}: name a function that answers rows, or one that returns a "
            "torch module or a fitted classifier"
        )
    module = Answers(found, name, len(classes), whole_numbers)
    check_output(module, name, input_shape, len(classes), probe_zeros=whole_numbers)
    module.probabilities = None  # decided by real rows, not by the probe's
    return module.eval()


def _takes_nothing(found: Any) -> bool:
    """A loader: a function or class without a parameter that must be given, as opposed to one that takes rows."""
    if isinstance(found, nn.Module) or hasattr(found, "classes_") or not callable(found):
        return False
    try:
        parameters = inspect.signature(found).parameters.values()
    except (TypeError, ValueError):
        return False
    positional = (inspect.Parameter.POSITIONAL_ONLY, inspect.Parameter.POSITIONAL_OR_KEYWORD)
    return not any(p.kind in positional or p.kind == inspect.Parameter.VAR_POSITIONAL for p in parameters)


class Answers(nn.Module):
    """rows -> logits, by a function of numpy rows. probabilities: what its first answer was; None before one."""

    def __init__(self, function: Callable[[np.ndarray], Any], name: str, classes: int, whole_numbers: bool) -> None:
        super().__init__()
        self.function, self.name, self.classes, self.whole_numbers = function, name, classes, whole_numbers
        self.probabilities: bool | None = None

    def forward(self, x: Tensor) -> Tensor:
        rows = x.detach().cpu().numpy()
        try:
            given = self.function(rows.astype(np.int64) if self.whole_numbers else rows.astype(np.float32))
        except Exception as error:
            raise InputError(
                f"target {self.name!r} fails on {len(rows)} rows of shape {rows.shape[1:]}: {reason_of(error)}"
            ) from error
        if isinstance(given, Tensor):
            given = given.detach().cpu()
            given = given.double() if given.is_floating_point() else given
        answers = np.asarray(given)
        if answers.ndim == 2 and answers.shape[1] == 1:
            answers = answers[:, 0]
        wanted = [(len(rows), self.classes)] + ([(len(rows),)] if self.classes == 2 else [])
        if answers.dtype.kind not in "fiu" or answers.shape not in wanted:
            raise InputError(
                f"target {self.name!r} answers {len(rows)} rows with {answers.dtype} {answers.shape}: expected logits "
                f"or probabilities {' or '.join(map(str, wanted))}, not predicted classes"
            )
        answers = answers.astype(np.float64)
        if np.isnan(answers).any():
            raise InputError(f"target {self.name!r} answers NaN: let it answer numbers for every row")
        likely = bool(((answers >= 0) & (answers <= 1)).all())
        if answers.ndim == 2:
            likely = likely and bool((np.abs(answers.sum(axis=1) - 1) < 1e-3).all())
        if self.probabilities is None:
            self.probabilities = likely
        elif self.probabilities and not likely:
            raise InputError(f"target {self.name!r} answers probabilities for some rows and other numbers for others")
        return torch.from_numpy(_logits(answers) if self.probabilities else answers)


def _logits(probability: np.ndarray) -> np.ndarray:
    """Log-probabilities; of one column the log-odds. A probability of 0 stands at the smallest double: tied scores."""
    tiny = np.finfo(np.float64).tiny
    if probability.ndim == 1:
        return np.log(np.maximum(probability, tiny)) - np.log(np.maximum(1 - probability, tiny))
    return np.log(np.maximum(probability, tiny))
