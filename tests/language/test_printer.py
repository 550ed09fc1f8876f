"""What is printed can be read again, and reads as a person would have written it."""

from __future__ import annotations

import os

from hypothesis import HealthCheck, given, settings
from tests.language import trees

from motet.language.parse import parse
from motet.language.printer import to_text
from motet.language.syntax import Subscription

PREFIXES = {"ex": "http://example.org/building#", "u": "urn:", "": "http://example.org/"}
TREES = int(os.environ.get("MOTET_TREES", "200"))

REAL_FIRE = """\
PREFIX ex: <http://example.org/building#>

SUBSCRIPTION real-fire
  EVENT smoke : ex:SmokeAlarm { ?smoke ex:room ?room ; ex:level ?level . FILTER ( ?level > 3 ) }
  EVENT heat : ex:HeatAlarm { ?heat ex:room ?room }
  EVENT drill : ex:FireDrill { ?drill ex:room ?room }
  WHEN (smoke BEFORE heat WITHIN 5 min) UNLESS drill WITHIN 10 min
  CONTEXT chronicle
  SELECT ?room ?level
"""


def test_page_example() -> None:
    """The page's first example is printed as it stands there, up to layout."""
    assert to_text(parse(REAL_FIRE), PREFIXES) == REAL_FIRE


def test_documents() -> None:
    """Several subscriptions make one document."""
    text = "SUBSCRIPTION s\n  EVENT a\n  WHEN a{2} EVERY 5 s\n\nSUBSCRIPTION t\n  EVENT a\n  WHEN a\n  SIGNAL\n"
    assert to_text(parse(text)) == text


@settings(max_examples=TREES, deadline=None, suppress_health_check=[HealthCheck.too_slow])
@given(subscription=trees.subscriptions(with_xml=True))
def test_round_trip(subscription: Subscription) -> None:
    """Parsing what was printed gives the same tree, with and without prefixes."""
    assert parse(to_text(subscription)) == (subscription,)
    assert parse(to_text(subscription, PREFIXES)) == (subscription,)
