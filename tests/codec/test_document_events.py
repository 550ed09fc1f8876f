"""From documents to events, and the identity of events (language page, section 14). Quotes are from that section."""

from __future__ import annotations

import json
import random
from collections.abc import Sequence
from dataclasses import dataclass, field
from hashlib import sha256
from typing import Any

import pyarrow as pa
import pyoxigraph as ox
import pytest

from motet.codec.decode import BatchInput, Message, decode_bytes, decode_messages
from motet.codec.options import Limits
from motet.model.errors import DecodeError, UsageError
from motet.model.terms import XSD

TURTLE, TRIG, NQ, NT = "text/turtle", "application/trig", "application/n-quads", "application/n-triples"
JSON_LD, RDF_XML, CE = "application/ld+json", "application/rdf+xml", "application/cloudevents+json"
RESULT = "http://www.w3.org/ns/sosa/resultTime"
CREATED = "http://purl.org/dc/terms/created"
MINTED = "urn:motet:event:"
PREFIXES = f"@prefix sosa: <http://www.w3.org/ns/sosa/> . @prefix xsd: <{XSD}> . @prefix : <urn:v:> .\n"


@dataclass
class Result:
    """All that a decoding gives."""

    events: dict[str, set[str]] = field(default_factory=dict)  # triples without brackets of IRIs, by IRI
    times: dict[str, int | None] = field(default_factory=dict)  # seconds
    lines: dict[str, int] = field(default_factory=dict)
    rejected: list[DecodeError] = field(default_factory=list)
    repeated: int = 0
    dropped: int = 0
    derived: int = 0

    @property
    def reasons(self) -> list[str]:
        return [str(error) for error in self.rejected]

    @property
    def ids(self) -> list[str]:
        return list(self.events)


def decode(text: str, content_type: str = TURTLE, **options: Any) -> Result:
    result = Result()
    for decoded in decode_bytes(text.encode(), content_type, **options):
        for row in decoded.events.to_pylist():
            assert row["id"] not in result.events
            result.events[row["id"]] = {f"{t['subject']} {t['predicate']} {t['object']}" for t in row["triples"]}
            result.times[row["id"]] = row["end"] and int(row["end"].timestamp())
            result.lines[row["id"]] = row["line"]
        result.rejected += decoded.rejected
        result.repeated += decoded.repeated
        result.dropped += decoded.dropped
        result.derived += decoded.derived
    return result


def turtle(text: str, **options: Any) -> Result:
    return decode(PREFIXES + text, TURTLE, **options)


def trig(text: str, **options: Any) -> Result:
    return decode(PREFIXES + text, TRIG, **options)


def timed(iri: str, second: int, more: str = "") -> str:
    return f"{iri} sosa:resultTime {stamp(second)} {more}."


def stamp(second: int) -> str:
    return f'"1970-01-01T00:00:{second:02}Z"^^xsd:dateTime'


def minted(*lines: str) -> str:
    return MINTED + sha256("\n".join(lines).encode()).hexdigest()


# Event nodes.


def test_three_timed_subjects_are_three_events() -> None:
    """ "So a Turtle file with three timed subjects is three events"."""
    result = turtle("\n".join(timed(f"<urn:e:{n}>", n, "; :value 5 ") for n in (1, 2, 3)))
    assert (result.times, result.rejected) == ({"urn:e:1": 1, "urn:e:2": 2, "urn:e:3": 3}, [])


def test_an_object_without_an_id_is_an_event_and_an_array_several() -> None:
    """ "a JSON object without `@id` is one event, an array of them several"."""
    reading = {"urn:v:value": 5}
    assert len(decode(json.dumps(reading), JSON_LD).ids) == 1
    assert len(decode(json.dumps([reading, {"urn:v:value": 6}]), JSON_LD).ids) == 2
    wrapped = {"@context": {"value": "urn:v:value"}, "@graph": [{"value": 5}, {"value": 6}]}
    both = decode(json.dumps([reading, {"urn:v:value": 6}]), JSON_LD)
    assert decode(json.dumps(wrapped), JSON_LD).events == both.events


def test_this_is_an_event_if_it_is_a_subject() -> None:
    """ "The *event nodes* of a document are … in the default graph: `<>`, if it is a subject"."""
    assert turtle("<> a :Alarm .", input_id="urn:in").ids == ["urn:in"]
    result = turtle(timed("<urn:e:1>", 1, "; :about <> "))
    assert (result.ids, "<> is a relative IRI" in result.reasons[0]) == ([], True)


def test_blank_nodes_that_are_subjects_and_not_objects() -> None:
    """ "the blank nodes that are subjects and not objects"."""
    result = turtle("[] :value 1 ; :at [ :room 2 ] . _:x :value 3 ; :at _:y . _:y :room 4 .")
    assert [len(triples) for triples in result.events.values()] == [3, 3]


