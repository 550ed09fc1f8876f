"""Messages as fields: whatever is sent is decoded as it was; whatever else arrives is refused."""

from dataclasses import replace
from typing import NamedTuple

import pytest

from motet.model.errors import DecodeError
from motet.overlay.protocol.identifiers import Contact, identifier_of
from motet.overlay.protocol.messages import PeerMessage, check_sender, from_fields, peer_message, to_fields
from motet.overlay.protocol.pastry_messages import Acknowledgement, LeafReply


class Pair(NamedTuple):
    left: int
    right: str


@peer_message
class Inner(PeerMessage):
    value: int


@peer_message
class Outer(PeerMessage):
    key: int
    name: str
    pairs: tuple[Pair, ...]
    payload: PeerMessage | None
    exact: tuple[int, bytes]


MESSAGE = Outer(
    key=2**127 + 5, name="a", pairs=(Pair(1, "x"), Pair(-(2**90), "y")), payload=Inner(value=3), exact=(1, b"")
)


def test_a_message_survives_the_wire() -> None:
    """Large integers, named tuples and nested messages are decoded as they were."""
    assert from_fields(to_fields(MESSAGE)) == MESSAGE
    assert to_fields(Inner(value=3)) == ("Inner", 3)


@pytest.mark.parametrize(
    "fields",
    [
        None,
        (),
        ("Nobody", 1),
        ("Inner",),
        ("Inner", "1"),
        ("Inner", True),
        ("Inner", b"1"),
        ("Outer", 1, "a", ((1,),), None, (1, b"")),
        ("Outer", 1, "a", (), None, (1, b"", 2)),
        ("Outer", 1, "a", (), ("Inner", None), (1, b"")),
    ],
)
def test_wrong_fields_are_refused(fields: object) -> None:
    """A field of another type, number or name is a DecodeError, never another exception."""
    with pytest.raises(DecodeError):
        from_fields(fields)


def test_a_name_stands_for_one_message() -> None:
    """Two classes of one name could not be told apart on the wire."""
    with pytest.raises(TypeError, match="two messages are called Inner"):
        peer_message(type("Inner", (PeerMessage,), {}))


def test_depth_is_limited() -> None:
    """Nested messages of a hostile peer do not exhaust the stack."""
    fields: tuple[object, ...] = ("Inner", 1)
    for _ in range(40):
        fields = ("Outer", 1, "a", (), fields, (1, b""))
    with pytest.raises(DecodeError, match="nested deeper"):
        from_fields(fields)


def test_a_named_tuple_that_is_not_valid_is_refused() -> None:
    """A contact that chose its place on the ring reaches no protocol: its identifier is the hash of its address."""
    right = LeafReply(request=1, contact=Contact(identifier_of("a"), "a"), leaves=(), failed=())
    assert from_fields(to_fields(right)) == right
    for identifier in (-1, 1 << 128, identifier_of("b")):
        fields = to_fields(replace(right, leaves=(Contact(identifier, "a"),)))
        with pytest.raises(DecodeError, match="LeafReply has a Contact that is not valid: the identifier of 'a' is"):
            from_fields(fields)


def test_a_sender_names_itself() -> None:
    """A message about its sender has the sender's own contact; messages about others may come from anybody."""
    message = LeafReply(request=1, contact=Contact(identifier_of("a"), "a"), leaves=(), failed=())
    check_sender("a", message)
    check_sender("b", Acknowledgement(request=1))
    with pytest.raises(DecodeError, match="its LeafReply names 'a' as the sender"):
        check_sender("b", message)
