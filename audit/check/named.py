"""A user's training function by its name, package.module:function."""

from __future__ import annotations

import importlib
import inspect
import os
import sys
from typing import cast

from ...attacks.observation import Train
from ...foundation import InputError


def find_trainer(name: str) -> Train:
    """The function; the current folder is searched first. Errors: InputError that names what is missing."""
    module_name, separator, function_name = name.partition(":")
    if not separator or not module_name or not function_name:
        raise InputError(f"train {name!r} must be package.module:function")
    if os.getcwd() not in sys.path:
        sys.path.insert(0, os.getcwd())
    try:
        module = importlib.import_module(module_name)
    except (Exception, SystemExit) as error:  # whatever the user's module does when it is run
        reason = f"{type(error).__name__}: {' '.join(str(error).split())}"
        raise InputError(f"train {name!r}: {module_name} cannot be imported from {os.getcwd()}: {reason}") from None
    function = getattr(module, function_name, None)
    if not callable(function):
        raise InputError(f"train {name!r}: {module_name} has no function {function_name}")
    try:
        inspect.signature(function).bind(object(), object())
    except TypeError:
        raise InputError(
            f"train {name!r} is called as {function_name}(model, dataset), which its signature "
            f"{function_name}{inspect.signature(function)} does not accept: wrap it in a function that does"
        ) from None
    except ValueError:
        pass  # a callable without a signature: its call will tell
    return cast("Train", function)