def test_created_does_not_make_an_event() -> None:
    """ "`dcterms:created` does not make one, since anything may have it"."""
    text = f"<urn:doc> <{CREATED}> {stamp(1)} . " + timed("<urn:e:1>", 2, "; :doc <urn:doc> ")
    assert turtle(text).times == {"urn:e:1": 2}
    assert turtle(f"<urn:doc> <{CREATED}> {stamp(1)} .").ids == []


def test_the_list_of_time_properties_is_configured() -> None:
    """ "the IRIs that state a time (section 1, the configured list …)"."""
    result = turtle(f"<urn:e:1> :when {stamp(1)} . <urn:e:2> :when {stamp(2)} .", time_properties=(("urn:v:when",),))
    assert result.times == {"urn:e:1": 1, "urn:e:2": 2}


def test_names_of_graphs_are_event_nodes() -> None:
    """ "the names of its graphs"; a graph named by a blank node, too."""
    result = trig("<urn:e:1> { :s :p 1 } _:g { :s :p 2 } :e3 { :s :p 3 }")
    assert [iri for iri in result.ids if not iri.startswith(MINTED)] == ["urn:e:1", "urn:v:e3"]
    assert len(result.ids) == 3


@pytest.mark.parametrize("content_type", [NT, NQ, RDF_XML, JSON_LD, TRIG])
def test_every_format_is_a_document(content_type: str) -> None:
    """Event nodes are the same whatever the format is."""
    expected = turtle(timed("<urn:e:1>", 1) + timed("<urn:e:2>", 2) + " _:b :value 7 .")
    written = ox.serialize(ox.parse((PREFIXES + timed("<urn:e:1>", 1) + timed("<urn:e:2>", 2) + " _:b :value 7 .")
                                    .encode(), format=ox.RdfFormat.TURTLE),
                           format=ox.RdfFormat.from_media_type(content_type))  # fmt: skip
    assert written is not None
    result = decode(written.decode(), content_type)
    assert (result.events, result.rejected) == (expected.events, [])


# Reachability.


def test_what_is_reached_belongs_to_the_event() -> None:
    """ "the triples of the default graph that can be reached from its node, from subject to object"."""
    result = turtle(timed("<urn:e:1>", 1, "; :by :s1 ") + ":s1 :in :r1 . :r1 :floor 3 .")
    assert "<urn:v:r1> <urn:v:floor> " in "\n".join(result.events["urn:e:1"])


def test_another_event_node_ends_the_way() -> None:
    """ "without going through another event node"."""
    result = turtle(
        timed("<urn:e:1>", 1, "; :after <urn:e:2> ") + timed("<urn:e:2>", 2, "; :by :s ") + ":s a :Sensor ."
    )
    assert len(result.events["urn:e:1"]) == 2
    assert len(result.events["urn:e:2"]) == 3


def test_a_triple_reached_from_two_belongs_to_both() -> None:
    """ "a triple reached from two belongs to both"."""
    result = turtle(timed("<urn:e:1>", 1, "; :by :s ") + timed("<urn:e:2>", 2, "; :by :s ") + ":s a :Sensor .")
    sensor = "<urn:v:s> <http://www.w3.org/1999/02/22-rdf-syntax-ns#type> <urn:v:Sensor>"
    assert all(sensor in triples for triples in result.events.values())


def test_a_graph_has_its_quads_and_what_its_name_reaches() -> None:
    """ "It has the quads of its graph, and the triples of the default graph that can be reached from its node"."""
    result = trig(f'<urn:e:1> {{ :s :value 1 }} <urn:e:1> sosa:resultTime {stamp(5)} ; :by [ :name "x" ] .')
    assert (len(result.events["urn:e:1"]), result.times) == (4, {"urn:e:1": 5})
    inner = trig("<urn:e:1> { <urn:e:1> :room _:r } _:r :floor 3 .")
    assert [len(triples) for triples in inner.events.values()] == [2]


@pytest.mark.parametrize("count", [200])
def test_shared_triples_are_bounded(count: int) -> None:
    """ "The events of a document together are at most as large as a document may be"; the work is bounded as well."""
    text = "".join(timed(f"<urn:e:{n}>", 1, "; :by :s ") for n in range(count))
    text += "".join(f':s :p "{n:050}" .' for n in range(count))
    result = turtle(text, limits=Limits(max_document_bytes=len(text) + 300))
    assert result.ids == []
    [reason] = result.reasons
    assert "are together larger than" in reason


# Rules 1 to 4.

STRAY = timed("<urn:e:1>", 1) + "\n:s a :Sensor .\n:t a :Sensor ."


