"""Files are written whole or not at all, read only where they are files, and JSON holds no NaN and no key twice.

A symbolic link is followed: what it points at is replaced, the link stays. Devices, pipes, sockets and links that lead
in a circle are refused, for writing and for reading. What is secret is readable by its owner alone from the first
byte of its temporary file on.
"""

from __future__ import annotations

import hashlib
import json
import math
import os
import stat
import tempfile
from pathlib import Path
from typing import Any

from .errors import InputError

LARGEST_JSON = 64 * 2**20  # bytes; coins of ten million canaries still fit


def write_bytes(path: str | Path, content: bytes, *, secret: bool = False) -> None:
    """Write to a temporary name in the same folder, flush to disk, rename: a reader sees old or new, no half.

    secret: only its owner may read the file (mode 0600), at no moment anyone else. Errors: InputError.
    """
    refuse_irregular(path)
    path = Path(os.path.realpath(path))
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        handle, temporary = tempfile.mkstemp(dir=path.parent, prefix=f".{path.name}.", suffix=".tmp")  # mode 0600
        try:
            with os.fdopen(handle, "wb") as file:
                file.write(content)
                file.flush()
                os.fsync(file.fileno())
            if not secret:
                os.chmod(temporary, 0o666 & ~_umask())
            os.replace(temporary, path)
        except BaseException:
            Path(temporary).unlink(missing_ok=True)
            raise
    except OSError as error:
        reason = error.strerror or type(error).__name__
        raise InputError(f"{str(path)!r} cannot be written ({reason}): name a place that can be") from None


def remove_leftovers(path: str | Path) -> None:
    """Remove what a killed process was writing under this name: its temporary files, which may be secret."""
    path = Path(os.path.realpath(path))
    for name in os.listdir(path.parent) if path.parent.is_dir() else ():
        if name.startswith(f".{path.name}.") and name.endswith(".tmp"):
            (path.parent / name).unlink(missing_ok=True)


def refuse_irregular(path: str | Path, argument: str = "output") -> None:
    """Errors: InputError where the path is there and is no regular file: a device, a pipe, a circle of links."""
    try:
        mode = os.stat(path).st_mode
    except (FileNotFoundError, NotADirectoryError):  # the parents' matter
        return
    except (OSError, ValueError) as error:  # a circle of links, a name too long, a NUL in it
        reason = getattr(error, "strerror", None) or str(error)
        raise InputError(f"{argument} {str(path)!r} cannot be used ({reason}): name another file") from None
    if not stat.S_ISREG(mode):
        raise InputError(f"{argument} {str(path)!r} is {_sort(mode)}, not a file: name a file")


def check_output_file(path: str | Path, argument: str = "output") -> None:
    """Errors: InputError where a file of that name could not be written, told before long work and not after it."""
    if Path(path).is_dir():
        raise InputError(f"{argument} {str(path)!r} is a directory: name the file in it")
    refuse_irregular(path, argument)
    _check_parents(Path(os.path.realpath(path)), argument)


def check_output_folder(path: str | Path, argument: str = "output") -> None:
    """Errors: InputError where a folder of that name could not be made or written to."""
    path = Path(path)
    try:
        mode: int | None = os.stat(path).st_mode
    except FileNotFoundError:
        mode = None
    except NotADirectoryError:
        raise InputError(f"{argument} {str(path)!r} lies below a file: name a path whose folders can be made") from None
    except (OSError, ValueError) as error:
        reason = getattr(error, "strerror", None) or str(error)
        raise InputError(f"{argument} {str(path)!r} cannot be used ({reason}): name another folder") from None
    if mode is not None and not stat.S_ISDIR(mode):
        raise InputError(f"{argument} {str(path)!r} is {_sort(mode)}: name a folder")
    _check_parents(Path(os.path.realpath(path)) / "file", argument)


