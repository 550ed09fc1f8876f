"""What `motet why`, `why-not` and `diff` are given to look into: files as `motet run` takes them, a lake, a replay.

Only events that can matter are read: in a lake those near enough in time, and everywhere, when there are many, those
that match a leaf. What was examined is said.
"""

from __future__ import annotations

import argparse
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from motet.cli import output
from motet.cli.tick import instant_of
from motet.language.parse import SYNTAXES
from motet.model.errors import UsageError

if TYPE_CHECKING:
    import pyarrow as pa

    from motet.embedded.replay import Replay
    from motet.lake import DataFile, Snapshot
    from motet.language.syntax import Subscription
    from motet.model.tables import Triple
    from motet.provenance.scene import Scene
    from motet.provenance.wording import Names
    from motet.reference import BackgroundRecord, EventRecord, Record

FEW = 1_000  # events; so many are looked at without an index first
MOST = 5_000  # events that are examined; the definitions take quadratic time
NEAR_MISSES = 3  # times as far as the bounds reach

Span = tuple[int, int]


@dataclass(frozen=True)
class AtHand:
    """A log to look into, how its IRIs are shortened, and what is left to say about it."""

    scene: Scene
    names: Names
    events: int  # of the whole log
    examined: int
    which: str  # were examined
    complete: bool = True  # nothing that can matter was left out

    def note(self) -> str:
        """What was examined, when that is not everything."""
        return "" if self.events == self.examined else f"examined {self.examined} of {self.events} events: {self.which}"


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--lake", metavar="DIR", help="look into a lake, or into files as `motet run` takes them:")
    parser.add_argument("--subscriptions", nargs="+", metavar="FILE", default=[])
    parser.add_argument("--events", nargs="+", metavar="FILE", default=[])
    parser.add_argument("--ontology", nargs="+", metavar="FILE", default=[])
    parser.add_argument("--catalogue", metavar="FILE", help="JSON object from IRIs the ontology imports to paths")
    parser.add_argument("--syntax", choices=SYNTAXES, default="motet", help="the subscriptions' language")
    parser.add_argument("--entailment", choices=["none", "rdfs", "owl-rl"], help="default: as for `motet run`")
    parser.add_argument("--arrival", metavar="TIME", help="time of events that carry none; default: now")
    parser.add_argument(
        "--prefix", action="append", default=[], metavar="NAME=IRI", help="shorten IRIs, as the files' own prefixes do"
    )
    parser.add_argument("--json", action="store_true")


def check(args: argparse.Namespace) -> None:
    """A lake or files, not both."""
    files = bool(args.subscriptions) and bool(args.events)
    if bool(args.lake) == files or (args.lake and (args.subscriptions or args.events)):
        raise UsageError("nothing to look into", advice="Give --lake DIR, or --subscriptions and --events.")


def show(lines: Iterable[tuple[str, str, str]], note: str) -> None:
    """Print a tree, in colour on a terminal."""
    from rich.console import Console
    from rich.text import Text

    styles = {"head": "bold", "operator": "bold yellow", "leaf": "bold cyan", "fact": ""}
    console = Console(highlight=False, soft_wrap=True)
    for branch, text, kind in lines:
        console.print(Text.assemble((branch, "dim"), (text, styles[kind])))
    if note:
        output.complain(note)


def prefixes_of(args: argparse.Namespace) -> dict[str, str]:
    wrong = next((pair for pair in args.prefix if "=" not in pair), None)
    if wrong is not None:
        raise UsageError(f"--prefix {wrong!r} is not NAME=IRI", advice="Write for example ex=http://example.org/#")
    return dict(pair.split("=", 1) for pair in args.prefix)


def written_prefixes(documents: Iterable[tuple[str, tuple[Subscription, ...], str]]) -> dict[str, str]:
    """The prefixes that files of subscriptions declare."""
    from motet.sparql.prologue import read_prologue
    from motet.sparql.tokens import Document

    prefixes: dict[str, str] = {}
    for text, _, path in documents:
        prefixes |= read_prologue(Document(text, path))[0].prefixes
    return prefixes