def test_unreached_triples_refuse_the_default_graph() -> None:
    """ "If a triple of the default graph is reached from none, the default graph is refused, naming the first such
    subject and the ways to say which resource is the event: `<>`, a named graph, a time, `id`."
    """
    result = trig(STRAY + "<urn:e:2> { :s :p 1 }")
    assert result.ids == ["urn:e:2"]
    [error] = result.rejected
    assert all(word in str(error) for word in ("<urn:v:s>", "2 triples", "1 event", "<>", "named graph", "time", "id"))
    assert error.line == 3
    assert "<urn:e:1>" in str(error.content)


def test_rest_drop() -> None:
    """ "`rest=drop` leaves such triples out and counts them"."""
    result = turtle(STRAY, rest="drop")
    assert (result.ids, len(result.events["urn:e:1"]), result.dropped, result.rejected) == (["urn:e:1"], 1, 2, [])


def test_rest_share() -> None:
    """ "`rest=share` gives them to every event of the document"."""
    result = trig(STRAY + "<urn:e:2> { :s :p 1 }", rest="share")
    assert ({len(triples) for triples in result.events.values()}, len(result.ids)) == ({3}, 2)
    assert "belong to no event" in turtle(":s a :Sensor . :t a :Sensor .", rest="share").reasons[0]


def test_rest_is_one_of_three() -> None:
    """Another value of `rest` is a usage error."""
    with pytest.raises(UsageError, match="keep"):
        turtle(STRAY, rest="keep")


@pytest.mark.parametrize("syntax", [TRIG, NQ])
def test_the_time_of_an_inner_node(syntax: str) -> None:
    """ "An event whose node states no time has the time of the only other node in it that states one"."""
    text = f'<urn:o> <{RESULT}> "1970-01-01T00:00:07Z"^^<{XSD}dateTime> '
    doc = f"<urn:e:1> {{ {text} }}" if syntax == TRIG else f"{text}<urn:e:1> ."
    assert decode(doc, syntax).times == {"urn:e:1": 7}


@pytest.mark.parametrize("count", [1, 3000])
def test_rule_2_holds_for_small_and_large_input(count: int) -> None:
    """The small and the columnar path read inner times alike, and `dcterms:created` of another node does not count."""
    time = f'"1970-01-01T00:00:07Z"^^<{XSD}dateTime>'
    lines = [
        f"<urn:o> <{RESULT}> {time} <urn:e:{n}> .\n<urn:d> <{CREATED}> {time} <urn:f:{n}> .\n" for n in range(count)
    ]
    result = decode("".join(lines), NQ)
    assert set(result.times.items()) == {(f"urn:e:{n}", 7) for n in range(count)} | {
        (f"urn:f:{n}", None) for n in range(count)
    }


@pytest.mark.parametrize("syntax", [TRIG, NQ])
def test_several_inner_times_are_refused(syntax: str) -> None:
    """ "If several do, it is refused, naming two of them"."""
    time = f'"1970-01-01T00:00:07Z"^^<{XSD}dateTime>'
    one, two, three = (f"<urn:o{n}> <{RESULT}> {time} " for n in (1, 2, 3))
    doc = (
        f"<urn:e> {{ {one} . {two} . {three} }}"
        if syntax == TRIG
        else "".join(f"{q}<urn:e> .\n" for q in (one, two, three))
    )
    result = decode(doc, syntax)
    assert (result.ids, result.rejected[0].event) == ([], "urn:e")
    assert all(word in result.reasons[0] for word in ("<urn:o1>", "<urn:o2>", "id"))
    assert decode(doc, syntax, id="urn:all").times == {"urn:all": None}  # "then it has no time of its own"


def test_the_own_time_counts_first() -> None:
    """An event whose node states a time has that, whatever other nodes state; own `dcterms:created` is a time."""
    text = f"<urn:e> {{ <urn:e> <{CREATED}> {stamp(3)} . <urn:o> sosa:resultTime {stamp(9)} }}"
    assert trig(text).times == {"urn:e": 3}


@pytest.mark.parametrize(
    ("node", "expected"),
    [("<urn:e>", "<urn:e>"), ("<>", "<urn:e>"), ("_:b", "<urn:e>"), ("[]", "<urn:e>"), (":s", "<urn:v:s>")],
)
def test_with_id_the_document_is_one_event(node: str, expected: str) -> None:
    """ "With the argument `id` the whole document, its graphs included, is one event with that IRI; its node is the
    resource of that IRI, else `<>`, else the only blank event node."
    """
    result = trig(f":g {{ :x :p 1 }} {node} :p 2 . :lost a :Thing .", id="urn:e")
    assert result.ids == ["urn:e"]
    assert f'{expected} <urn:v:p> "2"^^<{XSD}integer>' in result.events["urn:e"]
    assert len(result.events["urn:e"]) == 3


def test_with_id_several_blank_nodes_are_none_of_them_the_event() -> None:
    """ "else the only blank event node": of several, none is replaced by the event's IRI."""
    assert all("genid" in triple for triple in turtle("[] :p 1 . [] :p 2 .", id="urn:e").events["urn:e"])


