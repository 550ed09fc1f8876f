"""Digests of events' contents, which distinguish a repetition from a conflict (language page, section 14).

The content of an RDF event is its triples without CloudEvents attributes, whatever their order; that of an XML event is
the canonical form of its document, whatever triples a mapping lifts from it.
"""

from __future__ import annotations

from collections.abc import Collection
from hashlib import sha256
from itertools import pairwise

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from motet.model.batches import Triple, payload_column

ATTRIBUTE = "urn:cloudevents:attribute:"  # the namespace of CloudEvents attributes
_ATTRIBUTE_PREDICATE = f"<{ATTRIBUTE}"


def content_digest(triples: Collection[Triple], payload: bytes | None = None) -> bytes:
    """The SHA-256 of an event's sorted triples without CloudEvents attributes; of the canonical document of XML events.

    >>> one, two = ("<urn:s>", "<urn:p>", '"1"'), ("<urn:s>", "<urn:p>", '"2"')
    >>> content_digest([one, two]) == content_digest([two, one]), content_digest([one]) == content_digest([two])
    (True, False)
    """
    if payload is not None:
        from motet.model.xml_document import canonical_document

        return sha256(canonical_document(payload)).digest()
    text = "\n".join(sorted(map(" ".join, triples)))
    if _ATTRIBUTE_PREDICATE in text:
        own = [triple for triple in triples if not triple[1].startswith(_ATTRIBUTE_PREDICATE)]
        text = "\n".join(sorted(map(" ".join, own)))
    return sha256(text.encode()).digest()


def content_digests(events: pa.RecordBatch | pa.Table) -> list[bytes]:
    """The digest of each event of a batch of EVENTS or RECORDS."""
    column = events.column("triples")
    chunks = column.chunks if isinstance(column, pa.ChunkedArray) else [column]
    digests = [digest for chunk in chunks for digest in _digests(chunk)]
    payloads = payload_column(events)
    if payloads.null_count < len(digests):
        return [
            digest if payload is None else content_digest((), payload)
            for digest, payload in zip(digests, payloads.to_pylist(), strict=True)
        ]
    return digests


def _digests(lists: pa.ListArray) -> list[bytes]:
    triples = lists.flatten()  # without the elements before the first list and after the last
    bounds = lists.offsets.to_numpy().astype(np.int64)
    bounds = bounds - bounds[0]
    subjects, predicates, objects = (triples.field(index) for index in range(3))
    lines = pc.binary_join_element_wise(subjects, predicates, objects, " ")
    is_attribute = pc.starts_with(predicates, _ATTRIBUTE_PREDICATE).to_numpy(zero_copy_only=False)
    if is_attribute.any():
        lines = lines.filter(pa.array(~is_attribute))
        bounds = np.concatenate([[0], np.cumsum(~is_attribute)])[bounds]
    texts = lines.cast(pa.binary()).to_pylist()  # bytes sort as their characters do
    return [sha256(b"\n".join(sorted(texts[begin:end]))).digest() for begin, end in pairwise(bounds.tolist())]
