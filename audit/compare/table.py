"""The tidy table: one row for each number, as csv or parquet, the same bytes for the same numbers."""

from __future__ import annotations

import io
import math
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any

from ...foundation import InputError, write_bytes, write_text
from ...foundation.csv_table import read_csv

TEXT = ("model", "canary_method", "sampler", "access", "score", "together", "quantity", "class")
WHOLE = ("steps_per_epoch", "epochs", "canaries", "runs", "run", "correct", "n")
COLUMNS = (
    *("model", "canary_method", "sampler", "steps_per_epoch", "epochs", "noise_multiplier", "clipping_norm"),
    *("access", "score", "together", "run", "runs", "canaries", "quantity", "value", "lower", "upper", "class"),
    *("confidence", "delta", "correct", "n", "bound_closed_form", "bound_lower", "bound_upper", "share"),
    "test_accuracy",
)
NEEDED = ("sampler", "steps_per_epoch", "epochs", "noise_multiplier", "access", "together", "quantity", "value")


def write_table(rows: Iterable[Mapping[str, Any]], path: Path) -> None:
    """Written whole or not at all; numbers to 10 significant digits in csv, missing ones empty."""
    rows = list(rows)
    if path.suffix == ".parquet":
        import pandas as pd

        content = io.BytesIO()
        frame = pd.DataFrame([{name: row.get(name) for name in COLUMNS} for row in rows], columns=list(COLUMNS))
        for name in WHOLE:
            frame[name] = frame[name].astype("Int64")
        frame.to_parquet(content, index=False)
        write_bytes(path, content.getvalue())
        return
    lines = [",".join(COLUMNS), *(",".join(_cell(row.get(name)) for name in COLUMNS) for row in rows)]
    write_text(path, "\n".join(lines) + "\n")


def read_table(path: Path) -> list[dict[str, Any]]:
    """Errors: InputError that names the file and the column."""
    what = f"comparison {str(path)!r}"
    if path.suffix == ".parquet":
        import pandas as pd

        try:
            frame = pd.read_parquet(path)
        except Exception as error:  # a damaged file may fail anywhere inside the reader
            raise InputError(f"{what} cannot be read: {(str(error).splitlines() or ['damaged'])[0]}") from None
    else:
        frame = read_csv(path, "comparison")
    if missing := [name for name in NEEDED if name not in frame.columns]:
        raise InputError(f"{what} has no column {missing[0]!r}: give a table that coalmine compare wrote")
    rows = [{name: _value(name, row.get(name), what) for name in COLUMNS} for row in frame.to_dict(orient="records")]
    if not rows:
        raise InputError(f"{what} has no rows")
    return rows


def is_table(path: Path) -> bool:
    """Whether a file is a comparison, by its ending and its first line."""
    if path.suffix == ".parquet":
        return path.is_file()
    if path.suffix != ".csv" or not path.is_file():
        return False
    with open(path, encoding="utf-8", errors="replace") as file:
        return set(NEEDED) <= set(file.readline().strip().split(","))


def _cell(value: Any) -> str:
    if value is None or (isinstance(value, float) and math.isnan(value)):
        return ""
    if isinstance(value, float):
        return f"{value:.10g}"
    text = str(value)
    return '"' + text.replace('"', '""') + '"' if any(c in text for c in ',"\n\r') else text


def _value(name: str, value: Any, what: str) -> Any:
    if value is None or value != value or value == "":
        return None
    if name in TEXT:
        return str(value)
    try:
        number = float(value)
        return int(number) if name in WHOLE else number
    except (TypeError, ValueError, OverflowError):
        raise InputError(f"{what}: {name} {str(value)!r} is not a number") from None
