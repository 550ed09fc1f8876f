"""The identity of events (language page, section 14): their content, the IRIs made of it, and reserved IRIs."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from hashlib import sha256

from motet.codec.blank_nodes import Triple, canonical_labels
from motet.model.batches import ATTRIBUTE

THIS = "<urn:motet:this>"  # the event's node in its content
RESERVED = "urn:motet:"
DERIVED = "urn:motet:derived:"
MINTED = "urn:motet:event:"
MINTED_IRI = f"{MINTED}[0-9a-f]{{64}}"


@dataclass
class BatchInput:
    """Messages without an id that are one input together; counts the events of equal content in it."""

    id: str | None
    counts: Counter[bytes] = field(default_factory=Counter)  # by the hash of the content


def is_reserved(iri: str) -> bool:
    """Whether an event from outside may not have this IRI.

    >>> is_reserved("urn:motet:tick"), is_reserved("urn:motet:event:" + 64 * "0"), is_reserved("urn:e:1")
    (True, False, False)
    """
    return iri.startswith(RESERVED) and re.fullmatch(MINTED_IRI, iri) is None


def content(node: str, triples: Iterable[Triple], *, max_work: int = 200_000) -> list[str]:
    """The content of an event: sorted N-Triples lines that depend neither on its IRI nor on labels of blank nodes.

    ``node`` is the term of the event's node in the triples. The lines have ``<urn:motet:this>`` in its place,
    canonical labels of the other blank nodes, and no CloudEvents attributes.

    >>> content("_:r", [("_:r", "<urn:p>", "_:x"), ("_:x", "<urn:q>", '"1"')])
    ['<urn:motet:this> <urn:p> _:c14n0 .', '_:c14n0 <urn:q> "1" .']
    """
    own = [
        (THIS if s == node else s, p, THIS if o == node else o)
        for s, p, o in triples
        if not p.startswith(f"<{ATTRIBUTE}")
    ]
    if any(s.startswith("_:") or o.startswith("_:") for s, _, o in own):
        labels = {old: f"_:{label}" for old, label in canonical_labels(own, max_work=max_work).items()}
        own = [(labels.get(s, s), p, labels.get(o, o)) for s, p, o in own]
    return sorted({f"{s} {p} {o} ." for s, p, o in own})


def minted_iri(input_id: str | None, lines: Sequence[str], counts: Counter[bytes]) -> str:
    """The IRI of an event without one: the hash of the input's id, a number and its content, joined by newlines.

    The number is that of the events of equal content before it in the input; ``counts`` has them, and is increased.

    >>> counts = Counter()
    >>> [minted_iri(None, ['<urn:motet:this> <urn:p> "1" .'], counts)[:24] for _ in range(2)]
    ['urn:motet:event:072a01aa', 'urn:motet:event:160cfec7']
    """
    key = sha256("\n".join(lines).encode()).digest()
    number = counts[key]
    counts[key] += 1
    text = "\n".join([input_id or "", str(number), *lines])
    return MINTED + sha256(text.encode()).hexdigest()
