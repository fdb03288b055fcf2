"""The tables of `coalmine bound`: readable on any terminal, every end rounded to its safe side."""

from __future__ import annotations

from typing import Any

from .options import print_table
from .sweep import down, up


def show(results: list[dict[str, Any]], names: list[str]) -> None:
    """names: the swept options, one row each setting; none: one setting in full."""
    from rich.console import Console

    console = Console()
    if names:
        _show_sweep(console, results, names)
    else:
        _show_one(console, results[0])


def _show_sweep(console: Any, results: list[dict[str, Any]], names: list[str]) -> None:
    from rich.table import Table

    table = Table(title="No attack does better (add/remove adjacency)")
    columns = ("accuracy: closed form", "exact, lower", "exact, upper", "epsilon ≤")
    for column in (*(name.replace("_", " ") for name in names), *columns):
        table.add_column(column, justify="right")
    for r in results:
        accuracy = r["accuracy"]
        cells = [down(accuracy["lower"], 7), up(accuracy["upper"], 7), up(r["epsilon"]["upper"], 5)]
        table.add_row(*(f"{r['mechanism'][name]:g}" for name in names), up(accuracy["closed_form"], 6), *cells)
    print_table(table)
    _remarks(console, results)


def _show_one(console: Any, r: dict[str, Any]) -> None:
    from rich.table import Table

    table = Table(title=_title(r["mechanism"]))
    for column in ("no attack exceeds", "closed form", "exact, lower end", "exact, upper end"):
        table.add_column(column, justify="right")
    accuracy, epsilon = r["accuracy"], r["epsilon"]
    table.add_row("accuracy", up(accuracy["closed_form"], 7), down(accuracy["lower"], 9), up(accuracy["upper"], 9))
    table.add_row("advantage", "–", down(r["advantage"]["lower"], 8), up(r["advantage"]["upper"], 8))
    table.add_row(f"epsilon at delta {epsilon['delta']:g}", "–", down(epsilon["lower"], 6), up(epsilon["upper"], 6))
    for rate in r["true_positive_rate"]:
        formula = "–" if rate["closed_form"] is None else up(rate["closed_form"], 6)
        table.add_row(
            f"TPR at FPR {rate['false_positive_rate']:g}", formula, down(rate["lower"], 6), up(rate["upper"], 6)
        )
    print_table(table)
    _remarks(console, [r])
    if r.get("neighbours"):
        _show_neighbours(console, r["neighbours"])
    if "for_comparison" in r:
        other = r["for_comparison"]
        console.print(
            f"For comparison: one-line bound {other['one_line_bound']:.7f}; the attack on the sum reaches "
            f"{other['sum_statistic_lower_bound']:.7f}; Gaussian limit {other['gaussian_limit_not_a_bound']:.7f} "
            "(not a bound)."
        )
    adjacency = "Replace-one" if r["adjacency"] == "replace_one" else "Add/remove"
    words = f": {r['certainty']}" if "certainty" in r else ""
    console.print(
        f"{adjacency} adjacency{words}. The exact value lies between its two ends, whatever the attack.", style="dim"
    )


def _show_neighbours(console: Any, found: list[dict[str, Any]]) -> None:
    from rich.table import Table

    table = Table(title="Other neighbours")
    delta = found[0]["epsilon"]["delta"]
    for column in ("records that differ", "accuracy, lower", "upper", f"ε at δ {delta:g}, lower", "upper"):
        table.add_column(column, justify="right")
    for r in found:
        words = f"{r['records']} replaced" if r["adjacency"] == "replace_one" else f"{r['records']} added or removed"
        accuracy, epsilon = r["accuracy"], r["epsilon"]
        table.add_row(
            words,
            down(accuracy["lower"], 6),
            up(accuracy["upper"], 6),
            down(epsilon["lower"], 5),
            up(epsilon["upper"], 5),
        )
    print_table(table)
    for words in dict.fromkeys(r["certainty"] for r in found):
        console.print(f"{words[0].upper()}{words[1:]}.", style="dim")


def _title(record: dict[str, Any]) -> str:
    if "phases" in record:
        return "; then ".join(_title(phase) for phase in record["phases"])
    return f"{record['name']}: " + ", ".join(f"{key} {value}" for key, value in record.items() if key != "name")


def _remarks(console: Any, results: list[dict[str, Any]]) -> None:
    """Which intervals are wider than was asked for, and why: each once."""
    said = dict.fromkeys(
        f"{what}: {part['remark']}"
        for r in results
        for what, parts in (
            ("accuracy", [r["accuracy"]]),
            (f"epsilon at delta {r['epsilon']['delta']:g}", [r["epsilon"]]),
            ("TPR at FPR", r["true_positive_rate"]),
        )
        for part in parts
        if "remark" in part
    )
    for line in said:
        console.print(f"Width not met. {line}.", style="yellow")
