"""What the attacks cost, as ratios measured in one run on one torch thread: python tests/benchmarks/attacks_cost.py

1. training 64 shadow models (MLP 64-64-64-10 on the digits): stacked by the engine against one after another by
   ordinary autograd (audit/training/sequential.py), CPU seconds; both do the same steps up to rounding, which
   hundreds of steps of SGD amplify, so that predictions are compared;
2. the same for convolutions, 8 cnn-137k on 3 x 32 x 32, and with vmap over the models, which the engine avoids there;
3. scoring 128 shadow models × 50,000 examples × 2 views, seconds of CPU;
4. RMIA's rank form against the N × Z matrix at 4,000 × 4,000.
"""

from __future__ import annotations

import argparse
import resource
import time
from collections.abc import Callable
from functools import partial
from typing import Any
from unittest.mock import patch

import numpy as np
import torch

from coalmine.attacks import base, lira, rmia
from coalmine.audit.training import gradients
from coalmine.audit.training.data import load_data
from coalmine.audit.training.engine import train_many
from coalmine.audit.training.models import build_model
from coalmine.audit.training.sequential import train_sequentially
from coalmine.audit.training.settings import TrainingSettings


def cpu_seconds(work: Callable[[], Any]) -> tuple[float, Any]:
    start = time.process_time()
    result = work()
    return time.process_time() - start, result


def predictions(model: torch.nn.Module, x: np.ndarray) -> np.ndarray:
    with torch.no_grad():
        return model(torch.as_tensor(x)).argmax(1).numpy()


def training(models: int, epochs: int) -> None:
    data = load_data("digits")
    keep = np.random.default_rng(0).random((models, len(data.y))) < 0.5
    build = partial(build_model, "mlp", data.input_shape, 10)
    seeds = range(models)
    for name, extra in (("plain SGD", {}), ("DP-SGD", {"clipping_norm": 1.0, "noise_multiplier": 1.0})):
        count = models if name == "plain SGD" else max(models // 8, 1)
        steps = epochs if name == "plain SGD" else max(epochs // 8, 1)
        settings = TrainingSettings(
            steps_per_epoch=12, epochs=steps, learning_rate=0.1, public_size=len(data.y) / 2, momentum=0.9, **extra
        )
        warm_up = TrainingSettings(steps_per_epoch=1, epochs=1, learning_rate=0.1, public_size=10, **extra)
        rows = data.x, data.y, keep[:count], list(seeds)[:count]
        train_many(build, data.x[:10], data.y[:10], keep[:2, :10], [0, 1], warm_up)
        alone, slow = cpu_seconds(lambda rows=rows, s=settings: train_sequentially(build, *rows, s))
        print(f"{name}: {count} models, {12 * steps} steps of about {len(data.y) // 24} rows")
        print(f"  one after another, autograd {alone:7.1f} CPU s  ratio 1.0")
        for chunk in sorted({1, 8, 16, count} & set(range(1, count + 1))):
            stacked, fast = cpu_seconds(lambda rows=rows, s=settings, c=chunk: train_many(build, *rows, s, chunk=c))
            right = np.mean([predictions(a, data.x) == predictions(b, data.x) for a, b in zip(slow, fast, strict=True)])
            peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024
            print(
                f"  engine, chunks of {chunk:3}       {stacked:7.1f} CPU s  ratio {alone / stacked:.1f}"
                f"  equal predictions {right:.2%}  peak memory of the process so far {peak:.0f} MiB"
            )


def convolutions(models: int = 8) -> None:
    random = np.random.default_rng(0)
    x, y = random.random((256, 3, 32, 32), dtype=np.float32), random.integers(0, 10, 256)
    rows = x, y, np.ones((models, len(x)), bool), list(range(models))
    build = partial(build_model, "cnn-137k", x.shape[1:], 10)
    for name, epochs, extra in (("plain SGD", 4, {}), ("DP-SGD", 1, {"clipping_norm": 1.0, "noise_multiplier": 1.0})):
        settings = TrainingSettings(steps_per_epoch=4, epochs=epochs, learning_rate=0.05, public_size=len(x), **extra)
        alone, _ = cpu_seconds(lambda s=settings: train_sequentially(build, *rows, s))
        print(f"{name}, convolutions: {models} models, {4 * epochs} steps of about {len(x) // 4} rows")
        print(f"  one after another, autograd {alone:7.1f} CPU s  ratio 1.0")
        for chunk in (1, models):
            seconds, _ = cpu_seconds(lambda s=settings, c=chunk: train_many(build, *rows, s, chunk=c))
            print(f"  engine, chunks of {chunk:3}       {seconds:7.1f} CPU s  ratio {alone / seconds:.1f}")
        with patch.object(gradients, "faster_alone", lambda *_: False):
            seconds, _ = cpu_seconds(lambda s=settings: train_many(build, *rows, s, chunk=models))
        print(f"  vmap over the {models} models     {seconds:7.1f} CPU s  ratio {alone / seconds:.1f}")


def scoring() -> None:
    random = np.random.default_rng(0)
    shadow = random.normal(3, 2, (128, 50_000, 2)).astype(np.float32)
    keep = random.random((128, 50_000)) < 0.5
    target = random.normal(3, 2, (50_000, 2))
    print("scoring 128 shadows x 50,000 examples x 2 views")
    for mode in ("online", "offline"):
        for variance in ("per_example", "pooled", "shrunk"):
            seconds, _ = cpu_seconds(partial(lira, shadow, keep, target, mode, variance))
            print(f"  LiRA {mode:8} {variance:12} {seconds:.2f} CPU s")
    seconds, _ = cpu_seconds(partial(lira, shadow, keep, target, "online", "pooled", "median"))
    print(f"  LiRA online   pooled, median {seconds:.2f} CPU s")
    log_p = -np.logaddexp(0, -shadow[:, :, 0].astype(np.float64))
    seconds, _ = cpu_seconds(partial(base, log_p, keep, -np.logaddexp(0, -target[:, 0])))
    print(f"  BASE online (one view)  {seconds:.2f} CPU s")


def rank_form() -> None:
    random = np.random.default_rng(0)
    n = 4000
    shadow, population = -random.exponential(size=(16, n)), -random.exponential(size=(16, n))
    target, own = -random.exponential(size=n), -random.exponential(size=n)
    keep = random.random((16, n)) < 0.5

    def matrix() -> np.ndarray:
        marginal = (1.3 * np.where(keep, 0, np.exp(shadow)).sum(0) / (~keep).sum(0) + 0.7) / 2
        ratio, other = np.exp(target) / marginal, np.exp(own) / ((1.3 * np.exp(population).mean(0) + 0.7) / 2)
        return (ratio[:, None] / other[None] > 1).mean(1)

    slow, expected = cpu_seconds(matrix)
    fast, result = cpu_seconds(partial(rmia, shadow, keep, target, population, own))
    assert np.abs(result.scores - expected).max() < 1e-12
    print(f"RMIA at {n} x {n}: matrix {slow:.3f} CPU s, rank form {fast:.3f} CPU s, ratio {slow / fast:.0f}")


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--models", type=int, default=64)
    parser.add_argument("--epochs", type=int, default=25)
    given = parser.parse_args()
    torch.set_num_threads(1)
    training(given.models, given.epochs)
    convolutions()
    scoring()
    rank_form()
