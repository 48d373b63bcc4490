"""Matrix products on a GPU, thin ones among them. Runs with --device only."""

import ctypes
from collections.abc import Callable
from itertools import pairwise
from typing import Any

import numpy as np
import pytest

import traingraph as tg

pytest.importorskip("traingraph._testing", reason="built with TRAINGRAPH_TESTING")
from test_cuda import Counted

NOW = tg.MLCExecutionOptions.SYNCHRONOUS
DECAY = {"regularization_type": tg.MLCRegularizationType.L2, "regularization_scale": 0.01}


def sgd(momentum: float = 0.0, nesterov: bool = False, **options: Any) -> tg.MLCOptimizer:
    return tg.MLCSGDOptimizer(
        learning_rate=0.1, momentum_scale=momentum, uses_nesterov_momentum=nesterov, **options
    )


# The lists of updates that are compiled in. Where a gradient is nearly nothing, epsilon keeps its
# sign from counting.
OPTIMIZERS: dict[str, Callable[[], tg.MLCOptimizer]] = {
    "sgd": sgd,
    "sgd_decay": lambda: sgd(**DECAY),
    "momentum": lambda: sgd(0.9),
    "momentum_decay": lambda: sgd(0.9, **DECAY),
    "nesterov": lambda: sgd(0.9, True),
    "nesterov_decay": lambda: sgd(0.9, True, **DECAY),
    "adam": lambda: tg.MLCAdamOptimizer(learning_rate=1e-3, epsilon=1e-3),
    "adam_decay": lambda: tg.MLCAdamOptimizer(learning_rate=1e-3, epsilon=1e-3, **DECAY),
    "adam_w": lambda: tg.MLCAdamWOptimizer(
        learning_rate=1e-3, epsilon=1e-3, regularization_scale=0.01
    ),
    "rmsprop": lambda: tg.MLCRMSPropOptimizer(learning_rate=1e-3, epsilon=1e-3),
    "rmsprop_momentum": lambda: tg.MLCRMSPropOptimizer(
        learning_rate=1e-3, epsilon=1e-3, momentum_scale=0.9
    ),
}


def dense(
    rng: np.random.Generator, inputs: int, outputs: int, margin: float
) -> tg.MLCFullyConnectedLayer:
    """Biases are this far from nothing, either way."""
    bound = inputs**-0.5
    biases = rng.uniform(-bound, bound, outputs) + margin * rng.choice([-1, 1], outputs)
    return tg.MLCFullyConnectedLayer(
        weights=tg.MLCTensor(data=rng.uniform(-bound, bound, (outputs, inputs)).astype("f4")),
        biases=tg.MLCTensor(data=biases.astype("f4")),
        descriptor=tg.MLCConvolutionDescriptor(
            kernel_sizes=(1, 1),
            input_feature_channel_count=inputs,
            output_feature_channel_count=outputs,
        ),
    )


