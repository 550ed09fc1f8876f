"""Coordinates: exact arithmetic on Unicode text, and the coordinates of terms by value."""

from fractions import Fraction

import pytest
from hypothesis import given
from hypothesis import strategies as st

from motet.model.errors import UsageError
from motet.model.terms import XSD, iri, literal
from motet.overlay.protocol.coordinates import (
    FREE,
    Alphabet,
    Centroid,
    CoordinateRange,
    Transformation,
    coordinate,
    is_text,
    value_range,
)
from motet.sparql.values import order_key

ALPHABETS = (Alphabet(), Alphabet("a", "b"), Alphabet("a", "c"), Alphabet(" ", "~"), Alphabet("\u4e00", "\u9fff"))
alphabets = st.sampled_from(ALPHABETS)
texts = st.text(st.characters(exclude_categories=["Cs"]), max_size=12)


def typed(text: str, datatype: str) -> str:
    return literal(text, datatype=XSD + datatype)


@given(alphabets, st.data())
def test_a_middle_lies_strictly_between_and_is_scalar_text(alphabet: Alphabet, data: st.DataObject) -> None:
    """Halving any interval again and again gives bounds in order, inside the alphabet, never a surrogate."""
    lower, upper = "", None
    for goes_up in data.draw(st.lists(st.booleans(), max_size=60)):
        middle = alphabet.middle(lower, upper)
        assert middle is not None
        assert lower < middle and (upper is None or middle < upper)
        assert is_text(middle) and all(alphabet.first <= character <= alphabet.last for character in middle)
        lower, upper = (middle, upper) if goes_up else (lower, middle)


@given(alphabets.filter(lambda alphabet: alphabet.radix % 2 == 0), st.data())
def test_a_middle_in_an_even_radix_is_exact(alphabet: Alphabet, data: st.DataObject) -> None:
    """The value of the middle is the mean of the values of the bounds."""
    digits = st.text(st.characters(min_codepoint=ord(alphabet.first), max_codepoint=ord(alphabet.last)), max_size=8)
    lower, upper = sorted((data.draw(digits.filter(is_text)), data.draw(digits.filter(is_text))))
    middle = alphabet.middle(lower, upper)
    if middle is None:
        assert alphabet.value(lower) == alphabet.value(upper)
    else:
        assert alphabet.value(middle) == (alphabet.value(lower) + alphabet.value(upper)) / 2


@given(alphabets, texts, texts)
def test_values_keep_the_order_of_text(alphabet: Alphabet, left: str, right: str) -> None:
    """Text outside the alphabet, too, has a value on its side."""
    lower, upper = sorted((left, right))
    assert 0 <= alphabet.value(lower) <= alphabet.value(upper) <= 1


def test_the_radix_leaves_out_surrogates() -> None:
    """Between U+D7FF and U+E000 lies no character, so their middle has a second digit."""
    alphabet = Alphabet()
    assert alphabet.radix == 1_112_064
    assert alphabet.value("\ue000") - alphabet.value("\ud7ff") == Fraction(1, 1_112_064)
    assert alphabet.middle("\ud7ff", "\ue000") == "\ud7ff\U00088400"


