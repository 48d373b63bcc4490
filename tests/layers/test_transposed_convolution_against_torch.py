"""Transposed convolution beside torch.nn.functional.conv_transpose2d: every pair of its options,
and an autoencoder that trains."""

import itertools

import numpy as np
import pytest
from test_transposed_convolution import case

import traingraph as tg
from harness import Inference, empty, rate_for, tensor, train
from windows import policy

torch = pytest.importorskip("torch")

OPTIONS = {
    "kernel": [(1, 1), (3, 3), (2, 4), (5, 3)],
    "strides": [(1, 1), (2, 2), (3, 2)],
    "dilations": [(1, 1), (2, 2), (1, 3)],
    "padding": ["same", "valid", (1, 1), (0, 2)],
    "groups": [1, 2, 4],
    "outputs": [4, 8],
    "biases": [True, False],
}


def combinations():
    """Few, in which every pair of two options' values is."""
    every = [dict(zip(OPTIONS, values, strict=True))
             for values in itertools.product(*OPTIONS.values())]  # fmt: skip

    def pairs(one):
        return {((a, one[a]), (b, one[b])) for a, b in itertools.combinations(OPTIONS, 2)}

    missing, found = set().union(*map(pairs, every)), []
    while missing:
        found.append(max(every, key=lambda one: len(pairs(one) & missing)))
        missing -= pairs(found[-1])
    return found


def by_torch(one, x, weights, biases):
    """As conv_transpose2d has it; SAME cut out of what it gives without padding."""
    given = (weights.reshape(one.weights()), biases if biases is None else biases.reshape(-1))
    call = torch.nn.functional.conv_transpose2d
    if one.padding != "same":
        padding = (0, 0) if one.padding == "valid" else one.padding
        return call(x, *given, one.strides, padding, 0, one.groups, one.dilations)
    whole = call(x, given[0], None, one.strides, 0, 0, one.groups, one.dilations)
    (rows, top), (columns, left) = one.side(0), one.side(1)
    missing = [max(0, cut + n - have) for (n, cut), have in
               zip((one.side(1), one.side(0)), whole.shape[:1:-1], strict=True)]  # fmt: skip
    whole = torch.nn.functional.pad(whole, (0, missing[0], 0, missing[1]))
    y = whole[..., top : top + rows, left : left + columns]
    return y if biases is None else y + given[1].reshape(1, -1, 1, 1)


@pytest.mark.parametrize(("device", "dtype", "bound"),
                         [("reference", "float64", 1e-10), ("cpu", "float32", 2e-5)])  # fmt: skip
@pytest.mark.parametrize("chosen", combinations(), ids=lambda one: " ".join(map(str, one.values())))
def test_as_torch(chosen, device, dtype, bound):
    options = dict(chosen)
    has_biases = options.pop("biases")
    one = case(f"{chosen}", (2, 8, 4, 3), kernel=options.pop("kernel"),
               outputs=options.pop("outputs"), biases=has_biases, **options)  # fmt: skip
    theirs = [torch.tensor(a, requires_grad=True) for a in one.arrays]
    expected = by_torch(one.of, *theirs, *[None] * (not has_biases))
    (expected - torch.tensor(one.target)).square().sum().backward()
    slopes = [t.grad.numpy() for t in theirs]
    result = Inference(one, device, dtype)(*one.sources)
    _, gradients = train(one, one.target, device, dtype, rate_for(one.arrays, slopes))
    for got, right in zip([result, *gradients], [expected.detach().numpy(), *slopes], strict=True):
        assert got.shape == right.shape
        np.testing.assert_allclose(got, right, rtol=0, atol=bound * np.abs(right).max())


AUTOENCODER = [
    # kind, channels, kernel; strides of 2, so images of 8 by 8 become 2 by 2, and images again
    ("standard", 3, 8, 3),
    ("standard", 8, 12, 3),
    ("transposed", 12, 8, 4),
    ("transposed", 8, 3, 4),
]


