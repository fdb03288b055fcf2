"""The blind baseline: can members be told from non-members without any model, by a classifier on the inputs alone?

If so, the data leak and not the model: members were collected or processed differently, and no attack's success on
them says anything about the model. Scores are out of fold: no example is scored by a classifier that saw it.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from ..foundation import InputError
from .arrays import as_float, as_mask
from .result import AttackScores, status_array

FOLDS = 5
INPUTS = 60


def blind_baseline(x: Any, y: Any, member: Any, seed: int = 0) -> AttackScores:
    """P(member | x, y) from 5-fold gradient-boosted trees. member (n,) bool.

    The classifier sees the label, the mean, spread, smallest and largest value, and 60 inputs spread evenly.
    """
    from sklearn.ensemble import HistGradientBoostingClassifier
    from sklearn.model_selection import StratifiedKFold, cross_val_predict
    from threadpoolctl import threadpool_limits

    features = as_float(x, "x")
    features = features.reshape(len(features), -1).astype(np.float32)
    spread = np.unique(np.linspace(0, features.shape[1] - 1, INPUTS).round().astype(int))
    labels = as_float(y, "y", 1)
    if len(labels) != len(features):
        raise InputError(f"x holds {len(features)} examples and y {len(labels)}: one label an example")
    flags = as_mask(member, "member", (len(features),))
    if min(flags.sum(), (~flags).sum()) < FOLDS:
        raise InputError(f"the blind baseline needs {FOLDS} members and non-members, got {flags.sum()} of {len(flags)}")
    folds = StratifiedKFold(FOLDS, shuffle=True, random_state=seed)
    classifier = HistGradientBoostingClassifier(max_iter=30, max_leaf_nodes=8, random_state=seed)
    summary = [f(features, axis=1) for f in (np.mean, np.std, np.min, np.max)]
    table = np.column_stack([labels, *summary, features[:, spread]])
    with threadpool_limits(1):  # tiny trees: threads cost more than they bring
        probabilities = np.asarray(cross_val_predict(classifier, table, flags, cv=folds, method="predict_proba"))
    scores = probabilities[:, 1].astype(np.float64)
    details = {"attack": "blind_baseline", "folds": FOLDS, "classifier": "gradient-boosted trees", "seed": seed}
    return AttackScores(scores, status_array(len(scores)), details)
