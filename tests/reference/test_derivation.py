"""Derived events (language page, section 8)."""

from __future__ import annotations

import re
from dataclasses import replace
from typing import Any

import pytest

from motet.language.syntax import Construct, Subscription, Template
from motet.model.errors import UsageError
from motet.model.terms import RDFS, iri
from motet.model.times import END_OF_TIME
from motet.reference import evaluate

EX = "http://example.org/"


def constructing(subscription: Subscription, *templates: str) -> Subscription:
    """The subscription with CONSTRUCT clauses; ``ex:`` names are expanded as the parser does."""
    texts = [re.sub(r"\bex:(\w+)", rf"<{EX}\1>", template) for template in templates]
    found = [Template(text, frozenset(re.findall(r"\?(\w+)", text))) for text in texts]
    return replace(subscription, delivery=Construct(tuple(found)))


def lines(story: Any, subscription: Subscription, events: str) -> list[str]:
    """The constructed triples of all notifications, shortened."""
    found = story.run([subscription], events)
    texts = [line for notification in found for line in notification.construct]
    return [re.sub(r"urn:motet:derived:[0-9a-f]{64}:", "urn:derived:", text).replace(EX, "") for text in texts]


def derives(story: Any, when: str, *templates: str, **options: Any) -> Subscription:
    return constructing(story.subscription(when, **options), *templates)


def test_a_template_is_filled_with_the_bindings(story: Any) -> None:
    """CONSTRUCT adds sorted N-Triples lines; a triple with an unbound variable is left out."""
    subscription = derives(story, "a OR b", "?x ex:seen ?a . ?b ex:other 007", a="?a ex:k ?x")
    assert lines(story, subscription, "a1@1 k=room; b1@2") == [
        "<room> <seen> <urn:a1> .",
        '<urn:b1> <other> "007"^^<http://www.w3.org/2001/XMLSchema#integer> .',
    ]


def test_a_literal_cannot_be_a_subject(story: Any) -> None:
    """As in SPARQL, a triple that is not RDF is left out, and a clause without triples yields no event."""
    assert lines(story, derives(story, "a", "?k ex:of ?a", a="?a ex:k ?k"), "a1@1 k=5") == []


def test_this_is_the_derived_event(story: Any) -> None:
    """In a template `?this` is the derived event, named after the notification id and the clause's position."""
    subscription = derives(story, "a", "?this a ex:D", "?this a ex:E")
    (found,) = story.run([subscription], "a1@1")
    stem = f"urn:motet:derived:{found.id}"
    assert [line.split()[0] for line in found.construct] == [f"<{stem}:1>", f"<{stem}:2>"]


def test_blank_nodes_become_iris(story: Any) -> None:
    """Blank nodes of a derived event are named as those of a published one, and are new for every member."""
    assert lines(story, derives(story, "a", "?this ex:part [ ex:of ?a ]"), "a1@1") == [
        "<urn:derived:1#genid-c14n0> <of> <urn:a1> .",
        "<urn:derived:1> <part> <urn:derived:1#genid-c14n0> .",
    ]


def test_blank_nodes_are_new_for_every_member(story: Any) -> None:
    """Each member has blank nodes of its own."""
    found = lines(story, derives(story, "a{2}", "[] ex:of ?a"), "a1@1; a2@2")
    assert sorted(line.split(" ", 1)[1] for line in found) == ["<of> <urn:a1> .", "<of> <urn:a2> ."]
    assert len({line.split()[0] for line in found}) == 2


def test_cumulative_instantiates_for_every_member(story: Any) -> None:
    """In cumulative a template is instantiated for every member and the results are merged."""
    subscription = derives(story, "a BEFORE b", "?b ex:sum ?k", context="cumulative UNBOUNDED", a="?a ex:k ?k")
    (found,) = story.run([subscription], "a1@1 k=x; a2@2 k=y; b1@3")
    assert (found.bindings, len(found.construct)) == ((("b", "<urn:b1>"),), 2)


def test_iterations_instantiate_for_every_member(story: Any) -> None:
    """In iterations a template is instantiated for every member; the members' names do not part them."""
    subscription = derives(story, "a{2} BEFORE b", "?b ex:after ?a ; ex:k ?k", a="?a ex:k ?k")
    assert lines(story, subscription, "a1@1 k=x; a2@2 k=x; a3@3 k=y; b1@4") == [
        "<urn:b1> <after> <urn:a1> .",
        "<urn:b1> <after> <urn:a2> .",
        "<urn:b1> <k> <x> .",
    ]


def test_other_subscriptions_see_derived_events(story: Any) -> None:
    """A derived event has the occurrence's hull and is a leaf input of other subscriptions."""
    source = derives(story, "a BEFORE b", "?this a ex:D ; ex:k ?k", name="source", a="?a ex:k ?k")
    sink = story.subscription("d", name="sink", d="?d ex:k ?k", deliver="SELECT ?k")
    first, second = story.run([sink, source], "a1@1-2 k=5; b1@4-6")
    assert [first.subscription, second.subscription] == ["sink", "source"]
    assert (first.start_micros, first.end_micros, dict(first.bindings)) == (1, 6, {"k": story.term("5")})
    assert first.events == (f"urn:motet:derived:{second.id}:1",)