class Network:
    def __init__(
        self,
        device: str,
        precision: str,
        sizes: list[int],
        batch: int,
        activation: Callable[[], tg.MLCActivationLayer] = tg.MLCActivationLayer.relu,
        optimizer: str = "sgd",
        margin: float = 0,
        **options: int,
    ):
        rng = np.random.default_rng(3)
        self.x = rng.normal(size=(batch, sizes[0])).astype(np.float32)
        self.labels = rng.integers(0, sizes[-1], batch)
        x = tg.MLCTensor(shape=list(self.x.shape))
        labels = tg.MLCTensor(shape=[batch], data_type="int64")
        self.inputs, self.compared = x, labels
        graph = tg.MLCGraph()
        h = x
        for k, (inputs, outputs) in enumerate(pairwise(sizes)):
            hidden = k + 2 < len(sizes)
            apart = margin * 3**k if hidden else 0  # sums grow from layer to layer
            h = graph.node(dense(rng, inputs, outputs, apart), source=h)
            if hidden:
                h = graph.node(activation(), source=h)
        self.training = tg.MLCTrainingGraph(
            graph_objects=[graph],
            loss_layer=tg.MLCLossLayer.softmax_cross_entropy(reduction_type="mean"),
            optimizer=OPTIMIZERS[optimizer](),
        )
        self.training.add_inputs({"x": x}, loss_labels={"y": labels})
        self.training.compile(device=device, precision=precision, **options)

    def step(self, options: tg.MLCExecutionOptions = NOW) -> float:
        return float(
            self.training.execute(
                inputs_data={"x": self.x}, loss_labels_data={"y": self.labels}, options=options
            ).result
        )

    def step_in_phases(self) -> list[int]:
        """Kernels of warpgroups' instructions in the phases."""
        self.training.bind_and_write_data(
            {"x": self.x, "y": self.labels}, for_inputs={"x": self.inputs, "y": self.compared}
        )
        counts = []
        for phase in ("forward", "gradient", "optimizer_update"):
            with Counted("cuda") as device:
                getattr(self.training, f"execute_{phase}")(options=NOW)
            counts.append(device.counts["warpgroups"])
        return counts

    def state(self) -> dict[str, Any]:
        return {k: np.array(v) for k, v in self.training.state().items()}


@pytest.mark.parametrize(
    ("sizes", "batch"),
    [
        ([132, 200, 200, 10], 72),
        ([784, 2048, 10], 256),
        ([2048, 2048, 10], 200),
        ([140, 1028, 516], 250),
        ([2048, 300, 3], 65),
        ([64, 64, 64, 17], 1000),
        ([96, 16, 512, 12], 700),  # 16 and 12 inner, of wide results
        ([640, 16, 256, 7], 130),  # gradients of 16 and 7 rows
        ([64, 516, 9], 250),  # the last layer in two launches, cut off
        ([64, 1028, 16], 300),
        ([64, 512, 2], 700),
        ([784, 2048, 2048, 10], 250),  # blocks in pairs
        ([512, 2052, 2044, 5], 256),
    ],
)
@pytest.mark.parametrize("precision", ["float32", "tf32"])
def test_gradients_are_near_the_references(
    gpu: str, sizes: list[int], batch: int, precision: str
) -> None:
    """After one step of SGD the parameters differ by the gradients' errors. In TF32 the activation
    is smooth: units at the bend of a relu would count or not."""
    activation = (
        tg.MLCActivationLayer.relu if precision == "float32" else tg.MLCActivationLayer.tanh
    )
    compare_gradients(gpu, precision, sizes, batch, activation)


@pytest.mark.parametrize("batch", [250, 256])
def test_a_product_back_is_masked_by_a_relu(gpu: str, batch: int) -> None:
    """Units are far from the bend."""
    sizes = [784, 2048, 2048, 10]
    compare_gradients(gpu, "tf32", sizes, batch, tg.MLCActivationLayer.relu, margin=4)


def compare_gradients(
    gpu: str,
    precision: str,
    sizes: list[int],
    batch: int,
    activation: Callable[[], tg.MLCActivationLayer],
    margin: float = 0,
) -> None:
    here, reference = (
        Network(device, chosen, sizes, batch, activation, margin=margin)
        for device, chosen in ((gpu, precision), ("cpu", "float32"))
    )
    start = reference.state()
    assert here.step() == pytest.approx(
        reference.step(), rel=1e-5 if precision == "float32" else 1e-3
    )
    for name, value in here.state().items():
        if value.dtype != np.float32 or start[name].ndim == 0:
            continue
        gradient = start[name] - reference.state()[name]
        error = np.linalg.norm(value - reference.state()[name]) / np.linalg.norm(gradient)
        assert error < (2e-5 if precision == "float32" else 3e-3), name


def test_results_beside_large_products_share_places_where_memory_is_limited(gpu: str) -> None:
    """Else none waits for the readers of another one whose place it takes."""
    sizes, batch = [2048, 2048, 64], 250
    roomy = Network(gpu, "tf32", sizes, batch)
    limit = roomy.training.memory_plan().total_bytes - 1
    limited = Network(gpu, "tf32", sizes, batch, memory_limit=limit)
    assert limited.training.memory_plan().total_bytes <= limit
    assert limited.training.memory_plan().recomputed == []
    for _ in range(3):
        assert limited.step() == roomy.step()


