"""Padding policies and image allocators that the program wrote: what they say decides."""

from typing import Any

import numpy as np
import pytest
from gradients import device as device_of
from gradients import differences, execute, near, random
from graphs import source
from kernels import Weights, array, batch, commands, empty, run

from traingraph import InvalidArgument, ShapeError, Unsupported, mps

METHOD = mps.MPSNNPaddingMethod
X = (2, 2, 6, 7)


class Own:
    """Rows and columns of its own, from an offset of its own on."""

    def __init__(self, height: int, width: int, offset: tuple[int, int],
                 method: Any = METHOD.CUSTOM | METHOD.SIZE_SAME) -> None:  # fmt: skip
        self.size, self.offset, self.method = (height, width), offset, method
        self.asked: list[tuple[Any, ...]] = []

    def padding_method(self) -> Any:
        return self.method

    def destination_image_descriptor(self, for_source_images: Any, source_states: Any,
                                     for_kernel: Any,
                                     suggested_descriptor: Any) -> Any:  # fmt: skip
        self.asked.append((for_source_images, source_states, for_kernel))
        self.suggested = (suggested_descriptor.height, suggested_descriptor.width)
        for_kernel.offset = (*self.offset, 0)
        made = suggested_descriptor.copy()
        made.height, made.width = self.size
        return made


def convolution(on: Any) -> tuple[Any, Any]:
    weights = Weights(random(1, 3, 3, 2, 2), random(2, 3), stride_in_pixels_x=2)
    return (mps.MPSCNNConvolution(device=on, weights=weights),
            mps.MPSCNNConvolutionGradient(device=on, weights=weights))  # fmt: skip


def pooling(on: Any) -> tuple[Any, Any]:
    sizes = {"kernel_width": 2, "kernel_height": 3, "stride_in_pixels_x": 2,
             "stride_in_pixels_y": 1}  # fmt: skip
    return (mps.MPSCNNPoolingAverage(device=on, **sizes),
            mps.MPSCNNPoolingAverageGradient(device=on, **sizes))  # fmt: skip


def maximum(on: Any) -> tuple[Any, Any]:
    sizes = {"kernel_width": 3, "kernel_height": 3, "stride_in_pixels_x": 2,
             "stride_in_pixels_y": 2}  # fmt: skip
    return (mps.MPSCNNPoolingMax(device=on, **sizes),
            mps.MPSCNNPoolingMaxGradient(device=on, **sizes))  # fmt: skip


KERNELS = {"convolution": convolution, "average": pooling, "max": maximum}


@pytest.mark.parametrize("kind", KERNELS)
def test_the_policy_sizes_and_places(kind: str) -> None:
    on = device_of()
    kernel, gradient = KERNELS[kind](on)
    own = Own(3, 3, (1, 2))
    kernel.padding = own
    assert kernel.padding is own
    kernel.makes_temporary_images = gradient.makes_temporary_images = False
    x = random(3, *X)
    images = batch(on, x)
    y, states = execute(lambda b: kernel.encode_batch(
        b, source_images=images, destination_state_is_temporary=False))  # fmt: skip
    assert (y[0].height, y[0].width) == (3, 3)
    assert kernel.offset[:2] == (1, 2)
    ((sources, source_states, asked),) = own.asked
    assert asked is kernel
    assert [one is other for one, other in zip(sources, images, strict=True)] == [True, True]
    assert not source_states
    by_hand, _ = KERNELS[kind](on)
    assert own.suggested == tuple(
        getattr(by_hand.destination_image_descriptor(for_source_images=images, source_states=None),
                key) for key in ("height", "width"))  # fmt: skip

    def forward(moved: np.ndarray) -> np.ndarray:
        by_hand.offset = (1, 2, 0)
        out = empty(on, (2, y[0].feature_channels, 3, 3))
        execute(lambda b: by_hand.encode_batch(b, source_images=batch(on, moved),
                                               destination_images=out))  # fmt: skip
        return array(out)

    np.testing.assert_array_equal(array(y), forward(x))
    dy = random(4, *array(y).shape)
    dx = execute(lambda b: gradient.encode_batch(
        b, source_gradients=batch(on, dy), source_images=images, gradient_states=states)
    )  # fmt: skip
    near(array(dx), differences(forward, x, dy))
    d = kernel.destination_image_descriptor(for_source_images=images, source_states=None)
    assert (d.height, d.width) == (3, 3)


