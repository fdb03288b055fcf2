"""Every command in README.md runs, in order, in one folder, and prints what README.md says it prints.

What theory and simulation print is exact and must agree. What hangs on a trained model must not: another processor
rounds a training run differently, and 200 steps later the canaries are told apart a little better or worse. There the
verdict must agree, every line must have its counterpart, and numbers must lie within a wide statistical tolerance. The
page runs under two instruction sets.
`UPDATE_README=1 python -m pytest tests/test_readme.py` writes the real output into README.md.
"""

import math
import os
import re
import shlex
import subprocess
import sys
from pathlib import Path

import pytest

README = Path(__file__).parents[1] / "README.md"
BLOCK = re.compile(r"```(console|python)\n(.*?)```", re.DOTALL)
NUMBER = re.compile(r"(?<![\w.])[-+]?\d[\d,]*\.?\d*(?:e[-+]?\d+)?", re.IGNORECASE)
CAPABILITIES = (None, "default")  # of ATen's kernels: the processor's best, and none of its vector instructions
TRAINED = ("demo", "train", "score", "lira", "attack", "repeat", "check")  # what they print hangs on a trained model
SIMULATED = ("power", "selftest")  # a flip in the last bit may turn one repeat of a simulation
# Lines that a trained number decides to print or not, or in which it decides between words.
OPTIONAL = ("the claim was judged on", "epsilon was bounded by", "noise multiplier", "remark", "TPR at")
VERDICTS = ("Rejected", "Not rejected", "No power", "Not judged", "No claim")
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


def run(command: str, folder: Path, capability: str | None) -> str:
    words = shlex.split(command)
    assert words[0] == "coalmine", f"README shows {words[0]!r}: only coalmine's own commands can be tested"
    environment = os.environ | {"COLUMNS": "100", "PYTHONIOENCODING": "utf-8", "NO_COLOR": "1", "TERM": "dumb"}
    environment |= {"ATEN_CPU_CAPABILITY": capability} if capability else {}
    done = subprocess.run(
        [sys.executable, "-m", "coalmine", *words[1:]],
        cwd=folder, env=environment, capture_output=True, text=True, timeout=300,
    )  # fmt: skip
    assert done.returncode == 0, f"{command}\n{done.stdout}\n{done.stderr}"
    return done.stdout


def words_of(line: str) -> str:
    return re.sub(r"\s+|[━─]+", " ", NUMBER.sub("#", HASH.sub("", line))).strip()


def numbers_of(line: str) -> list[float]:
    return [float(n.replace(",", "")) for n in NUMBER.findall(HASH.sub("", line))]


def same_line(shown: str, printed: str, tolerance: float) -> bool:
    """Words to the letter, numbers to the digits shown but for the last one's rounding."""
    if words_of(shown) != words_of(printed):
        return False
    pairs = zip(numbers_of(shown), numbers_of(printed), strict=True)
    return all(math.isclose(a, b, rel_tol=tolerance, abs_tol=1e-9) for a, b in pairs)


def near(shown: float, printed: float) -> bool:
    """Rates within 0.2; counts and percentages within 3 + 4 square roots of them, or half."""
    largest = max(abs(shown), abs(printed))
    return abs(shown - printed) <= (0.2 if largest <= 1 else max(3 + 4 * math.sqrt(largest), largest / 2))


def label_of(line: str) -> str:
    """The words in front of the first number."""
    return words_of(NUMBER.split(HASH.sub("", line))[0])[:40]


def agree(shown: str, printed: str) -> bool:
    return ("not rejected" in shown) == ("not rejected" in printed)


def compare_trained(command: str, shown: list[str], printed: list[str]) -> None:
    """The same verdict, and for every line of the page one that begins alike with numbers nearby."""
    verdict = next((v for v in VERDICTS if shown[0].startswith(v)), "")
    assert printed[0].startswith(verdict), f"{command}\nREADME: {shown[0]}\nreal:   {printed[0]}"
    for line in shown:
        if line.strip().startswith(OPTIONAL) or not words_of(line):
            continue
        alike = [other for other in printed if label_of(other) == label_of(line) and agree(line, other)]
        assert alike, f"{command}: nothing is printed like\n{line}\nbut\n" + "\n".join(printed)
        same = [other for other in alike if len(numbers_of(other)) == len(numbers_of(line))]
        assert not same or any(all(map(near, numbers_of(line), numbers_of(other))) for other in same), (
            f"{command}\nREADME: {line}\nreal:   {same}"
        )


def hangs_on_training(command: str, trained_files: set[str]) -> bool:
    """Trains or asks a model itself, or reads a file that such a command wrote."""
    words = shlex.split(command)
    trains = words[1] in TRAINED or words[1:3] == ["canaries", "evaluate"]
    if not trains and not any(word.startswith(tuple(trained_files)) for word in words if trained_files):
        return False
    written = [words[k + 1] for k, word in enumerate(words[:-1]) if word in ("--output", "-o")]
    trained_files |= set(written)
    return True


@pytest.mark.parametrize("capability", CAPABILITIES, ids=str)
def test_every_command_of_the_readme_prints_what_it_says(tmp_path, capability):
    text = README.read_text()
    updated, shown_any, trained_files = text, False, set()
    update = "UPDATE_README" in os.environ and capability is None
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
            printed = [line.rstrip() for line in run(command, tmp_path, capability).rstrip().splitlines()]
            real.append((command, printed))
            trained = hangs_on_training(command, trained_files)
            if update:
                continue
            if trained:
                compare_trained(command, shown, printed)
                continue
            assert len(shown) == len(printed), f"{command} printed\n" + "\n".join(printed)
            for ours, theirs in zip(shown, printed, strict=True):
                tolerance = 0.05 if shlex.split(command)[1] in SIMULATED else 2e-3
                assert same_line(ours, theirs, tolerance), f"{command}\nREADME: {ours}\nreal:   {theirs}"
        if update:
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
