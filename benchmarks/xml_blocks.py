"""Documents per second for many blocks: the index, against one compiled XPath per block and against the bare parser.

    python benchmarks/xml_blocks.py [--documents 500] [--rounds 20]

The blocks are orders with a customer, a state and a number, over a vocabulary of the documents; each set has constants
that decide which documents match. The clock starts with the bytes of a stored document and ends with the solutions of
all blocks, the tree removed; the bare parse is `lxml.etree.fromstring` of the same bytes, the tree removed. All figures
are processor time on one core, the best of some rounds in which both alternate.
"""

from __future__ import annotations

import argparse
import random
import time
from collections.abc import Callable, Mapping, Sequence

from lxml import etree

from motet.engine.match.xml_index import BlockIndex
from motet.model.xml_document import parse_stored_xml
from motet.xmlql.evaluate import Evaluation
from motet.xmlql.parse import parse_block

SIZES = (10, 1_000, 100_000)
STATES = ("open", "finished", "lost", "sent")
Work = Callable[[bytes], object]
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


def threshold_text(number: int) -> str:
    """A block with a limit of its own on the same element; it holds in no document."""
    return f"<orderpay><zip> $z > {80_000 + number} </zip><city>$c</city></orderpay>"


def seconds_per_document(works: Mapping[str, Work], documents: Sequence[bytes], rounds: int) -> dict[str, float]:
    """The processor time of each work for a document, the best of some rounds; the works alternate."""
    best = dict.fromkeys(works, float("inf"))
    for _ in range(rounds):
        for name, work in works.items():
            start = time.process_time()
            for each in documents:
                work(each)
            best[name] = min(best[name], (time.process_time() - start) / len(documents))
    return best


def matcher(texts: Sequence[str]) -> tuple[Callable[[bytes], int], float]:
    """The function that parses a stored document and finds the solutions of all blocks, and the seconds to build it."""
    blocks = [parse_block(text) for text in texts]
    start = time.process_time()
    index = BlockIndex(blocks)
    built = time.process_time() - start

    def match(data: bytes) -> int:
        evaluation = Evaluation()
        hits = index.search(parse_stored_xml(data), evaluation)
        return sum(len(evaluation.solutions_at(blocks[block].element, found)) for block, found in hits.items())

    return match, built


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--documents", type=int, default=500)
    parser.add_argument("--rounds", type=int, default=20)
    args = parser.parse_args()
    rng = random.Random(1)
    unmatched = [document("none", rng) for _ in range(args.documents)]
    matched = [each.replace(b"75001", b"75002") for each in unmatched]
    print(f"{len(unmatched[0])} bytes per document")
    for size in SIZES:
        texts = [block_text(number, rng) for number in range(size - 1)]
        texts.append("<orderpay><pn>$n</pn><city>Paris</city><zip>75002</zip></orderpay>")
        match, built = matcher(texts)
        assert sum(map(match, unmatched)) == 0 and sum(map(match, matched)) == len(matched)
        none = seconds_per_document({"bare": etree.fromstring, "match": match}, unmatched, args.rounds)
        single = seconds_per_document({"bare": etree.fromstring, "match": match}, matched, args.rounds)
        line = f"{size:>7,} blocks: built in {built:.2f} s; bare parse {1 / none['bare']:,.0f}/s"
        for name, seconds in (("no match", none), ("one match", single)):
            line += f", {name} {1 / seconds['match']:,.0f}/s ({seconds['bare'] / seconds['match']:.3f} of bare parse)"
        if size <= 1_000:
            paths = [etree.XPath(xpath_of(text)) for text in texts[:-1]]

            def xpath(data: bytes, paths: Sequence[etree.XPath] = paths) -> int:
                root = etree.fromstring(data)
                return sum(bool(path(root)) for path in paths)

            slow = seconds_per_document({"xpath": xpath}, unmatched[:XPATH_DOCUMENTS], 1)["xpath"]
            line += f"; one XPath per block {1 / slow:,.0f}/s: {slow / none['match']:.0f} times slower"
        print(line, flush=True)
    for size in SIZES:
        match, _ = matcher([threshold_text(number) for number in range(size)])
        assert sum(map(match, unmatched)) == 0
        limit = seconds_per_document({"match": match}, unmatched, args.rounds)["match"]
        print(f"{size:>7,} limits on one element, none holds: {1 / limit:,.0f}/s", flush=True)


if __name__ == "__main__":
    main()