def test_each_clause_is_an_event(story: Any) -> None:
    """Several clauses make several events (one-to-many)."""
    source = derives(story, "a", "?this a ex:D ; ex:of ?a", "?this a ex:E ; ex:of ?a", name="source")
    sink = story.subscription("d AND e", name="sink", d="?d ex:of ?x", e="?e ex:of ?x", deliver="SELECT ?x")
    found = [n for n in story.run([source, sink], "a1@1; a2@2") if n.subscription == "sink"]
    assert [story.short(dict(n.bindings)["x"]) for n in found] == ["a1", "a2"]


def test_derived_events_are_closed_under_the_ontology(story: Any) -> None:
    """A derived event is matched as any other, by the classes of the ontology."""
    ontology = [(iri(EX + "D"), f"<{RDFS}subClassOf>", iri(EX + "F"))]
    source = derives(story, "a", "?this a ex:D", name="source")
    found = story.run([source, story.subscription("f", name="sink")], "a1@1", ontology=ontology)
    assert [n.subscription for n in found] == ["sink", "source"]


def test_derived_events_chain(story: Any) -> None:
    """Derived events feed subscriptions that derive events."""
    steps = [derives(story, "c", "?this a ex:D", name="second"), derives(story, "a", "?this a ex:C", name="first")]
    found = story.run([story.subscription("d", name="third"), *steps], "a1@1")
    assert [n.subscription for n in found] == ["first", "second", "third"]


def test_cycles_are_refused(story: Any) -> None:
    """Cycles are refused, with the names of the subscriptions."""
    first, second = (derives(story, "a", "?this a ex:B", name="x"), derives(story, "b", "?this a ex:A", name="y"))
    with pytest.raises(UsageError, match="x, y feed each other"):
        story.run([first, second], "")


def test_a_subscription_does_not_see_its_own_events(story: Any) -> None:
    """A derived event is visible to *other* subscriptions only."""
    assert len(story.run([derives(story, "a", "?this a ex:A")], "a1@1")) == 1


def test_an_unrelated_class_is_no_cycle(story: Any) -> None:
    """A clause feeds a leaf only when the triples every match requires may be among its triples."""
    first = derives(story, "a", "?this a ex:B ; ex:k 1", name="x", a="?a ex:m ?m OPTIONAL { ?a ex:n ?n }")
    second = derives(story, "b", "?this a ex:A ; ex:k 2", name="y")
    assert [n.subscription for n in story.run([first, second], "a1@1 m=1; b1@2")] == ["x", "y", "y"]


def test_the_lag_of_a_consumer_includes_its_producers(story: Any) -> None:
    """Derived events have the offset of their notification, whatever the frontier is then."""
    source = derives(story, "a UNLESS b WITHIN 9 us", "?this a ex:D", name="source")
    sink = story.subscription("d BEFORE c", name="sink", context="chronicle UNBOUNDED")
    steps = (source, sink, "a1@1", "c1@3", 5, 11, 12, 13)
    found = evaluate(story.log(*steps), lateness=None)
    assert [n.subscription for n in found] == ["source", "sink"]
    assert [(offset, text[:3]) for offset, text in story.emitted(*steps, lateness=None)] == [(6, "a1"), (8, "c1 ")]


def test_a_derived_event_may_be_late_for_an_older_subscription(story: Any) -> None:
    """Events a later producer derives below the frontier at its start are late for earlier subscriptions."""
    sink = story.subscription("b UNLESS d WITHIN 3 us", name="sink")
    source = derives(story, "a", "?this a ex:D", name="source", since=0)
    found = story.emitted(sink, "b1@1", "a1@2", 5, source, "b2@6", "a2@7", 20, lateness=None)
    assert found == [(4, "b1"), (5, "a1"), (7, "a2")]


def test_derived_events_before_a_subscription_are_invisible(story: Any) -> None:
    """A subscription sees the events after its own offset, a derived one counting from its notification's record."""
    source = derives(story, "a", "?this a ex:D", name="source")
    sink = story.subscription("d", name="sink")
    since = story.subscription("d", name="late", since=2)
    found = evaluate(story.log(source, "a1@1", "a2@2", sink, since, "a3@3"), lateness=None)
    assert sorted(n.subscription for n in found if n.subscription != "source") == ["late", "late", "sink"]


def test_events_deliver_the_graph_of_a_derived_event(story: Any) -> None:
    """EVENTS adds the events' graphs as N-Quads, derived ones included."""
    source = derives(story, "a", "?this a ex:D", name="source")
    sink = story.subscription("d", name="sink", deliver="EVENTS")
    (found,) = [n for n in story.run([source, sink], "a1@1") if n.subscription == "sink"]
    (event,) = found.events
    assert found.graphs == (f"<{event}> <http://www.w3.org/1999/02/22-rdf-syntax-ns#type> <{EX}D> <{event}> .",)


def test_a_template_of_the_parser_is_understood(story: Any) -> None:
    """A parsed template gives the same triples."""
    subscription = story.subscription("a", deliver="CONSTRUCT { ?a ex:is ex:Seen, 'it\\'s ?a' ; a ex:B . }")
    assert evaluate(story.log(subscription, "a1@1", END_OF_TIME), lateness=None)[0].construct == (
        f'<urn:a1> <{EX}is> "it\'s ?a" .',
        f"<urn:a1> <{EX}is> <{EX}Seen> .",
        f"<urn:a1> <http://www.w3.org/1999/02/22-rdf-syntax-ns#type> <{EX}B> .",
    )
