"""A user's own code by name, package.module:function: importing it runs it, so the name must be the user's."""

from __future__ import annotations

import importlib
import os
import re
import sys
from collections.abc import Callable
from typing import Any

from .errors import InputError

_NAME = re.compile(r"[^\W\d]\w*(\.[^\W\d]\w*)*:[^\W\d]\w*(\.[^\W\d]\w*)*")


def named_function(name: str, what: str, folder: str = "") -> Callable[..., Any]:
    """The function or class `name` ("package.module:function"); `what` is its role in errors ("model").

    `folder`, or the current one, is searched first. Errors: InputError for a name of another form, a module that
    cannot be imported or raises (SystemExit included) as it is, and what cannot be called.
    """
    if not _NAME.fullmatch(name):
        raise InputError(
            f"{what} {name!r} must be package.module:function, names with dots and no path: to use nets.py of this "
            f"folder, write nets:function"
        )
    module_name, _, attribute = name.partition(":")
    place = folder or os.getcwd()
    if place not in sys.path:  # an installed console script does not search the current directory
        sys.path.insert(0, place)
    try:
        found: Any = importlib.import_module(module_name)
    except (Exception, SystemExit) as error:  # whatever the user's module does when it is run
        raise InputError(
            f"{what} {name!r}: {module_name} cannot be imported from {place} ({reason_of(error)}): write "
            "package.module:function and run where Python finds the package"
        ) from None
    for part in attribute.split("."):
        if not hasattr(found, part):
            raise InputError(f"{what} {name!r} cannot be imported: {module_name} has no function {attribute}")
        found = getattr(found, part)
    if not callable(found):
        raise InputError(f"{what} {name!r} is a {type(found).__name__}, not a function or class")
    return found


def reason_of(error: BaseException) -> str:
    """The kind of an error and what it says, on one line."""
    text = " ".join(str(error).split())
    return f"{type(error).__name__}: {text}" if text else type(error).__name__


def names_code(name: str | None) -> bool:
    """Whether a model of that name is a user's own code; those built in, torchvision's and Hugging Face's are not."""
    return name is not None and ":" in name and not name.startswith(("torchvision:", "huggingface:"))


def refuse_untrusted_code(recorded: str | None, given: str | None, trust_code: bool, source: str) -> None:
    """A file may name code; it runs only when the user named the same or said that the file is trusted.

    recorded: what the file `source` names; given: the user's --model. Errors: InputError.
    """
    if names_code(recorded) and given is None and not trust_code:
        raise InputError(
            f"{source!r} names the code {recorded!r}, which would run: repeat it as --model {recorded}, or add "
            "--trust-code if you trust whoever wrote the file"
        )
