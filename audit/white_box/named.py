"""A user's training function by its name, package.module:function."""

from __future__ import annotations

import inspect
from typing import cast

from ...attacks.observation import Train
from ...foundation import InputError
from ...foundation.named_code import named_function


def find_trainer(name: str) -> Train:
    """The function; the current folder is searched first. Errors: InputError that names what is missing."""
    function = named_function(name, "train")
    function_name = name.partition(":")[2]
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
