"""What is meant by a name that a module does not have."""

from collections.abc import Callable, Sequence

# Keras's and PyTorch's words, in small letters.
_WORDS = {
    "linear": "dense",
    "layernorm": "layer_norm",
    "layernormalization": "layer_norm",
    "batchnormalization": "batch_norm",
    "batchnorm1d": "batch_norm",
    "batchnorm2d": "batch_norm",
    "convtranspose2d": "conv2d_transpose",
    "multiheadattention": "attention",
    "maxpool2d": "max_pool",
    "avgpool2d": "average_pool",
    "optim": "nn.adam, nn.adamw, nn.sgd, nn.rmsprop",
    "tensor": "MLCTensor",
}
_ACTIVATIONS = {"relu", "sigmoid", "tanh", "gelu", "silu", "mish", "elu", "selu", "softmax"}


def missing_name(module: str, names: Sequence[str]) -> Callable[[str], object]:
    """The module's __getattr__: an AttributeError that asks for what was meant."""
    by_lower = {name.lower(): name for name in names}

    def refuse(name: str) -> object:
        import difflib  # not when the package is imported

        word = name.lower()
        meant = _WORDS.get(word)
        if module.endswith(".nn") and word in _ACTIVATIONS:
            meant = f'the text "{word}"'
        close = difflib.get_close_matches(word, by_lower, 1, 0.75)
        close = close or [lower for lower in by_lower if len(word) > 3 and lower.startswith(word)]
        if meant is None and close and not name.startswith("_"):
            meant = by_lower[close[0]]
        asks = f"; did you mean {meant}?" if meant else ""
        raise AttributeError(f"module '{module}' has no attribute '{name}'{asks}")

    return refuse