def test_a_block_shifts_the_digits() -> None:
    """In the alphabet of CJK ideographs the middle of the space is the ideograph in the middle of the block."""
    assert Alphabet("\u4e00", "\u9fff").middle("", None) == chr((0x4E00 + 0xA000) // 2)


@pytest.mark.parametrize(("first", "last"), [("", "z"), ("a", "bc"), ("b", "a"), ("a", "a"), ("\ud800", "z")])
def test_an_alphabet_without_order_is_refused(first: str, last: str) -> None:
    """The bounds are two characters in order, and no surrogates."""
    with pytest.raises(UsageError):
        Alphabet(first, last)


@given(alphabets, st.lists(texts, min_size=1, max_size=8))
def test_a_centroid_is_the_mean_of_what_was_added(alphabet: Alphabet, added: list[str]) -> None:
    """Adding and removing coordinates leaves the mean of those that remain, and its text lies between the bounds."""
    centroid = Centroid(alphabet)
    for text in added:
        centroid.add(text)
    centroid.add("gone")
    centroid.remove("gone")
    mean = sum((alphabet.value(text) for text in added), Fraction()) / len(added)
    assert (centroid.count, centroid.total / centroid.count) == (len(added), mean)
    bound = centroid.between("", None)
    assert bound is not None and bound > ""
    if 0 < mean < 1 and len(bound) < 60:
        assert alphabet.value(bound) in (mean, alphabet.value(alphabet.middle("", None)))


@given(alphabets, st.lists(st.booleans(), min_size=1, max_size=40))
def test_just_below_a_bound_lies_in_the_zone_below(alphabet: Alphabet, directions: list[bool]) -> None:
    """No bound that splits in the middle reach lies between the text just below a bound and the bound."""
    lower, upper = "", None
    for goes_up in directions:
        middle = alphabet.middle(lower, upper)
        assert middle is not None
        below = alphabet.just_below(middle)
        assert lower <= below < middle
        lower, upper = (middle, upper) if goes_up else (lower, middle)


NUMBERS = st.one_of(
    st.integers(-(10**12), 10**12).map(lambda n: typed(str(n), "integer")),
    st.decimals(-(10**6), 10**6, places=4).map(lambda n: typed(str(n), "decimal")),
    st.floats(allow_nan=False).map(lambda n: typed(repr(n).replace("inf", "INF"), "double")),
)
DATE_TIMES = st.datetimes().map(lambda t: typed(t.isoformat() + "Z", "dateTime"))


@given(st.one_of(st.tuples(NUMBERS, NUMBERS), st.tuples(DATE_TIMES, DATE_TIMES)))
def test_coordinates_of_values_keep_their_order(pair: tuple[str, str]) -> None:
    """Numbers of different types and times have coordinates in the order of SPARQL."""
    lower, upper = sorted(pair, key=order_key)
    assert coordinate(lower) <= coordinate(upper)
    assert is_text(coordinate(lower))


@pytest.mark.parametrize(
    ("term", "expected"),
    [
        (iri("http://example.org/a#b"), "http://example.org/a#b"),
        ('"chat"@fr', "chat"),
        ('"100"', "100"),
        (typed("x", "integer"), "x"),
        (typed("true", "boolean"), "?1"),
        (typed("NaN", "double"), "NaN"),
        (typed("-0.0", "double"), coordinate(typed("0", "integer"))),
        (typed("05.00", "decimal"), coordinate(typed("5", "integer"))),
        (typed("2020-01-01T01:00:00+01:00", "dateTime"), coordinate(typed("2020-01-01T00:00:00Z", "dateTime"))),
    ],
)
def test_the_coordinate_of_a_term(term: str, expected: str) -> None:
    """Text stands for itself, a value for itself in every lexical form and type."""
    assert coordinate(term) == expected


def test_transformations_change_text_only() -> None:
    """Prefix removal keeps what follows the last / or #, reversal turns text around; values stay as they are."""
    term, number = iri("http://example.org/a#b"), typed("25", "integer")
    assert coordinate(term, Transformation.PREFIX_REMOVAL) == "b"
    assert coordinate('"abc"', Transformation.REVERSAL) == "cba"
    assert coordinate(number, Transformation.REVERSAL) == coordinate(number)


@given(NUMBERS, NUMBERS, NUMBERS)
def test_a_range_has_all_numbers_between(low: str, high: str, number: str) -> None:
    """A number that compares within the bounds has a coordinate within the range."""
    low, high = sorted((low, high), key=order_key)
    if order_key(low) <= order_key(number) <= order_key(high):
        interval = value_range(low, high)
        assert interval is not None and interval.contains(coordinate(number))


def test_a_range_holds_equal_values_of_other_types() -> None:
    """The decimal 0.1 equals the float 0.1, whose exact value is larger; a time without a zone may be 14 hours off."""
    single = typed("0.1", "float")
    for low, high, within in (
        (single, None, typed("0.1", "decimal")),
        (None, typed("0.1", "decimal"), single),
        (typed("2020-01-01T12:00:00Z", "dateTime"), None, typed("2020-01-01T00:00:00", "dateTime")),
    ):
        interval = value_range(low, high)
        assert interval is not None and interval.contains(coordinate(within))


@pytest.mark.parametrize(
    ("low", "high", "transformation", "expected"),
    [
        ('"a"', None, Transformation.NONE, CoordinateRange("a", None)),
        (None, iri("urn:b"), Transformation.NONE, CoordinateRange("", "urn:b")),
        ('"a"', None, Transformation.REVERSAL, None),
        (None, None, Transformation.NONE, None),
        (typed("1", "integer"), '"a"', Transformation.NONE, None),
        (typed("NaN", "double"), None, Transformation.NONE, None),
        (typed("PT1S", "duration"), None, Transformation.NONE, None),
    ],
)
def test_what_has_no_order_has_no_range(
    low: str | None, high: str | None, transformation: Transformation, expected: CoordinateRange | None
) -> None:
    """Text in order is a range; transformed text, durations, NaN and bounds of two kinds are not."""
    assert value_range(low, high, transformation) == expected
    assert FREE.contains("anything")
