"""For the author of a DP library: does a training step do what it claims? In the folder of this file:

    coalmine check check_my_library:train --mechanism poisson --sampling-rate 0.1 --steps 50 --noise-multiplier 1 --output right.json --fail-on-violation
    coalmine check check_my_library:train_with_a_bug --mechanism poisson --sampling-rate 0.1 --steps 50 --noise-multiplier 1 --output wrong.json
    coalmine report wrong.json --output report.html

The first is consistent with the claim, the second is not: the noise never reaches the biases. `my_library_step` stands
for the library under test. It knows nothing of coalmine: `train` binds its settings, trains the model that it is given
on the data set that it is given, and that is all that is asked of it.
"""  # noqa: E501

import torch
from torch.func import functional_call, grad, vmap
from torch.nn.functional import cross_entropy

SAMPLING_RATE, STEPS, NOISE_MULTIPLIER, CLIPPING_NORM, EXPECTED_BATCH_SIZE = 0.1, 50, 1.0, 1.0, 20.0


def my_library_step(model, optimizer, x, y, noisy=lambda name: True):
    """Per-example gradients, clipped, summed, noised, divided by a public constant."""
    weights = {name: p.detach() for name, p in model.named_parameters()}

    def loss(weights, x, y):
        return cross_entropy(functional_call(model, weights, (x[None],)), y[None])

    gradients = vmap(grad(loss), (None, 0, 0))(weights, x, y)
    norms = torch.sqrt(sum(g.flatten(1).square().sum(1) for g in gradients.values()))
    factors = (CLIPPING_NORM / (norms + 1e-12)).clamp(max=1.0)
    for name, p in model.named_parameters():
        total = torch.tensordot(factors, gradients[name], 1)
        if noisy(name):
            total += NOISE_MULTIPLIER * CLIPPING_NORM * torch.randn_like(total)
        p.grad = total / EXPECTED_BATCH_SIZE
    optimizer.step()


def train(model, dataset, noisy=lambda name: True):
    x, y = dataset.tensors
    optimizer = torch.optim.Adam(model.parameters(), lr=0.01)
    for _ in range(STEPS):
        batch = torch.rand(len(x)) < SAMPLING_RATE  # Poisson sampling; an empty batch is a step like any other
        my_library_step(model, optimizer, x[batch], y[batch], noisy)


def train_with_a_bug(model, dataset):
    train(model, dataset, noisy=lambda name: not name.endswith("bias"))