@pytest.mark.parametrize("id_", ["room 5", "urn:motet:x", ""])
def test_id_must_be_a_free_absolute_iri(id_: str) -> None:
    """An id that is no absolute IRI, or is reserved, is a usage error."""
    with pytest.raises(UsageError, match="event id"):
        turtle("<> a :A .", id=id_)


def test_large_nquads_are_a_stream() -> None:
    """ "N-Quads above that size are read as a stream: every quad in a named graph, each graph in one piece"."""
    lines = ["<urn:s> <urn:p> <urn:o> <urn:e:1> .", "<urn:s> <urn:p> <urn:o> .", "<urn:s> <urn:p> <urn:o> _:g ."]
    lines += ["<urn:s> <urn:p> <urn:o2> <urn:e:1> ."]
    result = decode("\n".join(lines * 40), NQ, limits=Limits(max_document_bytes=1000))
    assert result.ids == ["urn:e:1"]
    assert any("outside any graph" in reason for reason in result.reasons)
    assert any("blank node" in reason for reason in result.reasons)
    assert any("not consecutive" in reason for reason in result.reasons)
    too_large = decode("\n".join(lines * 40), NQ, limits=Limits(max_document_bytes=1000), id="urn:e")
    assert (too_large.ids, "larger than 1000" in too_large.reasons[0]) == ([], True)


# Rule 5: CloudEvents.

BASE = {"specversion": "1.0", "id": "1", "source": "s", "type": "t"}
CE_IRI = "urn:cloudevents:s:1"


def cloudevent(data: str, content_type: str = TURTLE, **attributes: str) -> str:
    return json.dumps(BASE | {"datacontenttype": content_type, "data": PREFIXES + data} | attributes)


def test_the_data_of_a_cloudevent_is_a_document() -> None:
    """ "The data of a CloudEvent is a document. … The attributes are stated of each of its events"."""
    result = decode(cloudevent(timed("<urn:e:1>", 1) + timed("<urn:e:2>", 2)), CE)
    assert result.times == {"urn:e:1": 1, "urn:e:2": 2}
    for iri, triples in result.events.items():
        assert {
            f'<{iri}> <urn:cloudevents:attribute:{name}> "{BASE[name]}"' for name in ("id", "source", "type")
        } <= triples


def test_a_cloudevent_without_event_nodes_is_the_event() -> None:
    """ "Without any event node in it the CloudEvent is the event and has all its triples."""
    result = decode(cloudevent(":s :value 5 . :t :about <#x> ."), CE)
    assert (result.ids, len(result.events[CE_IRI])) == ([CE_IRI], 2 + 3)
    assert f"<urn:v:t> <urn:v:about> <{CE_IRI}#x>" in result.events[CE_IRI]


def test_the_time_of_a_cloudevent() -> None:
    """ "`time` is the time of those that state no other"."""
    data = timed("<urn:e:1>", 1) + " [] :value 5 . [] :at [ " + timed("", 9)[:-1] + "] ."
    result = decode(cloudevent(data, time="1970-01-01T00:00:30Z"), CE)
    assert sorted(filter(None, result.times.values())) == [1, 9, 30]


def test_the_identity_of_a_cloudevent() -> None:
    """ "Its IRI comes from the id of the input: of a CloudEvent source and id"; "The only such event … has that id"."""
    assert decode(cloudevent("[] :value 5 ."), CE).ids == [CE_IRI]
    assert decode(cloudevent("[] :value 5 . " + timed("<urn:e:1>", 1)), CE).ids == [CE_IRI, "urn:e:1"]
    line = f'<urn:motet:this> <urn:v:value> "{{}}"^^<{XSD}integer> .'
    expected = [minted(CE_IRI, "0", line.format(value)) for value in (5, 6)]
    assert decode(cloudevent("[] :value 5 . [] :value 6 ."), CE).ids == expected


def test_repeated_and_conflicting_cloudevents_of_a_batch() -> None:
    """A CloudEvent that is sent twice in a batch is a repetition; its attributes are not part of its content."""
    one, other = cloudevent("<> :value 5 ."), cloudevent("<> :value 5 .", subject="again")
    conflict = cloudevent("<> :value 6 .")
    result = decode(f"[{one}, {other}, {conflict}]", "application/cloudevents-batch+json")
    assert (result.ids, result.repeated, [error.event for error in result.rejected]) == ([CE_IRI], 1, [CE_IRI])


def test_bad_data_costs_no_other_cloudevent_its_place() -> None:
    """ "One bad event … never costs another its place"."""
    batch = [cloudevent("<> oops 5 ."), cloudevent("<> :value 5 .", id="2")]
    result = decode(f"[{', '.join(batch)}]", "application/cloudevents-batch+json")
    assert (result.ids, len(result.rejected)) == (["urn:cloudevents:s:2"], 1)