@pytest.mark.parametrize(("device", "dtype", "bound"),
                         [("reference", "float64", 1e-10), ("cpu", "float32", 3e-5)])  # fmt: skip
@pytest.mark.parametrize("tied", [False, True])
def test_an_autoencoder_trains_as_in_torch(tied, device, dtype, bound):
    """Five steps of SGD; tied: the way back has the weights of the way there."""
    rng = np.random.default_rng(8)
    images = rng.uniform(-1, 1, (6, 3, 8, 8))
    kept, biases, order = [], [], []
    for k, (kind, inputs, outputs, size) in enumerate(AUTOENCODER):
        if tied and kind == "transposed":
            order.append(len(AUTOENCODER) - 1 - k)
        else:
            lead = (outputs, inputs) if kind == "standard" else (inputs, outputs)
            kernel = (3, 3) if tied else (size, size)
            order.append(len(kept))
            kept.append(rng.normal(size=(*lead, *kernel)) / np.sqrt(9 * inputs))
        biases.append(rng.normal(size=(1, outputs, 1, 1)) / 4)
    ours = [tensor(a, dtype) for a in [*kept, *biases]]
    graph = tg.MLCGraph()
    x = h = empty(images.shape, dtype)
    for k, (kind, inputs, outputs, _) in enumerate(AUTOENCODER):
        size = kept[order[k]].shape[-1]
        descriptor = tg.MLCConvolutionDescriptor(
            type=kind, kernel_sizes=size, strides=2, input_feature_channel_count=inputs,
            output_feature_channel_count=outputs,
            padding_policy="same" if tied else policy((1, 1)),
        )  # fmt: skip
        weights, bias = ours[order[k]], ours[len(kept) + k]
        layer = tg.MLCConvolutionLayer(weights=weights, biases=bias, descriptor=descriptor)
        h = tg.sequential(graph, h, [layer, tg.MLCActivationLayer.tanh()])
    assert h.descriptor.shape == list(images.shape)
    training = tg.MLCTrainingGraph(
        graph_objects=[graph],
        loss_layer=tg.MLCLossLayer.mean_squared_error(reduction_type="mean"),
        optimizer=tg.MLCSGDOptimizer(learning_rate=0.5, momentum_scale=0.5),
    )
    labels = empty(images.shape, dtype)
    training.add_inputs({"x": x}, loss_labels={"y": labels})
    training.compile(device=device)
    data = images.astype(dtype)
    losses = [
        training.execute(
            inputs_data={"x": data}, loss_labels_data={"y": data}, options="synchronous"
        ).result.item()
        for _ in range(5)
    ]
    training.synchronize_updates()

    theirs = [torch.tensor(a, requires_grad=True) for a in [*kept, *biases]]
    optimizer = torch.optim.SGD(theirs, lr=0.5, momentum=0.5)
    expected = []
    for _ in range(5):
        y = torch.tensor(images)
        for k, (kind, *_) in enumerate(AUTOENCODER):
            weights, bias = theirs[order[k]], theirs[len(kept) + k].reshape(-1)
            if not tied:
                call = "conv2d" if kind == "standard" else "conv_transpose2d"
                y = getattr(torch.nn.functional, call)(y, weights, bias, 2, 1)
            elif kind == "standard":  # an even extent: what is missing is behind it
                y = torch.nn.functional.pad(y, (0, 1, 0, 1))
                y = torch.nn.functional.conv2d(y, weights, bias, 2)
            else:
                y = torch.nn.functional.conv_transpose2d(y, weights, bias, 2)[..., :-1, :-1]
            y = torch.tanh(y)
        loss = torch.nn.functional.mse_loss(y, torch.tensor(images))
        expected.append(loss.item())
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
    np.testing.assert_allclose(losses, expected, rtol=bound)
    assert losses[-1] < losses[0]
    for got, right in zip(ours, theirs, strict=True):
        right = right.detach().numpy()
        np.testing.assert_allclose(got.data, right, rtol=0, atol=bound * np.abs(right).max())
