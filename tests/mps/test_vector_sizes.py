"""What an MPSVector and its descriptor say of their size and place."""

import pytest
from kernels import vector

from traingraph import InvalidArgument, mps


@pytest.mark.parametrize(("data_type", "size"), [("float32", 4), ("float64", 8)])
def test_vectors(data_type, size):
    d = mps.MPSVectorDescriptor.vector_descriptor(with_length=5, data_type=data_type)
    assert (d.vectors, d.vector_bytes) == (1, 5 * size)
    d.length = 7
    assert d.vector_bytes == 7 * size
    assert mps.MPSVectorDescriptor.vector_bytes_for_length(7, data_type=data_type) == 7 * size
    on = mps.MTLDevice(device="cpu" if size == 4 else "reference")
    made_here = mps.MPSVector(device=on, descriptor=d)
    assert (made_here.vectors, made_here.vector_bytes, made_here.device) == (1, 7 * size, on)
    assert made_here.data.length == 7 * size
    for length in (0, -1, 2**62):
        with pytest.raises(InvalidArgument, match=r"MPSVectorDescriptor\].*1 element or more"):
            mps.MPSVectorDescriptor.vector_bytes_for_length(length, data_type=data_type)
    with pytest.raises(InvalidArgument, match=r"MPSVectorDescriptor\].*but got 3 of"):
        mps.MPSVectorDescriptor.vector_bytes_for_length(3, data_type="invalid")


def test_the_device_of_a_vector_over_a_buffer():
    on = mps.MTLDevice(device="reference")
    assert vector(on, [1, 2, 3]).device == on
    assert vector(mps.MTLDevice(device="cpu"), [1, 2, 3]).device != on
