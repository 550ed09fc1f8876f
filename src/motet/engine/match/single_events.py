"""Single-event subscriptions: the leaf of each, and the notifications made from the solutions of these leaves."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence

import numpy as np
import pyarrow as pa

from motet.engine.match.leaf import LeafQuery
from motet.engine.match.matcher import Matcher
from motet.engine.match.small_batch import SmallMatches
from motet.engine.match.solutions import EncodedBatch, Solutions, VerifiedSolutions, string_array, take_rows
from motet.jit.compiled import Ints
from motet.language import syntax
from motet.language.scope import leaf_variables
from motet.model import batches
from motet.model.errors import EngineError
from motet.model.notifications import Notification
from motet.model.terms import iri

Rows = list[tuple[Notification, int]]


def single_event_leaf(subscription: syntax.Subscription) -> LeafQuery:
    """The leaf of a single-event subscription; other subscriptions are refused.

    >>> from motet.language.parse import parse
    >>> leaf = single_event_leaf(parse("SUBSCRIPTION s EVENT a DURING ?t ?u WHEN a WITHIN 5 s")[0])
    >>> leaf.variables, leaf.max_length
    (('a', 't', 'u'), 5000000)
    """
    if isinstance(subscription.delivery, syntax.Construct):
        raise _refusal(subscription, "derives events (CONSTRUCT)")
    max_length: int | None = None
    conditions: list[syntax.Expression] = []
    pattern: syntax.Pattern = subscription.pattern
    while isinstance(pattern, syntax.Within | syntax.Filter):
        match pattern:
            case syntax.Within(_, bound):
                max_length = bound if max_length is None else min(bound, max_length)
            case syntax.Filter(_, condition):
                conditions.insert(0, condition)
        pattern = pattern.operand
    if not isinstance(pattern, syntax.Leaf):
        raise _refusal(subscription, f"combines events ({type(pattern).__name__.upper()})")
    event = subscription.event(pattern.name)
    with_triples = isinstance(subscription.delivery, syntax.Events)
    variables = _delivered(subscription, event)
    return LeafQuery(subscription.name, event, variables, max_length, tuple(conditions), with_triples)


def single_event_matcher(
    subscriptions: Iterable[syntax.Subscription],
    background: frozenset[batches.Triple] = frozenset(),
    entailment: str | None = None,
) -> Matcher:
    """The matcher of single-event subscriptions."""
    return Matcher(tuple(map(single_event_leaf, subscriptions)), background, entailment)


def _delivered(subscription: syntax.Subscription, event: syntax.Event) -> tuple[str, ...]:
    match subscription.delivery:
        case syntax.Select(None):
            return tuple(sorted(leaf_variables(event)))
        case syntax.Select(tuple(variables)):
            return tuple(sorted(leaf_variables(event) & frozenset(variables)))
    return ()


def _refusal(subscription: syntax.Subscription, problem: str) -> EngineError:
    return EngineError(
        f"subscription {subscription.name!r} {problem}",
        advice="Run it on a Processor: a matcher takes single-event subscriptions only.",
    )


def notify(matcher: Matcher, events: pa.RecordBatch) -> pa.RecordBatch:
    """The notifications of a batch of EVENTS or of event RECORDS, in the order of the events."""
    parts: list[tuple[pa.RecordBatch, Ints]] = []
    for matches in matcher.solve(events):
        leaves = matches.segment.leaves
        if matches.decided is not None:
            parts.append((decided_notifications(matches.decided, leaves.names), matches.decided.event))
        if matches.verified is not None:
            parts.append(_verified(matches.verified, matches.batch, leaves.leaf))
    if not parts:
        return batches.notification_batch(())
    if len(parts) == 1:  # is in order
        return parts[0][0]
    table = pa.Table.from_batches([notifications for notifications, _ in parts]).combine_chunks()
    order = np.argsort(np.concatenate([event for _, event in parts]), kind="stable")
    (ordered,) = table.take(pa.array(order)).combine_chunks().to_batches() or [batches.notification_batch(())]
    return ordered


def notify_small(matcher: Matcher, records: Sequence[batches.RecordRow]) -> Rows:
    """As `notify`, from event records in Python values to such: quicker for a few events."""
    matches = matcher.solve_small(records)
    if matches is None:
        return list(batches.notification_rows(notify(matcher, batches.record_batch(records))))
    rows = [row for part in matches for row in _small(part, records)]
    if len(matches) > 1:
        rows.sort(key=lambda row: row[0])
    return [(notification, records[event].offset) for event, notification in rows]


def decided_notifications(solutions: Solutions, names: pa.Array) -> pa.RecordBatch:
    """Column by column; ``names`` are those of the segment's leaves."""
    batch, event = solutions.batch, solutions.event
    variables = take_rows(solutions.projections.names, solutions.binding)
    terms = take_rows(solutions.terms(solutions.term), solutions.term)
    pairs = pa.StructArray.from_arrays([variables, terms], fields=list(batches.BINDING))
    starts = pa.array(solutions.starts.astype(np.int32))
    ids = take_rows(string_array(batch.events.column("id")), event)
    singles = pa.array(np.arange(len(event) + 1, dtype=np.int32))
    start, end = (take_rows(batch.events.column(name), event) for name in ("start", "end"))
    assert start.null_count == end.null_count == 0, "events are stamped before they are matched"
    columns = [
        take_rows(names, solutions.leaf),
        start,
        end,
        pa.ListArray.from_arrays(singles, ids, type=batches.NOTIFICATIONS.field("events").type),
        pa.ListArray.from_arrays(starts, pairs, type=batches.NOTIFICATIONS.field("bindings").type),
        pa.nulls(len(event), batches.NOTIFICATIONS.field("graphs").type),
        pa.nulls(len(event), batches.NOTIFICATIONS.field("construct").type),
        take_rows(batch.offsets, event),
    ]
    return pa.RecordBatch.from_arrays(columns, schema=batches.NOTIFICATIONS)