@pytest.mark.parametrize("kind", ["convolution", "max"])
@pytest.mark.parametrize("device", ["cpu", "reference"])
def test_in_graphs(kind: str, device: str) -> None:
    on = device_of(device)
    own = Own(3, 3, (1, 2))
    x = random(3, *X)
    dtype = "float64" if device == "reference" else "float32"
    if kind == "convolution":
        weights = Weights(random(1, 3, 3, 2, 2).astype(dtype), stride_in_pixels_x=2)
        node = mps.MPSCNNConvolutionNode(source=source("x"), weights=weights)
        kernel = mps.MPSCNNConvolution(device=on, weights=weights)
    else:
        node = mps.MPSCNNPoolingMaxNode(source=source("x"), kernel_width=3, kernel_height=3,
                                        stride_in_pixels_x=2, stride_in_pixels_y=2)  # fmt: skip
        kernel = maximum(on)[0]
    node.padding_policy = own
    assert node.padding_policy is own
    last = node.gradient_filter(with_source=source("dy"))
    graph = mps.MPSNNGraph(device=on, result_images=[last.result_image, node.result_image],
                           results_are_needed=[True, True])  # fmt: skip
    graph.format, graph.makes_temporary_images = dtype, False
    channels = 3 if kind == "convolution" else 2
    given = {"x": batch(on, x.astype(dtype)),
             "dy": batch(on, random(4, 2, channels, 3, 3).astype(dtype))}  # fmt: skip
    kernel.offset = (1, 2, 0)
    for count in range(1, 5):
        results: list[Any] = []
        buffer = commands(on)
        dx = graph.encode_batch(
            buffer, source_images=[given[handle] for handle in graph.source_image_handles],
            intermediate_images=results,
        )  # fmt: skip
        out = empty(on, (2, channels, 3, 3), dtype)
        kernel.encode_batch(buffer, source_images=given["x"], destination_images=out)
        run(buffer)
        np.testing.assert_allclose(array(results[0]), array(out), rtol=1e-6)
        assert len(own.asked) == count  # at each encoding
        assert isinstance(own.asked[-1][2], type(kernel))
    assert (dx[0].height, dx[0].width) == X[2:]

    def forward(moved: np.ndarray) -> np.ndarray:
        given["x"], found = batch(on, moved), []
        execute(lambda b: graph.encode_batch(
            b, source_images=[given[handle] for handle in graph.source_image_handles],
            intermediate_images=found), on)  # fmt: skip
        return array(found[0])

    if dtype == "float64":
        near(array(dx), differences(forward, x, array(given["dy"])))
    # Whoever copies the graph asks the same object; bytes cannot have it.
    copied = graph.copy()
    execute(lambda b: copied.encode_batch(
        b, source_images=[given[handle] for handle in copied.source_image_handles]),
        on)  # fmt: skip
    assert own.asked[-1][2] is not own.asked[-2][2]
    with pytest.raises(Unsupported, match=r"own .* padding policy"):
        mps.NSKeyedArchiver.archived_data(with_root_object=graph)


def test_transposed_with_a_state() -> None:
    on = device_of()
    weights = Weights(random(1, 2, 3, 3, 3), stride_in_pixels_x=2, stride_in_pixels_y=2)
    up = mps.MPSCNNConvolutionTranspose(device=on, weights=weights)
    up.makes_temporary_images = False
    down = mps.MPSCNNConvolution(device=on, weights=Weights(
        random(2, 3, 3, 3, 2), stride_in_pixels_x=2, stride_in_pixels_y=2))  # fmt: skip
    x = batch(on, random(3, 1, 2, 6, 8))
    states = down.result_state_batch(for_source_image=x)
    own = Own(5, 7, (0, 0))
    up.padding = own
    small = batch(on, random(4, 1, 3, 3, 4))
    y = execute(lambda b: up.encode_batch(b, source_images=small,
                                          convolution_gradient_states=states))  # fmt: skip
    assert (y[0].height, y[0].width) == (5, 7)
    assert own.suggested == (6, 8)
    assert own.asked[0][1][0] is states[0]


