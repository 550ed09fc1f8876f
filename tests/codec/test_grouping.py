"""Grouping of quads into events."""

from collections.abc import Iterator, Sequence
from itertools import pairwise

import pyarrow as pa
from hypothesis import given, settings
from hypothesis import strategies as st

from motet.codec.events import Decoded
from motet.codec.grouping import GraphHashSet
from motet.codec.nquads import decode_nquads
from motet.codec.options import DecodeOptions, Limits

Events = list[tuple[str, list[str], int]]
STREAM = Limits(max_document_bytes=0)  # nothing is small enough to be regrouped whole


def quad(graph: str, value: object) -> str:
    return f'<urn:s> <urn:p> "{value}" <urn:{graph}> .'


def decode(chunks: Sequence[bytes], limits: Limits) -> tuple[Events, list[Decoded]]:
    batches = list(decode_nquads(iter(chunks), DecodeOptions("test.nq", limits)))
    table = pa.Table.from_batches([decoded.events for decoded in batches]) if batches else None
    rows = table.select(["id", "triples", "line"]).to_pylist() if table is not None else []
    return [(row["id"], [t["object"][1:-1] for t in row["triples"]], row["line"]) for row in rows], batches


def rejections(batches: list[Decoded]) -> list[tuple[str | None, int | None, str | None]]:
    return [(error.event, error.line, error.content) for decoded in batches for error in decoded.rejected]


def split_at(text: bytes, positions: list[int]) -> Iterator[bytes]:
    bounds = [0, *sorted(position % (len(text) + 1) for position in positions), len(text)]
    return (text[a:b] for a, b in pairwise(bounds))


def test_scattered_graphs_of_a_small_source() -> None:
    """In a small source quads need not be consecutive; events are in the order of their first lines."""
    lines = [quad("b", 1), quad("a", 2), quad("b", 3), quad("c", 4), quad("a", 5)]
    events, batches = decode(["\n".join(lines).encode()], Limits())
    assert events == [("urn:b", ["1", "3"], 1), ("urn:a", ["2", "5"], 2), ("urn:c", ["4"], 4)]
    assert rejections(batches) == []


def test_scattered_graphs_of_a_stream() -> None:
    """In a stream, quads that are not consecutive with those of their event are rejected with the advice to sort."""
    lines = [quad("b", 1), quad("a", 2), quad("b", 3), quad("b", 4), quad("c", 5)]
    events, batches = decode([line.encode() + b"\n" for line in lines], STREAM)
    assert events == [("urn:b", ["1"], 1), ("urn:a", ["2"], 2), ("urn:c", ["5"], 5)]
    assert rejections(batches) == [("urn:b", 3, f"{lines[2]}\n{lines[3]}")]
    assert all("sort the file by graph" in str(error) for decoded in batches for error in decoded.rejected)


@settings(deadline=None)
@given(st.lists(st.integers(1, 4), max_size=8), st.lists(st.integers(0, 2000), max_size=8))
def test_chunks_may_be_cut_anywhere(sizes: list[int], positions: list[int]) -> None:
    """A stream gives the same events wherever its bytes are cut, and the same as the whole source."""
    lines = [quad(f"e{event}", f"{event}-{i}") for event, size in enumerate(sizes) for i in range(size)]
    text = "".join(line + "\n" for line in lines).encode()
    streamed, batches = decode(list(split_at(text, positions)), STREAM)
    assert (streamed, rejections(batches)) == (decode([text], Limits())[0], [])


garbled = st.sampled_from(
    ['<urn:s> <urn:p> "x" <urn:{}> ', "<urn:s> <urn:p> <urn:o w> <urn:{}> .", "nonsense", "<urn:s"]
)


@settings(deadline=None)
@given(
    st.lists(st.tuples(st.integers(1, 3), st.booleans(), garbled, st.integers(0, 3)), max_size=6),
    st.lists(st.integers(0, 2000), max_size=8),
)
def test_bad_lines_reject_the_same_events_in_a_stream(
    plan: list[tuple[int, bool, str, int]], positions: list[int]
) -> None:
    """Bad lines reject the same events in a stream, however it is cut, as in a whole source."""
    lines = []
    for event, (size, is_bad, text, where) in enumerate(plan):
        mine = [quad(f"e{event}", f"{event}-{i}") for i in range(size)]
        mine[where:where] = [text.format(f"e{event}")] if is_bad else []
        lines += mine
    source = "".join(line + "\n" for line in lines).encode()
    whole, stream = decode([source], Limits()), decode(list(split_at(source, positions)), STREAM)
    assert stream[0] == whole[0]
    assert sorted(map(str, rejections(stream[1]))) == sorted(map(str, rejections(whole[1])))


