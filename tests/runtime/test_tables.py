"""The table of ops against the tables of kernels."""

import pytest

_testing = pytest.importorskip("traingraph._testing", reason="built with TRAINGRAPH_TESTING")


@pytest.mark.parametrize("op", sorted(_testing.cpu_kernels()))
def test_the_flag_in_the_table_tells_the_truth(op):
    flagged, has_kernel = _testing.cpu_kernels()[op]
    assert flagged == has_kernel
