"""What is meant by a name that a module or an object does not have."""

import enum
import sys
from collections.abc import Callable, Container, Mapping, Sequence

from traingraph import _core

# Of the texts of messages; the stub has no private names.
_nearest_name: Callable[[str, Sequence[str]], str | None] = vars(_core)["_nearest_name"]

# Words of Keras and PyTorch in small letters, and what to write for them, in modules. What is in
# quotes is passed to nn.model.
_SOFTMAX = 'nn.model(loss="softmax_cross_entropy")'
_SIGMOID = 'nn.model(loss="sigmoid_cross_entropy")'
_SQUARED = 'nn.model(loss="mse")'
_ABSOLUTE = 'nn.model(loss="mae")'
_OPTIMIZERS = "nn.adam, nn.adamw, nn.sgd, nn.rmsprop"
_WORDS = {
    "adaptiveavgpool2d": "average_pool()",
    "add": "the operator +",
    "avgpool2d": "average_pool",
    "averagepooling2d": "average_pool",
    "batchnorm1d": "batch_norm",
    "batchnorm2d": "batch_norm",
    "batchnormalization": "batch_norm",
    "bceloss": _SIGMOID,
    "bcewithlogitsloss": _SIGMOID,
    "bidirectional": "lstm(…, bidirectional=True)",
    "binary_cross_entropy": _SIGMOID,
    "binarycrossentropy": _SIGMOID,
    "callbacks": "EarlyStopping, Checkpoint, CSVLog",
    "cat": "concatenate",
    "categoricalcrossentropy": _SOFTMAX,
    "convtranspose2d": "conv2d_transpose",
    "conv2dtranspose": "conv2d_transpose",
    "compile": "the method compile() of a graph",
    "cross_entropy": _SOFTMAX,
    "crossentropyloss": _SOFTMAX,
    "csvlogger": "CSVLog",
    "cuda": 'the text "cuda" as device',
    "data": "augment.Batches",
    "dataloader": "augment.Batches",
    "datasets": "augment.Batches",
    "detach": "stop_gradient",
    "float16": 'the text "float16" as data_type',
    "float32": 'the text "float32" as data_type',
    "float64": 'the text "float64" as data_type',
    "functional": "nn",
    "globalaveragepooling2d": "average_pool()",
    "globalmaxpooling2d": "max_pool()",
    "huberloss": 'nn.model(loss="huber")',
    "init": 'the text "he_normal" as weights_init',
    "inputlayer": "Input",
    "int32": 'the text "int32" as data_type',
    "int64": 'the text "int64" as data_type',
    "keras": "nn",
    "l1loss": _ABSOLUTE,
    "layernorm": "layer_norm",
    "layernormalization": "layer_norm",
    "layers": "nn",
    "learningratescheduler": "RateSchedule",
    "linear": "dense",
    "load": "the method load() of a graph",
    "losses": "the texts that nn.model takes as loss",
    "lr_scheduler": "RateSchedule",
    "mae_loss": _ABSOLUTE,
    "max": "maximum",
    "maxpool2d": "max_pool",
    "maxpooling2d": "max_pool",
    "mean_absolute_error": _ABSOLUTE,
    "mean_squared_error": _SQUARED,
    "min": "minimum",
    "mse": _SQUARED,
    "mse_loss": _SQUARED,
    "mseloss": _SQUARED,
    "modelcheckpoint": "Checkpoint",
    "module": "nn.model",
    "modulelist": "a list of blocks",
    "multiheadattention": "attention",
    "multiply": "the operator *",
    "no_grad": "nn.stop_gradient",
    "optim": _OPTIMIZERS,
    "optimizers": _OPTIMIZERS,
    "pow": "the operator **",
    "reduce_mean": "mean",
    "reduce_sum": "sum",
    "rnn": "gru",
    "save": "the method save() of a graph",
    "simplernn": "gru",
    "smooth_l1_loss": 'nn.model(loss="huber")',
    "smoothl1loss": 'nn.model(loss="huber")',
    "sparsecategoricalcrossentropy": _SOFTMAX,
    "tensor": "MLCTensor",
    "tensorboard": "traingraph.tensorboard.TensorBoardLog",
    "utils": "augment.Batches",
}
_ACTIVATIONS = {
    "relu", "leaky_relu", "relu6", "sigmoid", "tanh", "gelu", "silu", "mish", "elu", "selu",
    "softmax", "log_softmax", "softplus",
}  # fmt: skip
_OTHER_ACTIVATIONS = {"leakyrelu": "leaky_relu", "logsoftmax": "log_softmax", "swish": "silu"}

