"""Files are written whole or not at all, and JSON holds no NaN."""

from __future__ import annotations

import hashlib
import json
import math
import os
import tempfile
from pathlib import Path
from typing import Any

from .errors import InputError


def write_bytes(path: str | Path, content: bytes) -> None:
    """Write to a temporary name in the same folder, flush to disk, rename: a reader sees old or new, no half."""
    path = Path(path)
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        handle, temporary = tempfile.mkstemp(dir=path.parent, prefix=f".{path.name}.", suffix=".tmp")
        try:
            with os.fdopen(handle, "wb") as file:
                file.write(content)
                file.flush()
                os.fsync(file.fileno())
            os.chmod(temporary, 0o666 & ~_umask())
            os.replace(temporary, path)
        except BaseException:
            Path(temporary).unlink(missing_ok=True)
            raise
    except OSError as error:
        reason = error.strerror or type(error).__name__
        raise InputError(f"{str(path)!r} cannot be written ({reason}): name a place that can be") from None


def check_output_file(path: str | Path, argument: str = "output") -> None:
    """Errors: InputError where a file of that name could not be written, told before long work and not after it."""
    path = Path(path)
    if path.is_dir():
        raise InputError(f"{argument} {str(path)!r} is a directory: name the file in it")
    _check_parents(path, argument)


def check_output_folder(path: str | Path, argument: str = "output") -> None:
    """Errors: InputError where a folder of that name could not be made or written to."""
    path = Path(path)
    if path.exists() and not path.is_dir():
        raise InputError(f"{argument} {str(path)!r} is a file: name a folder")
    _check_parents(path / "file", argument)


def _check_parents(path: Path, argument: str) -> None:
    there = next((parent for parent in path.absolute().parents if parent.exists()), Path("/"))
    if not there.is_dir():
        raise InputError(f"{argument} {str(path)!r} lies below a file: name a path whose folders can be made")
    if not os.access(there, os.W_OK | os.X_OK):
        raise InputError(f"{argument} {str(path)!r} cannot be written ({str(there)!r} denies it): name another place")


def write_text(path: str | Path, content: str) -> None:
    write_bytes(path, content.encode("utf-8"))


def write_json(path: str | Path, value: Any) -> None:
    """Keys in the order given, two spaces, a final newline. Non-finite floats are refused: write null and a reason."""
    write_text(path, json.dumps(value, indent=2, allow_nan=False, ensure_ascii=False) + "\n")


def read_json(path: str | Path, what: str) -> Any:
    """Parse a JSON file; `what` names its role in the error ("coins file"). NaN and Infinity are refused."""
    path = Path(path)
    try:
        return json.loads(path.read_text("utf-8-sig"), parse_constant=_refuse_constant, parse_float=_finite_float)
    except FileNotFoundError:
        raise InputError(f"{what} {str(path)!r} does not exist: check the path") from None
    except IsADirectoryError:
        raise InputError(f"{what} {str(path)!r} is a directory: name the file in it") from None
    except PermissionError:
        raise InputError(f"{what} {str(path)!r} cannot be read: permission denied") from None
    except (ValueError, RecursionError) as error:
        raise InputError(f"{what} {str(path)!r} is not valid JSON: {error}") from None


def sha256_of_bytes(content: bytes) -> str:
    return hashlib.sha256(content).hexdigest()


def sha256_of_file(path: str | Path) -> str:
    with open(path, "rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()


def _umask() -> int:
    mask = os.umask(0)
    os.umask(mask)
    return mask


def _refuse_constant(name: str) -> float:
    raise ValueError(f"{name} is not a JSON number")


def _finite_float(text: str) -> float:
    value = float(text)
    if not math.isfinite(value):
        raise ValueError(f"{text} is too large for a double")
    return value
