"""Reads a file or a request in chunks of bounded size, decompresses gzip and zstd, and skips a byte order mark."""

from __future__ import annotations

from codecs import BOM_UTF8
from collections.abc import Callable, Iterator

import pyarrow as pa

from motet.model.errors import DecodeError, LimitError, UsageError

CHUNK_BYTES = 4 << 20
PIECE_BYTES = 64 << 10
OnRead = Callable[[int], object]
_MAGIC = {b"\x1f\x8b": "gzip", b"\x28\xb5\x2f\xfd": "zstd"}


def file_chunks(path: str, *, chunk_bytes: int = CHUNK_BYTES, on_read: OnRead | None = None) -> Iterator[bytes]:
    """The decompressed content of a file; a damaged file raises a DecodeError after its readable chunks.

    ``on_read`` is called with the number of (compressed) bytes read since its last call.
    """
    return without_byte_order_mark(_file_chunks(path, chunk_bytes, on_read))


def _file_chunks(path: str, chunk_bytes: int, on_read: OnRead | None) -> Iterator[bytes]:
    raw, last_position = open_file(path), 0
    for chunk in _chunks(raw, path, chunk_bytes):
        if on_read is not None:
            on_read((position := raw.tell()) - last_position)
            last_position = position
        yield chunk


def bytes_chunks(data: bytes, name: str, *, chunk_bytes: int = CHUNK_BYTES) -> Iterator[bytes]:
    """The decompressed content of a request.

    >>> import gzip
    >>> list(bytes_chunks(gzip.compress(b"abc"), "input"))
    [b'abc']
    """
    return without_byte_order_mark(_chunks(pa.BufferReader(data), name, chunk_bytes))


def without_byte_order_mark(chunks: Iterator[bytes]) -> Iterator[bytes]:
    """Chunks of bytes without the byte order mark of UTF-8 that they may begin with.

    >>> list(without_byte_order_mark(iter([b"\\xef", b"\\xbb\\xbfa", b"b"])))
    [b'a', b'b']
    """
    head = b""
    for chunk in chunks:
        head += chunk
        if not BOM_UTF8.startswith(head):
            break
    if head := head.removeprefix(BOM_UTF8):
        yield head
    yield from chunks


def is_compressed(path: str) -> bool:
    """Whether a file starts with the magic number of gzip or zstd."""
    with open_file(path) as raw:
        return _codec(raw.read(4)) is not None


def read_whole(chunks: Iterator[bytes], limit: int) -> bytes:
    """All chunks joined; raises LimitError beyond ``limit`` bytes.

    >>> read_whole(iter([b"a", b"b"]), 10)
    b'ab'
    """
    read, size = [], 0
    for chunk in chunks:
        size += len(chunk)
        if size > limit:
            raise LimitError(
                f"the document is larger than {limit} bytes",
                advice="publish it as N-Quads, which is read as a stream, or in several documents",
            )
        read.append(chunk)
    return b"".join(read)


def open_file(path: str) -> pa.NativeFile:
    """Open a file for reading; raises UsageError if that fails."""
    try:
        return pa.OSFile(path, "rb")
    except OSError as error:
        raise UsageError(f"{path}: cannot be read: {error}", advice="check the name and the permissions") from None


def _chunks(raw: pa.NativeFile, name: str, chunk_bytes: int) -> Iterator[bytes]:
    with raw:
        codec = _codec(raw.read(4))
        raw.seek(0)
        if codec is None:
            while chunk := raw.read(chunk_bytes):
                yield chunk
        else:
            yield from _decompressed(pa.CompressedInputStream(raw, codec), name, chunk_bytes)


def _decompressed(stream: pa.NativeFile, name: str, chunk_bytes: int) -> Iterator[bytes]:
    """Chunks joined from small pieces, so that at most one piece before the damage of a stream is lost."""
    pieces: list[bytes] = []
    try:
        while piece := _read(stream, name, min(PIECE_BYTES, chunk_bytes)):
            pieces.append(piece)
            if sum(map(len, pieces)) >= chunk_bytes:
                yield b"".join(pieces)
                pieces.clear()
    except DecodeError:
        if pieces:
            yield b"".join(pieces)
        raise
    if pieces:
        yield b"".join(pieces)


def _codec(head: bytes) -> str | None:
    return next((codec for magic, codec in _MAGIC.items() if head.startswith(magic)), None)


def _read(stream: pa.NativeFile, name: str, chunk_bytes: int) -> bytes:
    try:
        return stream.read(chunk_bytes)
    except OSError as error:
        raise DecodeError(
            f"the compressed stream is damaged: {error}",
            source=name,
            advice="the content before the damage was read; fetch the file again and publish it again",
        ) from None
