"""EXML-QL's experiment (section 4.4, table 1): 500 subscriptions with 1 000 blocks over 100 to 500 XML events.

The paper has no unit for its times, and leaves two numbers of its setup unreadable; only their growth can be compared.
Its bounds are counted in steps: matching one event takes at most S + mn - 1 of them (S elements in the document, m
blocks of at most n elements), here the pairs of element and block that are tried; composing takes at most kNz (k
subscriptions of at most z operators, N events), here the notifications.
"""

from __future__ import annotations

import random
import time
from collections.abc import Sequence
from typing import NamedTuple

from motet.engine.match.xml_index import BlockIndex
from motet.engine.runtime.processor import Processor
from motet.language.parse import parse
from motet.language.printer import to_text
from motet.model.batches import RecordRow, Records, record_batch
from motet.model.records import EVENT, Subscribe
from motet.model.times import UNITS, parse_datetime
from motet.model.xml_document import parse_stored_xml
from motet.xmlql.evaluate import Evaluation

SUBSCRIPTIONS = 500
SIZES = (100, 200, 300, 400, 500)  # numbers of events
PUBLISHED = (3, 7, 9, 14, 21)  # times of table 1, whose unit is lost
BEGIN = parse_datetime("2012-01-01T00:00:00Z")
KINDS = 10  # groups of documents


class CompositionFigures(NamedTuple):
    """What one size of the experiment took and found."""

    events: int
    seconds: float
    notifications: int
    published: int
    max_steps: int  # of matching one event
    step_bound: int  # the paper's S + mn - 1 for that event
    composition_bound: int  # the paper's kNz, which the notifications must not exceed


def reproduce(seed: int = 1, sizes: Sequence[int] = SIZES) -> list[CompositionFigures]:
    """The figures for each number of events; the same seed gives the same documents."""
    texts = [subscription_text(number) for number in range(SUBSCRIPTIONS)]
    subscriptions = [subscription for text in texts for subscription in parse(text, syntax="exmlql")]
    blocks = [event.xml.tree for each in subscriptions for event in each.events if event.xml is not None]
    index = BlockIndex(blocks)
    block_elements = len(blocks) * max(sum(1 for _ in block.element.walk()) for block in blocks)
    figures = []
    for count, published in zip(sizes, PUBLISHED, strict=False):
        rng = random.Random(seed)  # noqa: S311  (seeded, not secret)
        documents = [document(rng) for _ in range(count)]
        seconds, notifications = _run([to_text(each) for each in subscriptions], documents)
        roots = [parse_stored_xml(data) for data in documents]
        steps = [sum(map(len, index.search(root, Evaluation()).values())) for root in roots]
        bounds = [sum(1 for _ in root.iter()) + block_elements - 1 for root in roots]
        worst = max(range(count), key=lambda event: steps[event] / bounds[event])
        composition_bound = SUBSCRIPTIONS * count * 1  # one operator in each subscription
        figures.append(
            CompositionFigures(count, seconds, notifications, published, steps[worst], bounds[worst], composition_bound)
        )
    return figures


def subscription_text(number: int) -> str:
    """A person of one kind, then a finished order of the same number."""
    kind = number % KINDS
    return (
        f"SUBSCRIPTION s{number} WHERE $p : <person{kind}><name>$n</name><city>c{number}</city>"
        f"<personnumber>$pn</personnumber></person{kind}>, "
        f"$o : <orderpay{kind}><pay>finished</pay><deliver>ok</deliver><city>c{number}</city>"
        f"<pn>$pn</pn></orderpay{kind}>, "
        "$p BEFORE $o WITHIN 1 d CONSTRUCT <result><pn>$pn</pn><name>$n</name></result>"
    )


def document(rng: random.Random) -> bytes:
    """A person or an order of one of the kinds."""
    number, person = rng.randrange(SUBSCRIPTIONS) // 10, rng.randrange(3)
    kind = number % KINDS
    if rng.random() < 0.5:
        text = f"<name>n{person}</name><city>c{number}</city><personnumber>{person}</personnumber>"
        return f"<person{kind}>{text}</person{kind}>".encode()
    text = f"<pay>finished</pay><deliver>ok</deliver><city>c{number}</city><pn>{person}</pn>"
    return f"<orderpay{kind}>{text}</orderpay{kind}>".encode()


def _run(subscriptions: Sequence[str], documents: Sequence[bytes]) -> tuple[float, int]:
    """The seconds that a processor takes for some documents, and the number of its notifications."""
    processor = Processor()
    names = [f"s{number}" for number in range(len(subscriptions))]
    rows = [Subscribe(name, text).to_row() for name, text in zip(names, subscriptions, strict=True)]
    processor.advance(Records(rows=[row._replace(offset=offset) for offset, row in enumerate(rows)]), None)
    first = len(rows) + 1
    other = RecordRow(len(rows), EVENT, "urn:other", BEGIN, BEGIN, None, False, None, (), payload=b"<other/>")
    processor.advance(Records(rows=[other]), None)  # builds the index
    events = record_batch(
        RecordRow(first + i, EVENT, f"urn:e:{i}", _time(i), _time(i), None, False, None, (), payload=data)
        for i, data in enumerate(documents)
    )
    start = time.perf_counter()
    notifications = processor.advance(Records(columns=events), _time(len(documents)) + UNITS["d"])
    return time.perf_counter() - start, len(notifications)


def _time(event: int) -> int:
    return BEGIN + event * UNITS["s"]
