"""Events are built from sets of triples."""

from hypothesis import given, settings
from hypothesis import strategies as st

from motet.codec.decode import decode_bytes

values = st.sampled_from(
    ['"a"', '"b"', '"long text 1 with the same ends"', '"long text 2 with the same ends"', "<a:b>"]
)


@settings(deadline=None)
@given(st.lists(st.tuples(st.integers(0, 2), st.sampled_from(["<a:p>", "<a:q>"]), values), min_size=1, max_size=30))
def test_repeated_triples_count_once(rows: list[tuple[int, str, str]]) -> None:
    """A triple that an event states twice is kept once, at its first position; other events keep it."""
    text = "".join(f"<a:s> {p} {o} <urn:{event}> .\n" for event, p, o in rows)
    [decoded] = decode_bytes(text.encode(), "application/n-quads")
    expected: dict[str, dict[tuple[str, str], None]] = {}
    for event, p, o in rows:
        expected.setdefault(f"urn:{event}", {})[(p, o)] = None
    stated = {row["id"]: [(t["predicate"], t["object"]) for t in row["triples"]] for row in decoded.events.to_pylist()}
    assert list(stated.items()) == [(event, list(triples)) for event, triples in expected.items()]
