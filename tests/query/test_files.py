"""RDF files become one dataset."""

from __future__ import annotations

import gzip
from pathlib import Path

import pytest

from motet.model.errors import DecodeError, UsageError
from motet.query.files import read_dataset
from motet.sparql.dataset import Dataset


def dataset(*paths: Path) -> Dataset:
    return read_dataset(map(str, paths), now="2026-01-01T00:00:00Z", random_bits=lambda: 1)


def test_files_together_are_one_dataset(tmp_path: Path) -> None:
    """Default graphs are one graph, graphs of one name are one graph; blank nodes of two files are two nodes."""
    first, second = tmp_path / "a.trig", tmp_path / "b.nq.gz"
    first.write_text("<urn:a> <urn:p> _:x . <urn:g> { <urn:a> <urn:p> 01 }")
    second.write_bytes(gzip.compress(b"<urn:a> <urn:p> _:x .\n<urn:b> <urn:p> <urn:c> <urn:g> .\n"))
    read = dataset(first, second)
    assert (len(read.default), {name: len(graph) for name, graph in read.named.items()}) == (2, {"<urn:g>": 2})
    assert '"01"^^<http://www.w3.org/2001/XMLSchema#integer>' in {obj for _, _, obj in read.named["<urn:g>"]}


def test_a_label_keeps_its_node_in_all_graphs_of_a_file(tmp_path: Path) -> None:
    """The scope of a label is the file; a blank graph name is a graph."""
    path = tmp_path / "a.trig"
    path.write_text("_:x <urn:p> 1 . _:x { _:x <urn:p> 2 }")
    read = dataset(path)
    (subject,) = {subject for subject, _, _ in read.default}
    assert list(read.named) == [subject]


def test_relative_iris_are_resolved_against_the_file(tmp_path: Path) -> None:
    """As a browser would."""
    path = tmp_path / "a.ttl"
    path.write_text("<#x> <urn:p> <b> .")
    (triple,) = dataset(path).default
    assert triple == (f"<{path.as_uri()}#x>", "<urn:p>", f"<{tmp_path.as_uri()}/b>")


def test_cloudevents_are_named_graphs(tmp_path: Path) -> None:
    """One event, one graph."""
    path = tmp_path / "a.ce.json"
    path.write_text(
        '{"specversion": "1.0", "id": "1", "source": "urn:s", "type": "t", "time": "2026-01-01T00:00:00Z",'
        ' "datacontenttype": "text/turtle", "data": "<urn:a> <urn:p> 1 ."}'
    )
    read = dataset(path)
    assert (len(read.default), len(read.named)) == (0, 1)


def test_bad_files_are_refused_with_their_place(tmp_path: Path) -> None:
    """The file, and the line of the error."""
    path = tmp_path / "a.ttl"
    path.write_text("<urn:a> <urn:p> 1 .\n<urn:a> ex:p 1 .")
    with pytest.raises(DecodeError, match=r"a\.ttl, line 2: not valid text/turtle"):
        dataset(path)
    with pytest.raises(UsageError, match="cannot be read"):
        dataset(tmp_path / "none.ttl")
    with pytest.raises(UsageError, match="stands for no format"):
        dataset(tmp_path / "a.txt")
