"""Every number that an optimizer takes has a range; what lies outside is refused by name."""

import numpy as np
import pytest
from train_line import Line

import traingraph as tg
from traingraph import mps

NAN, INF = float("nan"), float("inf")
OPTIMIZERS = {
    "MLCSGDOptimizer": {"momentum_scale": [NAN, INF, -0.1, 1.1]},
    "MLCAdamOptimizer": {
        "beta1": [NAN, -0.1, 1.0, 1.5],
        "beta2": [NAN, -0.1, 1.0, 0.99999999],  # the last one is 1 in float32
        "epsilon": [NAN, INF, -1e-8],
        "time_step": [0, -1, 2**53 + 1],
    },
    "MLCAdamWOptimizer": {"beta1": [1.0], "beta2": [NAN], "epsilon": [-1.0], "time_step": [0]},
    "MLCRMSPropOptimizer": {
        "momentum_scale": [NAN, -0.1, 1.1],
        "alpha": [NAN, -0.1, 1.5],
        "epsilon": [NAN, INF, -1e-8],
    },
}
DESCRIPTOR = {
    "learning_rate": [NAN, INF, -INF, 1e300],
    "gradient_rescale": [NAN, INF],
    "regularization_scale": [NAN, -INF],
    "gradient_clip_max": [NAN, -2.0],  # the second one is below the least
    "gradient_clip_min": [NAN, 2.0],
    "maximum_clipping_norm": [NAN, -1.0],
    "custom_global_norm": [NAN, INF, -1.0],
}
MPS_DESCRIPTOR = {
    name: values
    for name, values in DESCRIPTOR.items()
    if name not in ("maximum_clipping_norm", "custom_global_norm")
}


def cases(table):
    return [(name, value) for name, values in table.items() for value in values]


@pytest.mark.parametrize(
    ("optimizer", "name", "value"),
    [(o, *case) for o, table in OPTIMIZERS.items() for case in cases(table)],
)
def test_own_numbers(optimizer, name, value):
    with pytest.raises(tg.InvalidArgument, match=rf"expected {name} to be .* but got "):
        getattr(tg, optimizer)(learning_rate=0.1, **{name: value})


@pytest.mark.parametrize(("name", "value"), cases(DESCRIPTOR))
def test_numbers_of_a_descriptor(name, value):
    numbers = {"learning_rate": 0.1} | {name: value}
    for make in (tg.MLCOptimizerDescriptor, *(getattr(tg, o) for o in OPTIMIZERS)):
        with pytest.raises(
            tg.InvalidArgument,
            match=r"expected gradient_clip_min to be"
            if value in (2.0, -2.0)
            else rf"expected {name} to be",
        ):
            make(**numbers)


def test_what_is_in_range():
    tg.MLCSGDOptimizer(
        learning_rate=-1.0,
        regularization_type="l2",
        regularization_scale=-0.1,
        gradient_clip_min=-INF,
        gradient_clip_max=INF,
        maximum_clipping_norm=INF,
        gradient_rescale=0.0,
        momentum_scale=1.0,
    )
    tg.MLCAdamOptimizer(learning_rate=0.0, beta1=0.0, beta2=0.0, epsilon=0.0, time_step=2**53)
    tg.MLCRMSPropOptimizer(learning_rate=0.1, alpha=1.0, momentum_scale=0.0, epsilon=0.0)
    tg.MLCRMSPropOptimizer(learning_rate=0.1, alpha=0.0)


@pytest.mark.parametrize("value", [NAN, INF])
def test_rates_set_between_steps(value):
    optimizer = tg.MLCAdamOptimizer(learning_rate=0.5)
    with pytest.raises(tg.InvalidArgument, match="expected learning_rate to be a finite number"):
        optimizer.learning_rate = value
    assert optimizer.learning_rate == 0.5
    optimizer.learning_rate = -0.5
    assert optimizer.learning_rate == -0.5


