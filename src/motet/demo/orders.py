"""Generates the orders of coffee in the building and their payments: XML documents, from a seed."""

from __future__ import annotations

import random
from collections.abc import Iterator
from importlib.resources import files
from pathlib import Path

from motet.demo.building import MEETING_ROOMS, MIDNIGHT, OFFICES, slot_of
from motet.model.times import UNITS, format_datetime
from motet.model.xml_document import MOTET_NAMESPACE

ORDERS = 20
UNPAID_SHARE = 0.15
PRICES = {"coffee": 240, "tea": 210, "cake": 380}  # cents


def subscription_paths() -> tuple[Path, Path]:
    """Subscriptions in EXML-QL, and in the language of Motet."""
    return Path(str(files("motet.demo") / "orders.exmlql")), Path(str(files("motet.demo") / "orders.motet"))


def mapping_path() -> Path:
    return Path(str(files("motet.demo") / "orders.yaml"))


def write_documents(directory: Path, *, seed: int = 1, files: int = 8) -> None:
    """Write each document as a file whose name begins with its slot of the day, like those of the building."""
    directory.mkdir(parents=True, exist_ok=True)
    for time, name, text in documents(seed=seed):
        (directory / f"{slot_of(time, files):02}-{name}.xml").write_text(text, encoding="utf-8")


def documents(*, seed: int = 1) -> Iterator[tuple[int, str, str]]:
    """The time, name and text of each document.

    >>> [(name, text[:6]) for _, name, text in documents()][:2]
    [('order-101', '<order'), ('payment-101', '<payme')]
    """
    rng = random.Random(f"orders {seed}")  # noqa: S311  (sample data, not a secret)
    for number in range(101, 101 + ORDERS):
        time = MIDNIGHT + int(rng.uniform(8.5, 17) * UNITS["h"])
        item, quantity = rng.choice(list(PRICES)), rng.randint(2, 8)
        room = rng.choice((*MEETING_ROOMS * 2, *OFFICES))
        content = f'<number>{number}</number><room>{room}</room><item quantity="{quantity}">{item}</item>'
        yield time, f"order-{number}", _document("order", number, time, content)
        if rng.random() >= UNPAID_SHARE:
            paid = time + rng.randint(2, 90) * UNITS["min"]
            amount = f"{PRICES[item] * quantity / 100:.2f}"
            text = _document("payment", number, paid, f"<order>{number}</order><amount>{amount}</amount>")
            yield paid, f"payment-{number}", text


def _document(name: str, number: int, time: int, content: str) -> str:
    attributes = f'm:id="http://example.org/building/{name}/{number}" m:start="{format_datetime(time)}"'
    return f'<{name} xmlns:m="{MOTET_NAMESPACE}" {attributes}>{content}</{name}>\n'
