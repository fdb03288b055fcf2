"""A plain PyTorch loop that three lines, marked AUDIT, make auditable. In a folder of your own:

    python plain_pytorch.py export
    coalmine canaries craft --data digits.npz --method mislabelled --count 200
    coalmine coins --canaries canaries.safetensors
    python plain_pytorch.py
    coalmine score --checkpoint model.pt --model plain_pytorch:Net --canaries canaries.safetensors
    coalmine audit --scores scores.csv --coins coins.json --epsilon 1 --delta 1e-5 --output audit.json
    coalmine report audit.json --output report.html

The loop has no privacy in it: a claim of epsilon = 1 is rejected.
"""

import sys

import numpy as np
import torch
from torch import nn
from torch.utils.data import DataLoader, TensorDataset

from coalmine.canaries import CanarySet, Coins, inject  # AUDIT 1: the names


class Net(nn.Sequential):
    def __init__(self):
        super().__init__(nn.Flatten(), nn.Linear(64, 128), nn.ReLU(), nn.Linear(128, 10))


def train():
    arrays = np.load("digits.npz")
    data = TensorDataset(torch.tensor(arrays["x"]), torch.tensor(arrays["y"]))
    data = inject(data, CanarySet.load("canaries.safetensors"), Coins.load("coins.json"))  # AUDIT 2: canaries go in
    model = Net()
    optimizer = torch.optim.Adam(model.parameters(), lr=3e-3)
    for _ in range(40):
        for x, y in DataLoader(data, batch_size=64, shuffle=True):
            optimizer.zero_grad()
            nn.functional.cross_entropy(model(x), y).backward()
            optimizer.step()
    with torch.no_grad():
        right = model(torch.tensor(arrays["x_test"])).argmax(1) == torch.tensor(arrays["y_test"])
    print(f"test accuracy {right.float().mean():.1%}")
    torch.save(model.state_dict(), "model.pt")  # AUDIT 3: the model comes out


def export():
    from sklearn.datasets import load_digits

    digits = load_digits()
    x, y = (digits.images / 16).astype(np.float32)[:, None], digits.target
    np.savez("digits.npz", x=x[:1400], y=y[:1400], x_test=x[1400:], y_test=y[1400:], value_range=[0.0, 1.0])


if __name__ == "__main__":
    export() if "export" in sys.argv else train()