@pytest.mark.parametrize("device", ["reference", "cpu"])
@pytest.mark.parametrize("make", [tg.MLCAdamOptimizer, tg.MLCRMSPropOptimizer])
def test_without_epsilon_no_gradient_is_no_step(make, device):
    line = Line(make(learning_rate=0.5, epsilon=0.0), device=device).compile()
    zeros = np.zeros((2, 1), np.float32)
    line.training.execute(
        inputs_data={"x": zeros}, loss_labels_data={"y": zeros}, options="synchronous"
    )
    line.training.synchronize_updates()
    np.testing.assert_array_equal(line.weight.data, 0)


# --- traingraph.mps ------------------------------------------------------------------------------


def sgd(descriptor, momentum_scale=0.0):
    return mps.MPSNNOptimizerStochasticGradientDescent(
        device="cpu",
        momentum_scale=momentum_scale,
        use_nesterov_momentum=False,
        optimizer_descriptor=descriptor,
    )


def rmsprop(descriptor, decay=0.9, epsilon=1e-8):
    return mps.MPSNNOptimizerRMSProp(
        device="cpu", decay=decay, epsilon=epsilon, optimizer_descriptor=descriptor
    )


def adam(descriptor, beta1=0.9, beta2=0.999, epsilon=1e-8, time_step=0):
    return mps.MPSNNOptimizerAdam(
        device="cpu",
        beta1=beta1,
        beta2=beta2,
        epsilon=epsilon,
        time_step=time_step,
        optimizer_descriptor=descriptor,
    )


MPS_OPTIMIZERS = {
    sgd: {"momentum_scale": [NAN, -0.1, 1.1]},
    rmsprop: {"decay": [NAN, -0.1, 1.5], "epsilon": [NAN, -1.0, INF]},
    adam: {
        "beta1": [NAN, 1.0, -0.1],
        "beta2": [NAN, 1.0, 0.99999999],
        "epsilon": [NAN, -1.0],
        "time_step": [-1, 2**53],
    },
}


@pytest.mark.parametrize(
    ("make", "name", "value"), [(m, *case) for m, t in MPS_OPTIMIZERS.items() for case in cases(t)]
)
def test_own_numbers_of_encoded_optimizers(make, name, value):
    descriptor = mps.MPSNNOptimizerDescriptor(learning_rate=0.1)
    with pytest.raises(tg.InvalidArgument, match=rf"\[MPSNN\w+\] expected {name} to be"):
        make(descriptor, **{name: value})


@pytest.mark.parametrize(("name", "value"), cases(MPS_DESCRIPTOR))
def test_numbers_of_an_encoded_optimizers_descriptor(name, value):
    numbers = {"learning_rate": 0.1, "gradient_clip_max": 1.0, "gradient_clip_min": -1.0}
    named = "gradient_clip_min" if value in (2.0, -2.0) else name
    refused = pytest.raises(tg.InvalidArgument, match=rf"expected {named} to be")
    with refused:
        mps.MPSNNOptimizerDescriptor(**numbers | {name: value})
    descriptor = mps.MPSNNOptimizerDescriptor(**numbers)
    with refused:  # limits may cross while they are set, yet not when an optimizer takes them
        setattr(descriptor, name, value)
        sgd(descriptor)


def test_numbers_of_encoded_optimizers_set_between_steps():
    optimizer = adam(mps.MPSNNOptimizerDescriptor(learning_rate=0.5))
    with pytest.raises(tg.InvalidArgument, match="expected learning_rate to be a finite number"):
        optimizer.set_learning_rate(new_learning_rate=NAN)
    with pytest.raises(tg.InvalidArgument, match="expected time_step to be from 0"):
        optimizer.time_step = -1
    optimizer.set_learning_rate(new_learning_rate=-0.5)
    assert (optimizer.learning_rate, optimizer.time_step) == (-0.5, 0)
