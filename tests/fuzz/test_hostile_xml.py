"""Mutated XML documents: what the fuzzer checks, and that it finds nothing in a small number of them."""

import json
from random import Random

import pytest

from motet.cli.main import main
from motet.fuzz import hostile_xml
from motet.fuzz.hostile_xml import MAX_SECONDS, fuzz_documents, mutated_document


def test_mutated_documents_are_accepted_or_rejected() -> None:
    """In time and memory, in agreement with another parser; both kinds occur."""
    report = fuzz_documents(300, 0)
    assert report.failures == []
    assert report.accepted > 30
    assert report.rejected.total() > 100
    assert report.slowest < MAX_SECONDS


def test_the_same_seed_gives_the_same_documents() -> None:
    """So that a failure can be repeated."""
    assert mutated_document(Random("0:7")) == mutated_document(Random("0:7"))
    assert mutated_document(Random("0:7")) != mutated_document(Random("0:8"))


def test_a_defect_is_found(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    """A parser that accepts a DOCTYPE disagrees with expat; the command reports it."""
    monkeypatch.setattr("motet.model.xml_document._check_bytes", lambda text, limits: None)
    monkeypatch.setattr("motet.model.xml_document._refuse_doctype", lambda root: None)
    monkeypatch.setattr(hostile_xml, "mutated_document", lambda random: b"<!DOCTYPE a><a/>")
    assert main(["fuzz", "--documents", "--runs", "5", "--json"]) == 1
    printed = json.loads(capsys.readouterr().out)
    assert (printed["documents"], printed["found"]) == (1, ["expat refuses it: it has a DOCTYPE"])