def test_without_the_bit_nobody_is_asked() -> None:
    kernel, _ = maximum(device_of())
    own = Own(1, 1, (0, 0), METHOD.SIZE_VALID_ONLY)
    kernel.padding = own
    d = kernel.destination_image_descriptor(
        for_source_images=batch(device_of(), random(1, *X)), source_states=None
    )
    assert (d.height, d.width, own.asked) == (2, 3, [])
    assert kernel.padding == METHOD.SIZE_VALID_ONLY


def test_bad_policies() -> None:
    on = device_of()
    kernel, _ = maximum(on)
    x = batch(on, random(1, *X))
    kernel.padding = METHOD.CUSTOM
    with pytest.raises(InvalidArgument, match="an object, for its method has CUSTOM, but got a me"):
        kernel.encode_batch(commands(on), source_images=x)
    kernel.padding = Own(0, 3, (0, 0))
    with pytest.raises(ShapeError, match="policy that gives 1 pixel or more"):
        kernel.encode_batch(commands(on), source_images=x)
    own = Own(2, 3, (0, 0))
    kernel.padding = own
    own.destination_image_descriptor = lambda *_: "image"  # type: ignore[method-assign]
    with pytest.raises(TypeError, match=r"MPSNNPadding\.destination_image_descriptor.*result"):
        kernel.encode_batch(commands(on), source_images=x)

    def raises(*_: Any) -> Any:
        raise KeyError("mine")

    own.destination_image_descriptor = raises  # type: ignore[method-assign]
    with pytest.raises(KeyError, match="mine"):
        kernel.encode_batch(commands(on), source_images=x)
    # A result that the kernel cannot have : it moves no window.
    neuron = mps.MPSCNNSoftMax(device=on)
    neuron.padding = Own(9, 9, (0, 0))
    with pytest.raises(ShapeError, match=r"MPSCNNSoftMax\]"):
        neuron.encode_batch(commands(on), source_images=x)


def test_copies_share_a_policy_and_an_allocator() -> None:
    kernel, _ = maximum(device_of())
    own, allocator = Own(1, 1, (0, 0)), Allocator()
    kernel.padding, kernel.destination_image_allocator = own, allocator
    other = kernel.copy(device=device_of("cpu"))
    assert other.padding is own
    assert other.destination_image_allocator is allocator
    with pytest.raises(Unsupported, match="own padding policy"):
        mps.NSKeyedArchiver.archived_data(with_root_object=kernel)
    kernel.padding = METHOD.SIZE_SAME
    with pytest.raises(Unsupported, match="own image allocator"):
        mps.NSKeyedArchiver.archived_data(with_root_object=kernel)


# --- allocators -----------------------------------------------------------------------------------


class Allocator:
    """Permanent images, of which it keeps those it has made."""

    def __init__(self) -> None:
        self.made: list[Any] = []
        self.kernels: list[Any] = []

    def image(self, command_buffer: Any, image_descriptor: Any, kernel: Any) -> Any:
        made = mps.MPSImage(device=command_buffer.device, image_descriptor=image_descriptor)
        self.made.append(made)
        self.kernels.append(kernel)
        return made

    def image_batch(self, command_buffer: Any, image_descriptor: Any, kernel: Any,
                    count: int) -> list[Any]:  # fmt: skip
        return [self.image(command_buffer, image_descriptor, kernel) for _ in range(count)]


