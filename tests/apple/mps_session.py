"""Images, command buffers and the like of the doubles, for tests: arrays in, arrays out."""

import contextlib
import faulthandler
import os
from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
from objective_c import Object, Runtime

FLOAT32 = 4  # MPSImageFeatureChannelFormatFloat32
FLOAT16 = 3
CHANNELS_FIRST = 1  # MPSDataLayoutFeatureChannelsxHeightxWidth
DATA_FLOAT32 = 0x10000020
RNG = np.random.default_rng(5)


def draw_anew() -> None:
    """Begins with the first numbers again."""
    global RNG
    RNG = np.random.default_rng(5)


def values(*shape: int) -> np.ndarray:
    return RNG.uniform(-1, 1, shape).astype(np.float32)


STATES = "temporaryResultStateBatchForCommandBuffer:sourceImage:sourceStates:destinationImage:"


class Session:
    """A device, a queue and a command buffer; everything made in it is released at its end."""

    def __init__(self, runtime: Runtime) -> None:
        self.runtime = runtime
        self.device = runtime.device()
        self.queue = self.device.send("newCommandQueue").send("autorelease")
        self.commands = self.queue.send("commandBuffer")

    def next_commands(self) -> None:
        self.commands = self.queue.send("commandBuffer")

    def make(self, name: str, selector: str, *arguments: Any) -> Object:
        """An object made by alloc and this initializer, autoreleased."""
        made = getattr(self.runtime, name).send("alloc").send(selector, *arguments)
        return made.send("autorelease")

    def kernel(self, name: str, selector: str = "initWithDevice:", *arguments: Any) -> Object:
        return self.make(name, selector, self.device, *arguments)

    def descriptor(self, shape: tuple[int, ...], channel_format: int = FLOAT32) -> Object:
        channels, height, width = shape
        return self.runtime.MPSImageDescriptor.send(
            "imageDescriptorWithChannelFormat:width:height:featureChannels:",
            channel_format, width, height, channels,
        )  # fmt: skip

    def image(self, data: np.ndarray, channel_format: int = FLOAT32) -> Object:
        """An image of (channels, height, width)."""
        made = self.blank(data.shape, channel_format)
        kind = np.float32 if channel_format == FLOAT32 else np.float16
        data = np.ascontiguousarray(data, kind)
        made.send("writeBytes:dataLayout:imageIndex:", data, CHANNELS_FIRST, 0)
        return made

    def blank(self, shape: tuple[int, ...], channel_format: int = FLOAT32) -> Object:
        return self.make(
            "MPSImage", "initWithDevice:imageDescriptor:", self.device,
            self.descriptor(shape, channel_format),
        )  # fmt: skip

    def temporary(self, shape: tuple[int, ...], reads: int = 1) -> Object:
        made = self.runtime.MPSTemporaryImage.send(
            "temporaryImageWithCommandBuffer:imageDescriptor:",
            self.commands,
            self.descriptor(shape),
        )
        made.send("setReadCount:", reads)
        return made

    def batch(self, data: np.ndarray) -> Object:
        return self.runtime.array([self.image(one) for one in data])

    def blank_batch(self, *shape: int) -> Object:
        return self.runtime.array([self.blank(shape[1:]) for _ in range(shape[0])])

    def states(self, kernel: Object, sources: Object, results: Object) -> Object:
        """Temporary states of a kernel for this batch; empty ones where it gives none."""
        given = kernel.send(STATES, self.commands, sources, None, results)
        if given is not None:
            return given
        make, count = "temporaryStateWithCommandBuffer:", sources.send("count")
        state = self.runtime.MPSNNGradientState
        return self.runtime.array([state.send(make, self.commands) for _ in range(count)])

    def read(self, image: Object) -> np.ndarray:
        shape = [image.send(name) for name in ("featureChannels", "height", "width")]
        half = image.send("featureChannelFormat") == FLOAT16
        data = np.empty(shape, np.float16 if half else np.float32)
        image.send("readBytes:dataLayout:imageIndex:", data, CHANNELS_FIRST, 0)
        return data

    def read_batch(self, batch: Object) -> np.ndarray:
        count = batch.send("count")
        return np.stack([self.read(batch.send("objectAtIndex:", index)) for index in range(count)])

    def buffer(self, data: np.ndarray) -> Object:
        data = np.ascontiguousarray(data, np.float32)
        made = self.device.send("newBufferWithBytes:length:options:", data, data.nbytes, 0)
        return made.send("autorelease")

    def floats(self, buffer: Object) -> np.ndarray:
        import ctypes

        count = buffer.send("length") // 4
        address = buffer.send("contents")
        return np.array((ctypes.c_float * count).from_address(address), np.float32)

    def matrix(self, data: np.ndarray) -> Object:
        """A matrix, or several, with a gap behind each row."""
        count = 1 if data.ndim == 2 else data.shape[0]
        rows, columns = data.shape[-2:]
        stored = np.zeros((count, rows, columns + 3), np.float32)
        stored[..., :columns] = data
        descriptor = self.runtime.MPSMatrixDescriptor.send(
            "matrixDescriptorWithRows:columns:matrices:rowBytes:matrixBytes:dataType:",
            rows, columns, count, 4 * (columns + 3), 4 * (columns + 3) * rows, DATA_FLOAT32,
        )  # fmt: skip
        return self.make("MPSMatrix", "initWithBuffer:descriptor:", self.buffer(stored), descriptor)

    def read_matrix(self, matrix: Object) -> np.ndarray:
        count, rows, columns = (matrix.send(name) for name in ("matrices", "rows", "columns"))
        stored = self.floats(matrix.send("data")).reshape(count, rows, -1)[..., :columns]
        return stored if count > 1 else stored[0]

    def vector(self, data: np.ndarray) -> Object:
        descriptor = self.runtime.MPSVectorDescriptor.send(
            "vectorDescriptorWithLength:dataType:", len(data), DATA_FLOAT32
        )
        return self.make("MPSVector", "initWithBuffer:descriptor:", self.buffer(data), descriptor)

    def run(self) -> None:
        self.commands.send("commit")
        self.commands.send("waitUntilCompleted")


@contextlib.contextmanager
def session(runtime: Runtime) -> Iterator[Session]:
    """A session, after which no object must be left but what a package over the doubles has in this
    process.
    """
    before = runtime.live_objects()
    pool = runtime.NSAutoreleasePool.send("alloc").send("init")
    yield Session(runtime)
    pool.send("drain")
    assert runtime.live_objects() <= before


def aborts_with(action: Callable[[], None]) -> str:
    """What a process of its own says when it does this; fails where it is not aborted."""
    reading, writing = os.pipe()
    child = os.fork()
    if child == 0:
        # Only the double's sentence is wanted, not Python's account of the abort.
        faulthandler.disable()
        os.dup2(writing, 2)
        try:
            action()
        finally:
            os._exit(0)
    os.close(writing)
    with os.fdopen(reading) as said:
        text = said.read()
    _, status = os.waitpid(child, 0)
    assert os.WIFSIGNALED(status), f"nothing was wrong with it: {text}"
    assert os.WTERMSIG(status) == 6, text
    return text


def broken(runtime: Runtime, action: Callable[[Session], None]) -> str:
    """What a double says where this breaks a rule."""

    def run() -> None:
        pool = runtime.NSAutoreleasePool.send("alloc").send("init")
        action(Session(runtime))
        pool.send("drain")

    return aborts_with(run)