def test_bad_line_with_a_graph_rejects_its_event() -> None:
    """A bad line with a recoverable graph rejects that event, with all its lines in order."""
    bad = "<urn:s> <urn:p> <urn:o w> <urn:a> ."
    lines = [quad("a", 1), bad, quad("a", 2), quad("b", 3)]
    events, batches = decode(["\n".join(lines).encode()], Limits())
    assert events == [("urn:b", ["3"], 4)]
    assert rejections(batches) == [("urn:a", 2, "\n".join(lines[:3]))]


def test_bad_line_without_a_graph_is_rejected_alone() -> None:
    """A bad line without a recoverable graph is rejected alone, with its own number."""
    lines = [quad("a", 1), quad("b", 2), "garbage", quad("c", 3), quad("d", 4)]
    for limits in (Limits(), STREAM):
        events, batches = decode(["\n".join(lines).encode()], limits)
        assert [event for event, _, _ in events] == ["urn:a", "urn:b", "urn:c", "urn:d"]
        assert rejections(batches) == [(None, 3, "garbage")]


def test_triples_outside_any_graph() -> None:
    """Triples without a graph are rejected; the events around them are accepted."""
    triple = '<urn:s> <urn:p> "2" .'
    for limits in (Limits(), STREAM):
        events, batches = decode(["\n".join([quad("a", 1), triple, quad("a", 3)]).encode()], limits)
        assert events == [("urn:a", ["1", "3"], 1)]
        assert rejections(batches) == [(None, 2, triple)]


def test_blank_graph_names() -> None:
    """A graph named by a blank node is an event of a document, and rejected in a stream."""
    line = '<urn:s> <urn:p> "2" _:g .'
    events, batches = decode([line.encode()], STREAM)
    assert (events, rejections(batches)) == ([], [(None, 1, line)])
    assert len(decode([line.encode()], Limits())[0]) == 1


def test_oversized_events_are_rejected_in_bounded_memory() -> None:
    """An event larger than the limit is rejected with the beginning of its lines; its neighbours are accepted."""
    lines = [quad("a", 1), *(quad("big", "x" * 1000 + str(i)) for i in range(300)), quad("c", 3)]
    chunks = [(line + "\n").encode() for line in lines]
    for limits in (Limits(max_event_bytes=100_000), Limits(max_event_bytes=100_000, max_document_bytes=0)):
        events, batches = decode(chunks, limits)
        assert [event for event, _, _ in events] == ["urn:a", "urn:c"]
        [(event, line, content)] = rejections(batches)
        assert (event, line) == ("urn:big", 2)
        assert content is not None
        assert content.startswith(lines[1])
        assert "# cut here" in content
        assert len(content) < 70_000


def test_batches_are_bounded() -> None:
    """The number of quads in a batch is bounded."""
    lines = "".join(quad(f"e{i // 4}", i) + "\n" for i in range(200_000)).encode()
    events, batches = decode([lines], Limits())
    assert len(events) == 50_000
    sizes = [len(decoded.events.column("triples").flatten()) for decoded in batches]
    assert max(sizes) <= 64 * 1024 + 4


def test_garbage_is_refused_early_and_merged() -> None:
    """Input that is not N-Quads is refused after its first lines, and garbage between quads is one problem."""
    events, batches = decode([b"x\n" * 1_000_000], Limits())
    [error] = [error for decoded in batches for error in decoded.rejected]
    assert (events, "the rest was not read" in error.reason) == ([], True)
    events, batches = decode(
        [(quad("a", 1) + "\n" + "x\n" * 5000 + quad("b", 2) + "\n" + quad("c", 3)).encode()], Limits()
    )
    assert [event for event, _, _ in events] == ["urn:a", "urn:b", "urn:c"]
    [reason] = [error.reason for decoded in batches for error in decoded.rejected]
    assert "4999 more bad lines" in reason


@settings(deadline=None)
@given(st.lists(st.lists(st.text(max_size=2), max_size=20), max_size=10))
def test_graph_hash_set_behaves_like_a_set(batches: list[list[str]]) -> None:
    """Adding reports for each name whether it was added before."""
    hashes, seen = GraphHashSet(), set[str]()
    for batch in batches:
        expected = []
        for name in batch:
            expected.append(name in seen)
            seen.add(name)
        assert hashes.add(pa.array(batch, pa.string())).tolist() == expected
