"""From a checkpoint on disk to a model that can be asked: the right weights in the right places, or one clear line."""

from __future__ import annotations

import hashlib
from pathlib import Path

import torch
from torch import Tensor, nn

from ...foundation import InputError, sha256_of_file
from .checkpoint_files import file_kind, read_weights
from .checkpoint_keys import match_names
from .models import ask_with_whole_numbers, build_model, check_output


def open_model(
    path: str | Path,
    model: str | None,
    input_shape: tuple[int, ...],
    classes: tuple[str, ...],
    *,
    trust_code: bool = False,
) -> nn.Module:
    """The trained model of `path` in eval mode, checked to answer rows of `input_shape` with one logit a class.

    `model` names the architecture (see models.py) for files that hold weights; a Hugging Face directory, TorchScript
    and torch.export files bring their own. The last two are programs and need `trust_code`. Errors: InputError.
    """
    path = Path(path)
    kind = file_kind(path)
    if kind == "directory":
        if (path / "config.json").is_file():
            from .checkpoint_hugging_face import open_hugging_face

            opened = open_hugging_face(path, classes)
            check_output(opened, str(path), input_shape, len(classes))
            return opened.eval()
        if not (path / "checkpoint.safetensors").is_file():
            raise InputError(
                f"checkpoint {str(path)!r} is a directory with neither config.json (Hugging Face) nor "
                "checkpoint.safetensors (a finished run): name the weights file"
            )
        path = path / "checkpoint.safetensors"
    elif kind in ("torchscript", "torch_export"):
        from .checkpoint_programs import open_program

        program = open_program(path, kind, trust_code)
        ask_with_whole_numbers(program, input_shape)
        check_output(program, str(path), input_shape, len(classes))
        return program.eval()
    if model is None:
        raise InputError(f"checkpoint {str(path)!r} holds weights only: name the architecture with --model")
    return load_checkpoint(path, build_model(model, input_shape, len(classes), seed=0, may_couple=True)).eval()


def load_checkpoint(path: str | Path, model: nn.Module) -> nn.Module:
    """Fill `model` with the weights of a safetensors, torch.save or Lightning file, in place; returns it.

    Half and double precision weights are converted to the model's precision. A failed load leaves the model as it
    was. Errors: InputError for names, shapes or types that do not fit and for weights that are not finite.
    """
    weights = read_weights(path)
    own = {name: value for name, value in model.state_dict(keep_vars=True).items() if isinstance(value, Tensor)}
    try:
        names = match_names(weights.tensors, own, tied=_tied(own), any_prefix=weights.lightning)
    except InputError as error:
        raise InputError(f"checkpoint {str(path)!r}: {error}") from None
    found = {name: weights.tensors[stored] for name, stored in names.items()}
    _check_tensors(path, found, own)
    with torch.no_grad():
        for name, tensor in found.items():
            own[name].copy_(tensor)
    return model


def _tied(own: dict[str, Tensor]) -> dict[str, set[str]]:
    """{name: all names of the same tensor} where a tensor has several."""
    by_tensor: dict[int, set[str]] = {}
    for name, tensor in own.items():
        by_tensor.setdefault(id(tensor), set()).add(name)
    return {name: names for names in by_tensor.values() if len(names) > 1 for name in names}


def _check_tensors(path: str | Path, found: dict[str, Tensor], own: dict[str, Tensor]) -> None:
    wrong = [name for name, tensor in found.items() if tensor.shape != own[name].shape]
    if wrong:
        shapes = ", ".join(f"{name} {tuple(found[name].shape)} for {tuple(own[name].shape)}" for name in wrong[:3])
        more = f" and {len(wrong) - 3} more" if len(wrong) > 3 else ""
        raise InputError(
            f"checkpoint {str(path)!r}: shapes do not fit the model: {shapes}{more}. {_why(wrong, found, own)}"
        )
    for name, tensor in found.items():
        if tensor.is_quantized or _kind(tensor) != _kind(own[name]):
            raise InputError(
                f"checkpoint {str(path)!r}: {name} has dtype {tensor.dtype}, the model {own[name].dtype}: "
                "save the weights in floating point, not quantised"
            )
        if tensor.is_floating_point() and not bool(torch.isfinite(tensor.float()).all()):
            raise InputError(f"checkpoint {str(path)!r}: {name} holds NaN or infinity: the training diverged")


def _kind(tensor: Tensor) -> str:
    return "complex" if tensor.is_complex() else "float" if tensor.is_floating_point() else "whole"


def _why(wrong: list[str], found: dict[str, Tensor], own: dict[str, Tensor]) -> str:
    last = [name for name, tensor in own.items() if tensor.ndim >= 1][-2:]
    if set(wrong) <= set(last):
        stored, wanted = found[wrong[-1]].shape[0], own[wrong[-1]].shape[0]
        return (
            f"The checkpoint gives {stored} classes, the model is built for {wanted}: give data with {stored} classes"
        )
    return "Another width, depth or input size: give the model that was trained"


def sha256_of_checkpoint(path: str | Path) -> str:
    """Of a file its SHA-256; of a directory one over the names and hashes of its files."""
    path = Path(path)
    if path.is_file():
        return sha256_of_file(path)
    files = sorted(entry for entry in path.rglob("*") if entry.is_file())
    listing = "".join(f"{entry.relative_to(path).as_posix()} {sha256_of_file(entry)}\n" for entry in files)
    return hashlib.sha256(listing.encode("utf-8")).hexdigest()
