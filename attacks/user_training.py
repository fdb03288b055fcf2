"""A user's own training as shadow training: train(indices, seed) -> module, given as package.module:function.

The function trains one model on the rows `indices` (int64, sorted) of the data, with all randomness from `seed`, and
returns the module. It is found by name in every process, so that nothing of it has to pickle. Models are trained one
after another: nothing is known about them that would let them be stacked.
"""

from __future__ import annotations

import hashlib
import inspect
import os
import traceback
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import cast

import numpy as np
from torch import nn

from ..foundation import InputError
from ..foundation.named_code import named_function, reason_of


@dataclass(frozen=True)
class UserTraining:
    """A train_many that calls the user's function once a model. name: package.module:function."""

    name: str
    folder: str = ""

    def __call__(self, membership: np.ndarray, seeds: Sequence[int]) -> list[nn.Module]:
        train = self.function()
        return [self._one(train, np.flatnonzero(m), int(s)) for m, s in zip(membership, seeds, strict=True)]

    def _one(self, train: Callable[[np.ndarray, int], nn.Module], indices: np.ndarray, seed: int) -> nn.Module:
        try:
            model = train(indices, seed)
        except InputError:
            raise
        except (Exception, SystemExit) as error:  # whatever the user's function meets
            last = traceback.extract_tb(error.__traceback__)[-1]
            raise InputError(
                f"train {self.name!r} raised {reason_of(error)} "
                f"({os.path.basename(last.filename)}, line {last.lineno}), called with {len(indices)} indices and seed "
                f"{seed}: call it so yourself to see more"
            ) from error
        return _checked(model, self.name)

    def function(self) -> Callable[[np.ndarray, int], nn.Module]:
        """The function itself; the folder the command ran in is searched first. Errors: InputError."""
        function = named_function(self.name, "train", self.folder)
        function_name = self.name.partition(":")[2]
        try:
            inspect.signature(function).bind(np.zeros(1, dtype=np.int64), 0)
        except TypeError:
            raise InputError(
                f"train {self.name!r} is called as {function_name}(indices, seed), which its signature "
                f"{function_name}{inspect.signature(function)} does not accept: wrap it in a function that does"
            ) from None
        except ValueError:
            pass  # a callable without a signature: its call will tell
        return cast("Callable[[np.ndarray, int], nn.Module]", function)

    def code_hash(self) -> str:
        """SHA-256 of the source file that defines the function: an edited recipe never meets old shards."""
        file = inspect.getsourcefile(inspect.unwrap(self.function()))
        if file is None:
            return ""
        with open(file, "rb") as source:
            return hashlib.file_digest(source, "sha256").hexdigest()


def _checked(model: object, name: str) -> nn.Module:
    if not isinstance(model, nn.Module):
        raise InputError(f"train {name!r} must return a torch.nn.Module, got {type(model).__name__}")
    return model
