"""One page of whatever is given: which kind of result a file holds is told by its content, never by its name."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from ..audit.attack.result import is_attack_result
from ..audit.compare.table import is_table, read_table
from ..audit.planning.utility_plan import is_plan
from ..audit.verdict.result import AuditResult
from ..foundation import InputError, read_json

MOST_IN_FULL = 12  # audits on one page with figures of their own; more are compared in one figure and one table


@dataclass(frozen=True)
class Written:
    """The page first, then what was written beside it; what a person is told; what --json tells of the results."""

    files: tuple[Path, ...]
    lines: tuple[str, ...] = ()
    told: Mapping[str, Any] = field(default_factory=dict)


@dataclass(frozen=True)
class Kind:
    """A kind of result. `alone`: a page shows one of them."""

    name: str
    holds: Callable[[Path, Any], bool]  # the file, and its content where it is JSON
    write: Callable[[Sequence[Path], Path, Path | None], Written]
    alone: bool = True


def write_page(files: Sequence[Path], output: Path, figures: Path | None = None) -> Written:
    """The page of audits, or of the one other result that is given. Errors: InputError, before anything is drawn."""
    contents = [(file, None if is_table(file) else read_json(file, "result")) for file in files]
    for kind in KINDS:
        mine = [file for file, content in contents if kind.holds(file, content)]
        if mine and (len(mine) < len(files) or (kind.alone and len(mine) > 1)):
            many = "one such file alone" if kind.alone else "such files alone"
            raise InputError(f"{str(mine[0])!r} is {kind.name}: a page shows {many}; give that, or audits")
        if mine:
            return kind.write(files, output, figures)
    return _audits(files, output, figures)


def _audits(files: Sequence[Path], output: Path, figures: Path | None) -> Written:
    from .page import write_report
    from .read import read_audits
    from .rounding import p_value
    from .summary import p_value_class
    from .words import verdict

    read = read_audits(list(files))
    if len(read) > MOST_IN_FULL:
        from .comparison import points_of_audits
        from .comparison_page import write_comparison_page

        return Written(tuple(write_comparison_page(points_of_audits(read), output, figures, f"{len(read)} audits")))
    lines = []
    for file, audit in zip(files, read, strict=True):
        p = "" if audit.p_value is None else f", p = {p_value(audit.p_value)} (class {p_value_class(audit)})"
        lines.append(f"{audit.label}: {verdict(audit).replace('_', ' ')}{p}")
        if not AuditResult.load(file).label:
            lines.append(f"  {str(file)!r} has no label: its place names it (coalmine audit --label NAME gives one)")
    told = {"audits": [{"label": a.label, "verdict": a.verdict, "p_value": a.p_value} for a in read]}
    return Written(tuple(write_report(read, output, figures)), tuple(lines), told)


def _attack(files: Sequence[Path], output: Path, figures: Path | None) -> Written:
    from .attack_page import read_attack, write_attack_report
    from .attack_words import told

    result = read_attack(files[0])
    auc = None if result.metrics is None else result.metrics.auc
    return Written(tuple(write_attack_report(result, output, figures)), (told(result).sentence,), {"auc": auc})


def _check(files: Sequence[Path], output: Path, figures: Path | None) -> Written:
    from .check_page import read_check, write_check_page

    result = read_check(files[0])
    line = f"{result.trainer}: {result.verdict}"
    return Written(tuple(write_check_page(result, output, figures)), (line,), {"verdict": result.verdict})


def _plan(files: Sequence[Path], output: Path, figures: Path | None) -> Written:
    from .plan_page import write_plan_report

    return Written(tuple(write_plan_report(files[0], output, figures)))


def _comparison(files: Sequence[Path], output: Path, figures: Path | None) -> Written:
    from .comparison import points_of_table
    from .comparison_page import write_comparison_page

    if output.with_suffix(".csv").resolve() in {file.resolve() for file in files}:
        raise InputError(f"--output {str(output)!r}: its csv would replace {str(files[0])!r}: name another page")
    points = points_of_table(row for file in files for row in read_table(file))
    return Written(tuple(write_comparison_page(points, output, figures, "Bound against empirical")))


def is_check(content: Any) -> bool:
    return isinstance(content, Mapping) and content.get("kind") == "check"


KINDS = (
    Kind("a comparison", lambda file, content: content is None, _comparison, alone=False),
    Kind("the result of an attack", lambda _, content: is_attack_result(content), _attack),
    Kind("a check.json", lambda _, content: is_check(content), _check),
    Kind("a plan.json", lambda _, content: is_plan(content), _plan),
)
