"""How a user's mistake is told."""

from __future__ import annotations


class InputError(ValueError):
    """A mistake in what the user gave: the message names the argument, the value and the remedy.

    The command line prints it as one line and exits with code 2; from Python it is a ValueError.
    Anything that is not the user's mistake stays an ordinary exception.
    """
