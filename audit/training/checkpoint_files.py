"""Weights out of the files that people have: safetensors, torch.save, Lightning; nothing in them is ever executed.

torch.load is called with weights_only=True, always: a file that needs more is refused with the name of the object it
holds and how to save it again. What a file is, is read from its bytes, not from its name.
"""

from __future__ import annotations

import contextlib
import pickle
import pickletools
import warnings
import zipfile
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

from ...foundation import InputError
from ...foundation.tensor_file import content_sha256

_HOLDERS = ("state_dict", "model", "model_state_dict", "net", "module_state_dict")
_PLAIN = ("collections.OrderedDict", "torch.FloatStorage", "torch.LongStorage")  # what every state dict asks for
_RESAVE = "save it again where it was made: torch.save(model.state_dict(), path)"


@dataclass(frozen=True)
class Weights:
    """The tensors of a checkpoint by name, as stored, on the CPU; `lightning`: names begin with an attribute's name."""

    tensors: dict[str, Tensor]
    lightning: bool = False


def file_kind(path: str | Path) -> str:
    """safetensors, torch, torchscript, torch_export or directory, from the first bytes. Errors: InputError."""
    path = Path(path)
    if path.is_dir():
        return "directory"
    try:
        with open(path, "rb") as file:
            head = file.read(16)
    except FileNotFoundError:
        raise InputError(f"checkpoint {str(path)!r} does not exist: check the path") from None
    except OSError as error:
        raise InputError(f"checkpoint {str(path)!r} cannot be read: {error.strerror or error}") from None
    if not head:
        raise InputError(f"checkpoint {str(path)!r} is empty: copy or save it again")
    if head.startswith(b"PK"):
        return _archive_kind(path)
    if path.suffix in (".joblib", ".skops", ".onnx"):
        raise InputError(
            f"checkpoint {str(path)!r} is no PyTorch file: name a function of yours that answers rows with logits or "
            "probabilities, or that loads and returns the model, as package.module:function"
        )
    if head.startswith(b"\x89HDF") or head.startswith(b"\x93NUMPY"):
        raise InputError(
            f"checkpoint {str(path)!r} is an HDF5 or numpy file, not PyTorch weights: audit it by its scores"
        )
    if head[8:9] == b"{" or path.suffix == ".safetensors":
        return "safetensors"
    return "torch"


def read_weights(path: str | Path) -> Weights:
    """The weights of a safetensors or torch.save file, found under one of the usual names. Errors: InputError."""
    kind = file_kind(path)
    if kind == "safetensors":
        return Weights(_read_safetensors(path))
    if kind == "torch":
        return _state_dict_within(path, _read_torch(path))
    if kind == "directory":
        raise InputError(f"checkpoint {str(path)!r} is a directory: name the file of weights in it")
    raise InputError(f"checkpoint {str(path)!r} is a {kind} file, which holds a program, not weights")


def _archive_kind(path: Path) -> str:
    try:
        with zipfile.ZipFile(path) as archive:
            names = archive.namelist()
    except (zipfile.BadZipFile, ValueError, NotImplementedError):  # ValueError: a file name that is no UTF-8
        raise InputError(f"checkpoint {str(path)!r} is truncated or damaged: copy or save it again") from None
    if any(name.endswith(".npy") for name in names):
        raise InputError(f"checkpoint {str(path)!r} is a numpy archive, not PyTorch weights: audit it by its scores")
    inner = [name.partition("/")[2] for name in names]
    if "constants.pkl" in inner or any(name.startswith("code/") for name in inner):
        return "torchscript"
    if "models/model.json" in inner or "serialized_exported_program.json" in names:
        return "torch_export"
    return "torch"


