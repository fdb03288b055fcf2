"""Noise that the exact value saves over the closed form, against target accuracy; the closed form against its elder.

    python reports/experiments/bounds_noise_saved.py [folder]

Every point is a calibration certified from both sides: to 1e-5 of the noise for the nine published cells, to 5e-4 for
the lines. Writes noise_saved.csv, noise_saved.svg, earlier_formula.csv.
"""

from __future__ import annotations

import csv
import io
import sys
from pathlib import Path

from matplotlib.figure import Figure

from coalmine.audit.bounds import RandomAllocation, closed_form
from coalmine.foundation import write_bytes, write_text

NINE = [(m, e) for m in (100, 250, 500) for e in (10, 20, 40)]
CELLS = [(12, 1), (12, 200), (100, 1), (100, 10), (100, 40), (500, 1), (500, 10)]
TARGETS = [0.505, 0.51, 0.525, 0.55, 0.6, 0.7, 0.8]


def saved(cell: tuple[int, int], accuracy: float, tolerance: float) -> tuple[float, float, float, bool]:
    found = RandomAllocation.calibrate(*cell, accuracy=accuracy, tolerance=tolerance)
    formula = found.closed_form_noise_multiplier or float("nan")
    return found.noise_multiplier, formula, 100 * (1 - found.noise_multiplier / formula), found.two_sided


def main(folder: Path) -> None:
    rows = [("steps_per_epoch", "epochs", "accuracy", "noise_multiplier", "closed_form", "saved_percent", "two_sided")]
    print("accuracy 0.55, nine published cells:")
    for cell in NINE:
        value = saved(cell, 0.55, 1e-5)
        rows.append((*map(str, cell), "0.55", *map(str, value)))  # type: ignore[arg-type]
        print(f"  M={cell[0]}, E={cell[1]}: exact {value[0]:.6f}, closed form {value[1]:.6f}, saved {value[2]:.2f} %")
    figure = Figure(figsize=(6.6, 4.4), layout="constrained")
    axes = figure.subplots()
    for i, cell in enumerate(CELLS):
        line = []
        for accuracy in TARGETS:
            value = saved(cell, accuracy, 5e-4)
            line.append(value[2])
            rows.append((*map(str, cell), str(accuracy), *map(str, value)))  # type: ignore[arg-type]
        axes.plot(TARGETS, line, ["-", "--"][i % 2], marker=".", label=f"M = {cell[0]}, E = {cell[1]}")
        print(f"  M={cell[0]}, E={cell[1]}: " + ", ".join(f"{a}: {s:.2f}" for a, s in zip(TARGETS, line, strict=True)))
    axes.axhline(20.21, color="grey", linewidth=0.8)
    axes.text(TARGETS[-1], 20.4, "1 − √(2/π)", ha="right", fontsize=8, color="grey")
    axes.set_xlabel("target attack accuracy")
    axes.set_ylabel("noise saved by the exact value, %")
    axes.legend(frameon=False, fontsize=8, ncols=2)
    axes.grid(alpha=0.3)
    content = io.BytesIO()
    figure.savefig(content, format="svg")
    write_bytes(folder / "noise_saved.svg", content.getvalue())
    write_text(folder / "noise_saved.csv", _csv(rows))
    earlier = [("steps_per_epoch", "accuracy", "earlier", "closed_form", "ratio")]
    for m in (4096, 16384, 65536):
        for accuracy in (0.505, 0.525, 0.55):
            old = closed_form.berry_esseen_noise_multiplier(m, 1, accuracy)
            new = closed_form.noise_multiplier_for_accuracy(m, 1, accuracy)
            earlier.append((str(m), str(accuracy), f"{old:.4f}", f"{new:.4f}", f"{old / new:.3f}"))
            print(
                f"  earlier closed form, M={m}, accuracy {accuracy}: {old:.4f} against {new:.4f}, {old / new:.2f} times"
            )
    write_text(folder / "earlier_formula.csv", _csv(earlier))


def _csv(rows: list) -> str:
    text = io.StringIO()
    csv.writer(text, lineterminator="\n").writerows(rows)
    return text.getvalue()


if __name__ == "__main__":
    main(Path(sys.argv[1] if len(sys.argv) > 1 else "runs/bounds_noise_saved"))
