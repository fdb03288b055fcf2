"""A finished scikit-learn model, attacked in five lines; in a notebook the last line shows itself.

python examples/attack_a_forest.py
"""

import numpy as np
from sklearn.datasets import load_digits
from sklearn.ensemble import RandomForestClassifier

from coalmine.audit import attack_model

x, y = load_digits(return_X_y=True)
members = np.random.default_rng(0).random(len(y)) < 0.5
forest = RandomForestClassifier(random_state=0).fit(x[members], y[members])

found = attack_model(forest, x, y, members)
print(found.table().round(3).to_string())
print(found.at_risk(5).to_string())
print(found.report("runs/forest.html"))
