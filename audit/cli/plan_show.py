"""How the calculator's answers are shown, drawn and written as claims: numbers rounded to the side that holds."""

from __future__ import annotations

import math
from collections.abc import Sequence
from io import BytesIO
from pathlib import Path
from typing import TYPE_CHECKING, Any

from ...foundation import InputError, write_bytes
from .options import print_table
from .sweep import down, up

if TYPE_CHECKING:
    from ..planning.calculator import Answer, Question
    from ..planning.nearest import Nearest

Result = Any  # an Answer, or the record of an infeasible question
NAMES = {
    "closed_form": "closed form of Proactive DP",
    "poisson": "Poisson sampling, certified",
    "random_allocation": "random allocation, certified",
}


def check_mechanism(name: str) -> None:
    if name not in NAMES:
        raise InputError(f"--mechanism must be one of {', '.join(NAMES)}, got {name!r}")


def claim_of(answer: Answer, name: str) -> dict[str, Any]:
    """claim.json. Under replace_one a bare (epsilon, delta), since mechanisms claim for add_remove."""
    from ..bounds import EpsilonDelta
    from ..verdict.claim import Claim

    if answer.question.adjacency == "replace_one":
        return Claim(EpsilonDelta(answer.plan.epsilon, answer.plan.delta), adjacency="replace_one").to_json()
    return Claim(answer.noise(name).mechanism).to_json()


def infeasible_record(question: Question, error: Exception, nearest: Sequence[Nearest]) -> dict[str, Any]:
    return {
        "feasible": False,
        "records": question.records,
        "epochs": question.epochs,
        "epsilon": question.epsilon,
        "sample_size": question.sample_size,
        "reason": str(error),
        "nearest_feasible": [one.to_json() for one in nearest],
    }


def show_infeasible(record: dict[str, Any]) -> None:
    print("infeasible")
    print(f"The closed form promises nothing here: {record['reason']}.")
    for one in record["nearest_feasible"]:
        value = one["nearest_feasible"]
        found = "no value of it alone would do" if value is None else f"nearest feasible value {value:g}"
        print(f"  {one['parameter'].replace('_', ' ')} {one['asked']:g}: {found}")


def show(results: Sequence[Result], name: str | None) -> None:
    from rich.console import Console

    console = Console()
    print_table(_overview(results))
    if name is None:
        _details(console, results[0])
    console.print(
        "Closed form and Poisson: each record in each round with probability sample size / records, every round at the "
        "largest sample. Noise multiplier: standard deviation on the sum of clipped gradients over the clipping norm.",
        style="dim",
    )


def _overview(results: Sequence[Result]) -> Any:
    from rich.table import Table

    table = Table(title="Proactive DP: runs in whole rounds, next to certified accounting")
    for column in ("epochs", "epsilon", "rounds", "sample size", "noise: closed form", "Poisson", "random allocation"):
        table.add_column(column, justify="right")
    for r in results:
        if isinstance(r, dict):
            epsilon = "–" if r["epsilon"] is None else f"{r['epsilon']:g}"
            table.add_row(f"{r['epochs']:g}", epsilon, "infeasible", *["–"] * 4)
            continue
        noises = [up(r.noise(n).noise_multiplier, 5) for n in NAMES]
        table.add_row(
            f"{r.question.epochs:g}", up(r.plan.epsilon, 5), str(r.rounds), str(r.sample_size), *noises
        )  # fmt: skip
    return table


def _details(console: Any, answer: Answer) -> None:
    from rich.table import Table

    record, delta = answer.to_json(), answer.plan.delta
    table = Table(title=f"What is needed for epsilon {up(answer.plan.epsilon, 5)} at delta {delta:.3g}")
    for column in ("accounting", "run", "noise multiplier", "certified epsilon", "closed form's noise over it"):
        table.add_column(column)
    for noise in answer.noises:
        told = noise.mechanism.record()
        run = (
            f"{told['steps']} rounds at rate {told['sampling_rate']:.6g}"
            if "steps" in told
            else f"{told['epochs']} x {told['steps_per_epoch']} rounds"
        )
        ratio = record["price_of_the_closed_form"].get(noise.name)
        table.add_row(
            NAMES[noise.name],
            run,
            up(noise.noise_multiplier, 5),
            up(record["noise"][noise.name]["epsilon"]["upper"], 4),
            "" if ratio is None else f"{ratio:.2f} times",
        )
    print_table(table)
    conditions = Table(title="Conditions of the closed form, for exactly this run")
    for column in ("condition", "left", "", "right", "holds"):
        conditions.add_column(column)
    for c in record["conditions"]:
        right = "∞" if c["right"] is None else f"{c['right']:.6g}"
        conditions.add_row(c["name"], f"{c['left']:.6g}", c["relation"], right, "yes" if c["holds"] else "no")
    print_table(conditions)
    console.print(
        f"Closed form's noise on the sum: standard deviation {up(record['noise_standard_deviation'], 6)} = "
        f"{up(record['noise_over_sensitivity'], 6)} x sensitivity {record['sensitivity']:g} ({record['adjacency']})."
    )
    shrink = record["rounds_may_shrink"]
    if shrink is not None:
        told = (
            "it never breaks: every pass in one round still keeps it"
            if shrink["holds_at"] <= math.ceil(answer.plan.epochs * answer.question.theta)
            else "below, nothing certifies it"
            if shrink["breaks_at"] is None
            else f"at {shrink['breaks_at']} it is certified to be broken"
        )
        console.print(
            f"With the closed form's noise the {answer.rounds} rounds may shrink {down(shrink['factor'], 3)} times, to "
            f"{shrink['holds_at']}, before the guarantee breaks ({told}); counted from the abstract's 2k²/epsilon, "
            f"{down(shrink['factor_from_2k2_over_epsilon'], 3)} times."
        )


def draw_sweep(path: Path, name: str, values: Sequence[float], results: Sequence[Result]) -> None:
    """Two panels: what was solved for, and every noise, so that neither moves unseen. Infeasible points are gaps."""
    from matplotlib.figure import Figure

    def series(read: Any) -> list[float]:
        return [math.nan if isinstance(r, dict) else read(r) for r in results]

    budget_given = all(r["epsilon"] is not None if isinstance(r, dict) else r.question.epsilon for r in results)
    figure = Figure(figsize=(6.4, 6.4), layout="constrained")
    top, bottom = figure.subplots(2, sharex=True)
    if budget_given:
        top.plot(values, series(lambda r: r.rounds), marker=".")
        top.set_ylabel("rounds")
    else:
        top.plot(values, series(lambda r: r.plan.epsilon), marker=".", label="closed form")
        certified = series(lambda r: float(r.noise("closed_form").epsilon.upper))
        top.plot(values, certified, "--", marker=".", label="certified for the same run")
        top.set_ylabel("epsilon")
        top.legend(frameon=False)
    for style, (key, words) in zip(("-", "--", ":"), NAMES.items(), strict=True):
        bottom.plot(values, series(lambda r, key=key: r.noise(key).noise_multiplier), style, marker=".", label=words)
    bottom.set_ylabel("noise multiplier")
    bottom.set_xlabel(name.replace("_", " "))
    bottom.legend(frameon=False)
    for axes in (top, bottom):
        axes.grid(alpha=0.3)
    content = BytesIO()
    ending = path.suffix[1:].lower()
    signed = {"Software": "coalmine"} if ending == "png" else {"Creator": "coalmine"}
    figure.savefig(content, format=ending, dpi=160, metadata=signed)
    write_bytes(path, content.getvalue())
