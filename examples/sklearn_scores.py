"""Audit a model that is no PyTorch module, by its scores alone: a random forest on handwritten digits.

    python examples/sklearn_scores.py
    coalmine audit --scores runs/forest/scores.csv --coins runs/forest/coins.json --epsilon 1 --delta 1e-5

Any framework can do the same: train with the member canaries, write one number a canary, higher = more likely a member.
"""

import argparse
from pathlib import Path

import numpy as np
import pandas as pd
from sklearn.ensemble import RandomForestClassifier

from coalmine.audit.training.data import load_data
from coalmine.canaries import craft, draw_coins, remaining_rows
from coalmine.foundation import fresh_seed

parser = argparse.ArgumentParser()
parser.add_argument("--output", type=Path, default=Path("runs/forest"))
parser.add_argument("--seed", type=int, default=None, help="reproduce a run; without it, the coins are fresh")
arguments = parser.parse_args()
seed = fresh_seed() if arguments.seed is None else arguments.seed

data = load_data("digits")
canaries = craft("mislabelled", data.x, data.y, 10, data.value_range, 200, seed, data_fingerprint=data.fingerprint)
coins = draw_coins(canaries, arguments.seed)
arguments.output.mkdir(parents=True, exist_ok=True)
coins.save(arguments.output / "coins.json")

stay = remaining_rows(canaries, len(data.y))  # the rows that canaries were made from leave, members or not
x = np.concatenate([data.x[stay], canaries.x[coins.member]])
y = np.concatenate([data.y[stay], canaries.y[coins.member]])
forest = RandomForestClassifier(random_state=seed % 2**32).fit(x.reshape(len(x), -1), y)
print(f"test accuracy {forest.score(data.x_test.reshape(len(data.x_test), -1), data.y_test):.1%}")

probability = forest.predict_proba(canaries.x.reshape(len(canaries), -1))[np.arange(len(canaries)), canaries.y]
scores = pd.DataFrame({"canary_id": np.arange(len(canaries)), "score": probability})
scores.to_csv(arguments.output / "scores.csv", index=False)
print(f"scores of {len(scores)} canaries in {arguments.output / 'scores.csv'}")
