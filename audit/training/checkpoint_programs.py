"""TorchScript and torch.export files: programs, opened only when the user says that the author is trusted."""

from __future__ import annotations

import warnings
from pathlib import Path

import torch
from torch import Tensor, nn

from ...foundation import InputError


class _Exported(nn.Module):
    """An exported program as a module: its mode is fixed at export, so that eval() has nothing to change."""

    def __init__(self, program: nn.Module) -> None:
        super().__init__()
        self.program = program

    def train(self, mode: bool = True) -> _Exported:
        self.training = mode
        return self

    def forward(self, x: Tensor) -> Tensor:
        try:
            return self.program(x)
        except AssertionError as error:  # the guards of the exported graph
            raise InputError(
                f"the exported program refuses {len(x)} rows ({error}): export it with a dynamic batch size, "
                'dynamic_shapes=({0: torch.export.Dim("batch")},)'
            ) from None


def open_program(path: str | Path, kind: str, trust_code: bool) -> nn.Module:
    """The module in a TorchScript (`kind` "torchscript") or torch.export ("torch_export") file. Errors: InputError."""
    if not trust_code:
        raise InputError(
            f"checkpoint {str(path)!r} is a {kind} file, a program that runs when it is used: add --trust-code if you "
            "trust its author, or save the weights alone with torch.save(model.state_dict(), path)"
        )
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # torch.jit is on its way out; users still hold its files
            if kind == "torchscript":
                return torch.jit.load(str(path), map_location="cpu")
            return _Exported(torch.export.load(str(path)).module())
    except Exception as error:
        reason = (str(error).strip().splitlines() or [type(error).__name__])[0][:160]
        raise InputError(f"checkpoint {str(path)!r} cannot be opened as {kind} ({reason}): save it again") from None
