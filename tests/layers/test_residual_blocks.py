"""Layer norm, product and residual sum, which backends may compute together: trained beside the
reference in float64, over rows of many lengths."""

import numpy as np
import pytest

import traingraph as tg
from traingraph import nn

NOW = tg.MLCExecutionOptions.SYNCHRONOUS
TOKENS = 3
# Of the largest gradient of a parameter.
BOUNDS = {"float32": 2e-5, "mixed_bfloat16": 0.08, "mixed_float16": 0.012}


def network(width, rows, device, data_type, **options):
    """Two residual blocks; the second one's gradient passes through the sum before it."""
    tg.MLCPlatform.set_rng_seed_to(3)
    x = nn.Input([TOKENS, width], name="x", data_type=data_type)
    h = nn.dense(width)(x)
    for _ in range(2):
        h = h + nn.dense(width)(nn.activation("tanh")(nn.dense(width)(nn.layer_norm()(h))))
    outputs = nn.dense(4)(nn.layer_norm()(h))
    return nn.model(
        inputs=[x],
        outputs=[outputs],
        loss="mean_squared_error",
        optimizer=tg.MLCSGDOptimizer(learning_rate=1.0),
        batch_size=rows,
        device=device,
        **options,
    )


def gradients(training, rows, width, dtype, off=0.0):
    """What a step of learning rate 1 subtracts, by parameter."""
    rng = np.random.default_rng(rows + width)
    before = {k: np.array(v.data, np.float64) for k, v in training.named_parameters().items()}
    training.execute(
        inputs_data={"x": (rng.normal(size=(rows, TOKENS, width)) + off).astype(dtype)},
        loss_labels_data={"y": rng.normal(size=(rows, TOKENS, 4)).astype(dtype)},
        options=NOW,
    )
    training.synchronize_updates()
    after = {k: np.array(v.data, np.float64) for k, v in training.named_parameters().items()}
    return {k: before[k] - after[k] for k in before}


def compare(training, other, rows, width, bound, off=0.0):
    expected = gradients(other, rows, width, np.float64, off)
    for name, value in gradients(training, rows, width, np.float32, off).items():
        error = np.abs(value - expected[name]).max() / np.abs(expected[name]).max()
        assert error < bound, name


@pytest.mark.parametrize("device", ["cpu"])
@pytest.mark.parametrize("precision", BOUNDS)
@pytest.mark.parametrize(
    ("width", "rows"),
    [(64, 1), (68, 5), (72, 64), (100, 3), (256, 40), (384, 7), (520, 2), (768, 90), (1024, 5),
     (1032, 4), (2048, 3), (2056, 2)],
)  # fmt: skip
def test_blocks_train_as_the_reference_does(width, rows, precision, device):
    training = network(width, rows, device, "float32")
    training.compile(device=device, precision=precision)
    compare(training, network(width, rows, "reference", "float64"), rows, width, BOUNDS[precision])


@pytest.mark.parametrize("device", ["cpu"])
@pytest.mark.parametrize("width", [64, 768])
def test_rows_far_from_zero_keep_their_digits(width, device):
    """Rows whose deviation is a ten-thousandth of their mean, as float32 still has them."""
    x = nn.Input([TOKENS, width], name="x")
    training = nn.model(inputs=[x], outputs=[nn.layer_norm()(x)], device=device, batch_size=4,
                        loss="mean_squared_error")  # fmt: skip
    data = (1e4 + np.random.default_rng(0).normal(size=(4, TOKENS, width))).astype(np.float32)
    wide = data.astype(np.float64)
    expected = (wide - wide.mean(-1, keepdims=True)) / np.sqrt(wide.var(-1, keepdims=True) + 1e-5)
    # A mean of MPS, of which the row norm of metal is made, is one of float32.
    bound = 1e-3 if device == "metal" else 3e-6
    np.testing.assert_allclose(training.predict(data), expected, atol=bound)


@pytest.mark.parametrize("device", ["cpu"])
@pytest.mark.parametrize("rows", [1, 2, 7])
def test_smaller_batches_count_their_rows_alone(rows, device):
    training = network(96, 8, device, "float32", any_batch_size=True)
    other = network(96, rows, "reference", "float64")
    compare(training, other, rows, 96, BOUNDS["float32"])


@pytest.mark.parametrize("precision", BOUNDS)
def test_cuda_computes_a_layer_norm_as_one_op(precision, gpu):
    training = network(256, 8, gpu, "float32")
    training.compile(device=gpu, precision=precision)
    ops = training.compiled_description().splitlines()
    joined = [line for line in ops if "affine=yes" in line]
    assert sum("= row_norm(" in line for line in joined) >= 2
    assert sum("= row_norm_gradient(" in line for line in joined) >= 2


def test_cuda_adds_a_residual_in_the_product(gpu):
    training = network(768, 64, gpu, "float32")
    ops = training.compiled_description().splitlines()
    assert (
        sum(
            "= matmul(" in line and "epilogue={t0 = add" in line and "t1 = add" in line
            for line in ops
        )
        >= 2
    )
