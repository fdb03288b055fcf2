"""Every command in README.md runs, in order, in one folder, and prints what README.md says it prints.

Words must agree to the letter and numbers closely: another processor may round a training run differently.
`UPDATE_README=1 python -m pytest tests/test_readme.py` writes the real output into README.md.
"""

import math
import os
import re
import shlex
import subprocess
import sys
from pathlib import Path

README = Path(__file__).parents[1] / "README.md"
BLOCK = re.compile(r"```(console|python)\n(.*?)```", re.DOTALL)
NUMBER = re.compile(r"(?<![\w.])[-+]?\d[\d,]*\.?\d*(?:e[-+]?\d+)?", re.IGNORECASE)
HASH = re.compile(r"\b[0-9a-f]{12,64}\b")


def commands(block: str) -> list[tuple[str, list[str]]]:
    """(command, lines of output) pairs; a trailing backslash continues a command."""
    found: list[tuple[str, list[str]]] = []
    lines = iter(block.splitlines())
    for line in lines:
        if line.startswith("$ "):
            command = line[2:]
            while command.endswith("\\"):
                command = command[:-1] + next(lines).strip()
            found.append((command, []))
        elif found:
            found[-1][1].append(line.rstrip())
    return found


def run(command: str, folder: Path) -> str:
    words = shlex.split(command)
    assert words[0] == "coalmine", f"README shows {words[0]!r}: only coalmine's own commands can be tested"
    environment = os.environ | {"COLUMNS": "100", "PYTHONIOENCODING": "utf-8", "NO_COLOR": "1", "TERM": "dumb"}
    done = subprocess.run(
        [sys.executable, "-m", "coalmine", *words[1:]],
        cwd=folder, env=environment, capture_output=True, text=True, timeout=300,
    )  # fmt: skip
    assert done.returncode == 0, f"{command}\n{done.stdout}\n{done.stderr}"
    return done.stdout


def same_line(shown: str, printed: str) -> bool:
    words = [re.sub(r"\s+|[━─]+", " ", NUMBER.sub("#", HASH.sub("", text))).strip() for text in (shown, printed)]
    if words[0] != words[1]:
        return False
    numbers = [[float(n.replace(",", "")) for n in NUMBER.findall(HASH.sub("", text))] for text in (shown, printed)]
    return all(math.isclose(a, b, rel_tol=0.1, abs_tol=0.05) for a, b in zip(*numbers, strict=True))


def test_every_command_of_the_readme_prints_what_it_says(tmp_path):
    text = README.read_text()
    updated = text
    shown_any = False
    for language, block in BLOCK.findall(text):
        if language == "python":  # a first line "# name.py" names the file that the code stands in
            name = re.match(r"# (\w+\.py)\n", block)
            file = tmp_path / (name.group(1) if name else "block.py")
            file.write_text(block)
            subprocess.run([sys.executable, file.name], cwd=tmp_path, check=True, timeout=300)
            continue
        real = []
        for command, shown in commands(block):
            shown_any = True
            printed = [line.rstrip() for line in run(command, tmp_path).rstrip().splitlines()]
            real.append((command, printed))
            if "UPDATE_README" in os.environ:
                continue
            assert len(shown) == len(printed), f"{command} printed\n" + "\n".join(printed)
            for ours, theirs in zip(shown, printed, strict=True):
                assert same_line(ours, theirs), f"{command}\nREADME: {ours}\nreal:   {theirs}"
        if "UPDATE_README" in os.environ:
            updated = updated.replace(block, rewritten(block, real), 1)
    assert shown_any
    if updated != text:
        README.write_text(updated)


def rewritten(block: str, real: list[tuple[str, list[str]]]) -> str:
    """The block with the real output under each command as it was typed."""
    typed, current = [], None
    for line in block.splitlines():
        if line.startswith("$ "):
            current = [line]
            typed.append(current)
        elif current is not None and current[-1].endswith("\\"):
            current.append(line)
    assert len(typed) == len(real)
    return "\n".join("\n".join([*lines, *printed]) for lines, (_, printed) in zip(typed, real, strict=True)) + "\n"
