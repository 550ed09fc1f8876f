"""A peer of a CAN: its states, join, leave, handover and disputed zones, message by message."""

from random import Random

import pytest

from motet.model.errors import DecodeError, UsageError
from motet.overlay.protocol.can import Can
from motet.overlay.protocol.can_membership import JOINING, LEAVING, LEFT, MEMBER, NEW, SUSPENDED, TRANSITIONS
from motet.overlay.protocol.can_messages import (
    CanAnswer,
    CanRequest,
    CanStateChanged,
    Claim,
    CreateCan,
    FindInRegion,
    HandoverRefused,
    JoinCan,
    LeaveCan,
    PeerClaims,
    ValueTransfer,
    ZoneHandover,
    ZoneReport,
    ZoneRequest,
)
from motet.overlay.protocol.can_requests import can_node
from motet.overlay.protocol.node import (
    SECOND,
    Effect,
    Expired,
    Input,
    PeerMessage,
    PeerNode,
    Persist,
    Received,
    Send,
    Started,
    from_fields,
    to_fields,
)
from motet.overlay.protocol.requests import NumberedMessage
from motet.overlay.protocol.zones import LOWER, UPPER, Space, Zone, region_of
from motet.overlay.sim.can_networks import SimulatedCan

SPACE = Space(2)
LOWER_HALF, UPPER_HALF = SPACE.split(SPACE.whole) or (SPACE.whole, SPACE.whole)


def member(address: str = "a", space: Space = SPACE) -> PeerNode:
    node = can_node(address, space)
    node.handle(0, Started())
    node.handle(0, CreateCan())
    return node


def can_of(node: PeerNode) -> Can:
    protocol = node.protocols["can"]
    assert isinstance(protocol, Can)
    return protocol


def report(*claims: Claim, sequence: int = 1, neighbours: tuple[PeerClaims, ...] = ()) -> ZoneReport:
    return ZoneReport(sequence=sequence, claims=claims, neighbours=neighbours, retaining=(), is_answer=False)


def sent(effects: list[Effect], kind: type[PeerMessage]) -> list[str]:
    return [effect.to for effect in effects if isinstance(effect, Send) and isinstance(effect.message, kind)]


def test_the_table_of_states_is_closed() -> None:
    """Every state but the first is entered, and every state but the last two can be left by a user."""
    states = {NEW, JOINING, MEMBER, SUSPENDED, LEAVING, LEFT}
    assert {state for state, _ in TRANSITIONS} == states
    assert set(TRANSITIONS.values()) == states - {NEW}
    assert {state for state, event in TRANSITIONS if event == "leave"} == {JOINING, MEMBER, SUSPENDED}


@pytest.mark.parametrize("command", [CreateCan(), JoinCan(contacts=("b",))])
def test_a_member_cannot_join_again(command: CreateCan | JoinCan) -> None:
    """What the table does not have is refused, with the state."""
    with pytest.raises(UsageError, match="a is member"):
        member().handle(1, command)


def test_the_first_peer_holds_the_whole_space() -> None:
    """It is a member at once."""
    node = can_node("a", SPACE)
    node.handle(0, Started())
    effects = node.handle(0, CreateCan())
    assert CanStateChanged(state=MEMBER) in effects
    assert can_of(node).members.claims == [Claim(SPACE.whole, 0, 0)]


def test_a_join_splits_the_zone_of_a_point() -> None:
    """The newcomer gets the upper half; the owner keeps the lower half, and with it its corner."""
    network = SimulatedCan(seed=1, space=SPACE)
    network.grow(2)
    first, second = network.addresses()
    assert [claim.zone for claim in network.can(first).members.claims] == [LOWER_HALF]
    assert [claim.zone for claim in network.can(second).members.claims] == [UPPER_HALF]
    assert network.can(first).members.sides(LOWER_HALF) == {(0, UPPER): [second]}
    assert network.can(second).members.sides(UPPER_HALF) == {(0, LOWER): [first]}


def test_a_graceful_leave_gives_the_zone_to_the_sibling() -> None:
    """The zone is merged again, the leaving peer ends as left, and nobody is taken for failed."""
    network = SimulatedCan(seed=1, space=SPACE)
    network.grow(2)
    first, second = network.addresses()
    network.simulator.command(second, LeaveCan())
    network.wait(5 * SECOND)
    assert network.can(second).state == LEFT
    assert network.can(first).members.zones() == [SPACE.whole]
    assert network.simulator.node(first).counts["can.failures"] == 0


