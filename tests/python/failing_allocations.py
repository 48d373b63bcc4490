"""Fails each call of operator new once, one after another, and looks at what is left.

Run with libtraingraph_failing_new.so loaded before the C++ library: `name of a case, stride`.
"""

import ctypes
import gc
import sys
import tempfile
from pathlib import Path

import numpy as np

import traingraph as tg
from traingraph import mps

sys.path.insert(0, str(Path(__file__).parents[1] / "graph"))
from checked_networks import NETWORKS

FAILING = ctypes.CDLL(None)
FAILING.fail_call.argtypes = [ctypes.c_int64]
FAILING.calls_until_failure.restype = ctypes.c_int64
FOLDER = tempfile.mkdtemp()
NOW = "synchronous"
X, Y = np.linspace(-1, 1, 12, dtype="f4").reshape(4, 3), np.ones((4, 2), "f4")


class Network:
    def __init__(self):
        tg.MLCPlatform.set_rng_seed_to(5)
        rng = np.random.default_rng(1)
        self.weights = tg.MLCTensor(data=rng.normal(size=(2, 3)).astype("f4"))
        self.biases = tg.MLCTensor(data=np.zeros(2, "f4"))
        self.x, self.y = tg.MLCTensor(shape=[4, 3]), tg.MLCTensor(shape=[4, 2])
        layer = tg.MLCFullyConnectedLayer(
            weights=self.weights, biases=self.biases,
            descriptor=tg.MLCConvolutionDescriptor(
                kernel_sizes=(3, 2), input_feature_channel_count=3, output_feature_channel_count=2
            ),
        )  # fmt: skip
        self.graph = tg.MLCGraph()
        layers = [layer, tg.MLCActivationLayer.tanh(), tg.MLCDropoutLayer(rate=0.5, seed=3)]
        tg.sequential(self.graph, self.x, layers)
        self.optimizer = tg.MLCAdamOptimizer(learning_rate=0.1)
        self.training = tg.MLCTrainingGraph(
            graph_objects=[self.graph],
            loss_layer=tg.MLCLossLayer.mean_squared_error(reduction_type="mean"),
            optimizer=self.optimizer,
        )
        self.training.add_inputs({"x": self.x}, loss_labels={"y": self.y})

    def compile(self):
        self.training.compile(device="cpu")
        return self

    def state(self):
        return {name: np.array(value).tobytes() for name, value in self.training.state().items()}

    def step(self, options=NOW, **others):
        return self.training.execute(
            inputs_data={"x": X}, loss_labels_data={"y": Y}, options=options, **others
        )

    def handled_step(self):
        called = []
        handle = self.step(0, completion_handler=lambda *given: called.append(given))
        handle.wait()
        if not called:
            raise AssertionError("the handler was not called")
        if called[0][1] is not None:
            raise called[0][1]

    def bind(self):
        tensors = {"x": self.x, "y": self.y}
        self.training.bind_and_write_data({"x": X, "y": Y}, for_inputs=tensors)

    def phases(self):
        self.training.execute_forward(options=NOW)
        self.training.execute_gradient(options=NOW)
        self.training.execute_optimizer_update(options=NOW)


def failures(work, stride=1):
    """(number, error or None) of each call of `work`, in which one allocation fails."""
    number = 1
    while True:
        FAILING.fail_call(number)
        error = None
        try:
            work()
        except BaseException as caught:
            error = caught
        left = FAILING.calls_until_failure()
        FAILING.fail_call(0)
        if error is not None and not isinstance(error, MemoryError):
            raise AssertionError(f"allocation {number}: {error!r}") from error
        yield number, error
        if left > 0:
            if error is not None:
                raise AssertionError(f"no allocation failed, but {error!r}") from error
            return
        number += stride


def tried(work, stride, then):
    """How many were tried; `then` shows after each that all goes on."""
    count = 0
    for number, _ in failures(work, stride):
        then()
        count = number
    return count


def steps(work, stride, prepare=Network.compile, passes=()):
    """Each step happens, or it is as if it had not been asked for; but for `passes` of its own."""
    return compared_steps(work, prepare(Network()), prepare(Network()), stride, passes)


def compared_steps(work, network, expected, stride, passes):
    for run in (network, expected):
        work(run)
    before = network.state()
    assert before == expected.state()
    count = 0
    for number, error in failures(lambda: work(network), stride):
        after = network.state()
        if error is None:
            work(expected)
            assert after == expected.state(), f"allocation {number}: another step"
            before = after
        else:
            differs = {name for name in after if after[name] != before[name]} - {*passes}
            assert not differs, f"allocation {number}: {error!r}, but {differs} changed"
            expected.training.load_state(network.training.state())
        count = number
    return count


def bound(network):
    network.compile().bind()
    return network


def built(stride):
    return tried(lambda: Network().compile().step(), stride, lambda: Network().compile().step())


