"""A user's own function by name, package.module:function: found, or one line that says why not."""

from __future__ import annotations

import importlib
import os
import sys
from typing import Any

from ...foundation import InputError


def find(name: str, role: str) -> Any:
    """The object that `name` stands for; the folder the command runs in is searched too. `role` names it in errors.

    Whatever the user's module does when it is imported, sys.exit included, is told as an InputError.
    """
    module_name, separator, attribute = name.partition(":")
    if not separator or not module_name or not attribute:
        raise InputError(f"{role} {name!r} must be package.module:function")
    if os.getcwd() not in sys.path:  # an installed console script does not search the current directory
        sys.path.insert(0, os.getcwd())
    try:
        found: Any = importlib.import_module(module_name)
        for part in attribute.split("."):
            found = getattr(found, part)
    except KeyboardInterrupt:
        raise
    except BaseException as error:
        raise InputError(
            f"{role} {name!r} cannot be imported ({told(error)}): write package.module:function and run where Python "
            "finds the package"
        ) from None
    return found


def told(error: BaseException) -> str:
    """The first line of what an exception says, or its name."""
    text = str(error).strip()
    return text.splitlines()[0][:200] if text else type(error).__name__
