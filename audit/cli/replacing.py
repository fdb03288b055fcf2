"""What a command may replace: a file of the kind that it writes, and no other. Coins cannot be had again.

Every option that names an output has one of the kinds below as its callback, `replacing(KIND)`, and every command is
wrapped in `check_paths`. Symbolic links are followed: what they point at is judged and replaced, the link stays.
Devices, pipes, sockets and circles of links are refused.
"""

from __future__ import annotations

import json
import os
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import typer

from ...foundation import InputError, check_output_file, check_output_folder, read_json
from ...foundation.files import refuse_irregular

Callback = Callable[[typer.Context, typer.CallbackParam, Path | None], Path | None]
Recogniser = Callable[[Path], bool]


@dataclass(frozen=True)
class Kind:
    """A kind of output: its name for people, and whether a file that is there is one of it.

    kept: why one that is there stays unless --force says otherwise. beside: what else is written next to it.
    folder: the files that the command writes into it, by pattern, with the record that says whose folder it is: a
    folder with such files and without a record that `recognise` knows is somebody else's.
    """

    name: str
    recognise: Recogniser
    kept: str = ""
    beside: Callable[[Path], tuple[Path, Recogniser]] | None = None
    folder: tuple[str, ...] = ()
    record: str = ""

    def check(self, path: Path, argument: str) -> None:
        """Errors: InputError where this output could not be written at `path`, or would replace something else."""
        if self.folder:
            check_output_folder(path, argument)
            self._check_folder(path, argument)
            return
        check_output_file(path, argument)
        if path.exists() and not self.recognise(path):
            raise InputError(f"{argument} {str(path)!r} exists and is no {self.name}: name another file")
        if self.beside is not None:
            second, recognise = self.beside(path)
            check_output_file(second, argument)
            if second.exists() and not recognise(second):
                raise InputError(
                    f"{argument} {str(path)!r}: {str(second)!r}, which is written beside it, exists and is something "
                    "else: name another file"
                )

    def _check_folder(self, path: Path, argument: str) -> None:
        if not path.is_dir():
            return
        records = sorted(path.glob(self.record)) if self.record else []
        foreign = [one.name for one in records if not self.recognise(one)]
        if not records:
            there = [one for pattern in self.folder for one in sorted(path.glob(pattern))]
            foreign = [one.name for one in there if self.record or not self.recognise(one)]
        if foreign:
            raise InputError(
                f"{argument} {str(path)!r} is no {self.name}, and {', '.join(foreign[:4])} in it would be replaced: "
                "name another folder"
            )


def _json_with(*needed: str, only: tuple[str, ...] = (), without: tuple[str, ...] = ()) -> Recogniser:
    def recognise(path: Path) -> bool:
        try:
            value = read_json(path, "file")
        except InputError:
            return False
        keys = set(value) if isinstance(value, dict) else set()
        return set(needed) <= keys and not keys & set(without) and (not only or keys <= {*needed, *only})

    return recognise


def _canaries(path: Path) -> bool:
    return _metadata(path).get("kind") in ("example", "gradient")


def _metadata(path: Path) -> dict[str, Any]:
    """The metadata of a safetensors file, read without its library: `coalmine bound` pays for nothing."""
    with open(path, "rb") as file:
        length = int.from_bytes(file.read(8), "little")
        header = file.read(min(length, 2**20))
    try:
        metadata = json.loads(header)["__metadata__"]
        return metadata if isinstance(metadata, dict) else {}
    except (ValueError, KeyError, TypeError, RecursionError):
        return {}


def _figure(path: Path) -> bool:
    """Drawn by coalmine, which signs its figures in their metadata."""
    content = path.read_bytes()
    return content.startswith((b"\x89PNG", b"%PDF", b"<?xml", b"<svg")) and b"coalmine" in content


def _sweep_table(path: Path) -> bool:
    with open(path, "rb") as file:
        header = file.readline(4096)
    return header.startswith(b"name,") and b",adjacency," in header


def _page(path: Path) -> bool:
    content = path.read_bytes()
    ours = b"<title>Privacy audit" in content or b"<title>Training plan" in content
    return content.lstrip()[:14].lower() == b"<!doctype html" and ours


_score_record = _json_with("score", "schema_version")


def _scores(path: Path) -> bool:
    """Scores are known by their record beside them: without one they are somebody's data."""
    beside = path.with_suffix(".json")
    return beside.is_file() and _score_record(beside)


AUDIT = Kind("audit.json", _json_with("verdict", "estimates"))
CHECK = Kind("check.json", _json_with("verdict", "findings"))
CLAIM = Kind("claim.json", _json_with("mechanism", only=("schema_version", "adjacency", "membership")))
HAND_WRITTEN_RUN = Kind("run.json of `coalmine claim`", _json_with("mechanism", "written_by_hand"))
COINS = Kind("coins.json", _json_with("member", "nonce"), kept="a run may depend on these coins")
COMMITMENT = Kind(
    "commitment.json", _json_with("coins_sha256", without=("member", "mechanism")), kept="it may be published already"
)
CANARIES = Kind("canary set", _canaries, kept="coins or a run may depend on it")
SCORE_FILE = Kind(
    "scores file of coalmine", _scores, beside=lambda path: (path.with_suffix(".json"), _score_record)
)  # the record that makes them known
PAGE = Kind("page of coalmine", _page)
FIGURE = Kind("figure of coalmine", _figure)
CERTIFICATE = Kind("certificate of coalmine", _json_with("format", "claims", "grid", "sha256"))
SWEEP_TABLE = Kind("csv file of a sweep", _sweep_table)

