"""run.json: what was run. Written by whoever trained, held against the claim by the audit. No torch here.

One type for every reader and writer. A trainer other than coalmine's writes what it knows: only `mechanism` is needed.
Fields that this version does not know are kept.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, fields
from pathlib import Path
from typing import Any

from ...foundation import InputError, read_json
from ...foundation.fields import Fields

OF_A_CLAIM = ("adjacency", "membership")  # what stands in claim.json and never in run.json


@dataclass(frozen=True)
class ModelRecord:
    """The architecture's name as `coalmine train --model` takes it, and the shape of what it was asked."""

    name: str
    input_shape: tuple[int, ...] | None = None
    classes: int | None = None

    def to_json(self) -> dict[str, Any]:
        shape = None if self.input_shape is None else list(self.input_shape)
        return {"name": self.name, "input_shape": shape, "classes": self.classes}


@dataclass(frozen=True)
class RunRecord:
    """mechanism       {"name", its parameters}: a claim's words, and `fixed_size` or `none` beside them
    divisor            the public constant, or the word "public" or "realised" from a trainer that is not ours
    divisor_is_public  whether the divisor depends on nobody's membership; None where the trainer did not say
    finished           None where the trainer did not say
    commitment         SHA-256 of the coins file that decided membership
    checkpoint_sha256, initial_sha256   of the files with the trained and the initial weights
    train_accuracy, initial_accuracy, majority_share   on the natural training rows: the trained model's, the untrained
                       model's, and that of naming the most frequent class
    seeded             whether the run's randomness came from a seed that was given: for reproduction, not for privacy
    others             what this version does not know
    """

    mechanism: Mapping[str, Any]
    clipping_norm: float | None = None
    divisor: float | str | None = None
    divisor_is_public: bool | None = None
    epochs_done: int | None = None
    finished: bool | None = None
    settings: Mapping[str, Any] | None = None
    model: ModelRecord | None = None
    data: str | None = None
    data_fingerprint: str | None = None
    canaries_sha256: str | None = None
    commitment: str | None = None
    checkpoint_sha256: str | None = None
    initial_sha256: str | None = None
    seeded: bool | None = None
    train_accuracy: float | None = None
    test_accuracy: float | None = None
    initial_accuracy: float | None = None
    majority_share: float | None = None
    versions: Mapping[str, Any] | None = None
    others: Mapping[str, Any] = field(default_factory=dict)

    def to_json(self) -> dict[str, Any]:
        """What is known; absent means unknown."""
        known = {f.name: getattr(self, f.name) for f in fields(self) if f.name not in ("model", "others")}
        record = {name: value for name, value in known.items() if value is not None}
        record |= {name: dict(value) for name, value in record.items() if isinstance(value, Mapping)}
        return record | ({} if self.model is None else {"model": self.model.to_json()}) | dict(self.others)

    @classmethod
    def from_json(cls, content: Any, source: str = "run record") -> RunRecord:
        """Errors: InputError that names the source, the field and the value."""
        if not isinstance(content, Mapping) or not isinstance(content.get("mechanism"), Mapping):
            raise InputError(f"{source} must be a JSON object with 'mechanism', an object")
        stray = [name for name in OF_A_CLAIM if name in content]
        if stray:
            raise InputError(f"{source} holds {' and '.join(stray)}: it is a claim, not a record of what was run")
        top = Fields(content, source, remedy="write what the trainer did, or leave the field out")
        divisor = content.get("divisor")
        return cls(
            mechanism=dict(content["mechanism"]),
            clipping_norm=top.number("clipping_norm", 0, optional=True),
            divisor=divisor if isinstance(divisor, str) else top.number("divisor", 0, optional=True),
            divisor_is_public=top.boolean("divisor_is_public"),
            epochs_done=top.optional_whole("epochs_done"),
            finished=_finished(top),
            settings=top.mapping("settings") or None,
            model=_model(top),
            data=top.optional_text("data"),
            data_fingerprint=top.optional_text("data_fingerprint"),
            canaries_sha256=top.sha256("canaries_sha256"),
            commitment=top.sha256("commitment"),
            checkpoint_sha256=top.sha256("checkpoint_sha256"),
            initial_sha256=top.sha256("initial_sha256"),
            seeded=top.boolean("seeded"),
            train_accuracy=top.number("train_accuracy", 0, 1, optional=True),
            test_accuracy=top.number("test_accuracy", 0, 1, optional=True),
            initial_accuracy=top.number("initial_accuracy", 0, 1, optional=True),
            majority_share=top.number("majority_share", 0, 1, optional=True),
            versions=top.mapping("versions") or None,
            others={name: value for name, value in content.items() if name not in _KNOWN},
        )


_KNOWN = {f.name for f in fields(RunRecord) if f.name != "others"}


def load_run(path: str | Path) -> RunRecord:
    """run.json, or the one in a run's folder. Errors: InputError."""
    path = Path(path) / "run.json" if Path(path).is_dir() else path
    return RunRecord.from_json(read_json(path, "run record"), f"run record {str(path)!r}")


def _finished(top: Fields) -> bool | None:
    """Absent: the trainer did not say. null or a word is no answer, and must not pass for yes."""
    if "finished" in top.content and not isinstance(top.content["finished"], bool):
        raise top.error("finished", "true or false", top.content["finished"])
    return top.boolean("finished")


def _model(top: Fields) -> ModelRecord | None:
    given = top.content.get("model")
    if given is None or isinstance(given, str):  # the name alone, from another trainer
        return None if given is None else ModelRecord(given)
    model = top.fields("model")
    assert model is not None
    shape = None if model.content.get("input_shape") is None else model.numbers("input_shape", 0)
    return ModelRecord(
        name=model.text("name"),
        input_shape=None if shape is None else tuple(int(size) for size in shape),
        classes=model.optional_whole("classes"),
    )
