"""What to write for a model, a layer or a callback of another library. Read if one is refused."""

from traingraph import _core, nn
from traingraph._missing_names import meant_name

_LIBRARIES = {"flax", "jax", "keras", "lightning", "tensorflow", "tf_keras", "torch", "torchvision"}


def meant_by_object(value: object) -> str | None:
    """Of an object or a function; "" where nobody can tell, None for what is of no such library."""
    # Asked of the type: an object's own attributes are code of its own, which need not end.
    is_named = isinstance(value, type) or "__qualname__" in vars(type(value))
    kinds = [value] if is_named else type(value).__mro__
    names = [
        str(getattr(kind, "__name__", "")) for kind in kinds if _package_of(kind) in _LIBRARIES
    ]
    is_callback = hasattr(type(value), "on_epoch_end")
    if not names and not is_callback:
        return None
    others = {"traingraph": vars(_core)["__all__"]}
    for name in names:
        if meant := meant_name("traingraph.nn", nn.__all__, others, name):
            return f"nn.{meant}" if meant in nn.__all__ else meant
    return "a function of the epoch" if is_callback else ""


def _package_of(kind: object) -> str:
    return str(getattr(kind, "__module__", "")).partition(".")[0]