def _verified(
    solutions: VerifiedSolutions, batch: EncodedBatch, leaf_at: Callable[[int], LeafQuery]
) -> tuple[pa.RecordBatch, Ints]:
    rows: Rows = []
    columns = (solutions.event.tolist(), solutions.leaf.tolist(), solutions.bindings, solutions.rows)
    for event, leaf_index, bindings, row in zip(*columns, strict=True):
        leaf = leaf_at(leaf_index)
        assert row.start is not None and row.end is not None, "events are stamped before they are matched"
        graphs = _nquads(row) if leaf.with_triples else None
        notification = Notification(leaf.name, row.start, row.end, (row.id,), bindings, graphs)
        rows.append((notification, batch.offsets[event].as_py()))
    return batches.notification_batch(rows), solutions.event


def _nquads(row: batches.EventRow) -> tuple[str, ...]:
    return tuple(sorted({f"{s} {p} {o} {iri(row.id)} ." for s, p, o in row.triples}))


def _small(matches: SmallMatches, records: Sequence[batches.RecordRow]) -> Iterator[tuple[int, Notification]]:
    solutions, name = matches.solutions, matches.segment.leaves.name
    labels, starts = solutions.projections.labels, solutions.starts.tolist()
    pairs = [
        (labels[binding], matches.term(term, records))
        for binding, term in zip(solutions.binding.tolist(), solutions.term.tolist(), strict=True)
    ]
    for index, (event, leaf) in enumerate(zip(solutions.event.tolist(), solutions.leaf.tolist(), strict=True)):
        record = records[event]
        assert record.id is not None and record.start is not None and record.end is not None, "it is a stamped event"
        bindings = tuple(pairs[starts[index] : starts[index + 1]])
        yield event, Notification(name(leaf), record.start, record.end, (record.id,), bindings)
