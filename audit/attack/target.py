"""The user's trained model: the recipe it was trained by, where that is on record, and the rows it was trained on."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np

from ...foundation import InputError
from ..training.run_record import RunRecord, load_run


def recipe_of_run(
    target: Path | None, model: str | None, given: dict[str, Any]
) -> tuple[str | None, dict[str, Any], RunRecord | None]:
    """Model, settings and record of a `coalmine train` run where --target is its folder; options that are given win."""
    if target is None or not (target / "run.json").is_file():
        return model, given, None
    run = load_run(target)
    if run.settings is None or run.model is None:
        raise InputError(f"run record {str(target / 'run.json')!r} holds no model and settings: give them as options")
    settings = {k: v if v is not None else run.settings.get(k) for k, v in given.items()}
    return model or run.model.name, settings, run


def target_members_of(path: Path | None, data: str, training_rows: int, test_rows: int) -> Any:
    """Who the target was trained on: (training_rows,) bool; without a file, (training + test rows,), training rows."""
    if path is None:
        return np.arange(training_rows + test_rows) < training_rows
    from ...attacks.shadow_arrays import load_npy  # here: it imports scipy

    given = np.asarray(load_npy(path)).reshape(-1)
    flags = given.dtype == bool or (given.dtype.kind in "iu" and given.size > 2 and np.isin(given, (0, 1)).all())
    if flags and len(given) == training_rows:
        return given.astype(bool)
    numbers = not flags and given.dtype.kind in "iu" and given.size and given.min() >= 0
    if numbers and given.max() < training_rows:
        return np.isin(np.arange(training_rows), given)
    if test_rows and (len(given) == training_rows + test_rows or (numbers and given.max() < training_rows + test_rows)):
        raise InputError(
            f"--target-members {str(path)!r} counts {training_rows + test_rows} rows, but --data {data} has "
            f"{training_rows} training rows and {test_rows} of its rows are a test part (a source without one of its "
            "own holds out one row in five of each class), so that the row numbers are not yours: save your rows in "
            "your order with numpy.savez('rows.npz', x=x, y=y, x_test=x[:0], y_test=y[:0]), whose empty test part "
            "holds nothing out, and give --data rows.npz"
        )
    raise InputError(
        f"--target-members {str(path)!r} must hold true/false for each of the {training_rows} training rows of --data "
        f"{data}, or row numbers, got {given.dtype} {given.shape}"
    )