def test_default_allocators() -> None:
    on = device_of("cpu")
    d = mps.MPSImageDescriptor.image_descriptor(
        with_channel_format="float32", width=3, height=2, feature_channels=4
    )
    buffer = commands(on)
    for cls in (mps.MPSImage, mps.MPSTemporaryImage):
        allocator = cls.default_allocator()
        one = allocator.image(buffer, image_descriptor=d, kernel=None)
        assert isinstance(one, mps.MPSTemporaryImage) is (cls is mps.MPSTemporaryImage)
        assert (one.width, one.height, one.feature_channels) == (3, 2, 4)
        several = allocator.image_batch(
            buffer, image_descriptor=d, kernel=mps.MPSCNNSoftMax(device=on), count=3
        )
        assert len(several) == 3
        assert type(several[1]) is type(one)
        with pytest.raises(InvalidArgument, match="1 image or more but got 0"):
            allocator.image_batch(buffer, image_descriptor=d, kernel=None, count=0)
    kernel = mps.MPSCNNSoftMax(device=on)
    assert kernel.destination_image_allocator is mps.MPSTemporaryImage.default_allocator()
    assert kernel.makes_temporary_images
    kernel.destination_image_allocator = mps.MPSImage.default_allocator()
    assert not kernel.makes_temporary_images
    kernel.makes_temporary_images = True
    assert kernel.destination_image_allocator is mps.MPSTemporaryImage.default_allocator()
    with pytest.raises(TypeError, match="image_batch"):
        kernel.destination_image_allocator = object()


def test_allocators_of_kernels() -> None:
    on = device_of("cpu")
    x, other = (batch(on, random(k, *X).astype(np.float32)) for k in (1, 2))
    weights = Weights(random(1, 3, 3, 2, 2).astype(np.float32))
    forward = mps.MPSCNNConvolution(device=on, weights=weights)
    gradient = mps.MPSCNNConvolutionGradient(device=on, weights=weights)
    add = mps.MPSCNNAdd(device=on)
    d = mps.MPSCNNLossDescriptor.cnn_loss_descriptor(
        with_type="mean_squared_error", reduction_type="none"
    )
    loss = mps.MPSNNForwardLoss(device=on, loss_descriptor=d)
    first = mps.MPSCNNLoss(device=on, loss_descriptor=d)
    allocators = []
    for kernel in (forward, gradient, add, loss, first):
        allocators.append(Allocator())
        kernel.destination_image_allocator = allocators[-1]
        assert kernel.destination_image_allocator is allocators[-1]
    buffer = commands(on)
    y, states = forward.encode_batch(buffer, source_images=x, destination_state_is_temporary=True)
    dx = gradient.encode_batch(buffer, source_gradients=y, source_images=x, gradient_states=states)
    total = add.encode_batch(buffer, primary_images=x, secondary_images=other)
    values, _ = loss.encode_batch(buffer, source_images=x, labels=other, weights=None,
                                  destination_state_is_temporary=False)  # fmt: skip
    labels = [mps.MPSCNNLossLabels(loss_image=a, labels_image=b, weights_image=None)
              for a, b in zip(batch(on, np.zeros(X, np.float32)), other, strict=True)]  # fmt: skip
    slope = first.encode_batch(buffer, source_images=x, labels=labels)
    run(buffer)
    results = (y, dx, total, values, slope)
    kernels = (forward, gradient, add, loss, first)
    for allocator, result, kernel in zip(allocators, results, kernels, strict=True):
        assert [a is b for a, b in zip(allocator.made, result, strict=True)] == [True, True]
        assert all(one is kernel for one in allocator.kernels)
    np.testing.assert_allclose(array(total), array(x) + array(other), rtol=1e-6)
    np.testing.assert_allclose(array(values), (array(x) - array(other)) ** 2, rtol=1e-5)
    np.testing.assert_allclose(array(slope), 2 * (array(x) - array(other)), rtol=1e-5)
    # A single encoding asks for one image.
    allocators[2].made.clear()
    one = add.encode(commands(on), primary_image=x[0], secondary_image=other[0])
    assert allocators[2].made == [one]


