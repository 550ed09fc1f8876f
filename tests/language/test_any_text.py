"""Whatever text arrives, it is read or refused with a place; nothing else happens."""

from __future__ import annotations

import os

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from motet.language.parse import parse
from motet.language.printer import to_text
from motet.model.errors import SubscriptionError

TEXTS = {
    "motet": """BASE <http://x/> PREFIX ex: <y#> SUBSCRIPTION real-fire SINCE "2026-01-01T00:00:00Z"
        EVENT a : ex:A DURING ?s ?e {
            ?a ex:room ?r ; ex:v "x"@en, 'y'^^ex:t . FILTER(?v > 3) OPTIONAL { [] <p>/<q>* ?o } }
        EVENT b { VALUES ?r { 1 UNDEF } } EVENT c # comment
        WHEN ((a{3} EVERY 5 s BEFORE b FILTER(?r < 5)) UNLESS NO c FOR 0.5 h WITHIN 10 min)
        WITHIN "PT5M"^^xsd:dayTimeDuration
        CONTEXT chronicle UNBOUNDED CONSTRUCT { ?b ex:p _:x } CONSTRUCT { [] a ex:C }""",
    "sparql": "PREFIX : <urn:> SELECT DISTINCT ?g ?x { GRAPH ?g { ?g :p ?x } FILTER regex(?x, 'a') FILTER(?x > 3) }",
    "jtang": """PREFIX : <urn:c:> SUBSCRIPTION s
        (((A & :B)_5min || (-C^3)_1s before <urn:D> | (E - F)_{1 h}) - (A^*)_'PT5M')_1d""",
    "cecube": "BASE <urn:c> [and(A/T1, [or(B/T1, C/2026-01-01T00:00:00Z)], [not(D)]/5 min, [xor(A, B)]/'PT1S')]/*",
}
EXAMPLES = int(os.environ.get("MOTET_TEXTS", "100"))
pieces = st.one_of(
    st.text(max_size=3),
    st.sampled_from(sorted({word for text in TEXTS.values() for word in text.split()})),
    st.sampled_from(list("{}()[]<>\"'\\:;.,^_|&-+*/?$#@!=~\x00\ud800é\n")),
)


@pytest.mark.parametrize("syntax", sorted(TEXTS))
def test_unchanged(syntax: str) -> None:
    """The texts from which the mutations start are good ones."""
    parsed = parse(TEXTS[syntax], syntax=syntax)
    assert parse(to_text(parsed)) == parsed


@pytest.mark.parametrize("syntax", sorted(TEXTS))
@settings(max_examples=EXAMPLES, deadline=None, suppress_health_check=[HealthCheck.too_slow])
@given(data=st.data())
def test_mutations(syntax: str, data: st.DataObject) -> None:
    """A text that is cut and stirred is refused with a place inside it, or its tree can be printed and read again."""
    text = TEXTS[syntax]
    for _ in range(data.draw(st.integers(1, 3))):
        place = data.draw(st.integers(0, len(text)))
        text = text[:place] + data.draw(pieces) + text[place + data.draw(st.integers(0, 5)) :]
    try:
        parsed = parse(text, syntax=syntax)
    except SubscriptionError as error:
        assert 0 <= error.position <= len(text)
        assert str(error)
    else:
        assert parse(to_text(parsed)) == parsed


@pytest.mark.parametrize("syntax", sorted(TEXTS))
@settings(max_examples=EXAMPLES, deadline=None)
@given(text=st.text(max_size=60))
def test_noise(syntax: str, text: str) -> None:
    """Noise is refused."""
    with pytest.raises(SubscriptionError):
        parse(text, syntax=syntax)