def _read_safetensors(path: str | Path) -> dict[str, Tensor]:
    from safetensors import SafetensorError, safe_open
    from safetensors.torch import load_file

    try:
        tensors = load_file(path)
        with safe_open(path, framework="np") as file:
            stored = (file.metadata() or {}).get("tensors_sha256")
    except (SafetensorError, ValueError, KeyError, OSError) as error:
        raise InputError(
            f"checkpoint {str(path)!r} is not a whole safetensors file ({error}): copy or save it again"
        ) from None
    if stored is not None:  # ours: a flipped bit is a model that nobody trained
        found = content_sha256({name: tensor.numpy() for name, tensor in tensors.items()})
        if found != stored:
            raise InputError(
                f"checkpoint {str(path)!r} was changed since it was written: its tensors have SHA-256 {found}, the "
                f"file says {stored}; copy it again, or train again"
            )
    return tensors


def _read_torch(path: str | Path) -> Any:
    try:
        with warnings.catch_warnings(), open(path, "rb") as file:  # a file: torch trusts the ending of a path
            warnings.simplefilter("ignore")  # remarks on old pickle protocols, of no use to whoever audits
            return torch.load(file, map_location="cpu", weights_only=True)
    except pickle.UnpicklingError:
        raise _refused(path) from None
    except Exception as error:  # zip reader, legacy reader and restricted unpickler each fail in their own way
        reason = (str(error).strip().splitlines() or [type(error).__name__])[0][:160]
        raise InputError(
            f"checkpoint {str(path)!r} is truncated or no PyTorch checkpoint ({reason}): {_RESAVE}"
        ) from None


def _refused(path: str | Path) -> InputError:
    objects = _foreign_objects(path)
    if not objects:
        return InputError(f"checkpoint {str(path)!r} is no PyTorch checkpoint that holds weights alone: {_RESAVE}")
    named = ", ".join(objects[:3])
    if any(name.startswith(("torch.nn.", "__main__.")) for name in objects):
        why = "a whole pickled module, which runs code when it is opened"
    else:
        why = "Python objects besides tensors, which run code when they are opened"
    return InputError(f"checkpoint {str(path)!r} holds {named}: {why}. It was not opened; {_RESAVE}")


def _foreign_objects(path: str | Path) -> list[str]:
    """Names of the classes and functions that the file asks for, read without calling any of them."""
    try:
        return sorted(torch.serialization.get_unsafe_globals_in_checkpoint(path))
    except Exception:  # no zip archive: an old file or a bare pickle
        return sorted(_globals_of_pickle(path))


def _globals_of_pickle(path: str | Path) -> set[str]:
    """What bare pickles, one after the other, would import: from their opcodes, disassembled and not run."""
    named: set[str] = set()
    strings: list[str] = []
    with open(path, "rb") as file, contextlib.suppress(Exception):  # the end, or damage: what was read can be told
        while True:
            for opcode, argument, _ in pickletools.genops(file):
                if opcode.name == "GLOBAL":
                    named.add(str(argument).replace(" ", "."))
                elif opcode.name == "STACK_GLOBAL" and len(strings) >= 2:
                    named.add(".".join(strings[-2:]))
                elif "UNICODE" in opcode.name:
                    strings.append(str(argument))
    return {name for name in named if name not in _PLAIN and not name.startswith("torch._utils.")}


def _state_dict_within(path: str | Path, content: Any) -> Weights:
    if not isinstance(content, Mapping):
        raise InputError(
            f"checkpoint {str(path)!r} holds a {type(content).__name__}, not a dictionary of weights: {_RESAVE}"
        )
    if _is_state_dict(content):
        return Weights(dict(content))
    holders = [name for name in _HOLDERS if _is_state_dict(content.get(name))]
    if len(holders) == 1:
        return Weights(dict(content[holders[0]]), lightning="pytorch-lightning_version" in content)
    held = ", ".join(map(str, list(content)[:8])) or "nothing"
    if holders:
        raise InputError(
            f"checkpoint {str(path)!r} holds several sets of weights ({', '.join(holders)}): save one of them alone"
        )
    raise InputError(
        f"checkpoint {str(path)!r} holds no weights under {', '.join(_HOLDERS)}; its entries are {held}: {_RESAVE}"
    )


def _is_state_dict(value: Any) -> bool:
    return (
        isinstance(value, Mapping)
        and len(value) > 0
        and all(isinstance(name, str) and isinstance(tensor, Tensor) for name, tensor in value.items())
    )
