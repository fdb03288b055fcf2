"""The page of an attack on a finished model: what it finds, in words to be repeated, and everything behind them.

One HTML file that loads nothing, prints, and follows light or dark; pictures of rows stand in it as data.
"""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from ..audit.attack.output import curves_csv
from ..audit.attack.result import AttackResult
from ..foundation import check_output_file, check_output_folder, read_json, write_bytes, write_text
from . import attack_words, drawing, rounding, words
from .figure_attack_roc import describe_attack_roc, draw_attack_roc
from .page import Drawing
from .templating import render_template

MOST_LISTED = 20


def read_attack(source: str | Path | Mapping[str, Any] | AttackResult) -> AttackResult:
    """From attack.json or lira.json, from its content, or as it is. Errors: InputError."""
    if isinstance(source, AttackResult):
        return source
    if isinstance(source, Mapping):
        return AttackResult.from_json(source)
    return AttackResult.from_json(read_json(source, "attack result"), str(source))


def write_attack_report(
    source: str | Path | Mapping[str, Any] | AttackResult, output: str | Path, figures: str | Path | None = None
) -> list[Path]:
    """Write the page; return the files written, the page first. figures: a folder for svg, pdf, png and roc.csv."""
    result = read_attack(source)
    output, folder = Path(output), None if figures is None else Path(figures)
    check_output_file(output)
    if folder is not None:
        check_output_folder(folder, "figures")
    write_text(output, render_attack(result))
    files = [output]
    for figure in drawings(result) if folder is not None else ():
        drawn = figure.draw()
        for format in drawing.FORMATS:
            files.append(Path(folder or "") / f"{figure.name}.{format}")
            write_bytes(files[-1], drawing.as_bytes(drawn, format))
    if folder is not None and result.metrics is not None:
        files.append(folder / "roc.csv")
        write_text(files[-1], curves_csv(result))
    return files


def drawings(result: AttackResult) -> list[Drawing]:
    if result.metrics is None or all(one.curve is None for one in result.attacks):
        return []
    return [
        Drawing(
            "roc",
            "How many training rows are found, at how many false alarms",
            describe_attack_roc(result),
            draw=lambda: draw_attack_roc(result),
            draw_narrow=lambda: draw_attack_roc(result, 380, 420),
        )
    ]


def render_attack(result: AttackResult) -> str:
    """The HTML of the page, the same to the byte for the same result."""
    filters = {
        "number": rounding.number,
        "interval": rounding.interval,
        "percent": rounding.percent,
        "code": words.code,
        "count": lambda value: f"{round(value):,}",
    }
    return render_template(
        "attack.html",
        filters,
        result=result,
        told=attack_words.told(result),
        name=attack_words.attack_name,
        drawings=drawings(result),
        facts=words.facts,
        at_risk=result.at_risk[:MOST_LISTED],
        pictures=any(one.picture for one in result.at_risk),
        named=any(one.name for one in result.at_risk),
        groups=grouped(result),
        exposures=[e for e in result.exposures if result.metrics and attack_words.above_chance(e, result.metrics)],
        meaning=attack_words.meaning_of_order(result),
        stability=attack_words.stability_words(result),
        card=attack_words.model_card(result),
        title=heading(result),
        origin=shown_origin(result),
    )


def heading(result: AttackResult) -> str:
    target = result.origin.get("target") or result.origin.get("scores")
    return "a trained model" if not isinstance(target, str) else target


def grouped(result: AttackResult) -> list[tuple[str, list[Any]]]:
    """Groups by column, the largest AUC first."""
    columns = dict.fromkeys(one.column for one in result.groups)
    return [
        (
            column,
            sorted(
                (one for one in result.groups if one.column == column),
                key=lambda one: -1.0 if one.auc is None else one.auc,
                reverse=True,
            ),
        )
        for column in columns
    ]


def shown_origin(result: AttackResult) -> dict[str, Any]:
    """The facts that people look for, hashes shortened."""
    facts = {k: v for k, v in result.origin.items() if v is not None}
    for key in ("data_fingerprint", "target_sha256"):
        if isinstance(facts.get(key), str):
            facts[key] = f"{facts[key][:16]}…"
    return facts
