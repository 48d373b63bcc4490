"""Kernels of Apple's that no page and no header settles, each beside the ops that it stands for.

``python -m traingraph verify --device metal`` runs this file. Without an argument it prints the
names. With one, whose kernel the note of this machine has to list, it prints the largest deviation
of a result from the reference implementation, as a share of its largest number, and ends with 0
where each element is within the bounds.
"""

import sys

import numpy as np
from dropout_masks import keeps_its_masks, print_masks
from mps_kernels import ArrayWeights, arrays, extents, images, kernel, losses_of

from traingraph import mps

N, C, H, W = SHAPE = 2, 4, 6, 5
OUTPUTS = 8
ROUNDS = ("positive", "of both signs", "zeros")  # a formula may be NaN at 0
RELATIVE, OF_LARGEST = 1e-3, 1e-5


class Draw:
    """Numbers of one round, on either side of what the formulas' parameters tell apart."""

    def __init__(self, which):
        self.which, self.random = which, np.random.default_rng(ROUNDS.index(which))

    def __call__(self, *shape):
        if self.which == "zeros":
            return np.zeros(shape, np.float32)
        numbers = 4 * np.exp2(self.random.uniform(-7, 0, shape))
        if self.which != "positive":
            numbers *= self.random.choice((-1, 1), shape)
        return numbers.astype(np.float32)


# --- cases: each encodes on a buffer and returns the results -------------------------------------


def gradient_of(name, arguments, properties=None, own=None):
    """Of a kernel with one source; `own` are the gradient kernel's arguments and properties."""
    own_arguments, own_properties = own or (arguments, properties or {})

    def run(on, buffer, draw):
        x = images(on, draw(*SHAPE))
        forward = kernel(name, on, arguments, properties or {})
        y, states = forward.encode_batch(
            buffer, source_images=x, destination_state_is_temporary=False
        )
        gradient = kernel(f"{name}Gradient", on, own_arguments, own_properties)
        dy = images(on, draw(*extents(y)))
        return [
            gradient.encode_batch(
                buffer, source_gradients=dy, source_images=x, gradient_states=states
            )
        ]

    return run


def local(name, sizes, header, **more):
    properties = {"alpha": 0.5, "beta": 0.75, "delta": 2} | more
    return [gradient_of(name, sizes, properties, (sizes, properties | {"header_formula": header}))]


def relun(header):
    neuron = mps.MPSNNNeuronDescriptor.cnn_neuron_descriptor(with_type="relun", a=0.25, b=1.5)
    arguments = {"neuron_descriptor": neuron}
    return [gradient_of("MPSCNNNeuron", arguments, {}, (arguments, {"header_formula": header}))]


def padding(edge_mode, after):
    arguments = {"padding_size_before": (1, 2, 0), "padding_size_after": after}
    return gradient_of("MPSNNPad", arguments, {"edge_mode": edge_mode}, ({}, {}))


def comparison(which):
    properties = {
        "comparison_type": which, "threshold": 0.25, "primary_scale": 1.5, "secondary_scale": 0.5,
        "bias": 0.125,
    }  # fmt: skip

    def run(on, buffer, draw):
        a, b = images(on, draw(*SHAPE)), images(on, draw(*SHAPE))
        made = kernel("MPSNNCompare", on, {}, properties)
        return [made.encode_batch(buffer, primary_images=a, secondary_images=b)]

    return run


FULL = SHAPE[1:]
SCALES = {"primary_scale": 0.5, "secondary_scale": 2, "bias": 1}
ALONG = ("feature_channels", "pixels_y", "pixels_x")
# The extents of two sources: one element along an axis stands for all.
BROADCAST = [
    (FULL, FULL),
    (FULL, (C, 1, 1)),
    (FULL, (1, H, 1)),
    ((1, 1, 1), FULL),
    ((1, H, W), (C, 1, 1)),
]


