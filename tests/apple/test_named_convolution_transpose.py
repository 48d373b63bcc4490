"""Transposed convolutions that traingraph.mps encodes as Apple's kernels over the Metal backend."""

import metal_package
import numpy as np
import pytest
from mps_kernels import ArrayWeights
from test_named_kernels import H, N, Numbers, W, arrays, compare, images, object_of, values, works

from traingraph import mps

pytestmark = metal_package.needs_doubles

FORWARD, GRADIENT = "MPSCNNConvolutionTranspose", "MPSCNNConvolutionTransposeGradient"
INPUTS, OUTPUTS = 4, 8


class Weights(ArrayWeights):
    def __init__(self, kernel=(3, 3), inputs=INPUTS, groups=1, biases=True, depth_wise=False,
                 **sizes):  # fmt: skip
        width, height = kernel
        outputs = inputs if depth_wise else OUTPUTS
        split = inputs if depth_wise else groups
        self.array = values((outputs, height, width, inputs // split), seed=3) - 1
        self.biases = values((outputs,), seed=4) if biases else None
        kind = "DepthWise" if depth_wise else ""
        descriptor = getattr(mps, f"MPSCNN{kind}ConvolutionDescriptor")
        self.sizes = descriptor.cnn_convolution_descriptor(
            with_kernel_width=width, kernel_height=height, input_feature_channels=inputs,
            output_feature_channels=outputs,
        )  # fmt: skip
        self.sizes.groups = groups
        for name, value in sizes.items():
            setattr(self.sizes, name, value)


def strides(x, y):
    return {"stride_in_pixels_x": x, "stride_in_pixels_y": y}


RELU = mps.MPSNNNeuronDescriptor.cnn_neuron_descriptor(with_type="relu", a=0.25)
PRELU = mps.MPSNNNeuronDescriptor.cnn_neuron_prelu_descriptor(
    with_data=[0.5, 0.25, 2, -1, 0.5, 1, 3, 0.125]
)
# What the weights are made with.
CASES = {
    "stride 1": {},
    "stride 2": strides(2, 2),
    "strides 3 and 2": {"kernel": (4, 3)} | strides(3, 2),
    "a kernel of even sizes": {"kernel": (2, 4)} | strides(2, 1),
    "a kernel of one tap": {"kernel": (1, 1)} | strides(2, 2),
    "dilation": {"dilation_rate_x": 2, "dilation_rate_y": 3} | strides(1, 2),
    "groups": {"inputs": 8, "groups": 2} | strides(2, 2),
    "no biases": {"biases": False} | strides(2, 2),
    "one channel": {"inputs": 1, "biases": False},
}
OPTIONS = ["gradient_with_data", "gradient_with_weights_and_bias", "all"]


class Pair:
    """Both kernels, and the images that go through them."""

    def __init__(self, device, weights, option="all"):
        self.device = device
        source = Weights(**weights)
        self.forward = mps.MPSCNNConvolutionTranspose(device=device, weights=source)
        self.gradient = mps.MPSCNNConvolutionTransposeGradient(device=device, weights=source)
        self.gradient.gradient_option = option
        self.x = images(device, values((N, weights.get("inputs", INPUTS), H, W)) - 1)
        for kernel in (self.forward, self.gradient):
            kernel.makes_temporary_images = False

    def run(self, buffer):
        """The result, the gradient of the source, and the sums that the state has."""
        y, states = self.forward.encode_batch(
            buffer, source_images=self.x, destination_state_is_temporary=False
        )
        dx = self.back(buffer, y, states)
        sums = (states[0].gradient_for_weights, states[0].gradient_for_biases)
        return [y, dx, *(Numbers(one) for one in sums)]

    def back(self, buffer, y, states):
        first = y[0]
        shape = (len(y), first.feature_channels, first.height, first.width)
        dy = images(self.device, values(shape, seed=1) - 1)
        return self.gradient.encode_batch(
            buffer, source_gradients=dy, source_images=self.x, gradient_states=states
        )


def compare_pair(expected, run):
    """So many computations by the forward kernel, and by the gradient kernel."""
    for name, count in zip((FORWARD, GRADIENT), expected, strict=True):
        compare(name, count, run)


@pytest.mark.parametrize("option", OPTIONS)
@pytest.mark.parametrize("case", CASES)
def test_a_pair_is_encoded_by_name(case, option):
    # A gradient of data is encoded once more, before the first weights are reloaded.
    times = (N, N + ("weights" not in str(option)))
    compare_pair(times, lambda device, buffer: Pair(device, CASES[case], option).run(buffer))


@pytest.mark.parametrize("neuron", [RELU, PRELU], ids=["ReLU", "PReLU"])
def test_a_fused_neuron(neuron):
    def run(device, buffer):
        pair = Pair(device, {"fused_neuron_descriptor": neuron} | strides(2, 2))
        return [pair.forward.encode_batch(buffer, source_images=pair.x)]

    compare(FORWARD, N, run)


def test_offsets():
    """Both of them, given with the result's size."""

    def run(device, buffer):
        pair = Pair(device, strides(2, 3))
        pair.forward.offset = (1, -1, 0)
        pair.forward.kernel_offset_x, pair.forward.kernel_offset_y = -1, 2
        y = images(device, np.zeros((N, OUTPUTS, 7, 11), np.float32))
        states = pair.forward.result_state_batch(
            for_source_image=pair.x, source_states=None, destination_image=y
        )
        pair.forward.encode_batch(
            buffer, source_images=pair.x, destination_states=states, destination_images=y
        )
        sums = (states[0].gradient_for_weights, states[0].gradient_for_biases)
        return [y, pair.back(buffer, y, states), *(Numbers(one) for one in sums)]

    compare_pair((N, N + 1), run)


def test_images_stay_where_their_gradient_is_not_asked_for():
    def run(device, buffer):
        pair = Pair(device, strides(2, 2), "gradient_with_weights_and_bias")
        _, states = pair.forward.encode_batch(
            buffer, source_images=pair.x, destination_state_is_temporary=False
        )
        kept = images(device, values((N, INPUTS, H, W), seed=5))
        dy = images(device, values((N, OUTPUTS, 2 * H, 2 * W), seed=1))
        pair.gradient.kernel_offset_x = pair.forward.kernel_offset_x
        pair.gradient.kernel_offset_y = pair.forward.kernel_offset_y
        pair.gradient.encode_batch(
            buffer, source_gradients=dy, source_images=pair.x, gradient_states=states,
            destination_gradients=kept,
        )  # fmt: skip
        return [kept, Numbers(states[0].gradient_for_weights)]

    compare(GRADIENT, N, run)


def test_batches_and_windows_of_channels():
    """Three images of four, of which four channels are read and go behind four others."""

    def run(device, buffer):
        pair = Pair(device, strides(2, 2))
        x = images(device, values((4, 12, H, W)) - 1)
        y = images(device, np.ones((3, OUTPUTS + 4, 2 * H, 2 * W), np.float32))
        pair.forward.source_feature_channel_offset = 4
        pair.forward.source_feature_channel_max_count = 4
        pair.forward.destination_feature_channel_offset = 4
        pair.forward.encode_batch(buffer, source_images=x, destination_images=y)
        return [y]

    compare(FORWARD, 3, run)


def test_several_images_of_an_object():
    def run(device, buffer):
        pair = Pair(device, strides(2, 2))
        x = object_of(device, values((3, INPUTS, H, W)))
        y = pair.forward.encode(buffer, source_image=x)
        return [y.batch_representation()]

    compare(FORWARD, 3, run)


def test_training_reloads_what_has_changed():
    """Every step has a buffer of its own; the program is one, and the weights are others."""

    def trained(name, steps=4):
        device = mps.MTLDevice(device=name)
        pair = Pair(device, strides(2, 2))
        optimizer = mps.MPSNNOptimizerStochasticGradientDescent(device=device, learning_rate=1e-3)
        queue, results = device.make_command_queue(), []
        for _ in range(steps):
            buffer = queue.make_command_buffer()
            y, states = pair.forward.encode_batch(
                buffer, source_images=pair.x, destination_state_is_temporary=False
            )
            dx = pair.back(buffer, y, states)
            state = pair.forward.export_weights_and_biases(buffer)
            optimizer.encode(
                buffer, convolution_gradient_state=states[0], convolution_source_state=state,
                result_state=state,
            )  # fmt: skip
            for kernel in (pair.forward, pair.gradient):
                kernel.reload_weights_and_biases(buffer, state=state)
            buffer.commit()
            buffer.wait_until_completed()
            results.append((arrays(y), arrays(dx), np.array(state.weights), np.array(state.biases)))
        return results

    before = [works(name) for name in (FORWARD, GRADIENT)]
    found = trained("metal")
    assert [works(name) for name in (FORWARD, GRADIENT)] == [
        before[0] + 4 * N,
        before[1] + 4 * N + 1,
    ]
    for got, want in zip(found, trained("reference"), strict=True):
        for a, b in zip(got, want, strict=True):
            np.testing.assert_allclose(a, b, rtol=1e-4, atol=1e-5)
    assert np.abs(found[3][0] - found[0][0]).max() > 1e-2


def test_a_graph_trains_by_name():
    """Nodes: the gradient reads the forward kernel's weights themselves."""

    class Trained(Weights):
        def update(self, command_buffer, gradient_state, source_state):
            optimizer.encode(
                command_buffer, convolution_gradient_state=gradient_state,
                convolution_source_state=source_state, result_state=source_state,
            )  # fmt: skip
            return source_state

    found = {}
    for name in ("reference", "metal"):
        device = mps.MTLDevice(device=name)
        optimizer = mps.MPSNNOptimizerStochasticGradientDescent(device=device, learning_rate=1e-3)
        source = Trained(**strides(2, 2))
        x, dy = mps.MPSNNImageNode(handle="x"), mps.MPSNNImageNode(handle="dy")
        node = mps.MPSCNNConvolutionTransposeNode(source=x, weights=source)
        node.training_style = mps.MPSNNTrainingStyle.UPDATE_DEVICE_GPU
        (last,) = node.training_graph(with_source_gradient=dy)
        graph = mps.MPSNNGraph(
            device=device, result_image=last.result_image, result_image_is_needed=True
        )
        graph.makes_temporary_images = False
        given = {
            "x": images(device, values((N, INPUTS, H, W)) - 1),
            "dy": images(device, values((N, OUTPUTS, 2 * H, 2 * W), seed=1) - 1),
        }
        before, results = works(GRADIENT), []
        for _ in range(3):
            buffer = device.make_command_queue().make_command_buffer()
            order = [given[handle] for handle in graph.source_image_handles]
            dx = graph.encode_batch(buffer, source_images=order)
            buffer.commit()
            buffer.wait_until_completed()
            results.append(arrays(dx))
        found[name] = results
        assert works(GRADIENT) - before == (3 * N + 1 if name == "metal" else 0)
    np.testing.assert_allclose(found["metal"], found["reference"], rtol=1e-4, atol=1e-5)
    assert np.abs(found["metal"][2] - found["metal"][0]).max() > 1e-3


# --- composed ------------------------------------------------------------------------------------


SCRIPT = """
import numpy as np
import test_named_convolution_transpose as t
from traingraph import mps

found = []
for device in ("reference", "metal"):
    before = [t.works(name) for name in (t.FORWARD, t.GRADIENT)]
    on = mps.MTLDevice(device=device)
    buffer = on.make_command_queue().make_command_buffer()
    kept = t.Pair(on, {weights}).run(buffer)
    buffer.commit()
    buffer.wait_until_completed()
    found.append([one.data if hasattr(one, "data") else t.arrays(one) for one in kept])
    print(*(t.works(name) - count
            for name, count in zip((t.FORWARD, t.GRADIENT), before, strict=True)))
for a, b in zip(*found, strict=True):
    np.testing.assert_allclose(a, b, rtol=1e-4, atol=1e-5)
"""


@pytest.mark.parametrize(
    ("weights", "reason"),
    [
        ({"groups": 2}, "groups of channels that are no multiples of 4"),
        ({"depth_wise": True}, "a depthwise kernel, which Apple's class has none of"),
    ],
)
def test_what_is_composed(weights, reason):
    done = metal_package.run_script(
        SCRIPT.replace("{weights}", repr(weights | strides(2, 2))), TRAINGRAPH_VERBOSE="dispatch"
    )
    assert done.returncode == 0, done.stderr
    assert done.stdout.split() == ["0"] * 4
    for name in (FORWARD, GRADIENT):
        assert f"{name}: {reason}" in done.stderr


def test_what_kernels_are_told_beside_weights():
    """Properties that a kernel by name cannot have: composed, as on other devices."""
    script = """
import test_named_convolution_transpose as t
from traingraph import mps

def told(edge="zero", primary=(0, 0, 0), neuron=None):
    on = mps.MTLDevice(device="metal")
    weights = t.strides(2, 2) | ({"fused_neuron_descriptor": neuron} if neuron else {})
    pair = t.Pair(on, weights)
    pair.forward.edge_mode = edge
    buffer = on.make_command_queue().make_command_buffer()
    y, states = pair.forward.encode_batch(
        buffer, source_images=pair.x, destination_state_is_temporary=False
    )
    gradient = t.images(on, t.arrays(y))
    pair.gradient.primary_offset = primary
    pair.gradient.encode_batch(
        buffer, source_gradients=gradient, source_images=pair.x, gradient_states=states,
        destination_gradients=t.images(on, t.arrays(pair.x)),
    )
    buffer.commit()
    buffer.wait_until_completed()

told(edge="clamp")
told(primary=(1, 0, 0))
told(neuron=t.RELU)
"""
    done = metal_package.run_script(script, TRAINGRAPH_VERBOSE="dispatch")
    assert done.returncode == 0, done.stderr
    for name, reason in (
        (FORWARD, "an edge that is not of zeros"),
        (GRADIENT, "an offset of the incoming gradient"),
        (GRADIENT, "the gradient of a fused neuron"),
    ):
        assert f"{name}: {reason}" in done.stderr