class Wrong(Allocator):
    def __init__(self, change: Any) -> None:
        super().__init__()
        self.change = change

    def image_batch(self, *given: Any) -> Any:
        return self.change(*given)


def test_what_an_allocator_makes_is_checked() -> None:
    on = device_of("cpu")
    kernel = mps.MPSCNNSoftMax(device=on)
    x = batch(on, random(1, *X).astype(np.float32))
    elsewhere = batch(device_of("reference"), random(1, *X).astype(np.float32))
    wrong = {
        "2 images but got 1": lambda *_: x[:1],
        "6x7 of the format that is asked for but": lambda *_: empty(on, (2, 2, 6, 6), "float32"),
        "of the format that is asked for": lambda *_: empty(on, X, "float16"),
        "images of device": lambda *_: elsewhere,
    }
    for text, change in wrong.items():
        kernel.destination_image_allocator = Wrong(change)
        with pytest.raises(InvalidArgument, match=rf"MPSCNNSoftMax\] expected.*{text}"):
            kernel.encode_batch(commands(on), source_images=x)
    kernel.destination_image_allocator = Wrong(lambda *_: "images")
    with pytest.raises(TypeError, match=r"MPSImageAllocator\.image_batch"):
        kernel.encode_batch(commands(on), source_images=x)
    # The source itself is refused by the kernel.
    kernel.destination_image_allocator = Wrong(lambda *_: x)
    with pytest.raises(InvalidArgument, match="apart from the sources"):
        kernel.encode_batch(commands(on), source_images=x)


def network() -> tuple[Any, Any, Any]:
    tanh = mps.MPSCNNNeuronTanHNode(source=source("x"))
    square = mps.MPSNNMultiplicationNode(sources=[tanh.result_image, tanh.result_image])
    soft = mps.MPSCNNSoftMaxNode(source=square.result_image)
    return tanh, square, soft


def test_allocators_of_graphs() -> None:
    on = device_of("cpu")
    tanh, square, soft = network()
    square.result_image.export_from_graph = True
    graph = mps.MPSNNGraph(device=on, result_image=soft.result_image)
    results, inner, exported = Allocator(), Allocator(), Allocator()
    graph.destination_image_allocator = results
    tanh.result_image.image_allocator = inner
    square.result_image.image_allocator = exported
    assert graph.destination_image_allocator is results
    assert tanh.result_image.image_allocator is inner
    x = random(1, *X).astype(np.float32)
    for count in range(1, 5):
        images: list[Any] = []
        found = execute(lambda b, images=images: graph.encode_batch(
            b, source_images=[batch(on, x)], intermediate_images=images), on)  # fmt: skip
        assert [len(one.made) for one in (results, inner, exported)] == [2 * count] * 3
        assert all(a is b for a, b in zip(results.made[-2:], found, strict=True))
        assert all(a is b for a, b in zip(exported.made[-2:], images[0], strict=True))
        assert results.kernels[-1] is graph
        np.testing.assert_allclose(array(inner.made[-2:]), np.tanh(x), rtol=1e-6)
        np.testing.assert_allclose(array(images[0]), np.tanh(x) ** 2, rtol=1e-5)
    copied = graph.copy()
    assert copied.destination_image_allocator is results
    execute(lambda b: copied.encode_batch(b, source_images=[batch(on, x)]), on)
    assert len(inner.made) == 10
    with pytest.raises(Unsupported, match="image allocator"):
        mps.NSKeyedArchiver.archived_data(with_root_object=graph)
    single = graph.encode(commands(on), source_images=[batch(on, x)[0]])
    assert single is results.made[-1]