def compiled(stride):
    """Of a graph that goes on as it was."""
    network = Network().compile()
    network.step()

    def goes_on():
        assert np.isfinite(network.step().result).all()

    return tried(network.compile, stride, goes_on)


def other_batches(stride):
    network, size = Network().compile(), iter(range(2, 1 << 20))

    def work():
        rows = next(size)
        network.training.execute(
            inputs_data={"x": np.zeros((rows, 3), "f4")}, options=NOW, batch_size=rows,
            loss_labels_data={"y": np.zeros((rows, 2), "f4")},
        )  # fmt: skip

    return tried(work, stride, lambda: network.step())


def stored(stride, call):
    """A call on a file of the network's state, which can be loaded behind it."""
    network, path = Network().compile(), Path(FOLDER) / "state.safetensors"
    network.step()
    state = network.state()
    network.training.save(path)

    def goes_on():
        network.training.load(path)
        assert network.state() == state
        network.step()
        network.training.load(path)

    return tried(lambda: call(network.training, path), stride, goes_on)


def saved(stride):
    return stored(stride, lambda training, path: training.save(path))


def loaded(stride):
    return stored(stride, lambda training, path: training.load(path))


def predicted(stride):
    network = Network().compile()
    expected = network.training.predict(X).tobytes()

    def goes_on():
        assert network.training.predict(X).tobytes() == expected

    return tried(lambda: network.training.predict(X), stride, goes_on)


def fitted(stride):
    network = Network().compile()
    work = lambda: network.training.fit(X, Y, epochs=1, batch_size=2, shuffle=True)  # noqa: E731
    work()

    def goes_on():
        assert np.isfinite(network.step().result).all()

    return tried(work, stride, goes_on)


def checked(stride):
    network = Network().compile()
    work = lambda: tg.check_gradients(network.training, {"x": X}, {"y": Y})  # noqa: E731
    return tried(work, stride, lambda: network.step())


def refused(stride):
    """Errors whose translation needs memory itself."""
    network = Network().compile()

    def work():
        try:
            network.training.execute(inputs_data={"x": X[:, :2]}, loss_labels_data={"y": Y})
        except ValueError:
            return
        raise AssertionError("taken")

    return tried(work, stride, lambda: network.step())


def collected(stride):
    def work():
        network = Network()
        network.cycle = network
        network.training.compile(device="cpu")
        del network
        gc.collect()

    return tried(work, stride, lambda: None)


def encoding(device, kernel, image):
    buffer = device.make_command_queue().make_command_buffer()
    kernel.encode(buffer, source_image=image)
    buffer.commit()
    buffer.wait_until_completed()
    if buffer.error is not None:
        raise buffer.error


def mps_parts():
    device = mps.MTLDevice(device="cpu")
    descriptor = mps.MPSImageDescriptor.image_descriptor(
        with_channel_format="float32", width=2, height=2, feature_channels=4, number_of_images=1
    )
    kernel = mps.MPSCNNNeuronReLU(device=device, a=0)
    return device, kernel, mps.MPSImage(device=device, image_descriptor=descriptor)


def encoded(stride):
    parts = mps_parts()
    encoding(*parts)
    return tried(lambda: encoding(*parts), stride, lambda: encoding(*parts))


def encoded_first(stride):
    return tried(lambda: encoding(*mps_parts()), stride, lambda: encoding(*mps_parts()))


class Made:
    """A network of the tests of gradients, with the names of `Network`."""

    def __init__(self, make):
        tg.MLCPlatform.set_rng_seed_to(5)
        self.net = make(device="cpu")
        self.training, self.step = self.net.training, self.net.step
        self.state = lambda: Network.state(self)


def networks(stride):
    """Steps of many kinds of layers, and their compilation."""
    count = 0
    for make in NETWORKS:
        made, expected = Made(make), Made(make)
        count += compared_steps(lambda one: one.step(), made, expected, stride, ())
        recompile = lambda one=made: one.training.compile(device="cpu")  # noqa: E731
        count += tried(recompile, 25 * stride, made.step)
    return count


CASES = {
    "step": lambda stride: steps(Network.step, stride),
    "waited step": lambda stride: steps(lambda network: network.step(0).wait(), stride),
    "handled step": lambda stride: steps(Network.handled_step, stride),
    # The forward pass may have run when another call fails.
    "phases": lambda stride: steps(Network.phases, stride, bound, ("state.forward_count",)),
    "built": built,
    "compiled": compiled,
    "other batches": other_batches,
    "saved": saved,
    "loaded": loaded,
    "predicted": predicted,
    "fitted": fitted,
    "checked": checked,
    "refused": refused,
    "collected": collected,
    "encoded": encoded,
    "encoded first": encoded_first,
    "networks": networks,
}

if __name__ == "__main__":
    for name in sys.argv[2:] or CASES:
        print(name, CASES[name](int(sys.argv[1])), flush=True)
