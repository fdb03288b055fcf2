"""Train with Opacus, audit what came out: DP-SGD on handwritten digits under random allocation, with canaries.

    python examples/opacus_digits.py
    python examples/opacus_digits.py --forget-noise

The second trains without the noise that the claim promises, as after a bug, and is found out. Needs the extra `opacus`.
What differs from an ordinary Opacus script is marked (1) to (4).
"""

import argparse
from pathlib import Path

import torch
from opacus import GradSampleModule
from opacus.optimizers import DPOptimizer
from torch.nn.functional import cross_entropy
from torch.utils.data import DataLoader, TensorDataset

from coalmine.audit import AuditSettings, Claim, Evidence, ThreatModel, judge, score_canaries
from coalmine.audit.bounds import RandomAllocation
from coalmine.audit.training import (
    EmptyBatchCollate,
    RandomAllocationBatchSampler,
    build_model,
    load_data,
    open_model,
)
from coalmine.canaries import craft, draw_coins, inject, remaining_rows
from coalmine.foundation import fresh_seed, torch_stream
from coalmine.reports import write_report

STEPS_PER_EPOCH, EPOCHS, NOISE_MULTIPLIER, CLIPPING_NORM, LEARNING_RATE, CANARIES = 10, 60, 3.5, 1.0, 0.5, 300

parser = argparse.ArgumentParser()
parser.add_argument("--forget-noise", action="store_true", help="train without noise, claim it all the same")
parser.add_argument("--output", type=Path, default=Path("runs/opacus"))
parser.add_argument("--seed", type=int, default=None, help="reproduce a run; without it, coins and noise are fresh")
arguments = parser.parse_args()
seed = fresh_seed() if arguments.seed is None else arguments.seed

# (1) Canaries, frozen; one fair coin each; the members join the training data, all source rows leave it.
data = load_data("digits")
canaries = craft(
    "binary_noise", data.x, data.y, 10, data.value_range, CANARIES, seed, data_fingerprint=data.fingerprint
)
coins = draw_coins(canaries, arguments.seed)
rows = TensorDataset(torch.from_numpy(data.x), torch.from_numpy(data.y))
training_set = inject(rows, canaries, coins)

# (2) Each record in one uniformly drawn step of each epoch; some steps may be empty.
sampler = RandomAllocationBatchSampler(len(training_set), STEPS_PER_EPOCH, seed)
loader = DataLoader(training_set, batch_sampler=sampler, collate_fn=EmptyBatchCollate(training_set))

# (3) Divide by a public number: natural rows plus half the canaries, a float that no coin changes.
public_size = float(remaining_rows(canaries, len(rows)).sum()) + CANARIES / 2
model = GradSampleModule(build_model("mlp", data.input_shape, 10, seed))
optimizer = DPOptimizer(
    torch.optim.SGD(model.parameters(), lr=LEARNING_RATE, momentum=0.9),
    noise_multiplier=0.0 if arguments.forget_noise else NOISE_MULTIPLIER,
    max_grad_norm=CLIPPING_NORM,
    expected_batch_size=public_size / STEPS_PER_EPOCH,
    generator=torch_stream(seed, "noise"),
)

for _ in range(EPOCHS):
    for x, y in loader:
        optimizer.zero_grad()
        cross_entropy(model(x), y).backward()
        optimizer.step()
arguments.output.mkdir(parents=True, exist_ok=True)
torch.save(model.state_dict(), arguments.output / "model.pt")

# (4) The audit: score every canary by the checkpoint, then open the coins, then judge the claim.
trained = open_model(arguments.output / "model.pt", "mlp", data.input_shape, data.classes)
scores = score_canaries(trained, canaries, "phi").scores
claim = Claim(RandomAllocation(STEPS_PER_EPOCH, EPOCHS, NOISE_MULTIPLIER))
facts = ThreatModel(score="phi", canary_method=canaries.method)
evidence = Evidence(scores, coins.member, threat_model=facts, label="Opacus on digits")
result = judge(evidence, claim, AuditSettings())
result.save(arguments.output / "audit.json")
write_report([result], arguments.output / "report.html")

with torch.no_grad():
    accuracy = (trained(torch.from_numpy(data.x_test)).argmax(1).numpy() == data.y_test).mean()
print(f"test accuracy {accuracy:.1%}; report: {arguments.output / 'report.html'}")
print(result.verdict_text)
