"""What a Pastry node knows of others: its leaf set (the ring neighbours) and its routing table (by prefix)."""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Iterable, Iterator

from motet.overlay.protocol.identifiers import DIGITS, HALF, MASK, Contact, closest, common_digits, digit


class LeafSet:
    """The closest contacts on both sides of a node, half of `size` on each; in a small ring one side may have more.

    Contacts are sorted clockwise from the node: the right side is the beginning, the left side the end.

    >>> leaves = LeafSet(100, 4)
    >>> [leaves.add(Contact(i, str(i))) for i in (110, 90, 120, 80, 130)]
    [True, True, True, True, False]
    >>> leaves.right.identifier, leaves.left.identifier, leaves.covers(119), leaves.covers(125)
    (110, 90, True, False)
    """

    def __init__(self, identifier: int, size: int) -> None:
        self.identifier = identifier
        self.size = size
        self._offsets: list[int] = []
        self._contacts: list[Contact] = []
        self._cached: tuple[Contact, ...] | None = ()
        self._members: frozenset[Contact] | None = frozenset()

    def __len__(self) -> int:
        return len(self._offsets)

    def __iter__(self) -> Iterator[Contact]:
        return iter(self._contacts)

    def __contains__(self, contact: Contact) -> bool:
        return contact in self.members

    def __getitem__(self, index: int) -> Contact:
        return self._contacts[index]

    @property
    def contacts(self) -> tuple[Contact, ...]:
        """All contacts, clockwise; the same object until something changes."""
        if self._cached is None:
            self._cached = tuple(self._contacts)
        return self._cached

    @property
    def members(self) -> frozenset[Contact]:
        """All contacts as a set; the same object until something changes."""
        if self._members is None:
            self._members = frozenset(self._contacts)
        return self._members

    @property
    def right(self) -> Contact | None:
        """The clockwise neighbour."""
        return self._contacts[0] if self._contacts else None

    @property
    def left(self) -> Contact | None:
        """The anticlockwise neighbour."""
        return self._contacts[-1] if self._contacts else None

    @property
    def is_full(self) -> bool:
        return len(self._offsets) >= self.size

    def has_room_for(self, identifier: int) -> bool:
        """Whether a contact with this identifier would enter the leaf set."""
        offset = (identifier - self.identifier) & MASK
        if offset == 0:
            return False
        offsets = self._offsets
        half = self.size // 2
        count = len(offsets)
        if count >= half:
            if count >= self.size:
                if offsets[half - 1] < offset < offsets[-half]:
                    return False
            elif offset < HALF:  # the side is full, although the other one has a gap
                if offset > offsets[half - 1] and offsets[-1] >= HALF:
                    return False
            elif offset < offsets[-half] and offsets[0] < HALF:
                return False
        index = bisect_left(offsets, offset)
        return index == len(offsets) or offsets[index] != offset

    def add(self, contact: Contact) -> bool:
        """Add a contact; True if the leaf set changed. The farthest one of its side leaves a full set."""
        if not self.has_room_for(contact[0]):
            return self._replace_address(contact)
        offset = (contact[0] - self.identifier) & MASK
        index = bisect_left(self._offsets, offset)
        self._offsets.insert(index, offset)
        self._contacts.insert(index, contact)
        if len(self._offsets) > self.size:
            del self._offsets[self.size // 2], self._contacts[self.size // 2]
        self._cached = self._members = None
        return True

    def remove(self, contact: Contact) -> bool:
        """Remove a contact; True if it was a member."""
        index = bisect_left(self._offsets, (contact[0] - self.identifier) & MASK)
        if index >= len(self._contacts) or self._contacts[index] != contact:
            return False
        del self._offsets[index], self._contacts[index]
        self._cached = self._members = None
        return True

    def covers(self, key: int) -> bool:
        """Whether the contact responsible for a key must be the node itself or in its leaf set."""
        right, left = self.sides()
        offset = (key - self.identifier) & MASK
        return (right > 0 and offset <= self._offsets[right - 1]) or (left > 0 and offset >= self._offsets[-left])

    def sides(self) -> tuple[int, int]:
        """How many contacts are on the right and on the left side."""
        half = self.size // 2
        if len(self._offsets) >= self.size:
            return half, half
        right = bisect_left(self._offsets, HALF)
        return min(half, right), min(half, len(self._offsets) - right)

    def candidates(self, contacts: Iterable[Contact]) -> list[Contact]:
        """Those of some contacts for which there is room."""
        own, offsets, members = self.identifier, self._offsets, self.members
        others = [contact for contact in contacts if contact not in members]
        if len(offsets) < self.size:
            return [contact for contact in others if self.has_room_for(contact[0])]
        half = self.size // 2
        right, left = offsets[half - 1], offsets[-half]
        return [c for c in others if not right <= ((c[0] - own) & MASK) <= left and c[0] != own]

    def members_among(self, contacts: Iterable[Contact]) -> list[Contact]:
        """Those of some candidates that would be members if all of them were added."""
        candidates = set(contacts)
        if len(candidates) < 2:
            return list(candidates)
        whole = LeafSet(self.identifier, self.size)
        whole._offsets, whole._contacts = self._offsets[:], self._contacts[:]
        for contact in sorted(candidates):
            whole.add(contact)
        return [contact for contact in whole if contact in candidates]

    def closest(self, key: int, own: Contact) -> Contact:
        """The contact closest to a key, the node itself included."""
        if not self._contacts:
            return own
        # The contacts are sorted by offset: only those next to the key and the node itself can be the closest.
        index = bisect_left(self._offsets, (key - self.identifier) & MASK)
        contacts = self._contacts
        return closest((own, contacts[index - 1], contacts[index % len(contacts)]), key)

    def _replace_address(self, contact: Contact) -> bool:
        index = bisect_left(self._offsets, (contact[0] - self.identifier) & MASK)
        if index >= len(self._contacts) or self._contacts[index][0] != contact[0] or self._contacts[index] == contact:
            return False
        self._contacts[index] = contact
        self._cached = self._members = None
        return True


class RoutingTable:
    """Contacts by the length of the prefix they share with the node and their next digit.

    >>> table = RoutingTable(0)
    >>> table.set(Contact(5 << 124, "five"))
    >>> table.next_hop(0x51 << 120).address, table.row(0)
    ('five', (Contact(identifier=106338239662793269832304564822427566080, address='five'),))
    """

    def __init__(self, identifier: int) -> None:
        self.identifier = identifier
        self._slots: dict[int, Contact] = {}
        self._rows: dict[int, tuple[Contact, ...]] = {}

    def __len__(self) -> int:
        return len(self._slots)

    def __iter__(self) -> Iterator[Contact]:
        return iter(self._slots.values())

    def slot(self, identifier: int) -> int:
        """The position for an identifier other than the node's own."""
        row = common_digits(self.identifier, identifier)
        return row << 4 | digit(identifier, row)

    def get(self, identifier: int) -> Contact | None:
        """The contact in the position for an identifier."""
        return None if identifier == self.identifier else self._slots.get(self.slot(identifier))

    next_hop = get

    def set(self, contact: Contact) -> None:
        """Put a contact into its position."""
        slot = self.slot(contact[0])
        self._slots[slot] = contact
        self._rows.pop(slot >> 4, None)

    def remove(self, contact: Contact) -> bool:
        """Remove a contact; True if it was there."""
        if contact[0] == self.identifier:
            return False
        slot = self.slot(contact[0])
        if self._slots.get(slot) != contact:
            return False
        del self._slots[slot]
        self._rows.pop(slot >> 4, None)
        return True

    def row(self, index: int) -> tuple[Contact, ...]:
        """The contacts of one row; the same object until it changes."""
        if index not in self._rows:
            slots = range(index << 4, (index + 1) << 4)
            self._rows[index] = tuple([self._slots[slot] for slot in slots if slot in self._slots])
        return self._rows[index]

    def rows(self, stop: int = DIGITS) -> tuple[Contact, ...]:
        """The contacts of the rows before `stop`."""
        return tuple([contact for slot, contact in self._slots.items() if slot >> 4 < stop])
