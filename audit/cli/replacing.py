"""What a command may replace: a file of the kind that it writes, and no other. Coins cannot be had again."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path

import typer

from ...foundation import InputError
from .options import writable_file

Callback = Callable[[typer.Context, typer.CallbackParam, Path | None], Path | None]
CLAIM_KEYS = {"schema_version", "mechanism", "adjacency", "membership"}


def _replacing(kind: str, recognise: Callable[[bytes], bool]) -> Callback:
    """A callback for an output option: an existing file of another kind is refused before any work."""

    def check(ctx: typer.Context, param: typer.CallbackParam, path: Path | None) -> Path | None:
        writable_file(ctx, param, path)
        if path is not None and path.is_file() and not recognise(path.read_bytes()):
            raise InputError(f"{param.opts[0]} {str(path)!r} exists and is no {kind}: name another file")
        return path

    return check


def _keys(content: bytes) -> set[str]:
    try:
        value = json.loads(content)
    except (ValueError, RecursionError):
        return set()
    return set(value) if isinstance(value, dict) else set()


replacing_audit = _replacing("audit.json", lambda content: "verdict" in _keys(content))
replacing_claim = _replacing("claim.json", lambda content: {"mechanism"} <= _keys(content) <= CLAIM_KEYS)
replacing_page = _replacing("HTML page", lambda content: content.lstrip()[:14].lower() == b"<!doctype html")
replacing_check = _replacing("check.json", lambda content: {"findings", "verdict"} <= _keys(content))
