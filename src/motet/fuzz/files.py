"""Reads and writes cases as files in a directory, for people, `motet run` and the conformance suite.

    subscriptions.motet   the subscriptions; in EXML-QL subscriptions.exmlql
    events.nq, .xml, …    the events of a run; a repeated event starts another file
    log.jsonl             the log of any other case: the lateness, then one record per line
    ontology.ttl          the ontology, if there is one
    expected.jsonl        the expected notifications
    arguments.json        the arguments base and rest of `motet run`, if there are some
    mapping.yaml          its mapping of XML documents, if there is one

A line of a log is one of ``{"lateness": "PT5S"}`` (null: unlimited), ``{"subscribe": NAME}``, ``{"unsubscribe":
NAME}``, ``{"event": IRI, "turtle": TEXT}``, ``{"event": IRI, "xml": TEXT, "start": TIME, "end": TIME}`` (the times only
if the document states none), ``{"tick": TIME}`` (``"end"``: of time),
``{"add": TURTLE}`` and ``{"remove": TURTLE}`` for the background graph, ``{"retract": IRI}``, and ``{"settings":
{"lateness": "PT5S", "ahead": "P1D", "entailment": null}}`` (null: unlimited, unset), perhaps with ``"mappings"``: a
list of texts, which have to be for derived documents. An event whose Turtle or XML states no time is stamped by its
writer. A line may have ``"clock": TIME``, that of its writer, and ``"commit": NUMBER``: consecutive lines with one
number are one commit, any other line is a commit of its own. Without a clock an event may be ahead of it.
Turtle may use the prefixes ex:, prov: and xsd:.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

from lxml import etree

from motet import reference
from motet.codec.decode import decode_bytes, decode_file
from motet.codec.row_mapping import RowMapping
from motet.fuzz.case import BEGIN, PROV, Case
from motet.fuzz.documents import MINTED, cloudevent
from motet.language.parse import parse
from motet.language.printer import to_text
from motet.language.syntax import Subscription, with_mappings
from motet.model.batches import EventRow, Triple, event_rows
from motet.model.errors import UsageError
from motet.model.terms import XSD, iri
from motet.model.times import END_OF_TIME, format_datetime, parse_datetime, parse_duration
from motet.model.xml_document import MOTET_NAMESPACE
from motet.ontology.load import load

EX = "http://example.org/"
PREFIXES = {"ex": EX, "prov": PROV, "xsd": XSD}
_PROLOGUE = "".join(f"PREFIX {name}: <{start}> " for name, start in PREFIXES.items())


def read_case(folder: Path) -> Case:
    """The case in a directory."""
    [path] = folder.glob("subscriptions.*")
    parsed = parse(path.read_text("utf-8"), syntax=path.suffix[1:])
    subscriptions = {subscription.name: subscription for subscription in parsed}
    ontology = folder / "ontology.ttl"
    empty = Case((), frozenset(load([ontology]).triples) if ontology.exists() else frozenset())
    log = folder / "log.jsonl"
    return _read_log(empty, log, subscriptions) if log.exists() else _read_run(empty, folder, subscriptions)


def read_lines(path: Path) -> list[str]:
    return path.read_text("utf-8").splitlines()


def write_case(folder: Path, case: Case, lines: Mapping[str, Iterable[str]]) -> None:
    """Write a case and notification lines, by file name."""
    folder.mkdir(parents=True, exist_ok=True)
    for name, text in case_files(case, lines).items():
        (folder / name).write_text(text, "utf-8")


def case_files(case: Case, lines: Mapping[str, Iterable[str]]) -> dict[str, str]:
    """The texts of the files of a case and of notification lines, by file name."""
    texts = {"subscriptions.motet": to_text(_distinct(case.subscriptions), PREFIXES)}
    texts |= event_files(case.events) if case.is_run else {"log.jsonl": "".join(_log_lines(case))}
    if case.ontology:
        texts["ontology.ttl"] = _turtle(case.ontology)
    return texts | {name: "".join(f"{line}\n" for line in file_lines) for name, file_lines in lines.items()}


def event_files(events: Iterable[reference.EventRecord]) -> dict[str, str]:
    """Files by name: N-Quads, in which the quads of a graph are one event, and CloudEvents with documents of XML, so
    that a repetition is in the next file of its kind; documents without an IRI are files of their own.
    """
    rdf, xml = [event for event in events if event.payload is None], [event for event in events if event.payload]
    bare = [event.payload or b"" for event in xml if event.id.startswith(MINTED)]
    texts = {f"events{number}.nq": "".join(map(nquads, each)) for number, each in _without_repetition(rdf)}
    for number, each in _without_repetition([event for event in xml if not event.id.startswith(MINTED)]):
        texts[f"events{number}.ce.json"] = f"[{','.join(_dumps(cloudevent(event)) for event in each)}]\n"
    return texts | {f"events{index or ''}.xml": payload.decode() for index, payload in enumerate(bare)}


def _without_repetition(
    events: Iterable[reference.EventRecord],
) -> Iterator[tuple[str, Iterable[reference.EventRecord]]]:
    """The events in groups with distinct IRIs, each with a number for its file; the first has none."""
    groups: list[dict[str, reference.EventRecord]] = [{}]
    for event in events:
        if event.id in groups[-1]:
            groups.append({})
        groups[-1][event.id] = event
    return ((str(index or ""), group.values()) for index, group in enumerate(groups) if group)


def nquads(event: reference.EventRecord) -> str:
    """The quads of an event, one per line."""
    return "".join(f"{s} {p} {o} {iri(event.id)} .\n" for s, p, o in sorted(event.triples))


def _distinct(subscriptions: Iterable[Subscription]) -> list[Subscription]:
    """The subscriptions, each once, even if it is registered twice."""
    return list({subscription.name: subscription for subscription in subscriptions}.values())


def _read_run(empty: Case, folder: Path, subscriptions: Mapping[str, Subscription]) -> Case:
    files, arguments = sorted(folder.glob("events*")), decoding_arguments(folder)
    batches = (decoded for path in files for decoded in decode_file(str(path), **arguments))
    rows = [row for decoded in batches for row in event_rows(decoded.events)]
    mappings = (arguments["mapping"].text,) if "mapping" in arguments else ()
    subscribes = [reference.SubscribeRecord(0, with_mappings(each, mappings)) for each in subscriptions.values()]
    events = (_timed(_event(row)) for row in rows)
    return empty.with_records([*subscribes, *events, reference.TickRecord(0, END_OF_TIME)])


def decoding_arguments(folder: Path) -> dict[str, Any]:
    """The arguments ``base``, ``rest`` and ``mapping`` with which the events of a case are decoded."""
    path, mapping = folder / "arguments.json", folder / "mapping.yaml"
    arguments: dict[str, Any] = json.loads(path.read_text("utf-8")) if path.exists() else {}
    return arguments | ({"mapping": RowMapping.read(mapping)} if mapping.exists() else {})


def _read_log(empty: Case, path: Path, subscriptions: Mapping[str, Subscription]) -> Case:
    settings, *lines = map(json.loads, read_lines(path))
    records = (_with_commit(_record(line, subscriptions), line) for line in lines)
    return Case((), empty.ontology, _read_duration(settings["lateness"])).with_records(records)


def _with_commit(record: reference.Record, line: Mapping[str, Any]) -> reference.Record:
    clock = parse_datetime(line["clock"]) if line.get("clock") else None
    return replace(record, commit=line.get("commit"), clock=clock)


def _settings(values: Mapping[str, Any]) -> reference.SettingsRecord:
    lateness, ahead = (_read_duration(values[name]) for name in ("lateness", "ahead"))
    return reference.SettingsRecord(0, lateness, ahead, values.get("entailment"), tuple(values.get("mappings", ())))


def _read_duration(text: str | None) -> int | None:
    return None if text is None else parse_duration(text)


def _duration_text(duration: int | None) -> str | None:
    return None if duration is None else f"PT{duration // 1_000_000}.{duration % 1_000_000:06}S"


def _record(line: Mapping[str, Any], subscriptions: Mapping[str, Subscription]) -> reference.Record:
    readers: dict[str, Callable[[Any], reference.Record]] = {
        "subscribe": lambda name: reference.SubscribeRecord(0, subscriptions[name]),
        "unsubscribe": lambda name: reference.UnsubscribeRecord(0, name),
        "event": lambda name: _event(_document(line, name) if "xml" in line else _row(line["turtle"], name)),
        "tick": lambda time: reference.TickRecord(0, END_OF_TIME if time == "end" else parse_datetime(time)),
        "add": lambda turtle: reference.BackgroundRecord(0, added=frozenset(_row(turtle, "urn:background").triples)),
        "remove": lambda turtle: reference.BackgroundRecord(
            0, removed=frozenset(_row(turtle, "urn:background").triples)
        ),
        "retract": lambda name: reference.RetractRecord(0, name),
        "settings": _settings,
    }
    kind = next(iter(line))
    return readers[kind](line[kind])


def _row(turtle: str, name: str) -> EventRow:
    return _decoded((_PROLOGUE + turtle).encode(), "text/turtle", name)


def _document(line: Mapping[str, Any], name: str) -> EventRow:
    """The XML event of a line."""
    row = _decoded(line["xml"].encode(), "application/xml", name)
    if "start" not in line:
        return row
    return row._replace(start=parse_datetime(line["start"]), end=parse_datetime(line["end"]))


def _decoded(data: bytes, content_type: str, name: str) -> EventRow:
    [decoded] = decode_bytes(data, content_type, id=name)
    if decoded.rejected:
        raise decoded.rejected[0]
    return next(event_rows(decoded.events))


def _event(row: EventRow) -> reference.EventRecord:
    """The event of a row; one that states no time is stamped."""
    graph = frozenset(row.triples)
    if row.start is None or row.end is None:
        return reference.EventRecord(0, row.id, BEGIN, BEGIN, graph, stamped=True, payload=row.payload)
    return reference.EventRecord(0, row.id, row.start, row.end, graph, payload=row.payload)


def _timed(event: reference.EventRecord) -> reference.EventRecord:
    if event.stamped:
        raise UsageError(
            f"the event <{event.id}> has no time", advice="add a time, so that the case does not depend on the clock"
        )
    return event


def _log_lines(case: Case) -> Iterator[str]:
    """The lines of log.jsonl."""
    yield _dumps({"lateness": _duration_text(case.lateness)})
    for record in case.records:
        commit = {} if record.commit is None else {"commit": record.commit}
        clock = {} if record.clock is None else {"clock": format_datetime(record.clock)}
        for line in _record_lines(record):
            yield _dumps(line | commit | clock)


def _record_lines(record: reference.Record) -> Iterator[dict[str, Any]]:
    match record:
        case reference.SubscribeRecord():
            yield {"subscribe": record.subscription.name}
        case reference.UnsubscribeRecord():
            yield {"unsubscribe": record.name}
        case reference.EventRecord(payload=None):
            yield {"event": record.id, "turtle": _turtle(record.triples)}
        case reference.EventRecord(payload=bytes() as payload):
            has_time = record.stamped or f"{{{MOTET_NAMESPACE}}}start" in etree.fromstring(payload).attrib
            times = {} if has_time else {"start": format_datetime(record.start), "end": format_datetime(record.end)}
            yield {"event": record.id, "xml": payload.decode()} | times
        case reference.TickRecord():
            yield {"tick": "end" if record.instant == END_OF_TIME else format_datetime(record.instant)}
        case reference.BackgroundRecord():
            yield from ({"remove": _turtle(record.removed)} for _ in [0] if record.removed)
            yield from ({"add": _turtle(record.added)} for _ in [0] if record.added)
        case reference.RetractRecord():
            yield {"retract": record.event}
        case reference.SettingsRecord():
            durations = {"lateness": _duration_text(record.lateness), "ahead": _duration_text(record.ahead)}
            mappings = {"mappings": list(record.mappings)} if record.mappings else {}
            yield {"settings": durations | {"entailment": record.entailment} | mappings}


def _turtle(triples: Iterable[Triple]) -> str:
    return "".join(f"{s} {p} {o} .\n" for s, p, o in sorted(triples))


def _dumps(line: Mapping[str, Any]) -> str:
    return json.dumps(line, ensure_ascii=False) + "\n"