def arithmetic(name, primary, secondary, is_secondary):
    strides = {
        f"{which}_stride_in_{axis}": 1 if extent == whole else 0
        for which, own in (("primary", primary), ("secondary", secondary))
        for axis, extent, whole in zip(ALONG, own, FULL, strict=True)
    }

    def run(on, buffer, draw):
        a, b = images(on, draw(N, *primary)), images(on, draw(N, *secondary))
        forward = kernel(f"MPSCNN{name}", on, {}, SCALES | strides)
        y, states = forward.encode_batch(
            buffer, primary_images=a, secondary_images=b, destination_state_is_temporary=False
        )
        arguments = {"is_secondary_source_filter": is_secondary}
        gradient = kernel(f"MPSCNN{name}Gradient", on, arguments, SCALES)
        dy = images(on, draw(*extents(y)))
        return [
            gradient.encode_batch(
                buffer, source_gradients=dy, source_images=a if is_secondary else b,
                gradient_states=states,
            )
        ]  # fmt: skip

    return run


def arithmetic_gradients(name):
    return [arithmetic(name, *extent, which) for extent in BROADCAST for which in (False, True)]


class Weights(ArrayWeights):
    def __init__(self, draw, kernel=(3, 3), groups=1, biases=True, **sizes):
        width, height = kernel
        inputs = C * groups
        self.array = draw(OUTPUTS, height, width, inputs // groups)
        self.biases = draw(OUTPUTS) if biases else None
        self.sizes = mps.MPSCNNConvolutionDescriptor.cnn_convolution_descriptor(
            with_kernel_width=width, kernel_height=height, input_feature_channels=inputs,
            output_feature_channels=OUTPUTS,
        )  # fmt: skip
        self.sizes.groups = groups
        for name, value in sizes.items():
            setattr(self.sizes, name, value)


def strided(x, y):
    return {"stride_in_pixels_x": x, "stride_in_pixels_y": y}


TRANSPOSED = [
    {},
    strided(2, 2),
    {"kernel": (4, 3)} | strided(3, 2),
    {"kernel": (2, 4)} | strided(2, 1),
    {"kernel": (1, 1)} | strided(2, 2),
    {"dilation_rate_x": 2, "dilation_rate_y": 3} | strided(1, 2),
    {"groups": 2} | strided(2, 2),
    {"biases": False} | strided(2, 2),
]


def transposed(sizes, gradient):
    """The result of the forward kernel, or the gradients of source, weights and biases."""

    def run(on, buffer, draw):
        weights = {"weights": Weights(draw, **sizes)}
        x = images(on, draw(N, C * sizes.get("groups", 1), H, W))
        forward = kernel("MPSCNNConvolutionTranspose", on, weights, {})
        y, states = forward.encode_batch(
            buffer, source_images=x, destination_state_is_temporary=False
        )
        if not gradient:
            return [y]
        of = kernel("MPSCNNConvolutionTransposeGradient", on, weights, {"gradient_option": "all"})
        dx = of.encode_batch(
            buffer, source_gradients=images(on, draw(*extents(y))), source_images=x,
            gradient_states=states,
        )  # fmt: skip
        return [dx, states[0].gradient_for_weights, states[0].gradient_for_biases]

    return run


def loss(name, which, reduction, numbers, by_labels=False):
    """`numbers` are the descriptor's, and header_formula the kernel's."""
    numbers = dict(numbers)
    own = {"header_formula": True} if numbers.pop("header", False) else {}

    def run(on, buffer, draw):
        descriptor = mps.MPSCNNLossDescriptor.cnn_loss_descriptor(
            with_type=which, reduction_type=reduction
        )
        for key, value in numbers.items():
            setattr(descriptor, key, value)
        arguments = {"loss_descriptor": descriptor}
        truth = np.abs(draw(*SHAPE))
        truth /= np.maximum(truth.sum(1, keepdims=True), 1)
        x, labels = images(on, draw(*SHAPE)), images(on, truth)
        losses = images(on, np.zeros(losses_of(which, reduction, SHAPE), np.float32))
        if name == "MPSCNNLoss":
            given = [
                mps.MPSCNNLossLabels(loss_image=one, labels_image=label)
                for one, label in zip(losses, labels, strict=True)
            ]
            made = kernel(name, on, arguments, own)
            return [made.encode_batch(buffer, source_images=x, labels=given), losses]
        if name == "MPSNNForwardLoss":
            made = kernel(name, on, arguments, {})
            made.encode_batch(buffer, source_images=x, labels=labels, destination_images=losses)
            return [losses]
        made = kernel(name, on, arguments, own | {"compute_label_gradients": by_labels})
        gradient = images(on, np.zeros(SHAPE, np.float32))
        made.encode_batch(
            buffer, source_gradients=images(on, draw(*extents(losses))), source_images=x,
            labels=labels, destination_gradients=gradient,
        )  # fmt: skip
        return [gradient]

    return run


LOSSES = {
    "hinge": ("hinge", {}),
    "huber": ("huber", {"delta": 0.25}),
    "kullback_leibler_divergence": ("kullback_leibler_divergence", {}),
    "categorical_cross_entropy": ("categorical_cross_entropy", {}),
    "log without epsilon": ("log", {"epsilon": 0}),
}
PRINTED = {
    f"{form} header_formula": (form, {"header": True, "delta": 0.25})
    for form in ("hinge", "huber", "kullback_leibler_divergence", "soft_max_cross_entropy")
}


def losses(name, which, numbers):
    by_labels = (False, True) if name == "MPSNNLossGradient" else (False,)
    return [
        loss(name, which, reduction, numbers | {"weight": weight}, labels)
        for reduction, weight in (("none", 1), ("mean", 0.5), ("sum", 2))
        for labels in by_labels
    ]


SMALL = {"kernel_width": 3, "kernel_height": 2}
LOCAL = {
    "MPSCNNCrossChannelNormalization": ({"kernel_size": 3}, {}),
    "MPSCNNSpatialNormalization": (SMALL, {}),
    "MPSCNNLocalContrastNormalization": (SMALL, {"p0": 0.5, "pm": 0.25, "ps": 2}),
}
# By the names that the backend looks for in the note.
KERNELS = {
    "MPSNNCompare": [comparison(which) for which in mps.MPSNNComparisonType],
    **{f"MPSCNN{name}Gradient": arithmetic_gradients(name)
       for name in ("Add", "Subtract", "Multiply")},
    "MPSNNPadGradient": [padding("zero", (2, 1, 4)), padding("clamp", (2, 1, 0))],
    "MPSCNNConvolutionTranspose": [transposed(sizes, False) for sizes in TRANSPOSED],
    "MPSCNNConvolutionTransposeGradient": [transposed(sizes, True) for sizes in TRANSPOSED],
    **{f"{name}Gradient{' header_formula' if header else ''}": local(name, sizes, header, **more)
       for name, (sizes, more) in LOCAL.items() for header in (False, True)},
    "MPSCNNNeuronGradient relun": relun(False),
    "MPSCNNNeuronGradient relun header_formula": relun(True),
    **{f"{name} {form}": losses(name, *row)
       for name in ("MPSCNNLoss", "MPSNNForwardLoss", "MPSNNLossGradient")
       for form, row in (LOSSES if name == "MPSNNForwardLoss" else LOSSES | PRINTED).items()},
    "MPSCNNDropout": keeps_its_masks,
}  # fmt: skip


def executed(device, case, which):
    on = mps.MTLDevice(device=device)
    buffer = on.make_command_queue().make_command_buffer()
    results = case(on, buffer, Draw(which))
    buffer.commit()
    buffer.wait_until_completed()
    return arrays(results)


def compare(case, which):
    """Of each result the largest deviation, and whether it is within the bounds, where the ops give
    numbers.
    """
    for got, want in zip(
        executed("metal", case, which), executed("reference", case, which), strict=True
    ):
        finite = np.isfinite(want)
        got, want = got[finite].astype(np.float64), want[finite].astype(np.float64)
        apart, largest = np.abs(got - want), np.abs(want).max(initial=0)
        right = (apart <= RELATIVE * np.abs(want) + OF_LARGEST * largest).all()
        yield apart.max(initial=0) / (largest or 1), right


def verify(name):
    """Prints what is compared of this kernel; 0 where it is right."""
    cases = KERNELS[name]
    if cases is keeps_its_masks:
        wrong = cases("metal")
        print(wrong or "none")
        return 1 if wrong else 0
    found = [row for case in cases for which in ROUNDS for row in compare(case, which)]
    print(f"{np.max([deviation for deviation, _ in found]):.1e}")
    return 0 if all(right for _, right in found) else 1


if __name__ == "__main__":
    if len(sys.argv) == 1:
        print(*KERNELS, sep="\n")
    elif sys.argv[1] == "--masks":
        print_masks("metal")
    else:
        sys.exit(verify(sys.argv[1]))
