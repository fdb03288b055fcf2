"""A csv file as a table, where every row has the fields that the header names; anything else is refused by name.

pandas alone reads `a,a` as a and a.1, a header of two fields over rows of three as an index and two columns, and a row
that is too short as missing values: three ways to a wrong number without a word.
"""

from __future__ import annotations

import csv
import io
from pathlib import Path
from typing import TYPE_CHECKING

from .errors import InputError
from .files import read_bytes

if TYPE_CHECKING:
    import pandas as pd

FEW = 64  # columns; wider tables are features, whose missing values are refused where they are read
_SEPARATORS = {";": "semicolons", "\t": "tabs", "|": "bars"}


def read_csv(path: str | Path, what: str, *, skip_spaces: bool = False) -> pd.DataFrame:
    """The table in a UTF-8 file with commas and a header; `what` names its role in errors ("scores file").

    skip_spaces: spaces after commas belong to no value.

    Errors: InputError for other separators and encodings, a column twice, rows with more or fewer fields.
    """
    import pandas as pd

    named = f"{what} {str(path)!r}"
    content = read_bytes(path, what)
    try:
        text = content.decode("utf-8-sig")
    except UnicodeDecodeError as error:
        raise InputError(f"{named} is not UTF-8 (byte {error.start}): save it as csv in UTF-8") from None
    if "\0" in text:
        raise InputError(f"{named} holds NUL characters: it is no text, or text in UTF-16; save it as csv in UTF-8")
    try:
        rows = csv.reader(io.StringIO(text), skipinitialspace=skip_spaces)
        header = [name.strip() for name in next((row for row in rows if row), [])]
        _check_header(header, named)
        if len(header) <= FEW:
            for row in rows:
                if row and len(row) != len(header):
                    raise InputError(
                        f"{named}: line {rows.line_num} has {len(row)} fields, the header has {len(header)} "
                        f"({', '.join(header)}): write a value, or nan, for each"
                    )
        frame = pd.read_csv(io.StringIO(text), skipinitialspace=skip_spaces)
    except (csv.Error, pd.errors.ParserError, pd.errors.EmptyDataError) as error:
        raise InputError(f"{named} cannot be read as csv ({' '.join(str(error).split())}): save it again") from None
    if not isinstance(frame.index, pd.RangeIndex):
        raise InputError(f"{named}: the rows have more fields than the header ({len(header)}): name every column")
    frame.columns = [str(name).strip() for name in frame.columns]
    return frame


def _check_header(header: list[str], named: str) -> None:
    if not header:
        raise InputError(f"{named} is empty: a header and rows are needed")
    if len(header) == 1:
        for separator, name in _SEPARATORS.items():
            if separator in header[0]:
                raise InputError(f"{named} separates its columns by {name}: write commas (pandas: to_csv(sep=','))")
    twice = sorted({name for name in header if header.count(name) > 1}) if len(set(header)) < len(header) else []
    if twice:
        raise InputError(f"{named} has the column {twice[0]!r} twice: remove or rename one")
