"""What is meant by a name that a module or an object does not have."""

import enum
import sys
from collections.abc import Callable, Container, Mapping, Sequence

from traingraph import _core

# Of the texts of messages; the stub has no private names.
_nearest_name: Callable[[str, Sequence[str]], str | None] = vars(_core)["_nearest_name"]

# Words of Keras and PyTorch for members. The first one that the class has is meant; brackets are
# shown.
_FROZEN = ["is_updatable", "weights_parameter.is_updatable", "train_only()", "parameters"]
_MEMBERS = {
    "accuracy": ["validation.accuracy"],
    "add": ["node()"],
    "axis": ["dimension"],
    "backward": ["execute_gradient()", "result, as execute() computes gradients and updates too"],
    "call": ["predict()"],
    "callbacks": ["fit(callbacks=…)"],
    "children": ["layers"],
    "cpu": ['compile(device="cpu")'],
    "cuda": ['compile(device="cuda")'],
    "data_type": ["descriptor.data_type"],
    "dtype": ["descriptor.data_type", "data_type"],
    "epochs": ["fit(epochs=…)"],
    "eval": ["evaluate()", "predict()"],
    "evaluate_generator": ["evaluate()"],
    "execute_backward": ["execute_gradient()"],
    "fit_generator": ["fit(batches=…)"],
    "forward": ["execute_forward()", "predict()"],
    "get_weights": ["state()"],
    "history": ["fit()"],
    "item": ["result"],
    "learning_rate": ["optimizer.learning_rate"],
    "load_state_dict": ["load_state()"],
    "load_weights": ["load()"],
    "loss": ["result"],
    "lr": ["learning_rate", "optimizer.learning_rate"],
    "mae": ["mean_absolute_error"],
    "metrics": ["validation.metrics", "evaluate()"],
    "mse": ["mean_squared_error"],
    "ndim": ["descriptor.shape"],
    "numpy": ["data"],
    "modules": ["layers"],
    "param_groups": ["learning_rate", "optimizer.learning_rate"],
    "parameters": ["named_parameters()"],
    "predict_generator": ["predict()"],
    "predict_on_batch": ["predict()"],
    "requires_grad": _FROZEN,
    "save_weights": ["save()"],
    "set_weights": ["load_state()"],
    "shape": ["descriptor.shape"],
    "size": ["descriptor.shape"],
    "state_dict": ["state()"],
    "stop_training": ["fit(callbacks=…), one of which returns False"],
    "step": ["execute_optimizer_update()", "steps"],
    "test": ["evaluate()"],
    "to": ["compile(device=…)"],
    "train": ["fit()"],
    "train_on_batch": ["execute()"],
    "train_step": ["execute()"],
    "trainable": _FROZEN,
    "training": ["fit(), which alone trains: evaluate() and predict() infer"],
    "trainable_weights": ["named_parameters()"],
    "val_accuracy": ["validation.accuracy", "accuracy"],
    "val_loss": ["validation.loss", "loss"],
    "variables": ["named_parameters()"],
    "weights": ["named_parameters()"],
    "zero_grad": ["execute()"],
}
# What is set when an object is made, or by a call.
_SET_BY = {"device": "compile(device=…)", "optimizer": "compile_optimizer()"}
# The same of values of nn, which are no arrays.
_OF_VALUES = {
    "shape": "predict(…).shape, as values have a shape in a model alone",
    "size": "predict(…).shape, as values have a shape in a model alone",
    "ndim": "predict(…).ndim, as values have a shape in a model alone",
    "dtype": "Input(…, data_type=…), which networks follow",
    "data_type": "Input(…, data_type=…), which networks follow",
    "numpy": "predict() of a model",
    "item": "predict() of a model",
    "backward": "nn.model(loss=…), which is trained by fit() or execute()",
    "t": "nn.permute(axes)(value)",
    "pow": "the operator **",
}


def missing_name(
    module: str, names: Sequence[str], others: Mapping[str, Sequence[str]] | None = None
) -> Callable[[str], object]:
    """The module's __getattr__: an error that asks for what was meant.

    others are names of other modules, by the name of the module.
    """

    def refuse(name: str) -> object:
        is_module = name in names  # which is not imported yet
        meant = f"'import {module}.{name}' before it" if is_module else None
        if not is_module and not name.startswith("_"):
            meant = meant_name(module, names, others or {}, name)
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
    if type(owner) is vars(_core)["Value"]:
        meant = meant_of_value(name)
    elif isinstance(owner, enum.EnumMeta):
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

    def __set__(self, owner: object, value: object) -> None:
        self.__get__(owner, type(owner))


