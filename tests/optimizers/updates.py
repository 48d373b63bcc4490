"""An optimizer with every clipping and regularization against its formula in NumPy.

    RULES = {"name": (descriptor -> optimizer, rule), …}
    test_updates_follow_the_formulas = checks(RULES)

A rule takes a parameter, its gradient, a dictionary of what it keeps, the step from 1 on and the
learning rate; it gives the new parameter. The network is y = w · x over one fully connected layer
and a bias, so that gradients are known.
"""

import numpy as np
import pytest

import traingraph as tg

STEPS = 4
BOUNDS = {"float64": 1e-12, "float32": 5e-6}


def prepared(gradients, values, options):
    """Clip, rescale, regularize."""
    kind = options.get("gradient_clipping_type", "by_value")
    if options.get("applies_gradient_clipping"):
        if kind == "by_value":
            low, high = options["gradient_clip_min"], options["gradient_clip_max"]
            gradients = [np.clip(g, low, high) for g in gradients]
        else:
            limit = options["maximum_clipping_norm"]
            norms = [np.linalg.norm(g) for g in gradients]
            if kind == "by_global_norm":
                together = options.get("custom_global_norm", 0) or np.sqrt(
                    sum(norm**2 for norm in norms)
                )
                norms = [together] * len(gradients)
            gradients = [g * min(1.0, limit / n) for g, n in zip(gradients, norms, strict=True)]
    gradients = [g * options.get("gradient_rescale", 1.0) for g in gradients]
    scale = options.get("regularization_scale", 0.0)
    match options.get("regularization_type", "none"):
        case "l1":
            return [g + scale * np.sign(p) for g, p in zip(gradients, values, strict=True)]
        case "l2":
            return [g + scale * p for g, p in zip(gradients, values, strict=True)]
    return gradients


def f32(value):
    """What a float32 field of a descriptor holds."""
    return float(np.float32(value))


def descriptor(learning_rate, options):
    return tg.MLCOptimizerDescriptor(
        learning_rate=learning_rate,
        gradient_rescale=options.get("gradient_rescale", 1.0),
        applies_gradient_clipping=options.get("applies_gradient_clipping", False),
        gradient_clipping_type=options.get("gradient_clipping_type", "by_value"),
        gradient_clip_max=options.get("gradient_clip_max", 1.0),
        gradient_clip_min=options.get("gradient_clip_min", -1.0),
        maximum_clipping_norm=options.get("maximum_clipping_norm", 1.0),
        custom_global_norm=options.get("custom_global_norm", 0.0),
        regularization_type=options.get("regularization_type", "none"),
        regularization_scale=options.get("regularization_scale", 0.0),
    )


OPTIONS = {
    "plain": {},
    "rescale": {"gradient_rescale": 0.5},
    "l1": {"regularization_type": "l1", "regularization_scale": 0.25},
    "l2": {"regularization_type": "l2", "regularization_scale": 0.25},
    "negative l2": {"regularization_type": "l2", "regularization_scale": -0.25},
    "scale without regularization": {"regularization_scale": 0.25},
    "clip by value": {
        "applies_gradient_clipping": True,
        "gradient_clip_min": -0.5,
        "gradient_clip_max": 0.25,
    },
    "clip by norm": {
        "applies_gradient_clipping": True,
        "gradient_clipping_type": "by_norm",
        "maximum_clipping_norm": 0.5,
    },
    "clip by global norm": {
        "applies_gradient_clipping": True,
        "gradient_clipping_type": "by_global_norm",
        "maximum_clipping_norm": 0.5,
    },
    "custom global norm": {
        "applies_gradient_clipping": True,
        "gradient_clipping_type": "by_global_norm",
        "maximum_clipping_norm": 0.5,
        "custom_global_norm": 2.0,
        "gradient_rescale": 0.5,
        "regularization_type": "l2",
        "regularization_scale": 0.25,
    },
}

IN, OUT, BATCH = 5, 3, 4


class Problem:
    """Mean squared error of a fully connected layer, with its gradient."""

    def __init__(self):
        rng = np.random.default_rng(7)
        self.x = rng.integers(-4, 5, (BATCH, IN)) / 4
        self.y = rng.integers(-4, 5, (BATCH, OUT)) / 2
        self.w = rng.integers(-4, 5, (OUT, IN)) / 4
        self.b = rng.integers(-4, 5, (OUT,)) / 4

    def gradients(self, w, b):
        e = 2 * (self.x @ w.T + b - self.y) / (BATCH * OUT)
        return [e.T @ self.x, e.sum(axis=0)]


def trained(problem, optimizer, device, dtype, before_step=lambda step: None):
    x = tg.MLCTensor(shape=[BATCH, IN], data_type=dtype)
    y = tg.MLCTensor(shape=[BATCH, OUT], data_type=dtype)
    w = tg.MLCTensor(data=problem.w.astype(dtype))
    b = tg.MLCTensor(data=problem.b.astype(dtype))
    graph = tg.MLCGraph()
    layer = tg.MLCFullyConnectedLayer(
        weights=w,
        biases=b,
        descriptor=tg.MLCConvolutionDescriptor(
            kernel_sizes=(1, 1), input_feature_channel_count=IN, output_feature_channel_count=OUT
        ),
    )
    graph.node(layer, source=x)
    training = tg.MLCTrainingGraph(
        graph_objects=[graph],
        loss_layer=tg.MLCLossLayer.mean_squared_error(reduction_type="mean"),
        optimizer=optimizer,
    )
    training.add_inputs({"x": x}, loss_labels={"y": y})
    training.compile(device=device)
    for step in range(STEPS):
        before_step(step)
        training.execute(
            inputs_data={"x": problem.x.astype(dtype)},
            loss_labels_data={"y": problem.y.astype(dtype)},
            options="synchronous",
        )
    training.synchronize_updates()
    return w.data, b.data


def expected(problem, rule, learning_rate, options):
    values = [problem.w.copy(), problem.b.copy()]
    slots = [{}, {}]
    for t in range(1, STEPS + 1):
        gradients = prepared(problem.gradients(*values), values, options)
        values = [
            rule(p, g, s, t, f32(learning_rate))
            for p, g, s in zip(values, gradients, slots, strict=True)
        ]
    return values


def checks(rules):
    """The test over a table of rules."""

    @pytest.mark.parametrize(("device", "dtype"), [("reference", "float64"), ("cpu", "float32")])
    @pytest.mark.parametrize("options", OPTIONS.values(), ids=OPTIONS.keys())
    @pytest.mark.parametrize("name", rules)
    def test_updates_follow_the_formulas(name, options, device, dtype):
        make, rule = rules[name]
        problem = Problem()
        learning_rate = 0.0625
        got = trained(problem, make(descriptor(learning_rate, options)), device, dtype)
        for have, want in zip(got, expected(problem, rule, learning_rate, options), strict=True):
            np.testing.assert_allclose(have, want, rtol=BOUNDS[dtype], atol=BOUNDS[dtype])

    return test_updates_follow_the_formulas