@pytest.mark.parametrize(
    ("theirs", "expected"),
    [
        (Claim(UPPER_HALF, 0, 5), [LOWER_HALF]),  # newer
        (Claim(UPPER_HALF, 1, 5), [SPACE.whole]),  # taken over from a peer that is not dead
        (Claim(SPACE.whole, 0, 0), [SPACE.whole]),  # equal: the smaller address holds
    ],
)
def test_overlapping_claims_are_ranked(theirs: Claim, expected: list[Zone]) -> None:
    """Fewer takeovers hold, then the newer version, then the smaller address."""
    node = member("a")
    node.handle(1, Received(sender="b", message=report(theirs)))
    assert can_of(node).members.zones() == expected


def test_a_peer_that_loses_all_zones_joins_again() -> None:
    """It asks the peer that holds its zone."""
    node = member("b")
    effects = node.handle(1, Received(sender="a", message=report(Claim(SPACE.whole, 0, 0))))
    assert can_of(node).state == JOINING
    joins = [e.to for e in effects if isinstance(e, Send) and isinstance(e.message, NumberedMessage)]
    assert joins == ["a"]


def test_older_reports_change_nothing() -> None:
    """A report that was overtaken by a newer one is dropped."""
    node = member("a")
    node.handle(1, Received(sender="b", message=report(Claim(UPPER_HALF, 0, 5), sequence=7)))
    before = dict(can_of(node).members.neighbours)
    assert node.handle(2, Received(sender="b", message=report(sequence=6))) == []
    assert can_of(node).members.neighbours == before


def test_a_peer_that_was_not_scheduled_checks_its_neighbours_first() -> None:
    """After a jump of the clock silence is no failure; the peer is suspended until a neighbour reports."""
    node = member("a")
    node.handle(1, Received(sender="b", message=report(Claim(UPPER_HALF, 0, 5))))
    node.handle(600 * SECOND, Expired(timer=("can", "tick")))
    assert (can_of(node).state, list(can_of(node).members.neighbours)) == (SUSPENDED, ["b"])
    node.handle(601 * SECOND, Received(sender="b", message=report(Claim(UPPER_HALF, 0, 5), sequence=2)))
    assert can_of(node).state == MEMBER


def test_a_restart_restores_zones_and_values() -> None:
    """What a peer persisted is there after a crash; unreadable data is counted, not trusted."""
    node = member("a")
    disk = {e.key: e.value for e in node.handle(0, LeaveCan()) if isinstance(e, Persist) and e.value}
    assert can_of(node).state == LEFT
    network = SimulatedCan(seed=1, space=SPACE)
    network.grow(2)
    address = network.addresses()[1]
    network.crash([address], lose_disk=False)
    network.wait(SECOND)
    network.simulator.start(address)
    assert network.can(address).members.zones() == [UPPER_HALF]
    assert network.settle() == []
    assert [network.can(peer).members.zones() for peer in network.addresses()] == [[LOWER_HALF], [UPPER_HALF]]
    broken = can_node("a", SPACE)
    broken.handle(0, Started(disk=disk | {"can.zones": b"[1"}))
    assert (can_of(broken).state, broken.counts["can.unreadable"]) == (NEW, 1)


BAD_CLAIMS = (
    Claim(Zone(("",), (None,), 0), 0, 0),  # another dimension
    Claim(Zone(("b", ""), ("a", None), 0), 0, 0),  # empty
    Claim(Zone(("", ""), (None, None), 9), 0, 0),
    Claim(Zone(("\ud800", ""), (None, None), 0), 0, 0),
    Claim(SPACE.whole, -1, 0),
    Claim(SPACE.whole, 0, 2**63),
)


@pytest.mark.parametrize("claim", BAD_CLAIMS)
def test_claims_that_are_no_zones_are_not_believed(claim: Claim) -> None:
    """A hostile report is counted and changes nothing."""
    node = member("a")
    assert node.handle(1, Received(sender="b", message=report(claim))) == []
    assert (can_of(node).members.zones(), node.counts["can.invalid"]) == ([SPACE.whole], 1)


def test_a_request_for_another_dimension_is_dropped() -> None:
    """A key with too few coordinates splits nothing."""
    node = member("a")
    request = NumberedMessage(sequence=1, body=ZoneRequest(newcomer="b", key=("x",), hops=0))
    node.handle(1, Received(sender="b", message=request))
    assert can_of(node).members.zones() == [SPACE.whole]