@pytest.mark.parametrize("sizes", [[2048, 2048, 64], [784, 2048, 2048, 10]], ids=str)
@pytest.mark.parametrize("batch", [250, 256])
@pytest.mark.parametrize("optimizer", ["momentum", "adam"])
def test_a_recorded_step_has_the_bits_of_one_op_by_op(
    gpu: str, optimizer: str, batch: int, sizes: list[int]
) -> None:
    """Recorded, updates run beside large products or joined with them, in an order of their own,
    and kernels begin while those before are at work."""
    together, apart = (Network(gpu, "tf32", sizes, batch, optimizer=optimizer) for _ in range(2))
    op_by_op = tg.MLCExecutionOptions.SYNCHRONOUS | tg.MLCExecutionOptions.PER_LAYER_PROFILING
    for _ in range(4):
        assert together.step() == apart.step(op_by_op)
    other = apart.state()
    for name, value in together.state().items():
        np.testing.assert_array_equal(value, other[name], err_msg=name)


@pytest.mark.parametrize(
    ("sizes", "batch", "optimizer"),
    [
        *(([1028, 1100, 7], 100, name) for name in OPTIMIZERS),  # tiles and chunks cut off
        ([1024, 1024, 1024], 64, "adam"),
        ([2048, 2048, 10], 512, "adam"),
        ([17400, 68, 3], 64, "momentum"),  # more tiles across than multiprocessors
        ([68, 17400, 3], 64, "momentum"),
        ([784, 2048, 2048, 10], 256, "adam"),
    ],
)
def test_a_step_whose_updates_are_joined_with_products_is_one_in_phases(
    gpu: str, sizes: list[int], batch: int, optimizer: str
) -> None:
    """In phases the gradient is there, so products and updates are apart."""
    joined, apart = (
        Network(gpu, "tf32", sizes, batch, tg.MLCActivationLayer.tanh, optimizer) for _ in range(2)
    )
    start = apart.state()
    for _ in range(4):
        joined.step()
        apart.step_in_phases()
    other = apart.state()
    for name, value in joined.state().items():
        if value.dtype != np.float32 or value.ndim == 0:
            np.testing.assert_array_equal(value, other[name], err_msg=name)
            continue
        moved = np.linalg.norm(other[name] - start.get(name, 0))
        assert moved > 0, name
        assert np.linalg.norm(value - other[name]) < 2e-3 * moved, name


def compute_capability() -> tuple[int, int]:
    """Of the first GPU, as its driver says."""
    driver = ctypes.CDLL("libcuda.so.1")
    major, minor = ctypes.c_int(), ctypes.c_int()
    codes = [driver.cuInit(0)]
    for value, attribute in ((major, 75), (minor, 76)):
        codes.append(driver.cuDeviceGetAttribute(ctypes.byref(value), attribute, 0))
    assert codes == [0, 0, 0]
    return major.value, minor.value


def test_kernels_of_9_0_alone_are_launched(gpu: str) -> None:
    """A plugin built without them computes the same with others, only slower."""
    if compute_capability() != (9, 0):
        pytest.skip("needs a GPU of compute capability 9.0")
    assert any(name.startswith("90a") for name in tg._core.gpu_architectures())
    apart, joined = (Network(gpu, "tf32", [784, 2048, 2048, 10], 250) for _ in range(2))
    forward, gradient, update = apart.step_in_phases()
    assert forward > 0  # pairs of blocks
    assert gradient > 0  # those, and a mask
    assert update == 0
    for _ in range(2):  # launched one by one, then captured
        with Counted(gpu) as device:
            joined.step()
        assert device.counts["warpgroups"] > forward + gradient  # products with their updates
    with Counted(gpu) as device:
        joined.step()
    assert device.counts["warpgroups"] == 0
