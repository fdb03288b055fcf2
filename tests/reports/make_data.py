"""Write the audits in data/: 500 canaries with simulated scores, judged by coalmine's own estimators.

Run as a script from the repository root: .venv/bin/python tests/reports/make_data.py
A run that leaks (members score 4 higher on average) and one that hardly does, under the same claim.
"""

import platform
from pathlib import Path

import numpy as np

from coalmine import __version__
from coalmine.audit.bounds import accuracy_bound, chi_square, chi_square_curve
from coalmine.audit.estimators import (
    auc_interval,
    clopper_pearson,
    f_dp_p_value,
    one_run_epsilon,
    roc_curve,
    tpr_at_fpr,
)
from coalmine.foundation import write_json

CANARIES, ALPHA, DELTA = 500, 0.05, 1e-5
CLAIM = {"name": "random_allocation", "steps_per_epoch": 32, "epochs": 20, "noise_multiplier": 6.0}


def audit(label: str, shift: float, mechanism: dict) -> dict:
    generator = np.random.default_rng(20260101)
    member = generator.random(CANARIES) < 0.5
    scores = generator.normal(-1.0, 1.6, CANARIES) + shift * member
    guessed = np.zeros(CANARIES, dtype=bool)
    guessed[np.argsort(-scores)[: CANARIES // 2]] = True
    correct = int(np.sum(guessed == member))

    shape = (CLAIM["steps_per_epoch"], CLAIM["epochs"], CLAIM["noise_multiplier"])
    curve = chi_square_curve(float(chi_square(*shape)))
    p_value = f_dp_p_value(curve, correct, CANARIES, CANARIES)
    verdict = "rejected" if p_value <= ALPHA else "not_rejected"
    roc = roc_curve(scores, member)
    edges = np.histogram_bin_edges(scores, bins=24)
    accuracy = [float(end) for end in clopper_pearson(correct, CANARIES)]
    points = []
    for rate in (0.001, 0.01, 0.1):
        point = dict(vars(tpr_at_fpr(scores, member, rate)))
        points.append({**point, "interval": point["interval"] and list(map(float, point["interval"]))})
    return {
        "schema_version": 1,
        "label": label,
        "created": "2026-01-02T03:04:05Z",
        "claim": {
            "mechanism": CLAIM,
            "adjacency": "add_remove",
            "membership": "coins",
            "accuracy": {"closed_form": float(accuracy_bound(*shape)), "lower": None, "upper": None},
            "epsilon": None,
        },
        "run": {
            "mechanism": mechanism,
            "clipping_norm": 1.0,
            "divisor": 43.90625,
            "epochs_done": 20,
            "model": "mlp",
            "data_fingerprint": "9e107d9d372bb6826bd81d3542a419d6",
            "canaries_sha256": "e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855",
            "commitment": "2c26b46b68ffc68ff99b453c1d30413413422d706483bfa0f98a5e886266e7ae",
            "versions": {"torch": "2.6.0"},
            "finished": True,
        },
        "threat_model": {
            "access": "black_box",
            "score": "phi",
            "views": 1,
            "canary_kind": "example",
            "canary_method": "mislabelled",
            "insertion": "add_remove",
        },
        "counts": {
            "canaries": CANARIES,
            "members": int(member.sum()),
            "non_members": int((~member).sum()),
            "guesses": CANARIES,
            "correct": correct,
            "ties": 0,
            "undefined": 0,
        },
        "guess_rule": {"name": "fixed", "members": CANARIES // 2, "non_members": CANARIES // 2, "looks": 1},
        "estimates": [
            {
                "name": "one_run",
                "quantity": "epsilon",
                "value": one_run_epsilon(correct, CANARIES, CANARIES, DELTA),
                "interval": None,
                "class": "A",
                "confidence": 0.95,
                "delta": DELTA,
                "note": "Steinke, Nasr and Jagielski 2023",
            },
            {
                "name": "clopper_pearson",
                "quantity": "attack_accuracy",
                "value": correct / CANARIES,
                "interval": accuracy,
                "class": "C",
                "confidence": 0.95,
                "delta": None,
                "note": "canaries taken as independent",
            },
        ],
        "p_value": p_value,
        "alpha": ALPHA,
        "verdict": verdict,
        "verdict_text": f"{verdict.replace('_', ' ')} (p = {p_value:.2g})",
        "power": {
            "largest_reportable_epsilon": one_run_epsilon(CANARIES, CANARIES, CANARIES, DELTA),
            "smallest_reportable_p_value": f_dp_p_value(curve, CANARIES, CANARIES, CANARIES),
        },
        "roc": {
            "false_positive_rate": roc.false_positive_rate.tolist(),
            "true_positive_rate": roc.true_positive_rate.tolist(),
            "auc": roc.auc,
            "auc_interval": list(auc_interval(roc.auc, roc.members, roc.non_members)),
            "tpr_at_fpr": points,
        },
        "histogram": {
            "edges": edges.tolist(),
            "members": np.histogram(scores[member], edges)[0].tolist(),
            "non_members": np.histogram(scores[~member], edges)[0].tolist(),
        },
        "versions": {"coalmine": __version__, "python": platform.python_version(), "numpy": np.__version__},
    }


if __name__ == "__main__":
    folder = Path(__file__).parent / "data"
    write_json(folder / "rejected.json", audit("noise forgotten", 5.0, {"name": "none"}))
    write_json(folder / "not_rejected.json", audit("private run", 0.2, CLAIM))
