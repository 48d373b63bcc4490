"""Matrices, their copies from and to images, and pooling of the doubles against numpy."""

import numpy as np
import pytest
from mps_session import CHANNELS_FIRST, Session, broken, session, values
from objective_c import Object, Runtime

ZERO, CLAMP = 0, 1


@pytest.mark.parametrize("left", [False, True])
@pytest.mark.parametrize("right", [False, True])
@pytest.mark.parametrize(("count", "beta"), [(1, 0.0), (3, 0.5)])
def test_product(runtime: Runtime, left: bool, right: bool, count: int, beta: float) -> None:
    lead = () if count == 1 else (count,)
    a, b, c = values(*lead, 3, 5), values(*lead, 5, 4), values(*lead, 3, 4)
    with session(runtime) as s:
        kernel = s.kernel(
            "MPSMatrixMultiplication",
            "initWithDevice:transposeLeft:transposeRight:resultRows:resultColumns:"
            "interiorColumns:alpha:beta:",
            left, right, 3, 4, 5, 2.0, beta,
        )  # fmt: skip
        result = s.matrix(c)
        kernel.send(
            "encodeToCommandBuffer:leftMatrix:rightMatrix:resultMatrix:", s.commands,
            s.matrix(np.swapaxes(a, -1, -2) if left else a),
            s.matrix(np.swapaxes(b, -1, -2) if right else b), result,
        )  # fmt: skip
        s.run()
        np.testing.assert_allclose(
            s.read_matrix(result), 2 * a @ b + beta * c, rtol=1e-5, atol=1e-6
        )


@pytest.mark.parametrize("layout", [0, CHANNELS_FIRST])
def test_copies_between_images_and_matrices(runtime: Runtime, layout: int) -> None:
    x = values(2, 5, 3, 4)
    rows = (x if layout == CHANNELS_FIRST else x.transpose(0, 2, 3, 1)).reshape(2, -1)
    with session(runtime) as s:
        form = "initWithDevice:dataLayout:"
        images, matrix = s.blank_batch(*x.shape), s.matrix(0 * rows)
        s.kernel("MPSMatrixCopyToImage", form, layout).send(
            "encodeBatchToCommandBuffer:sourceMatrix:destinationImages:",
            s.commands, s.matrix(rows), images,
        )  # fmt: skip
        s.kernel("MPSImageCopyToMatrix", form, layout).send(
            "encodeBatchToCommandBuffer:sourceImages:destinationMatrix:",
            s.commands, images, matrix,
        )  # fmt: skip
        s.run()
        np.testing.assert_array_equal(s.read_batch(images), x)
        np.testing.assert_array_equal(s.read_matrix(matrix), rows)


def test_a_result_overlaps_no_source(runtime: Runtime) -> None:
    def overlap(s: Session) -> None:
        form = "initWithDevice:resultRows:resultColumns:interiorColumns:"
        a, b = s.matrix(values(3, 3)), s.matrix(values(3, 3))
        s.kernel("MPSMatrixMultiplication", form, 3, 3, 3).send(
            "encodeToCommandBuffer:leftMatrix:rightMatrix:resultMatrix:", s.commands, a, b, b
        )

    assert "its result overlaps a source" in broken(runtime, overlap)


def test_matrices_have_the_extent_that_is_used(runtime: Runtime) -> None:
    def small(s: Session) -> None:
        form = "initWithDevice:resultRows:resultColumns:interiorColumns:"
        a, b, c = (s.matrix(values(3, 3)) for _ in range(3))
        s.kernel("MPSMatrixMultiplication", form, 3, 4, 3).send(
            "encodeToCommandBuffer:leftMatrix:rightMatrix:resultMatrix:", s.commands, a, b, c
        )

    assert "a matrix of 3 x 3 where 3 x 4 are used" in broken(runtime, small)


def test_a_matrix_fits_its_buffer(runtime: Runtime) -> None:
    def beyond(s: Session) -> None:
        descriptor = s.runtime.MPSMatrixDescriptor.send(
            "matrixDescriptorWithRows:columns:rowBytes:dataType:", 3, 4, 16, 0x10000020
        )
        buffer = s.buffer(np.zeros(12, np.float32))
        s.make("MPSMatrix", "initWithBuffer:offset:descriptor:", buffer, 4, descriptor)

    assert "beyond the end of its buffer" in broken(runtime, beyond)


# --- pooling -------------------------------------------------------------------------------------


