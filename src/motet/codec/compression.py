"""Bytes of a file or a request in bounded chunks, gzip and zstd taken off. Knows nothing about what the bytes mean."""

from __future__ import annotations

from collections.abc import Callable, Iterator

import pyarrow as pa

from motet.model.errors import DecodeError, LimitError, UsageError

CHUNK_BYTES = 4 << 20
PIECE_BYTES = 64 << 10
OnRead = Callable[[int], object]
_MAGIC = {b"\x1f\x8b": "gzip", b"\x28\xb5\x2f\xfd": "zstd"}


def file_chunks(path: str, *, chunk_bytes: int = CHUNK_BYTES, on_read: OnRead | None = None) -> Iterator[bytes]:
    """The uncompressed content of a file; damage raises a DecodeError after the chunks before it.

    ``on_read`` is told the number of bytes of the file itself as they are read.
    """
    raw, before = open_file(path), 0
    for chunk in _chunks(raw, path, chunk_bytes):
        if on_read is not None:
            on_read((at := raw.tell()) - before)
            before = at
        yield chunk


def bytes_chunks(data: bytes, name: str, *, chunk_bytes: int = CHUNK_BYTES) -> Iterator[bytes]:
    """
    >>> import gzip
    >>> list(bytes_chunks(gzip.compress(b"abc"), "input"))
    [b'abc']
    """
    return _chunks(pa.BufferReader(data), name, chunk_bytes)


def is_compressed(path: str) -> bool:
    with open_file(path) as raw:
        return _codec(raw.read(4)) is not None


def read_whole(chunks: Iterator[bytes], limit: int) -> bytes:
    """
    >>> read_whole(iter([b"a", b"b"]), 10)
    b'ab'
    """
    parts, size = [], 0
    for chunk in chunks:
        size += len(chunk)
        if size > limit:
            raise LimitError(
                f"the document is larger than {limit} bytes",
                advice="publish it as N-Quads, which is read as a stream, or in several documents",
            )
        parts.append(chunk)
    return b"".join(parts)


def open_file(path: str) -> pa.NativeFile:
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
            yield from _uncompressed(pa.CompressedInputStream(raw, codec), name, chunk_bytes)


def _uncompressed(stream: pa.NativeFile, name: str, chunk_bytes: int) -> Iterator[bytes]:
    """Chunks joined from small pieces: of a damaged stream no more than one piece before the damage is lost."""
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
            advice="what could be read before the damage was taken; fetch the file again and publish it again",
        ) from None
