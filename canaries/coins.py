"""Coins: which canaries are members. Drawn after the set is frozen, before training, kept secret until scores exist.

Each of the m coins is fair and independent of everything (Steinke, Nasr, Jagielski, arXiv 2305.08846); the number of
members is therefore random, and an unlucky draw is never drawn again: that would bias it.
"""

from __future__ import annotations

import json
import re
import secrets
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import Protocol

import numpy as np

from ..foundation import (
    InputError,
    numpy_stream,
    parse_json,
    read_bytes,
    sha256_of_bytes,
    write_bytes,
    write_json,
)
from ..foundation.files import LARGEST_JSON
from .commitment import Commitment

_SHA256 = re.compile(r"[0-9a-f]{64}")
ENTRIES = ("nonce", "canaries_sha256", "member", "created")


class FrozenSet(Protocol):
    """A canary set of any kind."""

    def __len__(self) -> int: ...
    @property
    def sha256(self) -> str: ...


@dataclass(frozen=True, eq=False)
class Coins:
    """member (m,) bool; nonce 256 bits in hex, which hides the coins behind their commitment; the hash of the set
    they were drawn for; created in ISO 8601, or None for a seeded draw, which is for reproduction only.

    Coins that another tool drew may come without a nonce: nothing commits to them (`remark` says so). Without the hash
    of their set, only the number of canaries can be checked.
    """

    member: np.ndarray
    nonce: str | None
    canaries_sha256: str | None
    created: str | None

    def __post_init__(self) -> None:
        member = np.asarray(self.member)
        if member.dtype != np.bool_ or member.ndim != 1 or len(member) < 2:
            raise InputError(f"coins need at least 2 flags in one row, got {member.dtype} of shape {member.shape}")
        for name, value in (("nonce", self.nonce), ("canaries_sha256", self.canaries_sha256)):
            if value is not None and (not isinstance(value, str) or not _SHA256.fullmatch(value)):
                raise InputError(f"coins {name} must be 64 lower-case hex digits, got {value!r}")
        if self.nonce is not None and self.canaries_sha256 is None:
            raise InputError("coins with a nonce need canaries_sha256, the set they were drawn for")
        if self.created is not None and not isinstance(self.created, str):
            raise InputError(f"coins created must be a date or null, got {self.created!r}")
        member = member.copy()
        member.setflags(write=False)
        object.__setattr__(self, "member", member)

    def __len__(self) -> int:
        return len(self.member)

    def check(self, canaries: FrozenSet) -> None:
        """Errors: InputError unless these coins were drawn for exactly this set."""
        if self.canaries_sha256 is None and len(canaries) != len(self):
            raise InputError(f"there are {len(self)} coins and {len(canaries)} canaries: use the coins of this set")
        if self.canaries_sha256 not in (None, canaries.sha256) or len(canaries) != len(self):
            raise InputError(
                f"coins were drawn for the canary set {str(self.canaries_sha256)[:12]}… with {len(self)} canaries, "
                f"this set is {canaries.sha256[:12]}… with {len(canaries)}: use the set the coins were drawn for"
            )

    def remark(self) -> str | None:
        """What cannot be said of these coins, as a sentence; None where nothing is missing."""
        if self.nonce is not None:
            return None
        unbound = "" if self.canaries_sha256 else " and to no canary set"
        return (
            f"The coins file has no nonce: it belongs to no commitment{unbound}. That the coins are fair and were "
            "drawn before training rests on your word; `coalmine coins` draws and commits."
        )

    def to_bytes(self) -> bytes:
        """The bytes of coins.json: what the commitment hashes."""
        record = {
            "nonce": self.nonce,
            "canaries_sha256": self.canaries_sha256,
            "member": [int(flag) for flag in self.member],
            "created": self.created,
        }
        return (json.dumps(record) + "\n").encode("utf-8")

    def save(self, path: str | Path) -> None:
        """Readable by its owner alone (mode 0600): it tells who is a member."""
        write_bytes(path, self.to_bytes(), secret=True)

    @classmethod
    def load(cls, path: str | Path) -> Coins:
        """The one reader of coins.json, for training and audit alike.

        `member`, a list of 0 and 1 in order of canary id, is enough. With a nonce, the bytes must be those that the
        commitment hashes: a file that an editor has indented anew would be refused after the training, so it is
        refused before. Errors: InputError that names the file and the entry that is wrong.
        """
        what = f"coins file {str(path)!r}"
        content = read_bytes(path, "coins file", LARGEST_JSON)
        record = parse_json(content, what)
        if not isinstance(record, dict):
            raise InputError(f"{what} must hold a JSON object, got {type(record).__name__}")
        bare = record.get("nonce") is None
        missing = ({"member"} if bare else set(ENTRIES)) - set(record)
        if missing:
            raise InputError(f"{what} lacks {', '.join(sorted(missing))}: was it written by `coalmine coins`?")
        member = record["member"]
        kinds = (int, bool) if bare else (int,)
        if not isinstance(member, list) or any(type(flag) not in kinds or flag not in (0, 1) for flag in member):
            raise InputError(f"{what}: member must be a list of 0 and 1")
        try:
            coins = cls(np.array(member, dtype=bool), *(record.get(name) for name in ENTRIES if name != "member"))
        except InputError as error:
            raise InputError(f"{what}: {error}") from None
        if not bare and content != coins.to_bytes():
            raise InputError(
                f"{what} was written anew by another program (spaces, order or entries differ): its commitment hashes "
                "the bytes that `coalmine coins` wrote; restore that file"
            )
        return coins


def draw_coins(canaries: FrozenSet, seed: int | None = None) -> Coins:
    """One fair, independent coin a canary.

    Without a seed: the operating system's entropy. With one: the same coins and nonce every time, for reproduction;
    anyone who knows the seed knows the members. Errors: InputError for fewer than 2 canaries.
    """
    m = len(canaries)
    if m < 2:
        raise InputError(f"the canary set has {m} canary: at least 2 are needed to tell members from non-members")
    if seed is None:
        bits = np.unpackbits(np.frombuffer(secrets.token_bytes(-(-m // 8)), dtype=np.uint8))[:m]
        return Coins(bits.astype(bool), secrets.token_hex(32), canaries.sha256, datetime.now(UTC).isoformat("T"))
    stream = numpy_stream(seed, "coins")
    member = stream.random(m) < 0.5
    return Coins(member, stream.bytes(32).hex(), canaries.sha256, None)


def commit(coins: Coins) -> Commitment:
    """Errors: InputError for coins without a nonce: their hash would tell them to whoever tries them all."""
    if coins.nonce is None:
        raise InputError("coins without a nonce cannot be committed to: draw them with `coalmine coins`")
    return Commitment(sha256_of_bytes(coins.to_bytes()), coins.canaries_sha256, len(coins), coins.created)


def save_commitment(coins: Coins, path: str | Path) -> None:
    write_json(path, commit(coins).to_json())


def verify_commitment(coins_path: str | Path, commitment_path: str | Path) -> None:
    """Errors: InputError unless the coins file is, byte for byte, the one that was committed to."""
    committed, coins = Commitment.load(commitment_path), Coins.load(coins_path)
    if coins.nonce is None:
        raise InputError(f"coins file {str(coins_path)!r} has no nonce: no commitment binds to it")
    if commit(coins).coins_sha256 != committed.coins_sha256 or committed.canaries_sha256 != coins.canaries_sha256:
        raise InputError(f"coins file {str(coins_path)!r} is not the one that {str(commitment_path)!r} commits to")
