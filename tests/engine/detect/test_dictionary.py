"""The dictionary of occurrence tables: terms, event IRIs, and compaction."""

from __future__ import annotations

import numpy as np
import pyarrow as pa

from motet.engine.detect.dictionary import Dictionary, EventIris, Terms
from motet.engine.detect.occurrences import Occurrences
from motet.engine.detect.table_kernels import EVENT_BIT, UNBOUND, VALUES
from motet.engine.match.string_column import string_column


def _table(values: list[list[int]], events: list[int]) -> Occurrences:
    columns = np.zeros((VALUES + len(values[0]), len(values)), np.int64)
    columns[VALUES:] = np.transpose(values)
    return Occurrences(columns, np.arange(len(events) + 1), np.array(events))


def test_term_ids_follow_the_first_occurrence() -> None:
    """A term's id is the index of its first occurrence among the distinct terms, however many and long they are."""
    given = [f"<urn:{'ö' * (number % 700)}:{number % 500}>" for number in range(3000)]
    distinct = list(dict.fromkeys(given))
    terms = Terms()
    numbers = [*terms.ids(pa.array(given[:10])), *terms.ids(pa.array(given)[10:])]
    assert numbers == [distinct.index(term) for term in given]
    assert terms.strings().to_pylist() == [terms[number] for number in range(len(terms))] == distinct


def test_only_requested_terms_get_ids() -> None:
    """The index -1 has the id -1, and other terms are not added."""
    terms = Terms()
    strings = string_column(pa.array(["<a>", "<b>", "<c>"]))
    assert terms.ids_at(strings, np.array([2, -1, 0, 2])).tolist() == [0, -1, 1, 0]
    assert terms.strings().to_pylist() == ["<c>", "<a>"]


def test_events_are_found_whatever_gaps_their_offsets_have() -> None:
    """Dense, sparse, and added in several batches: each offset has its IRI."""
    names = EventIris()
    for numbers in ([0, 1, 2, 5], [7, 8], [10, 10**12], [3, 4]):
        names.add(np.array(numbers), pa.array([f"urn:{number}" for number in numbers]), None)
    asked = np.array([10**12, 0, 5, 4, 3, 8, 8, 10])
    assert names.iris(asked).to_pylist() == [f"urn:{number}" for number in asked.tolist()]
    names.retain(np.array([8, 0, 8, 10**12]))
    assert names.table()[0].tolist() == [0, 8, 10**12]
    assert names.iris(np.array([8, 0])).to_pylist() == ["urn:8", "urn:0"]


def test_compaction_preserves_the_strings_of_tables() -> None:
    """Renumbered tables stand for the same strings, and unused entries are dropped."""
    names = Dictionary()
    numbers = names.terms.ids(pa.array(["<a>", "<b>", "<c>"]))
    names.events.add(np.array([4, 6, 9]), pa.array(["urn:4", "urn:6", "urn:9"]), None)
    table = _table([[numbers[2], 6 | EVENT_BIT], [numbers[1], UNBOUND]], [9, 6])
    kept = names.compact([table])(table).values
    assert names.strings(kept.ravel()[:3]).to_pylist() == ["<c>", "<urn:6>", "<b>"]
    assert (kept[1, 1], len(names.terms), len(names.events)) == (UNBOUND, 2, 2)


def test_strings_are_in_the_order_of_the_values() -> None:
    """Terms and event IRIs mixed, one by one or all at once."""
    names = Dictionary()
    (term,) = names.terms.ids(pa.array(['"ä"@de'])).tolist()
    names.events.add(np.array([1, 2]), pa.array(["urn:1", "urn:ü"]), None)
    values = np.array([2 | EVENT_BIT, term, 1 | EVENT_BIT, term])
    assert names.strings(values).to_pylist() == ["<urn:ü>", '"ä"@de', "<urn:1>", '"ä"@de']
    assert [names.string(value) for value in values.tolist()] == names.strings(values).to_pylist()
