"""The speed of decoding N-Quads to Arrow columns, compared with iterating over pyoxigraph's parser.

Two seeded data sets: sensor events of the common form, and messages that are slow to parse: non-ASCII letters in every
literal and event IRI, a third of the literals with numeric escapes, and one line in twenty that the compiled scanner
leaves to pyoxigraph. The repetitions of the decoders are interleaved, so that a busy machine slows all of them alike;
the figure is the median.
"""

from __future__ import annotations

import argparse
import json
import random
import statistics
import time
from collections.abc import Callable
from dataclasses import asdict, dataclass

import pyoxigraph

from motet.codec.nquads import NQuadsDecoder

XSD = "http://www.w3.org/2001/XMLSchema#"
NS = "http://example.org/ns#"
PIECE = 4 * 2**20
SEED = 20261115

PHRASES = [
    "Die Tür zum Prüfraum ist geöffnet",
    "温度が上限を超えました",
    "Датчик не отвечает",
    r"state \"open\"\nsince last check",
    r"C:\\logs\\café.txt\tretry",
    "valve 7 🔥 too hot – 48 °C",
]


@dataclass(frozen=True)
class Result:
    data: str
    decoder: str
    quads_per_second: int
    ratio: float


def sensor_events(quads: int) -> bytes:
    """Events of six quads: type, sensor, time, value, label and status."""
    rng = random.Random(SEED)
    lines: list[str] = []
    for number in range(quads // 6):
        event = f"<http://example.org/events/2026/{number:08d}>"
        values = {
            "http://www.w3.org/1999/02/22-rdf-syntax-ns#type": f"<{NS}TemperatureReading>",
            f"{NS}sensor": f"<http://example.org/sensors/{rng.randrange(5000)}>",
            f"{NS}time": f'"2026-11-15T10:{rng.randrange(60):02d}:{rng.random() * 59:06.3f}Z"^^<{XSD}dateTime>',
            f"{NS}value": f'"{rng.gauss(21, 4):.2f}"^^<{XSD}decimal>',
            "http://www.w3.org/2000/01/rdf-schema#label": f'"Reading {number}"@{rng.choice(["en", "de", "en-GB"])}',
            f"{NS}status": f'"{rng.choice(PHRASES) if rng.random() < 0.2 else "ok"}"',
        }
        lines += [f"{event} <{predicate}> {value} {event} ." for predicate, value in values.items()]
    return "\n".join([*lines, ""]).encode()


def multilingual_messages(quads: int) -> bytes:
    rng = random.Random(SEED)
    lines = []
    for number in range(quads):
        event = f"<http://example.org/événements/{number // 4:06d}>"
        subject = f"<http://example.org/Pr%C3%BCfraum/{rng.randrange(500)}>"
        text = " ".join(rng.choices(PHRASES, k=2))
        if rng.random() < 1 / 3:
            text = "".join(letter if letter.isascii() else f"\\U{ord(letter):08X}" for letter in text)
        language = "es-419" if rng.random() < 1 / 20 else rng.choice(["de", "ja", "ru-RU"])
        lines.append(f'{subject} <{NS}message> "{text}"@{language} {event} .')
    return "\n".join([*lines, ""]).encode()


def iterate(text: bytes) -> int:
    return sum(1 for _ in pyoxigraph.parse(text, pyoxigraph.RdfFormat.N_QUADS))


def iterate_reading_terms(text: bytes) -> int:
    count = 0
    for quad in pyoxigraph.parse(text, pyoxigraph.RdfFormat.N_QUADS):
        _ = quad.subject, quad.predicate, quad.object, quad.graph_name
        count += 1
    return count


def decode(text: bytes) -> int:
    decoder = NQuadsDecoder()
    batches = [decoder.feed(text[first : first + PIECE]) for first in range(0, len(text), PIECE)]
    batches.append(decoder.finish())
    assert not any(bad for _, bad in batches)
    return sum(quads.num_rows for quads, _ in batches)


DECODERS: dict[str, Callable[[bytes], int]] = {
    "pyoxigraph, iterated": iterate,
    "pyoxigraph, reading four terms": iterate_reading_terms,
    "motet, to Arrow": decode,
}


def measure(data: str, text: bytes, quads: int, repetitions: int) -> list[Result]:
    seconds: dict[str, list[float]] = {name: [] for name in DECODERS}
    decode(text[: text.index(b"\n") + 1])  # compile, or load compiled code, before the clock starts
    for _ in range(repetitions):
        for name, count_quads in DECODERS.items():
            start = time.perf_counter()
            assert count_quads(text) == quads
            seconds[name].append(time.perf_counter() - start)
    medians = {name: statistics.median(times) for name, times in seconds.items()}
    reference = medians["pyoxigraph, reading four terms"]
    return [Result(data, name, round(quads / median), round(reference / median, 2)) for name, median in medians.items()]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument(
        "--quads", type=int, default=1_000_000, help="quads of sensor events; a quarter as many messages"
    )
    parser.add_argument("--repetitions", type=int, default=3)
    parser.add_argument("--json", action="store_true", help="print JSON instead of a table")
    options = parser.parse_args()
    results: list[Result] = []
    for generate, count in ((sensor_events, options.quads), (multilingual_messages, options.quads // 4)):
        text = generate(count)
        quads = text.count(b"\n")
        data = f"{generate.__name__.replace('_', ' ')}, {len(text) / max(quads, 1):.0f} bytes per line"
        results += measure(data, text, quads, options.repetitions)
    if options.json:
        print(json.dumps([asdict(result) for result in results], indent=2))
        return
    print("clock: from the bytes in memory to the last quad, in Arrow columns or as Python objects; wall time, median")
    print(f"{'data':<42}{'decoder':<33}{'quads/s':>12}{'ratio':>8}")
    for result in results:
        print(f"{result.data:<42}{result.decoder:<33}{result.quads_per_second:>12,}{result.ratio:>8.2f}")


if __name__ == "__main__":
    main()
