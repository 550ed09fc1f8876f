"""What a kernel remembers of the records it has read. How that is written and read again is in `saving_memory`."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field

from motet.engine.detect.detector import Detector
from motet.engine.detect.dictionary import Dictionary
from motet.engine.detect.distinct import Deduplicator
from motet.engine.detect.occurrences import Occurrences
from motet.engine.lives import Life, Past
from motet.engine.state.format import state_error
from motet.engine.state.restore import restore_order
from motet.engine.state.snapshot import table_name
from motet.model.control import ControlState
from motet.model.timeline import NO_FRONTIER

Digests = Mapping[int, str]  # by node

_DELIVERED = "delivered"


@dataclass(eq=False)
class Memory:
    """Tables go by names that do not depend on the numbers of nodes."""

    detector: Detector
    controls: ControlState  # without subscriptions: those are `lives`
    lives: dict[str, Life] = field(default_factory=dict)  # by name
    past: Past | None = None  # that is being shown
    deriving: set[int] = field(default_factory=set)  # the offsets of all subscriptions that ever derived events
    frontier: int = NO_FRONTIER
    last: int = -1  # the last record that is not merely a subscription
    has_events: bool = False

    def delivered(self) -> dict[str, Deduplicator]:
        """By subscription that is detected, what it was told, where that has to be remembered."""
        return {
            name: life.delivery.deduplicator
            for name, life in self.lives.items()
            if life.root and life.delivery and life.delivery.deduplicator
        }

    def tables(self, digests: Digests) -> dict[str, Occurrences]:
        """All tables by name."""
        found = {
            table_name(digests[id_], name): table
            for id_, running in self.detector.operator_nodes.items()
            for name, table in running.tables().items()
        }
        return found | {table_name(name, _DELIVERED): one.emitted_before for name, one in self.delivered().items()}

    def take(self, tables: Mapping[str, Occurrences], digests: Digests, names: Dictionary) -> None:
        """Go on from these tables; they have to be those of this very plan."""
        if set(tables) != set(self.tables(digests)):
            raise state_error("belongs to another plan of the same subscriptions")
        for id_, running in self.detector.operator_nodes.items():
            own = {name: tables[table_name(digests[id_], name)] for name in running.tables()}
            running.restore({name: restore_order(running, name, table, names) for name, table in own.items()})
        for name, distinct in self.delivered().items():
            distinct.emitted_before = tables[table_name(name, _DELIVERED)]

    def variables_by_table(self, digests: Digests) -> Iterator[tuple[str, int, Sequence[str]]]:
        """The name of each table, its node, and the node's variables that its columns hold."""
        for id_, running in self.detector.operator_nodes.items():
            for name in running.tables():
                yield table_name(digests[id_], name), id_, running.column_variables(name)
        for name in self.delivered():
            delivery = self.lives[name].delivery
            assert delivery is not None
            own = {mine: variable for variable, mine in delivery.root.renaming}
            yield table_name(name, _DELIVERED), delivery.root.node, [own[mine] for mine in delivery.projected]

    def forget_shown(self) -> None:
        """Derived events that would be late if they were derived again."""
        for life in self.lives.values():
            if life.shown:
                life.forget(self.frontier)