# Rule 6: relative IRIs.


def test_this_and_its_fragments_follow_the_event() -> None:
    """ "Where it is the only event node, `<>` and `<#x>` follow the event's IRI."""
    result = turtle('<> a <#Alarm> ; <#level> "5"^^<#unit> ; :part <#x> . <#x> :of <> .', input_id="urn:in#old")
    assert result.events == {
        "urn:in#old": {
            "<urn:in#old> <http://www.w3.org/1999/02/22-rdf-syntax-ns#type> <urn:in#Alarm>",
            '<urn:in#old> <urn:in#level> "5"^^<urn:in#unit>',
            "<urn:in#old> <urn:v:part> <urn:in#x>",
            "<urn:in#x> <urn:v:of> <urn:in#old>",
        }
    }


@pytest.mark.parametrize("reference", ["x", "/x", "?x", "//host/x", ".", "../x", "#x"])
def test_other_relative_iris_need_a_base(reference: str) -> None:
    """ "All other relative IRIs need a base, in the document or as the argument `base`; without one the document is
    refused."
    """
    text = timed("<urn:e:1>", 1, f"; :about <{reference}> ")
    result = turtle(text)
    assert (result.ids, result.rejected[0].line) == ([], 2)
    assert "relative IRI" in result.reasons[0]
    about = turtle(text, base="http://x/a/b").events["urn:e:1"]
    assert turtle(f"@base <http://x/a/b> . {text}").events["urn:e:1"] == about
    assert not any("relative" in triple for triple in about)


def test_this_beside_other_event_nodes() -> None:
    """Where `<>` is not the only event node, it is replaced by its event's IRI, and `<#x>` needs a base."""
    text = "<> :value 1 . " + timed("<urn:e:1>", 1, "; :doc <> ")
    result = turtle(text, input_id="urn:in")
    assert result.events["urn:in"] == {f'<urn:in> <urn:v:value> "1"^^<{XSD}integer>'}
    assert "<urn:e:1> <urn:v:doc> <urn:in>" in result.events["urn:e:1"]
    assert "<#x>" in turtle(text + " <> :p <#x> .").reasons[0]


def test_the_argument_base_is_this() -> None:
    """ "`<>` is the base that the reader gives": with the argument `base` it still is the event's own node."""
    for text in ("<> :p <y> .", "<http://x/a> :p <y> ."):
        result = turtle(text, base="http://x/a", input_id="urn:in")
        assert result.events == {"urn:in": {"<urn:in> <urn:v:p> <http://x/y>"}}


def test_a_document_with_a_base_of_its_own_has_no_this() -> None:
    """ "a document with a base of its own has no `<>`": its `<>` is an IRI like any other."""
    result = turtle("@base <http://x/a> . <> :p 1 .", input_id="urn:in")
    assert (result.ids, "<http://x/a>" in result.reasons[0]) == ([], True)


@pytest.mark.parametrize(
    ("content_type", "text"),
    [
        (JSON_LD, '{"@id": "rel", "urn:p": 1}'),
        (JSON_LD, '{"@type": "rel", "urn:p": 1}'),
        (RDF_XML, '<rdf:Description rdf:about="rel"><x:p>1</x:p></rdf:Description>'),
        (TRIG, "<rel> { <urn:s> <urn:p> 1 }"),
        (TURTLE, '<> <urn:p> "5"^^<> .'),
    ],
)
def test_relative_iris_of_every_format(content_type: str, text: str) -> None:
    """Relative IRIs are found wherever they stand: no parser drops them, and none is resolved by chance."""
    if content_type == RDF_XML:
        text = xml(text)
    assert "relative IRI" in decode(text, content_type).reasons[0]


def xml(children: str) -> str:
    start = '<rdf:RDF xmlns:rdf="http://www.w3.org/1999/02/22-rdf-syntax-ns#" xmlns:x="urn:x:">'
    return f"{start}\n{children}\n</rdf:RDF>"


# Rule 7: one bad event, line or graph.


def test_a_bad_line_of_nquads_costs_no_event() -> None:
    """ "One bad event, line or graph never costs another its place …, and the report names the bad one, with its own
    line."
    """
    good = '<urn:s> <urn:p> "{0}" <urn:e:{0}> .'
    result = decode("\n".join([good.format(1), "nonsense", good.format(2), good.format(3)]), NQ)
    assert (result.ids, [error.line for error in result.rejected]) == (["urn:e:1", "urn:e:2", "urn:e:3"], [2])
    result = decode("\n".join([good.format(1), "<urn:s> <urn:p> oops <urn:e:2> .", good.format(2), good.format(3)]), NQ)
    assert (result.ids, [(e.event, e.line) for e in result.rejected]) == (["urn:e:1", "urn:e:3"], [("urn:e:2", 2)])


