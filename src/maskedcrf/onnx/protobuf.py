"""Protobuf messages as bytes, field by field: enough to look into an ONNX file before a library does."""

from __future__ import annotations

from collections.abc import Iterator

_FIXED = {1: 8, 5: 4}
_SMALL = 4096
"""Bytes of a message that is copied, since single bytes are faster to get out of `bytes` than of a view."""


class DamagedError(Exception):
    """What is wrong with the bytes."""


def fields(message: memoryview) -> Iterator[tuple[int, int | memoryview | None]]:
    """Number and value of each field of a protobuf message; None for numbers of fixed width, which nobody here reads.

    What libraries may read in another way is refused: they drop what a key has beyond 32 bits.
    """
    at, end = 0, len(message)
    read = bytes(message) if end < _SMALL else message
    while at < end:
        key, at = varint(read, at)
        kind = key & 7
        if not 8 <= key < 1 << 32:
            raise DamagedError("not an ONNX file")
        if kind == 0:
            value, at = varint(read, at)
            yield key >> 3, value
            continue
        if kind == 2:
            size, at = varint(read, at)
        elif kind in _FIXED:
            size = _FIXED[kind]
        else:
            raise DamagedError("not an ONNX file")
        if at + size > end:
            raise DamagedError("cut short or no ONNX file; fetch it again or export the model again")
        yield key >> 3, message[at : at + size] if kind == 2 else None
        at += size


def varint(message: bytes | memoryview, at: int) -> tuple[int, int]:
    """The number that begins here, and where the next one does."""
    if at < len(message) and message[at] < 128:  # as nearly all are
        return message[at], at + 1
    value = 0
    for shift in range(0, 70, 7):
        if at >= len(message):
            raise DamagedError("cut short or no ONNX file; fetch it again or export the model again")
        byte = message[at]
        at += 1
        value |= (byte & 127) << shift
        if byte < 128:
            return value, at
    raise DamagedError("not an ONNX file")


def numbers(value: int | memoryview) -> list[int]:
    """A repeated field of whole numbers, packed or not."""
    if isinstance(value, int):
        return [value]
    found, at = list[int](), 0
    while at < len(value):
        number, at = varint(value, at)
        found.append(number)
    return found
