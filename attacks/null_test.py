"""The null self-test: the same attack on the same design, with phi that knows nothing of membership.

Within each example the values of all models, target included, change places at random. What links phi to membership is
gone, what links the design to itself stays: an attack whose AUC then differs from 1/2 reads the membership out of the
keep mask (an exactly balanced design with the target inside it does that), not out of the models.
"""

from __future__ import annotations

import numpy as np

from ..foundation import numpy_stream


def permuted_values(shadow_phi: np.ndarray, target_phi: np.ndarray, seed: int) -> tuple[np.ndarray, np.ndarray]:
    """shadow (S, n, views) and target (n, views) with the S + 1 values of each example in a new random order."""
    every = np.concatenate([shadow_phi, target_phi[None].astype(shadow_phi.dtype)])
    order = numpy_stream(seed, "null_test").random(every.shape[:2]).argsort(axis=0)
    mixed = np.take_along_axis(every, order[:, :, None], axis=0)
    return mixed[:-1], mixed[-1]
