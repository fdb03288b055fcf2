"""A trained model in memory, attacked in one call: the same flow as `coalmine attack`, for Python and notebooks."""

from __future__ import annotations

import html
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
from torch import nn

from ...foundation import InputError
from ..feeding import Feeding
from ..training.estimator import as_module
from ..training.function_target import Answers
from .attack import Question, attack
from .candidates import Candidates
from .conclude import Conclusion
from .output import summary
from .result import AttackResult
from .target import Target

if TYPE_CHECKING:
    import pandas as pd


@dataclass(frozen=True, eq=False)
class ModelAttack:
    """What was found. result: all of it, as attack.json holds it; scores (n,) of the chosen attack."""

    result: AttackResult
    conclusion: Conclusion

    @property
    def scores(self) -> np.ndarray:
        return self.conclusion.scores[self.result.attack][0].scores

    def table(self) -> pd.DataFrame:
        """Every attack with its metrics, one a row."""
        import pandas as pd

        rows = []
        for one in self.result.attacks:
            m = one.metrics
            assert m is not None
            rates = {f"TPR at {p.false_positive_rate:g} FPR": p.true_positive_rate for p in m.tpr_at_fpr}
            low, high = m.auc_interval
            rows.append({"attack": one.name, "AUC": m.auc, "AUC low": low, "AUC high": high, **rates})
        return pd.DataFrame(rows).set_index("attack")

    def at_risk(self, top: int = 20) -> pd.DataFrame:
        """The members with the highest scores: row, name, label, score, the false-positive rate there, status."""
        import pandas as pd

        table = self.conclusion.table
        assert table is not None
        rows = [int(row) for row in table.order if table.member[row]][:top]
        return pd.DataFrame(
            {
                "row": rows,
                "name": [table.names[row] if table.names else "" for row in rows],
                "label": [table.labels[row] for row in rows],
                "score": table.score[rows],
                "false_positive_rate": table.false_positive_rate[rows],
                "status": table.status[rows],
            }
        )

    def report(self, path: str | Path) -> Path:
        """Write the page. The page stands above the audit: it is loaded here alone, when somebody asks for it."""
        from ...reports.attack_page import write_attack_report

        return write_attack_report(self.result, path)[0]

    def __str__(self) -> str:
        return summary(self.result)

    def _repr_html_(self) -> str:
        """A notebook's rich display: the sentence, the attacks, warnings."""
        from ...reports.attack_words import sentence

        warnings = "".join(f"<li>{html.escape(line)}</li>" for line in self.result.warnings)
        return (
            f"<p><strong>{html.escape(sentence(self.result))}</strong></p>{self.table().to_html(float_format='%.3f')}"
            + (f"<ul>{warnings}</ul>" if warnings else "")
        )


def attack_model(
    model: Any,
    x: Any,
    y: Any,
    members: Any,
    *,
    classes: Sequence[str] | None = None,
    feeding: Feeding | None = None,
    question: Question | None = None,
) -> ModelAttack:
    """Attack a model that is in memory, without training anything.

    model    a torch module, a fitted scikit-learn classifier, or a function rows -> logits or probabilities
    x, y     (n, …) rows and (n,) labels: whole numbers 0 …, or names that `classes` lists in the order of the outputs
    members  (n,) true for the rows that the model was trained on, or their numbers
    feeding  the normalisation or transform that the model was trained with, if x comes without it
    Errors: InputError, for a model that is not fed what it was trained on too.
    """
    rows_x, labels = np.asarray(x), np.asarray(y)
    if rows_x.ndim < 2 or labels.shape != rows_x.shape[:1]:
        raise InputError(f"x must be (n, …) and y (n,), got {rows_x.shape} and {labels.shape}")
    flags = np.asarray(members)
    if flags.dtype != bool:
        if flags.dtype.kind not in "iu":
            raise InputError(f"members must be true or false for each row, or row numbers, got {flags.dtype}")
        ones = flags.shape == labels.shape and np.isin(flags, (0, 1)).all()
        flags = flags.astype(bool) if ones else np.isin(np.arange(len(labels)), flags)
    names, numbers = _classes(labels, classes, model)
    whole = rows_x.dtype.kind in "iu"
    rows_x = rows_x if whole else rows_x.astype(np.float32, copy=False)
    unit = (0.0, 1.0) if rows_x.ndim == 4 and rows_x.min() >= 0 and rows_x.max() <= 1 else None
    none = rows_x[:0], numbers[:0]
    rows = Candidates(
        rows_x, numbers, flags, names, "arrays in memory", "", *none, whole_numbers=whole, value_range=unit
    )
    feeding = feeding or Feeding()
    module = feeding.wrap(_module(model, names, whole), rows.input_shape)
    target = Target(module, f"a {type(model).__name__} in memory", feeding=feeding, classes=names, whole_numbers=whole)
    conclusion = attack(target, rows, question or Question())
    return ModelAttack(conclusion.result, conclusion)


def _classes(labels: np.ndarray, classes: Sequence[str] | None, model: Any) -> tuple[tuple[str, ...], np.ndarray]:
    """Names of the classes in the order of the outputs, and the labels as numbers (n,) int64."""
    if classes is None and hasattr(model, "classes_"):
        classes = [str(name) for name in np.asarray(model.classes_).tolist()]
    if labels.dtype.kind in "iub" and (classes is None or not set(map(str, labels.tolist())) <= set(classes)):
        numbers = labels.astype(np.int64)
        if numbers.min() < 0:
            raise InputError(f"y holds {int(numbers.min())}: labels count from 0")
        count = int(numbers.max()) + 1 if classes is None else len(classes)
        if numbers.max() >= count:
            raise InputError(f"y holds {int(numbers.max())}, classes names {count} only")
        return tuple(classes or map(str, range(max(count, 2)))), numbers
    if classes is None:
        raise InputError("y holds names: give classes=[…], their names in the order of the model's outputs")
    given = [str(label) for label in labels.tolist()]
    missing = sorted(set(given) - set(classes))
    if missing:
        raise InputError(f"y holds {', '.join(missing[:5])}, which classes does not name")
    place = {name: number for number, name in enumerate(classes)}
    return tuple(classes), np.array([place[label] for label in given], dtype=np.int64)


def _module(model: Any, classes: tuple[str, ...], whole: bool) -> nn.Module:
    if isinstance(model, nn.Module):
        return model
    if hasattr(model, "classes_"):
        return as_module(model, classes)
    if callable(model):
        return Answers(model, getattr(model, "__name__", type(model).__name__), len(classes), whole)
    raise InputError(
        f"model is a {type(model).__name__}: give a torch module, a fitted classifier or a function of rows"
    )
