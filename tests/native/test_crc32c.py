"""`crc32c`; the known answers are in native/tests/crc32c_test.cpp."""

import pytest

from pyslash._native import crc32c


def test_any_buffer_is_summed() -> None:
    """Bytes, and views of them."""
    assert crc32c(b"123456789") == 0xE3069283
    assert crc32c(memoryview(bytearray(b"x123456789"))[1:]) == 0xE3069283
    assert crc32c(b"") == 0
    with pytest.raises(TypeError):
        crc32c("123456789")


def test_a_sum_goes_on_over_a_second_piece() -> None:
    """As over both at once."""
    assert crc32c(b"6789", crc32c(b"12345")) == crc32c(b"123456789")
