"""What every part stands on: how a user's mistake is told, how files are written, how randomness is drawn."""

from .errors import InputError
from .files import (
    check_output_file,
    check_output_folder,
    json_bytes,
    parse_json,
    read_bytes,
    read_json,
    remove_leftovers,
    sha256_of_bytes,
    sha256_of_file,
    write_bytes,
    write_json,
    write_text,
)
from .lock import in_use
from .streams import fresh_seed, numpy_stream, torch_stream

__all__ = [
    "InputError",
    "check_output_file",
    "check_output_folder",
    "fresh_seed",
    "in_use",
    "json_bytes",
    "numpy_stream",
    "parse_json",
    "read_bytes",
    "read_json",
    "remove_leftovers",
    "sha256_of_bytes",
    "sha256_of_file",
    "torch_stream",
    "write_bytes",
    "write_json",
    "write_text",
]
