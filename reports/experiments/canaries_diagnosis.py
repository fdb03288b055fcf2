"""Does the order of sets by `diagnose` agree with their TPR? Over the sets that canaries_bars.py has made.

    python reports/experiments/canaries_bars.py --folder runs/canaries_bars
    python reports/experiments/canaries_diagnosis.py --folder runs/canaries_bars --csv canaries_diagnosis.csv

Each figure comes from one pair of trainings and one base model, with seeds that neither crafting nor audits had; the
TPR is that of the set's audits. Spearman's rank correlation over all sets and within each kind of data. A set's figures
are kept beside it.
"""

from __future__ import annotations

import argparse
from pathlib import Path
from typing import Any

import numpy as np
import torch
from canaries_bars import data_of, trainer
from scipy.stats import spearmanr

from coalmine.canaries import CanarySet
from coalmine.canaries.base_models import base_models
from coalmine.canaries.diagnosis import complementary_pair, diagnose
from coalmine.canaries.pool import Pool
from coalmine.foundation import read_json, write_json, write_text

FIGURES = ("margin_separation", "margin_gap", "effective_rank_share", "self_over_cross")


def diagnosed(path: Path, jpegs: str) -> dict[str, Any]:
    kept = path.with_suffix(".diagnosis")
    if kept.exists():
        return read_json(kept, "diagnosis")
    piece, canaries = read_json(path, "piece"), CanarySet.load(path.with_suffix(".safetensors"))
    data = data_of(piece["data"], jpegs)
    pool, seed = Pool(data.x, data.y, len(data.classes), data.value_range, data.fingerprint), 20_000 + piece["seed"]
    pair = complementary_pair(canaries, pool, trainer(data), seed)
    found = diagnose(canaries, base_models(pool, trainer(data), seed, 1), pool, pair=pair)
    record = {name: piece[name] for name in ("data", "count", "seed", "set", "true_positive_rate")}
    record |= {name: found[name] for name in FIGURES}
    write_json(kept, record)
    return record


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--folder", type=Path, default=Path("runs/canaries_bars"))
    parser.add_argument("--jpegs", default="", help="the folder of CIFAR-10 JPEG files")
    parser.add_argument("--csv", type=Path)
    parser.add_argument("--print-only", action="store_true", help="of the sets that are diagnosed already")
    given = parser.parse_args()
    torch.set_num_threads(1)
    paths = sorted(given.folder.glob("*/*/*/*.json"))
    if given.print_only:
        paths = [path for path in paths if path.with_suffix(".diagnosis").exists()]
    records = [diagnosed(path, given.jpegs) for path in paths]
    if given.csv:
        columns = list(records[0])
        lines = [",".join(columns)]
        lines += [",".join(f"{v:.4f}" if isinstance(v := r[c], float) else str(v) for c in columns) for r in records]
        write_text(given.csv, "\n".join(lines) + "\n")
    print("| figure | all sets |", " | ".join(kinds := sorted({r["data"] for r in records})), "|")
    print("|---|---|" + "---|" * len(kinds))
    for name in FIGURES:
        groups = [records, *([r for r in records if r["data"] == kind] for kind in kinds)]
        cells = [
            f"{spearmanr([r[name] for r in some], [r['true_positive_rate'] for r in some]).statistic:.2f} ({len(some)})"
            for some in groups
        ]
        print(f"| {name} |", " | ".join(cells), "|")
    print(f"{len(records)} sets, TPR {np.min([r['true_positive_rate'] for r in records]):.3f} to "
          f"{np.max([r['true_positive_rate'] for r in records]):.3f}")  # fmt: skip


if __name__ == "__main__":
    main()
