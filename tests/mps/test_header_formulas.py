"""`header_formula`: what Apple prints where it is not the derivative. Local normalizations are in
test_normalizations.py."""

import numpy as np
import pytest
from gradients import backward, device, execute, forward, random
from kernels import array, batch

from traingraph import Unsupported, mps

SHAPE = (2, 3, 2, 2)


def soft_max(y):
    shifted = np.exp(y - y.max(axis=1, keepdims=True))
    return shifted / shifted.sum(axis=1, keepdims=True)


DELTA = 0.5
PRINTED = {
    "soft_max_cross_entropy": lambda y, t: soft_max(y) - t,
    "hinge": lambda y, t: np.where(1 - (2 * t - 1) * y > 0, 1 - 2 * t, 0),
    "huber": lambda y, t: np.where(np.abs(y - t) > DELTA, DELTA, y - t),
    "kullback_leibler_divergence": lambda y, t: -t / y,
}


def descriptor(name, reduction="mean"):
    d = mps.MPSCNNLossDescriptor.cnn_loss_descriptor(with_type=name, reduction_type=reduction)
    d.delta, d.weight = DELTA, 0.75
    return d


def given():
    """Predictions, some of them near their labels, and labels that do not sum to 1."""
    y = random(1, *SHAPE)
    t = np.random.default_rng(2).uniform(0.2, 0.8, SHAPE)
    y[0] = t[0] + 0.2 * random(3, *SHAPE[1:])
    return y, t, np.random.default_rng(4).integers(0, 3, SHAPE).astype(np.float64)


def share(name):
    """What the mean of an image makes of each element's gradient."""
    return 0.75 / (4 if name == "soft_max_cross_entropy" else 12)


@pytest.mark.parametrize("name", PRINTED)
def test_of_the_loss_kernel(name):
    y, t, weights = given()
    if name == "soft_max_cross_entropy":
        weights = weights[:, :1]
    kernel = mps.MPSCNNLoss(device=device(), loss_descriptor=descriptor(name))
    kernel.makes_temporary_images = False

    def run():
        labels = [
            mps.MPSCNNLossLabels(
                device=device(), loss_image_size=(1, 1, 1), labels_image=one, weights_image=w
            )
            for one, w in zip(batch(device(), t), batch(device(), weights), strict=True)
        ]
        result = execute(
            lambda buffer: kernel.encode_batch(
                buffer, source_images=batch(device(), y), labels=labels
            )
        )
        return array(result), array([label.loss_image() for label in labels])

    exact, loss = run()
    kernel.header_formula = True
    printed, same = run()
    np.testing.assert_array_equal(loss, same)
    expected = share(name) * weights * PRINTED[name](y, t)
    np.testing.assert_allclose(printed, expected, rtol=1e-9, atol=1e-15)
    assert np.abs(printed - exact).max() > 0.005


@pytest.mark.parametrize("name", PRINTED)
def test_of_the_gradient_of_a_loss_image(name):
    y, t, _ = given()
    dloss = random(5, 2, 1, 1, 1)
    forward_kernel = mps.MPSNNForwardLoss(device=device(), loss_descriptor=descriptor(name))
    kernel = mps.MPSNNLossGradient(device=device(), loss_descriptor=descriptor(name))
    forward_kernel.makes_temporary_images = kernel.makes_temporary_images = False
    _, states = execute(
        lambda buffer: forward_kernel.encode_batch(
            buffer, source_images=batch(device(), y), labels=batch(device(), t),
            destination_state_is_temporary=False,
        )
    )  # fmt: skip

    def gradient():
        return array(
            execute(
                lambda buffer: kernel.encode_batch(
                    buffer, source_gradients=batch(device(), dloss),
                    source_images=batch(device(), y), labels=batch(device(), t),
                    source_states=states,
                )
            )
        )  # fmt: skip

    exact = gradient()
    kernel.header_formula = True
    expected = dloss * share(name) * PRINTED[name](y, t)
    np.testing.assert_allclose(gradient(), expected, rtol=1e-9, atol=1e-15)
    assert np.abs(expected - exact).max() > 0.005
    kernel.compute_label_gradients = True
    by_labels = gradient()
    kernel.header_formula = False
    np.testing.assert_array_equal(by_labels, gradient())


def test_of_relun():
    d = mps.MPSNNNeuronDescriptor.cnn_neuron_descriptor(with_type="relun", a=0.25, b=1.5)
    x = np.array([-2, -0.5, 0, 0.5, 1, 1.5, 2, 3], np.float64).reshape(1, 2, 2, 2)
    dy = random(6, *x.shape)
    states = forward(mps.MPSCNNNeuron(device=device(), neuron_descriptor=d), x)[1]
    kernel = mps.MPSCNNNeuronGradient(device=device(), neuron_descriptor=d)
    exact = backward(kernel, dy, x, states)
    assert (exact[x >= 1.5] == 0).all()
    kernel.header_formula = True
    slopes = np.where(x < 0, 0.25, np.where(x < 1.5, 1, 1.5))
    np.testing.assert_allclose(backward(kernel, dy, x, states), dy * slopes, rtol=1e-12)


def test_where_there_is_none():
    d = mps.MPSNNNeuronDescriptor.cnn_neuron_descriptor(with_type="sigmoid")
    with pytest.raises(Unsupported, match="another neuron than ReLUN"):
        mps.MPSCNNNeuronGradient(device=device(), neuron_descriptor=d).header_formula = True
    for kind in (mps.MPSCNNLoss, mps.MPSNNLossGradient):
        kernel = kind(device=device(), loss_descriptor=descriptor("mean_squared_error"))
        kernel.header_formula = False
        with pytest.raises(Unsupported, match="printed gradient is its derivative"):
            kernel.header_formula = True


def test_a_loss_that_has_none_is_not_put_in_its_place():
    testing = pytest.importorskip("traingraph._testing", reason="built with TRAINGRAPH_TESTING")
    with pytest.raises(NotImplementedError, match="printed gradient is its derivative"):
        testing.give_loss_without_printed_gradient()