# The same of members. The first one that the class has is meant; the brackets are shown.
_MEMBERS = {
    "add": ["node()"],
    "axis": ["dimension"],
    "backward": ["execute_gradient()"],
    "call": ["predict()"],
    "cpu": ['compile(device="cpu")'],
    "cuda": ['compile(device="cuda")'],
    "data_type": ["descriptor.data_type"],
    "dtype": ["descriptor.data_type", "data_type"],
    "eval": ["evaluate()", "predict()"],
    "execute_backward": ["execute_gradient()"],
    "forward": ["execute_forward()", "predict()"],
    "get_weights": ["state()"],
    "load_state_dict": ["load_state()"],
    "load_weights": ["load()"],
    "lr": ["learning_rate"],
    "mae": ["mean_absolute_error"],
    "mse": ["mean_squared_error"],
    "ndim": ["descriptor.shape"],
    "numpy": ["data"],
    "param_groups": ["learning_rate"],
    "parameters": ["named_parameters()"],
    "save_weights": ["save()"],
    "set_weights": ["load_state()"],
    "shape": ["descriptor.shape"],
    "size": ["descriptor.shape"],
    "state_dict": ["state()"],
    "step": ["execute_optimizer_update()", "steps"],
    "test": ["evaluate()"],
    "to": ["compile(device=…)"],
    "train": ["fit()"],
    "train_on_batch": ["execute()"],
    "train_step": ["execute()"],
    "trainable_weights": ["named_parameters()"],
    "variables": ["named_parameters()"],
    "weights": ["named_parameters()"],
}


def missing_name(
    module: str, names: Sequence[str], others: Mapping[str, Sequence[str]] | None = None
) -> Callable[[str], object]:
    """The module's __getattr__: an error that asks for what was meant.

    others are names of other modules, by the name of the module.
    """

    def refuse(name: str) -> object:
        meant = None if name.startswith("_") else _meant(module, names, others or {}, name)
        asks = f"; did you mean {meant}?" if meant else ""
        if _imports(sys._getframe(1).f_code.co_code, sys._getframe(1).f_lasti):
            raise ImportError(f"cannot import name '{name}' from '{module}'{asks}", name=module)
        # Python asks in its own words where it finds the object.
        text = f"module '{module}' has no attribute '{name}'{asks}"
        raise AttributeError(text, name=name, obj=None)

    return refuse


def missing_member(owner: object, name: str, error: AttributeError) -> AttributeError:
    """The error, or one that asks for what was meant, of an object, a class or an enumeration."""
    text = str(error)
    if text != name and "no attribute" not in text:
        return error  # of what there is, as one without a setter
    kind = f"'{type(owner).__name__}' object"
    if isinstance(owner, type):
        kind = f"type object '{owner.__name__}'"
    if isinstance(owner, enum.EnumMeta):
        meant = _nearest_name(name, list(owner.__members__))
    else:
        meant = _meant_member(dir(owner), name)
        if meant is None:
            return error
    asks = f"; did you mean {meant}?" if meant else ""
    # Python asks in its own words where it finds the object.
    return AttributeError(f"{kind} has no attribute '{name}'{asks}", name=name, obj=None)


class _Word:
    """A word of other libraries in a class that does not have it, but says what is meant."""

    def __init__(self, name: str, meant: str) -> None:
        self._name, self._meant = name, meant

    def __get__(self, owner: object, cls: type) -> object:
        text = f"'{cls.__name__}' object has no attribute '{self._name}'"
        asks = f"; did you mean {self._meant}?"
        raise AttributeError(text + asks, name=self._name, obj=None)


def answer_words(*classes: type) -> None:
    """In classes whose methods are called in each step, which a slot of ours would slow."""
    for cls in classes:
        members = set().union(*map(vars, cls.__mro__))
        for word in _MEMBERS.keys() - members:
            if meant := _meant_word(members, word):
                setattr(cls, word, _Word(word, meant))
        setattr(cls, "__dir__", _members_of_object)  # noqa: B010  (mypy: a method)
        setattr(type(cls), "__dir__", _members_of_class)  # noqa: B010


def _members_of_object(self: object) -> list[str]:
    return [name for name in object.__dir__(self) if not _is_word(type(self), name)]


def _members_of_class(self: type) -> list[str]:
    return [name for name in type.__dir__(self) if not _is_word(self, name)]


def _is_word(cls: type, name: str) -> bool:
    found = (vars(base)[name] for base in cls.__mro__ if name in vars(base))
    return name in _MEMBERS and isinstance(next(found, None), _Word)


def _meant_member(names: Sequence[str], word: str) -> str | None:
    if word.lower() in _MEMBERS:
        return _meant_word(names, word.lower())
    return _nearest_name(word, [name for name in names if not name.startswith("_")])


def _meant_word(names: Container[str], word: str) -> str | None:
    has = (one for one in _MEMBERS[word] if one.partition("(")[0].partition(".")[0] in names)
    return next(has, None)


def _meant(
    module: str, names: Sequence[str], others: Mapping[str, Sequence[str]], name: str
) -> str | None:
    word = name.lower()
    is_nn = module.endswith(".nn")
    if is_nn and (word in _ACTIVATIONS or word in _OTHER_ACTIVATIONS):
        return f'the text "{_OTHER_ACTIVATIONS.get(word, word)}"'
    if word in _WORDS:
        return _WORDS[word]
    if nearest := _nearest_name(name, list(names)):
        return nearest
    for other, theirs in others.items():
        if name in theirs:
            return f"{other}.{name}"
        if nearest := _nearest_name(name, list(theirs)):
            return f"{other}.{nearest}"
    return None


def _imports(code: bytes, at: int) -> bool:
    """Whether the instruction is that of "from … import …", which drops an AttributeError."""
    import opcode  # not when the package is imported

    return at >= 0 and opcode.opname[code[at]] == "IMPORT_FROM"