# Files.


def from_files(args: argparse.Namespace, keep: Sequence[str] = ()) -> AtHand:
    """The log of `motet run`; events in ``keep`` are examined whether they match or not."""
    from motet.embedded.job import load_documents, load_job
    from motet.model.times import END_OF_TIME
    from motet.provenance.scene import Scene
    from motet.provenance.wording import Names
    from motet.reference import SubscribeRecord, TickRecord

    arrival = instant_of(args.arrival or "now")
    named = {"ontology": args.ontology, "catalogue": args.catalogue, "syntax": args.syntax}
    job = load_job(args.subscriptions, args.events, entailment=args.entailment, arrival=arrival, **named)
    prefixes = written_prefixes(load_documents(args.subscriptions, syntax=args.syntax))
    begin: list[Record] = [SubscribeRecord(number, one) for number, one in enumerate(job.subscriptions)]
    batches = list(_unique(_decoded(job.events, arrival)))
    count = sum(batch.num_rows for batch in batches)
    wanted = set(keep)
    if count > FEW:
        matching = _matching(job.subscriptions, job.background, job.entailment)
        wanted.update(*map(matching, batches))
    events = list(_records(batches, len(begin), lambda id_: count <= FEW or id_ in wanted))
    end = TickRecord(len(begin) + count, END_OF_TIME)
    scene = Scene.of([*begin, *events, end], ontology=job.background, entailment=job.entailment)
    return AtHand(scene, Names(prefixes | prefixes_of(args)), count, len(events), "those that match a leaf")


def _decoded(paths: Iterable[str], arrival: int) -> Iterator[pa.RecordBatch]:
    from motet.codec.decode import decode_file
    from motet.model.tables import stamp

    reject = output.Rejections(None)
    for path in paths:
        for decoded in decode_file(path):
            reject(decoded.rejected)
            yield stamp(decoded.events, arrival)