RUN_FOLDER = Kind(
    "folder of `coalmine train`",
    _json_with("mechanism", "settings", "model"),
    folder=("initial.safetensors", "training_state.safetensors", "checkpoint.safetensors"),
    record="run.json",
)
LIRA_FOLDER = Kind(
    "folder of `coalmine lira`",
    _score_record,
    folder=("scores*.csv", "lira.json", "examples.csv", "roc.csv"),
    record="scores*.json",
)
ATTACK_FOLDER = Kind(
    "folder of `coalmine attack`",
    _score_record,
    folder=("scores.csv", "attack.json", "examples.csv", "roc.csv"),
    record="scores.json",
)
REPEAT_FOLDER = Kind(
    "folder of `coalmine repeat`",
    _json_with("seed", "one_canary"),
    folder=("audit.json", "shard-*.npz"),
    record="repeat.json",
)
PLAN_FOLDER = Kind(
    "folder of `coalmine plan`",
    _json_with("identity", "seed"),
    folder=("plan.json", "claim.json", "noise.json", "cpu_time.json", "pieces"),
    record="request.json",
)
COMPARE_FOLDER = Kind(
    "folder of `coalmine compare`",
    _json_with("grid", "data", "seed"),
    folder=("compare.csv", "compare.parquet", "shard-*.npz"),
    record="compare.json",
)
DEMO_FOLDER = Kind(
    "folder of `coalmine demo`",
    _canaries,  # the first file that it writes; what it holds is compared byte by byte
    folder=("coins.json", "commitment.json", "claim.json", "private", "noise_forgotten", "report.html"),
    record="canaries.safetensors",
)
FIGURES_FOLDER = Kind(
    "folder of figures of coalmine",
    _figure,
    folder=tuple(
        f"{name}*.{ending}"
        for name in ("headline", "roc", "trade-off", "scores", "check", "utility-graph", "same-budget")
        for ending in ("svg", "pdf", "png")
    ),
)


def replacing(kind: Kind) -> Callback:
    """A callback for an output option: what it may not replace is refused before any work."""

    def check(ctx: typer.Context, param: typer.CallbackParam, path: Path | None) -> Path | None:
        if path is not None and not ctx.resilient_parsing:
            kind.check(path, param.opts[0])
        return path

    check.kind = kind  # type: ignore[attr-defined]
    return check


replacing_audit = replacing(AUDIT)
replacing_claim = replacing(CLAIM)
replacing_page = replacing(PAGE)


def kind_of(param: Any) -> Kind | None:
    """The kind of output that an option names; None for all other options."""
    return getattr(getattr(param, "callback", None), "kind", None)


def check_paths(ctx: Any) -> None:
    """What every command checks before it begins: text is text, no output is an input or another output, and what is
    kept is replaced by --force alone. Errors: InputError."""
    given = [(param, ctx.params.get(param.name)) for param in ctx.command.params]
    for param, value in given:
        for text in _texts(value):
            try:
                text.encode("utf-8")
            except UnicodeEncodeError:
                raise InputError(f"{param.opts[0]} {text!r} holds bytes that are no UTF-8: give plain text") from None
        if kind_of(param) is None and isinstance(value, os.PathLike):
            _refuse_endless(Path(value), param.opts[0])
    outputs = [(param, kind_of(param), value) for param, value in given if isinstance(value, Path) and kind_of(param)]
    for param, kind, path in outputs:
        assert kind is not None
        if kind.folder:
            continue
        for written in (path, kind.beside(path)[0]) if kind.beside else (path,):
            for other, value in given:
                beside = kind_of(other).beside if kind_of(other) else None  # type: ignore[union-attr]
                named = [*_paths(value), *([beside(value)[0]] if beside and value is not None else [])]
                if other is not param and any(_same(written, one) for one in named):
                    raise InputError(
                        f"{param.opts[0]} and {_name(other)} are both {str(written)!r}: one would be lost; the files "
                        "of a command must differ (coins are secret, a commitment is public)"
                    )
        if kind.kept and path.exists() and not ctx.params.get("force"):
            raise InputError(f"{param.opts[0]} {str(path)!r} exists: {kind.kept}; name another file or use --force")


def _refuse_endless(path: Path, argument: str) -> None:
    """An input is a file or a folder: a device or a pipe may never end, a circle of links leads nowhere."""
    if not path.is_dir():
        refuse_irregular(path, argument)


def _texts(value: Any) -> Iterator[str]:
    if isinstance(value, str | os.PathLike):
        yield os.fspath(value)
    elif isinstance(value, list | tuple):
        for one in value:
            yield from _texts(one)


def _paths(value: Any) -> Iterator[Path]:
    """The files that the value of an option may name: a path, several, `X.npy,Y.npy`, `scheme:PATH`."""
    for text in _texts(value):
        for part in (text, *text.split(","), text.partition(":")[2]):
            if part and "\0" not in part:
                yield Path(part)


def _same(one: Path, other: Path) -> bool:
    if os.path.realpath(one) == os.path.realpath(other):
        return True
    try:
        return os.path.samefile(one, other)  # two hard links
    except OSError:
        return False


def _name(param: Any) -> str:
    return param.opts[0] if param.opts and param.opts[0].startswith("-") else str(param.name)