@pytest.mark.parametrize(
    ("content_type", "bad", "line", "event"),
    [
        (TURTLE, "<urn:e:2> :p oops .", 3, "urn:e:2"),
        (TURTLE, '<urn:e:2> :p "not closed .', 3, "urn:e:2"),
        (TURTLE, "<urn:e:2> :p [ :q 1 .", 3, "urn:e:2"),
        (TURTLE, "<urn:e:2> :p <bad iri#> .", 3, "urn:e:2"),
        (TURTLE, "<urn:e:2> no:prefix 1 .", 3, "urn:e:2"),
        (TURTLE, "<urn:e:2> :p <<( <urn:a> <urn:b> <urn:c> )>> .", 3, "urn:e:2"),
        (TURTLE, '<urn:e:2> :p "x"@en--ltr .', 3, "urn:e:2"),
        (TURTLE, '<urn:e:2> sosa:resultTime "never"^^xsd:dateTime .', 3, "urn:e:2"),
        (TURTLE, "@prefix bad <urn:b> .", 3, None),
        (TRIG, "<urn:e:2> { :s :p oops }", 3, "urn:e:2"),
        (TRIG, "<urn:e:2> { :s :p 1", 3, "urn:e:2"),
        (TRIG, "GRAPH <urn:e:2> { :s :p ] }", 3, "urn:e:2"),
        (TRIG, "}", 3, None),
    ],
)
def test_a_bad_statement_costs_no_other_event_its_place(
    content_type: str, bad: str, line: int, event: str | None
) -> None:
    """ "what can be told apart is decided apart": statements of Turtle, graphs of TriG."""
    around = [f"<urn:e:{n}> {{ :s :p {n} }}" if content_type == TRIG else timed(f"<urn:e:{n}>", n) for n in (1, 3)]
    result = decode(f"{PREFIXES}{around[0]}\n{bad}\n{around[1]}\n", content_type)
    assert result.ids == ["urn:e:1", "urn:e:3"]
    assert [(error.line, error.event) for error in result.rejected] == [(line, event)]
    assert bad.split(maxsplit=1)[0] in str(result.rejected[0].content)


def test_events_that_reach_a_bad_statement_are_rejected_with_it() -> None:
    """An event whose parts cannot all be read is not accepted without them."""
    text = timed("<urn:e:1>", 1, "; :by :s ") + "\n" + timed("<urn:e:2>", 2) + "\n:s :name oops ."
    result = turtle(text)
    assert (result.ids, [error.event for error in result.rejected]) == (["urn:e:2"], [None, "urn:e:1"])


def test_what_only_a_bad_statement_could_reach_is_rejected_alone() -> None:
    """Triples that belong to no event refuse the default graph, but not when a bad statement may have reached them."""
    result = turtle(timed("<urn:e:1>", 1) + "\n<urn:e:2> :by :s ; oops .\n:s a :Sensor .")
    assert (result.ids, len(result.rejected)) == (["urn:e:1"], 2)


@pytest.mark.parametrize(
    ("bad", "ids"),
    [
        ('{"@id": 5, "urn:p": 1}', 2),
        ('{"@id": "no iri", "urn:p": 1}', 2),
        ('{"@context": "https://schema.org/", "name": "x"}', 2),
        ('{"urn:p": NaN}', 2),
        ('{"name": "no context"}', 2),
        ('{"urn:p" 1}', 1),  # not JSON: what follows cannot be told apart
    ],
)
@pytest.mark.parametrize("wrapped", [False, True])
def test_a_bad_object_costs_no_other_its_place(bad: str, ids: int, wrapped: bool) -> None:
    """Objects of a JSON-LD array are decided apart, also those of a @graph, and have their own lines."""
    items = f'\n{{"urn:p": 1}},\n{bad},\n{{"urn:p": 2}}\n'
    if wrapped and ids == 1:
        return  # an object that is not JSON cannot be split
    text = f'{{"@context": {{"p": "urn:p"}}, "@graph": [{items}]}}' if wrapped else f"[{items}]"
    result = decode(text, JSON_LD)
    assert (len(result.ids), [error.line for error in result.rejected]) == (ids, [3])


def test_a_bad_child_costs_no_other_its_place() -> None:
    """Children of rdf:RDF are decided apart; where XML is not well-formed, those before."""
    good = '<rdf:Description rdf:about="urn:e:{0}"><x:p>{0}</x:p><s:resultTime xmlns:s="http://www.w3.org/ns/sosa/" '
    good += f'rdf:datatype="{XSD}dateTime">1970-01-01T00:00:01Z</s:resultTime></rdf:Description>'
    bad = '<rdf:Description rdf:about="urn:e:2" rdf:ID="x"><x:p>2</x:p></rdf:Description>'
    result = decode(xml("\n".join([good.format(1), bad, good.format(3)])), RDF_XML)
    assert (result.ids, [error.line for error in result.rejected]) == (["urn:e:1", "urn:e:3"], [3])
    result = decode(xml("\n".join([good.format(1), "<x:p>", good.format(3)])), RDF_XML)
    assert (result.ids, len(result.rejected)) == (["urn:e:1"], 1)