def _unique(batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    """The first accepted content of an event wins."""
    import pyarrow as pa

    known: set[str] = set()
    for batch in batches:
        fresh = []
        for id_ in batch.column("id").to_pylist():
            fresh.append(id_ not in known)
            known.add(id_)
        yield batch.filter(pa.array(fresh, pa.bool_()))


def _records(batches: Iterable[pa.RecordBatch], first: int, wanted: Callable[[str], bool]) -> Iterator[EventRecord]:
    """Some of the events as records, at the offsets all of them would have."""
    from motet.model.tables import event_rows
    from motet.reference import EventRecord

    offset = first
    for batch in batches:
        for row in event_rows(batch):
            assert row.start is not None and row.end is not None, "events are stamped"
            if wanted(row.id):
                yield EventRecord(offset, row.id, row.start, row.end, frozenset(row.triples))
            offset += 1


def _matching(
    subscriptions: Iterable[Subscription], background: frozenset[Triple], entailment: str
) -> Callable[[pa.RecordBatch], set[str]]:
    """A function to the events of a batch that match a leaf of a subscription."""
    from motet.engine.match.matcher import Matcher
    from motet.language.syntax import Leaf, Signal, Subscription

    leaves = [
        Subscription(f"leaf-{number}-{event.name}", (event,), Leaf(event.name), delivery=Signal())
        for number, one in enumerate(subscriptions)
        for event in one.events
    ]
    matcher = Matcher(tuple(leaves), background, entailment)
    return lambda batch: {event for (event,) in matcher.notify(batch).column("events").to_pylist()}


# A lake.


def from_lake(snapshot: Snapshot, name: str, span: Span, args: argparse.Namespace, keep: Sequence[str]) -> AtHand:
    """One subscription of a lake, those that derive events, and the events that can matter to a span of time."""
    from motet.provenance.scene import Scene
    from motet.provenance.wording import Names
    from motet.reference import BackgroundRecord, SubscribeRecord

    controls = list(_controls(snapshot, name))
    subscriptions = [one.subscription for one in controls if isinstance(one, SubscribeRecord)]
    changes = [one for one in controls if isinstance(one, BackgroundRecord)]
    entailment = args.entailment or ("owl-rl" if changes else "none")
    knowledge = (_background(changes), [one.offset for one in changes], entailment)
    found = _examined(snapshot, subscriptions, span, keep, knowledge)
    end = _last_tick(snapshot.next_offset, snapshot.frontier)
    scene = Scene.of([*controls, *found.events, *end], entailment=entailment, lateness=None)
    return found.at_hand(snapshot, scene, Names(prefixes_of(args)))


def from_replay(replay: Replay, name: str, span: Span, names: Names, keep: Sequence[str]) -> AtHand:
    """The same of a subscription that is replayed, and of what a replay sees."""
    from motet.language.syntax import Construct
    from motet.provenance.scene import Scene
    from motet.reference import SubscribeRecord

    part = next(part for part in replay.parts if any(one.name == name for one in part.subscriptions))
    history, setting = part.history, part.history.setting
    wanted = [one for one in part.subscriptions if one.name == name or isinstance(one.delivery, Construct)]
    begin: list[Record] = [SubscribeRecord(offset, one) for offset, one in enumerate(wanted, -len(wanted))]
    changes = [_change(one.record.to_pylist()[0]) for one in setting.changes]
    entailment = "owl-rl" if history.background or changes else "none"
    knowledge = (history.background, [one.offset for one in changes], entailment)
    found = _examined(replay.snapshot, wanted, span, keep, knowledge, history.seen)
    end = _last_tick(setting.stop, setting.frontier)
    records = [*begin, *changes, *found.events, *end]
    scene = Scene.of(records, ontology=history.background, entailment=entailment, lateness=None)
    return found.at_hand(replay.snapshot, scene, names)


@dataclass(frozen=True)
class _Examined:
    """Events that can matter to a span of time."""

    events: list[EventRecord]
    which: str
    complete: bool

    def at_hand(self, snapshot: Snapshot, scene: Scene, names: Names) -> AtHand:
        count = sum(one.kinds.get("event", 0) for one in snapshot.segments)
        return AtHand(scene, names, count, len(self.events), self.which, self.complete)


def _examined(
    snapshot: Snapshot,
    subscriptions: Sequence[Subscription],
    span: Span,
    keep: Sequence[str],
    knowledge: tuple[frozenset[Triple], Sequence[int], str],  # background, where it changes, and entailment
    seen: Callable[[pa.RecordBatch], pa.RecordBatch] = lambda records: records,
) -> _Examined:
    background, changes, entailment = knowledge
    window = _reached(subscriptions, span)
    segments = [one for one in snapshot.segments if _overlaps(one, *window)]
    wanted: Callable[[pa.RecordBatch], set[str]] | None = None
    if sum(one.rows for one in segments) > FEW and all(offset < segments[0].first for offset in changes):
        wanted = _matching(subscriptions, background, entailment)
    stored = list(_stored((seen(batch) for one in segments for batch in _batches(snapshot, one)), window, wanted, keep))
    events = _near(stored, span, keep)
    which = f"those near enough in time{' that match a leaf' if wanted else ''}"
    complete = len(events) == len(stored)
    return _Examined(events, which + ("" if complete else f", the nearest {len(events)}"), complete)


def _batches(snapshot: Snapshot, segment: DataFile) -> Iterator[pa.RecordBatch]:
    return snapshot.records(segment.first, segment.stop)


def _background(changes: Iterable[BackgroundRecord]) -> frozenset[Triple]:
    triples: frozenset[Triple] = frozenset()
    for change in changes:
        triples = (triples - change.removed) | change.added
    return triples


def _overlaps(segment: DataFile, start: int, end: int) -> bool:
    """Whether a segment has events that may share an instant with a window."""
    return segment.start is not None and segment.end is not None and segment.end >= start and segment.start <= end


def _controls(snapshot: Snapshot, name: str) -> Iterator[Record]:
    """The control records that concern a subscription; of the others only those that derive events."""
    from motet.language.parse import parse
    from motet.model.tables import micros
    from motet.reference import RetractRecord, SubscribeRecord, TickRecord, UnsubscribeRecord

    for batch in snapshot.controls():
        for row, end in zip(batch.to_pylist(), micros(batch.column("end")), strict=True):
            offset = row["offset"]
            match row["kind"]:
                case "tick":
                    yield TickRecord(offset, end or 0)
                case "subscribe" if row["id"] == name or "CONSTRUCT" in row["text"].upper():
                    yield SubscribeRecord(offset, parse(row["text"])[0])
                case "unsubscribe":
                    yield UnsubscribeRecord(offset, row["id"])
                case "retract":
                    yield RetractRecord(offset, row["id"])
                case "background":
                    yield _change(row)


def _change(row: dict[str, Any]) -> BackgroundRecord:
    """A background record of RECORDS."""
    from motet.reference import BackgroundRecord

    triples = frozenset(tuple(triple.values()) for triple in row["triples"])
    removes = row["text"] == "remove"
    return BackgroundRecord(row["offset"], **{"removed" if removes else "added": triples})


def _reached(subscriptions: Iterable[Subscription], span: Span) -> Span:
    """The window of the events that can matter, and of those that only just cannot: near misses are answers too."""
    from motet.model.times import END_OF_TIME, START_OF_TIME
    from motet.provenance.reach import reach

    total = 0
    for one in subscriptions:
        length = reach(one.pattern)
        if length is None:
            return START_OF_TIME, END_OF_TIME
        total += NEAR_MISSES * length
    return max(span[0] - total, START_OF_TIME), min(span[1] + total, END_OF_TIME)


def _stored(
    batches: Iterable[pa.RecordBatch],
    window: Span,
    matching: Callable[[pa.RecordBatch], set[str]] | None,
    keep: Sequence[str],
) -> Iterator[EventRecord]:
    """The events that share an instant with a window and match a leaf, and those to keep."""
    import pyarrow as pa
    import pyarrow.compute as pc

    from motet.model.schemas import TIME

    low, high = (pa.scalar(instant, pa.int64()).cast(TIME) for instant in window)
    for batch in batches:
        inside = pc.and_(pc.greater_equal(batch.column("end"), low), pc.less_equal(batch.column("start"), high))
        near = batch.filter(pc.and_(pc.equal(batch.column("kind"), "event"), inside))
        wanted = {*keep, *matching(near)} if matching is not None else None
        yield from (one for one in _stamped(near) if wanted is None or one.id in wanted)


def _stamped(batch: pa.RecordBatch) -> Iterator[EventRecord]:
    """Events of a RECORDS batch as they were stamped."""
    from motet.model.tables import event_rows, micros
    from motet.reference import EventRecord

    columns = (batch.column("offset").to_pylist(), micros(batch.column("frontier")), batch.column("late").to_pylist())
    for row, offset, frontier, late in zip(event_rows(batch), *columns, strict=True):
        assert row.start is not None and row.end is not None, "events of a log are stamped"
        yield EventRecord(offset, row.id, row.start, row.end, frozenset(row.triples), frontier, late)


def _near(events: list[EventRecord], span: Span, keep: Sequence[str]) -> list[EventRecord]:
    """Not too many: those that must be there, then those nearest in time."""
    if len(events) <= MOST:
        return events

    def distance(event: EventRecord) -> tuple[bool, int]:
        return event.id not in keep, max(span[0] - event.end, event.start - span[1], 0)

    return sorted(sorted(events, key=distance)[:MOST], key=lambda event: event.offset)


def _last_tick(offset: int, frontier: int | None) -> Iterator[Record]:
    """The frontier of the whole log, which events that were left out may have moved."""
    from motet.reference import TickRecord

    if frontier is not None:
        yield TickRecord(offset, frontier)
