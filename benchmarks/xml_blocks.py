"""Documents per second for many blocks: the index, against one compiled XPath per block and against the bare parser.

    python benchmarks/xml_blocks.py [--documents 2000] [--rounds 3]

The blocks are orders with a customer, a state and a number, over a vocabulary of the documents; each set has constants
that decide which documents match. All figures are of one run on one core; the last columns are ratios.
"""

from __future__ import annotations

import argparse
import random
import time
from collections.abc import Callable, Sequence

from lxml import etree

from motet.engine.match.xml_index import BlockIndex
from motet.model.xml_document import parse_stored_xml
from motet.xmlql.blocks import Block
from motet.xmlql.evaluate import Evaluation
from motet.xmlql.parse import parse_block

SIZES = (10, 1_000, 100_000)
STATES = ("open", "finished", "lost", "sent")
XPATH_DOCUMENTS = 20  # one compiled XPath per block is slow


def block_text(number: int, rng: random.Random) -> str:
    """A block whose constants no document has; its structure is one of many."""
    extra = rng.choice(
        ("", "<city>$c</city>", "<zip>$z</zip>", "<items>//<sku>$s</sku></items>", "<deliver>ok</deliver>")
    )
    state = rng.choice(STATES)
    return f"<orderpay><pay>{state}</pay><pn>n{number}</pn>{extra}</orderpay>"


def xpath_of(text: str) -> str:
    """The same structure as XPath."""
    state, number = (text.partition(f"<{name}>")[2].partition("<")[0] for name in ("pay", "pn"))
    path = f"//orderpay[normalize-space(pay)='{state}'][normalize-space(pn)='{number}']"
    names = [name for name in ("city", "zip") if f"<{name}>" in text]
    path += "".join(f"[{name}]" for name in names)
    path += "[items//sku]" if "<sku>" in text else ""
    return path + ("[normalize-space(deliver)='ok']" if "<deliver>" in text else "")


def document(pn: str, rng: random.Random) -> bytes:
    items = "".join(f"<item><sku>s{rng.randrange(50)}</sku><qty>{rng.randrange(9)}</qty></item>" for _ in range(3))
    customer = f"<customer><name>C{rng.randrange(100)}</name><street>S{rng.randrange(100)}</street></customer>"
    return (
        f"<orders><orderpay><id>{rng.randrange(10**6)}</id>{customer}<city>Paris</city><zip>75001</zip>"
        f"<pay>{rng.choice(STATES)}</pay><deliver>ok</deliver><items>{items}</items><pn>{pn}</pn></orderpay></orders>"
    ).encode()


def seconds_per_document(work: Callable[[bytes], object], documents: Sequence[bytes], rounds: int) -> float:
    """The best of some rounds."""
    best = float("inf")
    for _ in range(rounds):
        start = time.perf_counter()
        for each in documents:
            work(each)
        best = min(best, (time.perf_counter() - start) / len(documents))
    return best


def matcher(blocks: Sequence[Block]) -> tuple[Callable[[bytes], int], float]:
    """The function that parses a document and finds all solutions, and the seconds to build its index."""
    start = time.perf_counter()
    index = BlockIndex(blocks)
    built = time.perf_counter() - start

    def match(data: bytes) -> int:
        hits, evaluation = index.search(parse_stored_xml(data)), Evaluation()
        return sum(len(evaluation.solutions_at(blocks[block].element, found)) for block, found in hits.items())

    return match, built


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--documents", type=int, default=2000)
    parser.add_argument("--rounds", type=int, default=3)
    args = parser.parse_args()
    rng = random.Random(1)
    unmatched = [document("none", rng) for _ in range(args.documents)]
    parse = seconds_per_document(parse_stored_xml, unmatched, args.rounds)
    print(f"{len(unmatched[0])} bytes per document; bare parse {1 / parse:,.0f} documents/s")
    for size in SIZES:
        texts = [block_text(number, rng) for number in range(size - 1)]
        texts.append("<orderpay><pn>$n</pn><city>Paris</city><zip>75002</zip></orderpay>")
        match, built = matcher([parse_block(text) for text in texts])
        none = seconds_per_document(match, unmatched, args.rounds)
        matched = [each.replace(b"75001", b"75002") for each in unmatched]
        single = seconds_per_document(match, matched, args.rounds)
        assert sum(map(match, unmatched)) == 0 and sum(map(match, matched)) == len(matched)
        line = f"{size:>7,} blocks: built in {built:.2f} s; "
        line += f"no match {1 / none:,.0f}/s ({parse / none:.2f} of bare parse), "
        line += f"one match {1 / single:,.0f}/s ({parse / single:.2f})"
        if size <= 1_000:
            paths = [etree.XPath(xpath_of(text)) for text in texts[:-1]]

            def xpath(data: bytes, paths: Sequence[etree.XPath] = paths) -> int:
                root = parse_stored_xml(data)
                return sum(bool(path(root)) for path in paths)

            slow = seconds_per_document(xpath, unmatched[:XPATH_DOCUMENTS], 1)
            line += f"; one XPath per block {1 / slow:,.0f}/s: {slow / none:.0f} times slower"
        print(line, flush=True)


if __name__ == "__main__":
    main()
