"""Leaf sets and routing tables hold the contacts they should, whatever the order in which these are added."""

from hypothesis import given, settings
from hypothesis import strategies as st

from motet.overlay.protocol.identifiers import MASK, SPACE, Contact, closest, common_digits, digit
from motet.overlay.protocol.neighbours import LeafSet, RoutingTable

IDENTIFIERS = st.lists(st.integers(0, SPACE - 1), min_size=1, max_size=40, unique=True)


def contacts_of(identifiers: list[int]) -> list[Contact]:
    return [Contact(identifier, f"{identifier:x}") for identifier in identifiers]


@given(IDENTIFIERS)
@settings(max_examples=100)
def test_a_leaf_set_has_the_nearest_contacts_of_both_sides(identifiers: list[int]) -> None:
    """The clockwise and the anticlockwise neighbour are right, however skewed the identifiers are."""
    own, *others = contacts_of(identifiers)
    leaves = LeafSet(own.identifier, 8)
    for contact in others:
        leaves.add(contact)
    ring = sorted(others, key=lambda contact: (contact.identifier - own.identifier) & MASK)
    assert leaves.right == (ring[0] if ring else None)
    assert leaves.left == (ring[-1] if ring else None)


@given(IDENTIFIERS, st.integers(0, SPACE - 1))
@settings(max_examples=100)
def test_the_closest_contact_of_a_covered_key_is_the_closest_of_all(identifiers: list[int], key: int) -> None:
    """Within the range of the leaf set nothing beyond it can be responsible."""
    own, *others = contacts_of(identifiers)
    leaves = LeafSet(own.identifier, 8)
    for contact in others:
        leaves.add(contact)
    if leaves.covers(key):
        assert leaves.closest(key, own) == closest([own, *others], key)


@given(IDENTIFIERS)
@settings(max_examples=100)
def test_members_among_candidates_are_what_adding_all_would_leave(identifiers: list[int]) -> None:
    """Only contacts that stay in the leaf set are worth a probe."""
    own, *others = contacts_of(identifiers)
    leaves, whole = LeafSet(own.identifier, 8), LeafSet(own.identifier, 8)
    for contact in others[::2]:
        leaves.add(contact)
        whole.add(contact)
    members = leaves.members_among(leaves.candidates(others))
    for contact in sorted(leaves.candidates(others)):
        whole.add(contact)
    assert set(members) == set(whole) - set(leaves)


@given(IDENTIFIERS, st.integers(0, SPACE - 1))
@settings(max_examples=100)
def test_the_next_hop_shares_one_more_digit(identifiers: list[int], key: int) -> None:
    """The entry of a routing table for a key shares a longer prefix with it than the node does."""
    own, *others = contacts_of(identifiers)
    table = RoutingTable(own.identifier)
    for contact in others:
        table.set(contact)
    hop = table.get(key)
    if hop is not None:
        shared = common_digits(own.identifier, key)
        assert common_digits(hop.identifier, key) > shared
        assert hop in table.row(shared)
        assert digit(hop.identifier, shared) == digit(key, shared)
        assert table.remove(hop)
        assert table.get(key) is None
