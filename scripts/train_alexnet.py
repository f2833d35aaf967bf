"""Train AlexNet for CIFAR-10 and write its weights; needs PyTorch and a copy of CIFAR-10.

    python scripts/train_alexnet.py CIFAR10 --out alexnet.npz [--epochs 20] [--seed 0] [--threads 1]

CIFAR10 is a folder with the binary version or an .npz file, as `lpkit.datasets.cifar10` reads them. The recipe: SGD
with Nesterov's momentum 0.9, weight decay 5e-4, batch 128, images shifted by up to 4 pixels and mirrored; the step
size rises to its peak over the first tenth and falls to 0 in a straight line. The weights of a seed depend on the
version of PyTorch and the number of threads in the last digits, and so does the accuracy in its last tenths.
"""

import argparse
import time

import numpy as np
import torch

from lpkit.datasets import cifar10_pixels
from lpkit.image_network import CIFAR10_DEVIATION, CIFAR10_MEAN, alexnet_cifar10
from lpkit.interop.torch_problem import to_torch
from lpkit.layerwise import Parameters, initial_parameters
from lpkit.weights import write_parameters

SHIFT, BATCH, PEAK, DECAY, MOMENTUM = 4, 128, 0.03, 5e-4, 0.9


def normalised(pixels):
    """Grey levels (B, 3, 32, 32) as the network reads them."""
    mean, deviation = (np.array(v, np.float32)[:, None, None] for v in (CIFAR10_MEAN, CIFAR10_DEVIATION))
    return torch.from_numpy((pixels.astype(np.float32) / 255 - mean) / deviation)


def augmented(padded, places, rng):
    """Images at `places`, each shifted and mirrored by chance; padding shows as black."""
    side = padded.shape[-1] - 2 * SHIFT
    across = np.where(rng.random((len(places), 1)) < 0.5, np.arange(side), np.arange(side)[::-1])
    rows = rng.integers(0, 2 * SHIFT + 1, (len(places), 1)) + np.arange(side)
    columns = rng.integers(0, 2 * SHIFT + 1, (len(places), 1)) + across
    channels = np.arange(3)[:, None, None]
    return padded[places[:, None, None, None], channels, rows[:, None, :, None], columns[:, None, None, :]]


def accuracy(model, pixels, labels):
    """Share of images whose largest score is that of their class."""
    model.eval()
    with torch.no_grad():
        found = [model(normalised(part)).argmax(1).numpy() for part in np.array_split(pixels, len(pixels) // 500 + 1)]
    return float(np.mean(np.concatenate(found) == labels))


def step_size(progress):
    """Step size at `progress` from 0 to 1."""
    return PEAK * min(progress / 0.1, (1 - progress) / 0.9)


def train(model, pixels, labels, *, epochs, seed, after_epoch):
    """Run the recipe; `after_epoch(number)` is called behind each epoch."""
    rng, steps = np.random.default_rng(seed), len(pixels) // BATCH
    padded = np.pad(pixels, ((0, 0), (0, 0), (SHIFT, SHIFT), (SHIFT, SHIFT)))
    optimiser = torch.optim.SGD(model.parameters(), lr=0, momentum=MOMENTUM, weight_decay=DECAY, nesterov=True)
    for epoch in range(epochs):
        model.train()
        for step, places in enumerate(rng.permutation(len(pixels))[: steps * BATCH].reshape(steps, BATCH)):
            optimiser.param_groups[0]["lr"] = step_size((epoch * steps + step + 1) / (epochs * steps + 1))
            scores = model(normalised(augmented(padded, places, rng)))
            loss = torch.nn.functional.cross_entropy(scores, torch.from_numpy(labels[places]))
            optimiser.zero_grad()
            loss.backward()
            optimiser.step()
        after_epoch(epoch + 1)


def parameters_of(model):
    """Weights and biases, one pair a layer."""
    arrays = [p.detach().numpy() for p in model.parameters()]
    return tuple(Parameters(W, bias) for W, bias in zip(arrays[::2], arrays[1::2]))


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("cifar10", help="folder with the binary version, or .npz file")
    parser.add_argument("--out", default="alexnet_cifar10.npz", help="file for the weights [%(default)s]")
    parser.add_argument("--epochs", type=int, default=20)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--threads", type=int, default=1)
    options = parser.parse_args()
    torch.set_num_threads(options.threads)
    torch.manual_seed(options.seed)
    x_train, y_train, x_test, y_test = cifar10_pixels(options.cifar10)
    network, start = alexnet_cifar10(), time.perf_counter()
    model = to_torch(network, initial_parameters(network, seed=options.seed))

    def report(epoch):
        found = f"{accuracy(model, x_test, y_test):.4f} of the test images"
        print(f"epoch {epoch}: {found}, {time.perf_counter() - start:.0f} s", flush=True)
        write_parameters(options.out, network, parameters_of(model))

    train(model, x_train, y_train, epochs=options.epochs, seed=options.seed, after_epoch=report)


if __name__ == "__main__":
    main()
