"""Which graphs a stream has closed."""

import pyarrow as pa
from hypothesis import given, settings
from hypothesis import strategies as st

from motet.codec.graph_hashes import GraphHashes


@settings(deadline=None)
@given(st.lists(st.lists(st.text(max_size=2), max_size=20), max_size=10))
def test_remembers_like_a_set(batches: list[list[str]]) -> None:
    """It tells of each name whether it came before, exactly as a set would."""
    hashes, seen = GraphHashes(), set[str]()
    for batch in batches:
        expected = []
        for name in batch:
            expected.append(name in seen)
            seen.add(name)
        assert hashes.add(pa.array(batch, pa.string())).tolist() == expected