def test_lines_of_rejected_events() -> None:
    """ "the report names the bad one, with its own line": of every format that has lines."""
    never = '"never"^^xsd:dateTime'
    assert trig(f"<urn:e:1> {{\n :s :p 1 }}\n<urn:e:2> {{ <urn:e:2> sosa:resultTime {never} }}").rejected[0].line == 4
    assert turtle(f"\n<urn:e:2>\n sosa:resultTime {never} .").rejected[0].line == 3
    nested = '{"urn:p":\n{"@id": "urn:a",\n"urn:q":\n{"@id": "urn:e", "' + RESULT + '": {"@value": "x"}}}}'
    assert [error.line for error in decode(nested, JSON_LD).rejected] == [4]
    ld = '[\n{"urn:p": 1},\n{"@id": "urn:e", "' + RESULT + '": {"@value": "never", "@type": "' + XSD + 'dateTime"}}]'
    assert decode(ld, JSON_LD).rejected[0].line == 3


def test_the_message_of_a_syntax_error_says_what_is_true() -> None:
    """A document with a syntax error does not claim that events before it were accepted."""
    [error] = trig("<urn:e:1> { :s :p oops }").rejected
    assert "before it" not in str(error)


# Identity.


def test_a_node_without_an_iri_is_replaced_everywhere() -> None:
    """ "An event node without an IRI (…) is replaced by the event's IRI wherever it occurs in the event."""
    result = trig("_:g { _:g :p _:x . _:x :of _:g }", input_id="urn:in")
    assert result.events == {
        "urn:in": {
            "<urn:in> <urn:v:p> <urn:in#genid-c14n0>",
            "<urn:in#genid-c14n0> <urn:v:of> <urn:in>",
        }
    }


def test_the_only_such_event_has_the_id_of_the_input() -> None:
    """ "The only such event of an input has that id"."""
    assert turtle("[] :value 5 ." + timed("<urn:e:1>", 1), input_id="urn:in").ids == ["urn:in", "urn:e:1"]
    message = Message(b"[] <urn:p> 5 .", TURTLE, "m", time=3_000_000, input_id="urn:msg:1")
    decoded = decode_messages([message])
    assert decoded.events.column("id").to_pylist() == ["urn:msg:1"]
    assert decoded.events.column("end").cast(pa.int64()).to_pylist() == [3_000_000]


def test_minted_iris() -> None:
    """ "Otherwise the IRI is `urn:motet:event:` and the SHA-256 of these lines: the id or nothing; the number of events
    of equal content before it in the input; its content."
    """
    text = "[] :value 5 ; :at [ :room 1 ] . [] :value 6 . [] :at [ :room 1 ] ; :value 5 ."
    integer = f'"{{}}"^^<{XSD}integer>'
    five = [
        "<urn:motet:this> <urn:v:at> _:c14n0 .",
        f"<urn:motet:this> <urn:v:value> {integer.format(5)} .",
        f"_:c14n0 <urn:v:room> {integer.format(1)} .",
    ]
    six = f"<urn:motet:this> <urn:v:value> {integer.format(6)} ."
    for input_id in (None, "urn:in"):
        expected = {minted(input_id or "", "0", *five), minted(input_id or "", "1", *five)}
        assert set(turtle(text, input_id=input_id).ids) == expected | {minted(input_id or "", "0", six)}


def test_content_has_this_for_the_node_and_its_fragments() -> None:
    """ "**Content** is the sorted N-Triples of the event, with `<urn:motet:this>` for its node"."""
    assert turtle("<> :p <#x> .").ids == [minted("", "0", "<urn:motet:this> <urn:v:p> <urn:motet:this#x> .")]


def test_reading_a_file_twice_adds_nothing() -> None:
    """ "So publishing the same reading twice is two events; reading a file, a message or a batch twice adds nothing."""
    text = "[] :value 5 . [] :value 5 ."
    assert turtle(text).ids == turtle(text).ids
    assert not set(turtle(text, input_id="urn:1").ids) & set(turtle(text, input_id="urn:2").ids)


def test_messages_of_a_batch_are_one_input() -> None:
    """ "(rows without: the batch, by query and number; …)": equal contents are numbered over the batch."""
    row = Message(b"[] <urn:p> 5 .", TURTLE, "row")
    own = Message(b"[] <urn:p> 5 .", TURTLE, "row", input_id="urn:own")
    line = f'<urn:motet:this> <urn:p> "5"^^<{XSD}integer> .'
    batch = BatchInput("urn:batch:1")
    decoded = [decode_messages([row, own], batch=batch), decode_messages([row], batch=batch)]
    ids = [id_ for part in decoded for id_ in part.events.column("id").to_pylist()]
    assert ids == [minted("urn:batch:1", "0", line), "urn:own", minted("urn:batch:1", "1", line)]


