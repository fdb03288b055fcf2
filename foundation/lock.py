"""A folder or file in use by one process at a time. A lock ends with its process: one that was killed blocks nobody."""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

from .errors import InputError

try:
    import fcntl
except ImportError:  # Windows: no advisory locks
    fcntl = None


@contextmanager
def in_use(path: str | Path, argument: str = "output", *, shared: bool = False, file: bool = False) -> Iterator[None]:
    """Hold the folder while the block runs, or with `file` the file of that name, whether it is there or not.

    shared: together with others who share it, and with nobody who does not. The lock is flock(2) on a file inside the
    folder or beside the file, which the last to leave removes. Errors: InputError where another process holds it.
    """
    if fcntl is None:
        yield
        return
    path = Path(os.path.realpath(path))
    place = path.with_name(f".{path.name}.lock") if file else path / ".lock"
    made = [parent for parent in place.parents if not parent.exists()]
    handle = _locked(place, fcntl.LOCK_SH if shared else fcntl.LOCK_EX, path, argument)
    try:
        yield
    finally:
        with suppress(OSError):  # others share it: the last one removes the file
            fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
            place.unlink(missing_ok=True)
        os.close(handle)
        with suppress(OSError):  # what was refused before anything was written leaves no folder
            for parent in made:
                parent.rmdir()


def _locked(place: Path, operation: int, path: Path, argument: str) -> int:
    assert fcntl is not None
    while True:
        try:
            place.parent.mkdir(parents=True, exist_ok=True)
            handle = os.open(place, os.O_RDWR | os.O_CREAT, 0o600)
        except OSError as error:
            reason = error.strerror or type(error).__name__
            raise InputError(f"{argument} {str(path)!r} cannot be written ({reason}): name another place") from None
        try:
            fcntl.flock(handle, operation | fcntl.LOCK_NB)
            if os.path.exists(place) and os.path.samestat(os.fstat(handle), os.stat(place)):
                return handle
        except BlockingIOError:
            os.close(handle)
            raise InputError(
                f"{argument} {str(path)!r} is in use by another process: wait until it ends, or name another place"
            ) from None
        except FileNotFoundError:
            pass
        except OSError:  # a file system without locks: as before there were any
            return handle
        os.close(handle)  # the one before removed the file between our opening and locking it: begin again
