"""Parts of images, as Metal names them."""

from typing import NamedTuple


class MTLOrigin(NamedTuple):
    """The first pixel of a region; z counts images."""

    x: int
    y: int
    z: int = 0


class MTLSize(NamedTuple):
    """How many pixels, and images."""

    width: int
    height: int
    depth: int = 1


class MTLRegion(NamedTuple):
    """A rectangle of an image."""

    origin: MTLOrigin
    size: MTLSize
