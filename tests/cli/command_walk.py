"""Every command of the command line, found by walking over it, and a call that reaches its checks."""

import inspect
from typing import get_type_hints

import typer

from coalmine.audit.cli import COMMANDS, app, main

RECIPE = ["--steps-per-epoch", "2", "--epochs", "1", "--learning-rate", "1"]
NEEDED = {  # options that a command cannot do without, so that it reaches its checks
    "audit": ["--scores", "scores.csv"],
    "bound": ["--noise-multiplier", "1:2:1", "--steps-per-epoch", "5"],
    "calibrate": ["--steps-per-epoch", "5", "--epochs", "1:2:1", "--accuracy", "0.6"],
    "canaries craft": ["--data", "digits", "--method", "noise", "--count", "20"],
    "canaries diagnose": ["canaries.safetensors", "--data", "digits"],
    "canaries evaluate": ["canaries.safetensors", "--data", "digits", "--runs", "2"],
    "canaries show": ["canaries.safetensors"],
    "check": ["absent_trainer:train", "--epsilon", "1", "--delta", "1e-5"],
    "claim": ["--epsilon", "1", "--delta", "1e-5", "--ran", "poisson", "--divisor", "public"],
    "coins": ["--canaries", "canaries.safetensors", "--force"],
    "lira": [*RECIPE, "--shadows", "2", "-o", "out"],
    "plan": ["--records", "60000", "--epochs", "1:2:1", "--epsilon", "1"],
    "compare": ["--noise-multiplier", "1", "--runs", "2", "-o", "out"],
    "repeat": ["--canaries", "canaries.safetensors", "--runs", "2", *RECIPE, "-o", "out"],
    "report": ["audit.json"],
    "score": ["--checkpoint", "run", "--canaries", "canaries.safetensors"],
    "train": [*RECIPE, "-o", "out"],
}


def commands():
    """(words, click command) of every command, however deep."""
    group = typer.main.get_command(app)
    stack = [((name,), group.get_command(None, name)) for name in COMMANDS]
    while stack:
        words, command = stack.pop()
        if hasattr(command, "commands"):
            stack += [((*words, name), one) for name, one in command.commands.items()]
        else:
            yield " ".join(words), command


def path_options():
    """(words, parameter) of every option and argument that is annotated as a path."""
    for words, command in commands():
        hints = get_type_hints(inspect.unwrap(command.callback))
        for param in command.params:
            if "Path" in str(hints.get(param.name)):
                yield words, param


def with_value(words, param, value):
    """The words of a call of that command in which this option or argument has this value."""
    rest = list(NEEDED.get(words, []))
    for option in (o for o in param.opts if o in rest):
        at = rest.index(option)
        del rest[at : at + 2]
    if param.opts[0].startswith("-"):
        return [*words.split(), *rest, param.opts[0], value]
    return [*words.split(), value, *(rest[1:] if rest and not rest[0].startswith("-") else rest)]


def run(capsys, *arguments):
    code = 0
    try:
        main([str(a) for a in arguments])
    except SystemExit as end:
        code = end.code or 0
    captured = capsys.readouterr()
    return code, captured.out, captured.err