def test_default_allocators_of_graphs() -> None:
    on = device_of("cpu")
    x = random(1, *X).astype(np.float32)
    tanh, square, soft = network()
    tanh.result_image.export_from_graph = square.result_image.export_from_graph = True
    graph = mps.MPSNNGraph(device=on, result_image=soft.result_image)
    square.result_image.image_allocator = mps.MPSImage.default_allocator()
    assert not square.result_image.makes_temporary_images
    for image, temporary in ((tanh, True), (square, False), (soft, True)):
        is_temporary = mps.MPSTemporaryImage.default_allocator()
        assert (image.result_image.image_allocator is is_temporary) is temporary
    images: list[Any] = []
    result = graph.encode_batch(commands(on), source_images=[batch(on, x)],
                                intermediate_images=images)  # fmt: skip
    kinds = [type(one[0]) for one in (result, *images)]
    assert kinds == [mps.MPSTemporaryImage, mps.MPSTemporaryImage, mps.MPSImage]
    graph.destination_image_allocator = mps.MPSImage.default_allocator()
    assert not graph.makes_temporary_images
    result = graph.encode_batch(commands(on), source_images=[batch(on, x)])
    assert type(result[0]) is mps.MPSImage
    data = mps.NSKeyedArchiver.archived_data(with_root_object=graph)
    made = mps.MPSKeyedUnarchiver.unarchived_object_of_class(
        mps.MPSNNGraph, from_data=data, device=on
    )
    assert made.destination_image_allocator is mps.MPSImage.default_allocator()


# --- synchronization ------------------------------------------------------------------------------


def test_synchronize() -> None:
    on = device_of("cpu")
    x = batch(on, random(1, *X).astype(np.float32))
    kernel = mps.MPSCNNSoftMax(device=on)
    kernel.makes_temporary_images = False
    weights = Weights(random(1, 3, 3, 2, 2).astype(np.float32))
    convolution = mps.MPSCNNConvolution(device=on, weights=weights)
    buffer = commands(on)
    y = kernel.encode_batch(buffer, source_images=x)
    _, states = convolution.encode_batch(
        buffer, source_images=x, destination_state_is_temporary=False
    )
    short, temporary = convolution.encode_batch(
        buffer, source_images=x, destination_state_is_temporary=True
    )
    y[0].synchronize(buffer)
    states[0].synchronize(buffer)
    mps.image_batch_synchronize(y, buffer)
    mps.image_batch_synchronize(list(y), command_buffer=buffer)
    mps.state_batch_synchronize(states, buffer)
    with pytest.raises(InvalidArgument, match="got a temporary one"):
        short[0].synchronize(buffer)
    with pytest.raises(InvalidArgument, match="got a temporary one"):
        mps.state_batch_synchronize(temporary, buffer)
    with pytest.raises(InvalidArgument, match="a command buffer of device"):
        y[0].synchronize(commands(device_of("reference")))
    with pytest.raises(InvalidArgument, match="a command buffer of device"):
        states[0].synchronize(commands(device_of("reference")))
    run(buffer)
    soft = np.exp(array(x)) / np.exp(array(x)).sum(1, keepdims=True)
    np.testing.assert_allclose(array(y), soft, rtol=1e-5)
    with pytest.raises(InvalidArgument, match="one that was committed"):
        mps.image_batch_synchronize(y, buffer)
    with pytest.raises(InvalidArgument, match="one that was committed"):
        states[0].synchronize(buffer)


def test_synchronize_resource() -> None:
    """Every result can be read after the run, and that is what it asks for."""
    on = device_of("cpu")
    x = random(1, *X).astype(np.float32)
    _, square, soft = network()
    graph = mps.MPSNNGraph(device=on, result_image=soft.result_image)
    assert not soft.result_image.synchronize_resource
    soft.result_image.synchronize_resource = True
    square.result_state.synchronize_resource = True
    graph.makes_temporary_images = False
    y = execute(lambda b: graph.encode_batch(b, source_images=[batch(on, x)]), on)
    e = np.exp(np.tanh(x) ** 2)
    np.testing.assert_allclose(array(y), e / e.sum(1, keepdims=True), rtol=1e-5)
    data = mps.NSKeyedArchiver.archived_data(with_root_object=graph)
    made = mps.MPSKeyedUnarchiver.unarchived_object_of_class(
        mps.MPSNNGraph, from_data=data, device=on
    )
    assert made._results[0].synchronize_resource
