"""Errors name the place, the thing and what to do."""

from motet.model.errors import DecodeError, SubscriptionError, UsageError


def test_a_subscription_error_points_at_the_position() -> None:
    """Line, column, the line itself and a caret under the column."""
    text = "SUBSCRIPTION a\n  EVENT e : ex:A\n  WHEN e"
    error = SubscriptionError(
        "unknown prefix 'ex'", text=text, position=text.index("ex:"), source="a.motet", advice="Do."
    )
    assert (error.line, error.column) == (2, 13)
    assert str(error) == ("a.motet: line 2, column 13: unknown prefix 'ex'\n    EVENT e : ex:A\n              ^\n  Do.")
    assert isinstance(error, UsageError)


def test_a_long_line_is_cut_around_the_position() -> None:
    """A caret is never off the screen."""
    error = SubscriptionError("here", text="x" * 5000, position=4000)
    _, excerpt, caret = str(error).splitlines()
    assert len(excerpt) <= 102
    assert caret.index("^") < 102
    assert error.column == 4001


def test_the_end_of_the_text_has_a_position_too() -> None:
    """An unexpected end is reported after the last character."""
    error = SubscriptionError("more expected", text="WHEN\n", position=99)
    assert (error.line, error.column) == (2, 1)


def test_a_decode_error_says_where_and_which_event() -> None:
    """File, line, column, event, reason, advice; the dead-letter form has the content as well."""
    error = DecodeError("bad", source="a.nq", line=3, column=7, event="urn:e:1", content="text", advice="Mend it.")
    assert str(error) == "a.nq, line 3, column 7: event <urn:e:1>: bad\n  Mend it."
    place = {"source": "a.nq", "line": 3, "column": 7, "event": "urn:e:1"}
    assert error.to_json() == place | {"reason": "bad", "advice": "Mend it.", "content": "text"}
