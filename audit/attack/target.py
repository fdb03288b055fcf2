"""The user's trained model, whatever it comes as: a checkpoint, the folder of a run, a directory, or a function."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from torch import nn

from ...foundation import InputError, sha256_of_file
from ...foundation.named_code import refuse_untrusted_code
from ..feeding import Feeding
from ..training.checkpoint import open_model, sha256_of_checkpoint
from ..training.checkpoint_files import file_kind
from ..training.data import Data
from ..training.function_target import open_function
from ..training.run_record import RunRecord, load_run


@dataclass(frozen=True, eq=False)
class Target:
    """A model that can be asked with the rows of the data, in eval mode.

    name: the file or function. model: the architecture, as `build_model` takes it, for shadow models; None where the
    target does not say. run: the record of a `coalmine train` run. classes: names, in the order of the outputs.
    whole_numbers: rows are token ids and the like.
    """

    module: nn.Module
    name: str
    model: str | None = None
    sha256: str | None = None
    run: RunRecord | None = None
    feeding: Feeding = Feeding()  # noqa: RUF009 — frozen
    classes: tuple[str, ...] = ()
    whole_numbers: bool = False


def open_target(
    name: str, data: Data, feeding: Feeding, model: str | None = None, *, trust_code: bool = False
) -> Target:
    """name: a path, or package.module:function. data: with labels that count the outputs. Errors: InputError."""
    path = Path(name)
    shape = feeding.shape(data.input_shape)
    if not path.exists():
        if ":" not in name:
            raise InputError(
                f"--target {name!r} does not exist: check the path, or name a function as package.module:function"
            )
        opened = open_function(name, shape, data.classes, data.whole_numbers)
        return Target(
            feeding.wrap(opened, data.input_shape), name, feeding=feeding, classes=data.classes,
            whole_numbers=data.whole_numbers,
        )  # fmt: skip
    run = load_run(path) if (path / "run.json").is_file() else None
    if run is not None:
        named = None if run.model is None else run.model.name
        refuse_untrusted_code(named, model, trust_code, str(path / "run.json"))
        model = model or named
        check_run(run, path, None)
        if run.data_fingerprint is not None and run.data_fingerprint != data.fingerprint:
            raise InputError(
                f"the run in {name!r} was trained on other data ({run.data_fingerprint[:12]}…) than --data {data.name} "
                f"({data.fingerprint[:12]}…): give the data it was trained on"
            )
        path = path / "checkpoint.safetensors"
    opened = open_model(path, model, shape, data.classes, trust_code=trust_code)
    if (path / "config.json").is_file():
        model = f"huggingface:{path}"
    elif file_kind(path) in ("torchscript", "torch_export"):
        model = None  # a program brings its own, which shadow models cannot be built of
    module = feeding.wrap(opened, data.input_shape)
    return Target(module, name, model, sha256_of_checkpoint(path), run, feeding, data.classes, data.whole_numbers)


def settings_of_run(run: RunRecord | None, given: Mapping[str, Any]) -> dict[str, Any]:
    """Options of the recipe, with what the run was trained by in place of those that are left out."""
    if run is None or run.settings is None:
        return dict(given)
    return {name: value if value is not None else run.settings.get(name) for name, value in given.items()}


def check_run(run: RunRecord, folder: Path, canaries_sha256: str | None) -> None:
    """Errors: InputError for a run that is not finished or was trained with other canaries; None: no set is asked."""
    if not run.finished:
        raise InputError(
            f"the run in {str(folder)!r} is not finished: the same `coalmine train` command goes on with it"
        )
    trained = run.canaries_sha256
    if canaries_sha256 is not None and trained not in (None, canaries_sha256):
        raise InputError(
            f"the run in {str(folder)!r} was trained with other canaries ({str(trained)[:12]}…) than --canaries "
            f"({canaries_sha256[:12]}…): give the set that it was trained with"
        )
    if run.checkpoint_sha256 is not None and (folder / "checkpoint.safetensors").is_file():
        found = sha256_of_file(folder / "checkpoint.safetensors")
        if found != run.checkpoint_sha256:
            raise InputError(
                f"the checkpoint in {str(folder)!r} has SHA-256 {found}, the run made {run.checkpoint_sha256}: it is "
                "of another run, or was changed"
            )
