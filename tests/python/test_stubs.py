"""The committed stub is what the extension says of itself."""

from stub_generator import STUB, generate


def test_stub_is_up_to_date() -> None:
    assert generate() == STUB.read_text(), "run python tests/python/stub_generator.py"
