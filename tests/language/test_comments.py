"""Comments survive a translation: each stays at its clause."""

from hypothesis import given, settings
from hypothesis import strategies as st
from tests.language import trees

from motet.language.comments import Comment, read_comments, write_comments
from motet.language.parse import parse
from motet.language.printer import to_text
from motet.language.syntax import Subscription

TEXT = """\
# Licence: none

PREFIX ex: <http://example.org/x#>  # the namespace

# Real fires only.
SUBSCRIPTION real-fire  # for ever
  # smoke first
  EVENT smoke : ex:Smoke { ?smoke ex:text "no # comment" .   # of any text
     # inside
     ?smoke ex:level ?level }
  EVENT heat : ex:Heat
  WHEN smoke BEFORE heat # then
    WITHIN 5 min
  SELECT ?level   # how bad

# the second
SUBSCRIPTION any EVENT a WHEN a
# that is all
"""
KEPT = """\
# Licence: none
# the namespace

PREFIX ex: <http://example.org/x#>

# Real fires only.
SUBSCRIPTION real-fire  # for ever
  # smoke first
  # inside
  EVENT smoke : ex:Smoke { ?smoke ex:text "no # comment" . ?smoke ex:level ?level }  # of any text
  EVENT heat : ex:Heat
  WHEN smoke BEFORE heat WITHIN 5 min  # then
  SELECT ?level  # how bad

# the second
SUBSCRIPTION any
  EVENT a
  WHEN a
  # that is all
"""


def test_comments_stay_at_their_clauses() -> None:
    """Before a clause, behind it, inside it, at the top and at the end; not in strings and IRIs."""
    subscriptions = parse(TEXT)
    written = to_text(subscriptions, {"ex": "http://example.org/x#"})
    assert write_comments(written, read_comments(TEXT, subscriptions)) == KEPT
    assert write_comments(written, read_comments(KEPT, parse(KEPT))) == KEPT


def test_comments_of_a_lost_clause_stay_with_the_subscription() -> None:
    """CONTEXT recent is not written, and other syntaxes have no clauses."""
    text = "SUBSCRIPTION s EVENT A : <urn:A>\n# why\nCONTEXT recent".replace("\n#", "\nWHEN A\n#")
    comments = read_comments(text, parse(text))
    assert write_comments("SUBSCRIPTION s\n  <urn:A>\n", comments, "jtang") == "# why\nSUBSCRIPTION s\n  <urn:A>\n"
    assert write_comments(to_text(parse(text)), comments).startswith("# why\nSUBSCRIPTION s\n")


def test_comments_of_other_syntaxes() -> None:
    """Their comments belong to a subscription as a whole, with or without a header."""
    text = "# one\nSUBSCRIPTION a <urn:A> # behind\n# two\nSUBSCRIPTION b <urn:B#x>"
    comments = read_comments(text, parse(text, syntax="jtang"), "jtang")
    assert comments == (
        Comment("# one", ("a", "SUBSCRIPTION")),
        Comment("# behind", ("a", "SUBSCRIPTION"), is_behind=True),
        Comment("# two", ("b", "SUBSCRIPTION")),
    )
    query = "SELECT ?g { # all\n GRAPH ?g { ?g ?p <urn:x#y> } }"
    assert read_comments(query, parse(query, syntax="sparql"), "sparql")[0].place == ("query", "SUBSCRIPTION")


@settings(max_examples=100, deadline=None)
@given(trees.subscriptions(), st.data())
def test_comments_are_read_back(subscription: Subscription, data: st.DataObject) -> None:
    """What is written at any clauses is read there again, and the subscription is the same."""
    text = to_text(subscription)
    name = subscription.name
    places: list[tuple[str, ...]] = [(name, "SUBSCRIPTION"), (name, "WHEN"), (name, "end")]
    places += [(name, "EVENT", event.name) for event in subscription.events]
    chosen = data.draw(st.lists(st.sampled_from(places), unique=True))
    comments = [Comment(f"# '{number}\" <#", place, place[1] == "WHEN") for number, place in enumerate(chosen)]
    written = write_comments(text, comments)
    assert parse(written) == parse(text)
    assert set(read_comments(written, parse(written))) == set(comments)