def _check_parents(path: Path, argument: str) -> None:
    there = next((parent for parent in path.absolute().parents if parent.exists()), Path("/"))
    if not there.is_dir():
        raise InputError(f"{argument} {str(path)!r} lies below a file: name a path whose folders can be made")
    try:  # asking is not enough: root may write everywhere, and still not on every file system
        handle, probe = tempfile.mkstemp(dir=there, prefix=".", suffix=".tmp")
        os.close(handle)
        os.unlink(probe)
    except OSError:
        raise InputError(
            f"{argument} {str(path)!r} cannot be written ({str(there)!r} denies it): name another place"
        ) from None


def write_text(path: str | Path, content: str) -> None:
    write_bytes(path, content.encode("utf-8"))


def write_json(path: str | Path, value: Any) -> None:
    """Keys in the order given, two spaces, a final newline. Non-finite floats are refused: write null and a reason."""
    write_bytes(path, json_bytes(value))


def json_bytes(value: Any) -> bytes:
    """The bytes that `write_json` writes."""
    return (json.dumps(value, indent=2, allow_nan=False, ensure_ascii=False) + "\n").encode("utf-8")


def read_bytes(path: str | Path, what: str, most: int | None = None) -> bytes:
    """The content of a regular file of at most `most` bytes; `what` names its role in the error ("coins file").

    Errors: InputError for what is missing, a directory, a device or pipe (which may never end), or too large.
    """
    try:
        with open(path, "rb", opener=_without_waiting) as file:
            status = os.fstat(file.fileno())
            if not stat.S_ISREG(status.st_mode):
                raise InputError(f"{what} {str(path)!r} is {_sort(status.st_mode)}, not a file: name a file")
            if most is not None and status.st_size > most:
                raise InputError(
                    f"{what} {str(path)!r} has {status.st_size:,} bytes, more than the {most:,} that are read: "
                    "is it the right file?"
                )
            return file.read()
    except FileNotFoundError:
        raise InputError(f"{what} {str(path)!r} does not exist: check the path") from None
    except IsADirectoryError:
        raise InputError(f"{what} {str(path)!r} is a directory: name the file in it") from None
    except PermissionError:
        raise InputError(f"{what} {str(path)!r} cannot be read: permission denied") from None
    except (OSError, ValueError) as error:
        if isinstance(error, InputError):
            raise
        reason = getattr(error, "strerror", None) or str(error)
        raise InputError(f"{what} {str(path)!r} cannot be read ({reason}): check the path") from None


def read_json(path: str | Path, what: str) -> Any:
    """Parse a JSON file of at most LARGEST_JSON bytes; `what` names its role in the error ("coins file").

    NaN, Infinity and an object with one key twice are refused.
    """
    return parse_json(read_bytes(path, what, LARGEST_JSON), f"{what} {str(path)!r}")


def parse_json(content: bytes, what: str) -> Any:
    """The JSON value in UTF-8 bytes; `what` names them whole ("coins file 'coins.json'"). Errors: InputError."""
    try:
        return json.loads(
            content.decode("utf-8-sig"),
            parse_constant=_refuse_constant,
            parse_float=_finite_float,
            object_pairs_hook=_each_key_once,
        )
    except (ValueError, RecursionError) as error:
        raise InputError(f"{what} is not valid JSON: {error}") from None


def sha256_of_bytes(content: bytes) -> str:
    return hashlib.sha256(content).hexdigest()


def sha256_of_file(path: str | Path) -> str:
    with open(path, "rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()


def _sort(mode: int) -> str:
    sorts = {
        stat.S_IFREG: "a file",
        stat.S_IFDIR: "a directory",
        stat.S_IFIFO: "a pipe",
        stat.S_IFSOCK: "a socket",
        stat.S_IFCHR: "a device",
        stat.S_IFBLK: "a device",
    }
    return sorts.get(stat.S_IFMT(mode), "something else")


def _without_waiting(path: str, flags: int) -> int:
    """A pipe that nobody writes to would hold `open` for ever."""
    return os.open(path, flags | getattr(os, "O_NONBLOCK", 0))


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


def _each_key_once(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    value = dict(pairs)
    if len(value) < len(pairs):
        names = [name for name, _ in pairs]
        twice = next(name for name in names if names.count(name) > 1)
        raise ValueError(f"the key {twice[:60]!r} stands there twice")
    return value
