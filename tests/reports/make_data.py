"""Write the audits in data/: 500 canaries with simulated scores, judged by coalmine itself.

Run from the repository root: .venv/bin/python tests/reports/make_data.py
One run leaks (members score 3 higher on average), one hardly does, under the same claim.
"""

from pathlib import Path

import numpy as np

from coalmine.audit.bounds import RandomAllocation
from coalmine.audit.verdict.claim import Claim
from coalmine.audit.verdict.judge import audit
from coalmine.foundation import write_json

CANARIES = 500
CLAIM = Claim(RandomAllocation(steps_per_epoch=32, epochs=20, noise_multiplier=4.0))
RUN = {
    "mechanism": CLAIM.record,
    "clipping_norm": 1.0,
    "divisor": 43.90625,
    "epochs_done": 20,
    "model": "mlp",
    "data_fingerprint": "9e107d9d372bb6826bd81d3542a419d6",
    "canaries_sha256": "e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855",
    "commitment": "2c26b46b68ffc68ff99b453c1d30413413422d706483bfa0f98a5e886266e7ae",
    "finished": True,
}


def simulated(label: str, shift: float, run: dict | None) -> dict:
    generator = np.random.default_rng(20260101)
    member = generator.random(CANARIES) < 0.5
    scores = generator.normal(-1.0, 1.6, CANARIES) + shift * member
    threat_model = {"score": "phi", "canary_method": "mislabelled"}
    found = audit(scores, member, CLAIM, run=run, threat_model=threat_model, label=label)
    versions = {"coalmine": "0.1.0", "python": "3.11.7", "numpy": "2.4.6"}
    return found | {"created": "2026-01-02T03:04:05+00:00", "versions": versions}


if __name__ == "__main__":
    folder = Path(__file__).parent / "data"
    write_json(folder / "rejected.json", simulated("noise forgotten", 3.0, None))
    write_json(folder / "not_rejected.json", simulated("private run", 0.2, RUN))