def test_messages_travel_unchanged() -> None:
    """A report with zones and neighbours is the same after the wire."""
    message = report(Claim(UPPER_HALF, 1, 2), neighbours=(PeerClaims("c", (Claim(LOWER_HALF, 0, 3),)),))
    assert from_fields(to_fields(message)) == message


def test_statistics_and_story() -> None:
    """A peer counts its zones and neighbours, and tells what happened to it."""
    network = SimulatedCan(seed=1, space=SPACE)
    network.grow(2)
    node = network.simulator.node(network.addresses()[0])
    figures = {name: value for name, value in node.statistics().items() if name in ("can.zones", "can.neighbours")}
    assert figures == {"can.zones": 1, "can.neighbours": 1}
    assert node.story("n0")[0] == "0.000000 s: create: new to member"
    assert "handed" in node.story("n0")[1]


# Hostile messages

HOSTILE = ("", "\ud800", "z" * 100, -1, 2**62 + 1, 7, None, True, (), ("a",), ("a", "b", "c"), b"x", b"")


def messages_of_a_network() -> list[tuple[str, PeerMessage]]:
    """Messages as they were sent in a small network, at least one of each type."""
    network = SimulatedCan(seed=1, space=SPACE)
    messages: dict[type[PeerMessage], list[tuple[str, PeerMessage]]] = {}
    handle = PeerNode.handle

    def recording(node: PeerNode, now: int, node_input: Input) -> list[Effect]:
        if isinstance(node_input, Received):
            message = node_input.message
            kind = type(message.body) if isinstance(message, NumberedMessage) else type(message)
            messages.setdefault(kind, []).append((node_input.sender, message))
        return handle(node, now, node_input)

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(PeerNode, "handle", recording)
        network.grow(6)
        for _ in range(3):
            network.put("n1", Random(1))
        command = FindInRegion(tag="all", region=region_of(None, None))
        network.simulator.command("n2", command)
        network.crash(["n3"])
        network.settle()
        network.simulator.command("n4", LeaveCan())
        network.settle()
    assert {ZoneReport, ZoneRequest, ZoneHandover, ValueTransfer, CanRequest, CanAnswer} <= set(messages)
    return [message for kept in messages.values() for message in kept[:12]]


def with_one_replaced(fields: tuple[object, ...], random: Random) -> tuple[object, ...]:
    """Fields with a hostile one among them."""
    index = random.randrange(len(fields))
    return (*fields[:index], mutated(fields[index], random), *fields[index + 1 :])


def mutated(value: object, random: Random) -> object:
    """A value with something else in its place, or in that of one of its items, at any depth."""
    if not isinstance(value, tuple) or not value or random.random() < 0.2:
        return random.choice(HOSTILE)
    return with_one_replaced(value, random)


def test_hostile_messages_stop_no_peer() -> None:
    """Fields of other sizes, signs and types are refused by the decoder or handled without an exception."""
    random = Random(1)
    messages = messages_of_a_network()
    node = member("n1")
    decoded = 0
    for step in range(6000):
        sender, message = random.choice(messages)
        fields = to_fields(message)
        try:
            hostile = from_fields((fields[0], *with_one_replaced(fields[1:], random)))
        except DecodeError:
            continue
        decoded += 1
        node.handle(step, Received(sender=sender, message=hostile))
        if can_of(node).state != MEMBER:
            node = member("n1")
    assert decoded > 500


def test_a_refusal_of_what_was_never_given_gives_nothing() -> None:
    """A forged refusal does not make a peer claim a zone."""
    node = member("a")
    node.handle(1, Received(sender="b", message=report(Claim(UPPER_HALF, 0, 5))))
    forged = NumberedMessage(sequence=1, body=HandoverRefused(claim=Claim(UPPER_HALF, 0, 9)))
    node.handle(2, Received(sender="b", message=forged))
    assert can_of(node).members.zones() == [LOWER_HALF]


def test_a_joining_peer_that_left_refuses_a_zone() -> None:
    """The giver gets it back at once, and nothing is lost."""
    network = SimulatedCan(seed=1, space=SPACE)
    network.grow(1)
    network.start(["n0"])
    network.simulator.command("n1", LeaveCan())
    network.wait(20 * SECOND)
    assert network.can("n1").state == LEFT
    assert network.can("n0").members.zones() == [SPACE.whole]