class Pooling:
    """A case, with what numpy says of it: loops over windows."""

    def __init__(self, kind: str, kernel: int, stride: int, offset: int, edge: int) -> None:
        self.kind, self.k, self.stride, self.offset, self.edge = kind, kernel, stride, offset, edge
        self.x, self.e = values(2, 3, 6, 7), values(2, 3, 3, 3)

    def windows(self):
        """Result place, the part of its window that lies in the source, and its size."""
        for i, j in np.ndindex(3, 3):
            first = [self.offset - self.k // 2 + self.stride * at for at in (i, j)]
            rows, columns = (
                slice(max(begin, 0), max(0, min(begin + self.k, size)))
                for begin, size in zip(first, self.x.shape[2:], strict=True)
            )
            yield i, j, rows, columns

    def pool(self, part: np.ndarray) -> np.ndarray:
        zeros = self.edge == ZERO and part.shape[2] * part.shape[3] < self.k**2
        flat = part.reshape(2, 3, -1).astype(np.float64)
        if self.kind == "Max":
            most = flat.max(2)
            return np.maximum(most, 0) if zeros else most
        if self.kind == "Average":
            return flat.sum(2) / (self.k**2 if self.edge == ZERO else flat.shape[2])
        return np.sqrt((flat**2).sum(2))

    def result(self) -> np.ndarray:
        y = np.empty(self.e.shape)
        for i, j, rows, columns in self.windows():
            y[..., i, j] = self.pool(self.x[..., rows, columns])
        return y

    def gradient(self) -> np.ndarray:
        dx = np.zeros(self.x.shape)
        for i, j, rows, columns in self.windows():
            part = self.x[..., rows, columns].astype(np.float64)
            e, y = self.e[..., i, j][..., None, None], self.pool(part)[..., None, None]
            if self.kind == "Max":
                dx[..., rows, columns] += e * (part == y)
            elif self.kind == "Average":
                count = self.k**2 if self.edge == ZERO else part.shape[2] * part.shape[3]
                dx[..., rows, columns] += e / count
            else:
                dx[..., rows, columns] += e * part / y
        return dx

    def kernel(self, s: Session, suffix: str) -> Object:
        form = "initWithDevice:kernelWidth:kernelHeight:strideInPixelsX:strideInPixelsY:"
        sizes = (self.k, self.k, self.stride, self.stride)
        return s.kernel(f"MPSCNNPooling{self.kind}{suffix}", form, *sizes)


@pytest.mark.parametrize("kind", ["Max", "Average", "L2Norm"])
@pytest.mark.parametrize("edge", [ZERO, CLAMP])
@pytest.mark.parametrize(
    ("kernel", "stride", "offset"), [(2, 2, 1), (3, 2, 1), (3, 1, 0), (2, 1, 0), (3, 2, 2)]
)
def test_pooling(
    runtime: Runtime, kind: str, edge: int, kernel: int, stride: int, offset: int
) -> None:
    it = Pooling(kind, kernel, stride, offset, edge)
    with session(runtime) as s:
        forward, backward = it.kernel(s, ""), it.kernel(s, "Gradient")
        forward.send("setEdgeMode:", edge)
        forward.send("setOffset:", (offset, offset, 0))
        for which in ("Primary", "Secondary"):
            backward.send(f"set{which}EdgeMode:", edge)
        backward.send("setSecondaryOffset:", (offset, offset, 0))
        sources, results = s.batch(it.x), s.blank_batch(*it.e.shape)
        gradients = s.blank_batch(*it.x.shape)
        form = "encodeBatchToCommandBuffer:sourceImages:destinationImages:"
        forward.send(form, s.commands, sources, results)
        states = s.states(forward, sources, results)
        assert states.send("objectAtIndex:", 0) != states.send("objectAtIndex:", 1)
        backward.send(
            "encodeBatchToCommandBuffer:sourceGradients:sourceImages:gradientStates:"
            "destinationGradients:",
            s.commands, s.batch(it.e), sources, states, gradients,
        )  # fmt: skip
        s.run()
        np.testing.assert_allclose(s.read_batch(results), it.result(), rtol=1e-5, atol=1e-6)
        np.testing.assert_allclose(s.read_batch(gradients), it.gradient(), rtol=1e-4, atol=1e-5)


def test_a_state_is_of_the_forward_kernel(
    runtime: Runtime, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("APPLE_DOUBLE_READINGS", "lenient")

    def other(s: Session) -> None:
        it = Pooling("Max", 2, 2, 1, CLAMP)
        sources, results = s.batch(it.x), s.blank_batch(*it.e.shape)
        states = (
            Pooling("Average", 2, 2, 1, CLAMP)
            .kernel(s, "")
            .send(
                "resultStateBatchForSourceImage:sourceStates:destinationImage:",
                sources,
                None,
                results,
            )
        )
        it.kernel(s, "Gradient").send(
            "encodeBatchToCommandBuffer:sourceGradients:sourceImages:gradientStates:"
            "destinationGradients:",
            s.commands, results, sources, states, s.blank_batch(*it.x.shape),
        )  # fmt: skip

    assert "was not made by the forward kernel MPSCNNPoolingMax" in broken(runtime, other)
