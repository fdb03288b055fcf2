"""A safetensors file with sorted metadata: the same content is the same bytes, and reading never runs code.

The safetensors library writes its metadata in hash order, which differs from process to process; here the header is
sorted after the library has written it. Reading goes through the library alone, never through pickle.
"""

from __future__ import annotations

import hashlib
import json
from pathlib import Path
from typing import Any

import numpy as np

from .errors import InputError
from .files import parse_json, read_bytes

_ZIP, _PICKLE = b"PK\x03\x04", b"\x80"


def pack(tensors: dict[str, np.ndarray], metadata: dict[str, str]) -> bytes:
    """The bytes of a safetensors file; equal arguments give equal bytes."""
    from safetensors.numpy import save

    content = save({name: np.ascontiguousarray(tensors[name]) for name in sorted(tensors)}, metadata=metadata)
    length = int.from_bytes(content[:8], "little")
    header = json.loads(content[8 : 8 + length])
    header["__metadata__"] = dict(sorted(header.get("__metadata__", {}).items()))
    sorted_header = json.dumps(header, separators=(",", ":"), ensure_ascii=False).encode("utf-8")
    sorted_header += b" " * (-len(sorted_header) % 8)
    return len(sorted_header).to_bytes(8, "little") + sorted_header + content[8 + length :]


def unpack(path: str | Path, what: str) -> tuple[dict[str, np.ndarray], dict[str, str]]:
    """(tensors, metadata) of a safetensors file; `what` names its role in errors ("canary file").

    Errors: InputError when the file is missing, a directory, a pickle or torch.save archive, cut short or damaged.
    """
    from safetensors.numpy import load

    content = read_bytes(path, what)
    # A safetensors file begins with the length of its header, whose first byte may be a pickle's: then comes "{".
    if content[:4] == _ZIP or (content[:1] == _PICKLE and content[8:9] != b"{"):
        raise InputError(
            f"{what} {str(path)!r} is a pickle or a torch.save archive, which can run code when opened: "
            "coalmine reads safetensors only; save the tensors with safetensors"
        )
    try:
        tensors = load(content)
        length = int.from_bytes(content[:8], "little")
        metadata = json.loads(content[8 : 8 + length]).get("__metadata__") or {}
    except Exception as error:  # the library raises its own error, KeyError for unknown types, and more
        reason = str(error) or type(error).__name__
        raise InputError(f"{what} {str(path)!r} is not a whole safetensors file: {reason}") from None
    return tensors, metadata


def content_sha256(tensors: dict[str, np.ndarray]) -> str:
    """SHA-256 over names, types, shapes and little-endian bytes of the tensors, in the order of their names."""
    digest = hashlib.sha256()
    for name in sorted(tensors):
        array = np.ascontiguousarray(tensors[name])
        array = array.astype(array.dtype.newbyteorder("<"), copy=False)
        digest.update(json.dumps([name, array.dtype.str, list(array.shape)]).encode("utf-8") + b"\n")
        digest.update(array.tobytes())
    return digest.hexdigest()


def metadata_json(metadata: dict[str, str], key: str, what: str) -> Any:
    """The JSON value of one metadata entry. Errors: InputError when it is absent or not JSON."""
    if key not in metadata:
        raise InputError(f"{what} has no metadata entry {key!r}: it was not written by coalmine")
    return parse_json(metadata[key].encode("utf-8", "surrogatepass"), f"{what}: metadata entry {key!r}")
