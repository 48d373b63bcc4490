"""Padding policies as objects: what kernels and nodes take beside the members of the enum."""

from numbers import Integral
from typing import Any

from traingraph._core import InvalidArgument, MPSNNPaddingMethod


class MPSNNDefaultPadding:
    """A policy that is a method alone; any object with padding_method() serves as well."""

    def __init__(self, method: Any) -> None:
        """By member, name or number. Errors: no such name."""
        names = MPSNNPaddingMethod.__members__
        if isinstance(method, str):
            if method.upper() not in names:
                text = f"expected a member of MPSNNPaddingMethod but got '{method}'"
                raise InvalidArgument(f"[MPSNNDefaultPadding] {text}")
            method = names[method.upper()]
        if isinstance(method, bool) or not isinstance(method, Integral):
            text = f"expected method: MPSNNPaddingMethod | str but got '{type(method).__name__}'"
            raise TypeError(f"[MPSNNDefaultPadding] {text}")
        self._method = MPSNNPaddingMethod(int(method))

    @staticmethod
    def padding(*, with_method: Any) -> "MPSNNDefaultPadding":
        """By member, name or number of MPSNNPaddingMethod."""
        return MPSNNDefaultPadding(with_method)

    @staticmethod
    def padding_for_tensorflow_average_pooling() -> "MPSNNDefaultPadding":
        """Same size, the odd pixel at the bottom and right; an average counts no padding."""
        method = MPSNNPaddingMethod
        return MPSNNDefaultPadding(
            method.SIZE_SAME | method.ADD_REMAINDER_TO_BOTTOM_RIGHT | method.EXCLUDE_EDGES
        )

    @staticmethod
    def padding_for_tensorflow_average_pooling_valid_only() -> "MPSNNDefaultPadding":
        """Windows inside the image alone."""
        return MPSNNDefaultPadding(MPSNNPaddingMethod.SIZE_VALID_ONLY)

    def padding_method(self) -> MPSNNPaddingMethod:
        """What sizes results and places windows."""
        return self._method

    def label(self) -> str:
        """The method's name."""
        return f"MPSNNDefaultPadding: {self._method!r}"