class _MissingModules:
    """The last finder of modules: "import traingraph.optim" asks for what is meant."""

    def find_spec(self, name: str, path: object, target: object = None) -> None:
        package, _, word = name.partition(".")
        if package != "traingraph" or word.startswith("_"):
            return
        from traingraph import _words

        if meant := _words.WORDS.get(word.lower()):
            text = f"No module named '{name}'; did you mean {meant}?"
            raise ModuleNotFoundError(text, name=name)


sys.meta_path.append(_MissingModules())


def answer_words(*classes: type) -> None:
    """In classes whose methods are called in each step, which a slot of ours would slow, and where
    words of others are set."""
    for cls in classes:
        members = set().union(*map(vars, cls.__mro__))
        for word in _MEMBERS.keys() - members:
            if meant := _meant_word(members, word):
                setattr(cls, word, _Word(word, meant))
        setattr(cls, "__dir__", _members_of_object)  # noqa: B010  (mypy: a method)
        setattr(type(cls), "__dir__", _members_of_class)  # noqa: B010


def answer_calls_and_settings(*classes: type) -> None:
    """In classes of models: they are no functions, and what is set is a member."""
    for cls in classes:
        setattr(cls, "__call__", _refuse_call)  # noqa: B010  (mypy: a method)
    answer_settings(*classes)


def answer_settings(*classes: type) -> None:
    for cls in classes:
        setattr(cls, "__setattr__", _set_member)  # noqa: B010  (mypy: a method)


def _refuse_call(self: object, *given: object, **named: object) -> None:
    """Raises TypeError: a model is no function."""
    text = f"'{type(self).__name__}' object is not callable; did you mean predict()?"
    raise TypeError(text)


def _set_member(self: object, name: str, value: object) -> None:
    """Raises AttributeError that asks for the member that is meant."""
    try:
        object.__setattr__(self, name, value)
    except AttributeError as error:
        if name in _SET_BY and hasattr(self, name):
            text = f"property '{name}' of '{type(self).__name__}' object has no setter"
            raise AttributeError(f"{text}; did you mean {_SET_BY[name]}?") from None
        raise missing_member(self, name, error) from None


def _members_of_object(self: object) -> list[str]:
    return [name for name in object.__dir__(self) if not _is_word(type(self), name)]


def _members_of_class(self: type) -> list[str]:
    return [name for name in type.__dir__(self) if not _is_word(self, name)]


def _is_word(cls: type, name: str) -> bool:
    found = (vars(base)[name] for base in cls.__mro__ if name in vars(base))
    return name in _MEMBERS and isinstance(next(found, None), _Word)


def meant_of_value(word: str) -> str | None:
    from traingraph import _words, nn

    if known := _OF_VALUES.get(word.lower()):
        return known
    text = _words.OTHER_ACTIVATIONS.get(word, word)
    if text in _words.ACTIVATIONS and text not in nn.__all__:
        return f'nn.activation("{text}")(value)'
    name = word if word in nn.__all__ else _words.WORDS.get(word.lower(), "")
    if name not in nn.__all__:
        return name or _nearest_name(word, nn.__all__)
    makes_block = (getattr(nn, name).__doc__ or "").partition("\n")[0].endswith("-> Block")
    return f"nn.{name}(…)(value)" if makes_block else f"nn.{name}(value)"


def _meant_member(names: Sequence[str], word: str) -> str | None:
    if word.lower() in _MEMBERS:
        return _meant_word(names, word.lower())
    return _nearest_name(word, [name for name in names if not name.startswith("_")])


def _meant_word(names: Container[str], word: str) -> str | None:
    return next((one for one in _MEMBERS[word] if _first_name(one) in names), None)


def _first_name(text: str) -> str:
    for end in "(.,":
        text = text.partition(end)[0]
    return text


def meant_name(
    module: str, names: Sequence[str], others: Mapping[str, Sequence[str]], name: str
) -> str | None:
    from traingraph import _words  # not when the package is imported

    word = name.lower()
    text = _words.OTHER_ACTIVATIONS.get(word, word)
    if module.endswith(".nn") and text in _words.ACTIVATIONS:
        return f'the text "{text}"'
    if word in _words.WORDS:
        return _words.WORDS[word]
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