def test_conflicts_of_one_document() -> None:
    """ "**Conflict**: the same IRI with other content. … in one input … the first"; a repetition is accepted once."""
    result = trig("<urn:in> { :s :p 1 } _:g { :s :p 2 }", input_id="urn:in")
    assert (len(result.events["urn:in"]), [error.event for error in result.rejected]) == (1, ["urn:in"])
    result = trig("<urn:in> { :s :p 1 } _:g { :s :p 1 }", input_id="urn:in")
    assert (result.ids, result.repeated, result.rejected) == (["urn:in"], 1, [])


@pytest.mark.parametrize("many", [1, 3000])
def test_reserved_iris(many: int) -> None:
    """ "IRIs under `urn:motet:` are reserved, as names of graphs and as predicates. As the name of a graph
    `urn:motet:event:` with 64 hexadecimal digits is accepted …; graphs under `urn:motet:derived:` are left out and
    counted".
    """
    accepted = MINTED + 64 * "a"
    names = ["urn:motet:x", "urn:motet:event:5", accepted, "urn:motet:derived:5", "urn:e:1"]
    lines = [f"<urn:s> <urn:p> <urn:motet:o> <{name}> .\n" for name in names]
    lines += ["<urn:s> <urn:motet:p> <urn:o> <urn:e:2> .\n"]
    lines += [f"<urn:s> <urn:p> <urn:o> <urn:f:{n}> .\n" for n in range(many)]
    result = decode("".join(lines), NQ)
    assert [iri for iri in result.ids if not iri.startswith("urn:f")] == [accepted, "urn:e:1"]
    assert [error.event for error in result.rejected] == ["urn:motet:x", "urn:motet:event:5", "urn:e:2"]
    assert (result.derived, "<urn:motet:p>" in result.reasons[2]) == (1, True)


def test_a_blank_event_that_cannot_be_labelled_is_rejected_alone() -> None:
    """Canonical labelling is bounded; an event that needs more work costs no other its place."""
    clique = " ".join(f"_:n{a} :p _:n{b} ." for a in range(9) for b in range(9) if a != b)
    result = turtle(f"[] :of _:n0 . {clique} [] :value 5 .", limits=Limits(max_blank_node_work=1000))
    assert (len(result.ids), len(result.rejected)) == (1, 1)
    assert "too similar" in result.reasons[0]


# The same events whatever the order and the format.

CLASSES = ("Reading", "Alarm")


def random_document(seed: int) -> list[ox.Triple]:
    """Triples with event nodes of every kind and nodes that they reach, some of them shared."""
    chosen = random.Random(seed)
    node = ox.NamedNode
    rows: list[ox.Triple] = []
    shared = [node(f"urn:s:{n}") for n in range(3)]
    nodes: list[ox.NamedNode | ox.BlankNode] = [*shared]
    for n in range(chosen.randint(1, 5)):
        event = chosen.choice((node(f"urn:e:{n}"), ox.BlankNode(f"e{n}")))
        if isinstance(event, ox.NamedNode) or chosen.random() < 0.5:
            time = ox.Literal(f"1970-01-01T00:00:{n % 3:02}Z", datatype=node(XSD + "dateTime"))
            rows.append(ox.Triple(event, node(RESULT), time))
        rows.append(ox.Triple(event, node("urn:v:value"), ox.Literal(chosen.randrange(2))))
        for part in range(chosen.randrange(3)):
            child = chosen.choice((chosen.choice(shared), ox.BlankNode(f"b{n}x{part}")))
            rows.append(ox.Triple(event, node("urn:v:part"), child))
            nodes.append(child)
    reached = [n for n in nodes if any(row.object == n for row in rows)]
    rows += [ox.Triple(n, node("urn:v:name"), ox.Literal(str(chosen.randrange(2)))) for n in reached]
    return rows


def written(rows: Sequence[ox.Triple], content_type: str) -> str:
    data = ox.serialize(rows, format=ox.RdfFormat.from_media_type(content_type))
    assert data is not None
    return data.decode()


@pytest.mark.parametrize("seed", range(40))
def test_order_and_format_do_not_matter(seed: int) -> None:
    """A document and its re-ordering, in any format, have the same events."""
    rows = random_document(seed)
    expected = decode(written(rows, NT), NT)
    assert expected.rejected == []
    for content_type in (NT, TURTLE, TRIG, NQ, JSON_LD, RDF_XML):
        random.Random(seed + 1).shuffle(rows)
        result = decode(written(rows, content_type), content_type)
        assert (result.events, result.times, result.rejected) == (expected.events, expected.times, [])
