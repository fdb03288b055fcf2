"""One name for each mechanism, in Python, on the command line and in files; older spellings are read, never written."""

from __future__ import annotations

RANDOM_ALLOCATION = "random_allocation"
FIXED_BINS = "fixed_bins"
POISSON = "poisson"
FULL_BATCH = "full_batch"
EPSILON_DELTA = "epsilon_delta"
FIXED_SIZE = "fixed_size"  # shuffled batches: trained with, but nothing is known that bounds them from above
NO_NOISE = "none"

MECHANISM_NAMES = (RANDOM_ALLOCATION, FIXED_BINS, POISSON, FULL_BATCH)  # those that theory bounds

_SPELLINGS = {
    "poisson_sampling": POISSON,
    "gaussian": FULL_BATCH,
    "balls_and_bins": FIXED_BINS,
    "balls_in_bins": FIXED_BINS,
}


def canonical_name(name: str) -> str:
    """The name that is meant: "Poisson-sampling" is "poisson". An unknown one comes back as it is."""
    plain = name.strip().lower().replace("-", "_").replace(" ", "_")
    found = _SPELLINGS.get(plain, plain)
    known = (*MECHANISM_NAMES, EPSILON_DELTA, FIXED_SIZE, NO_NOISE)
    return found if found in known else name
