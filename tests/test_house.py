"""The structure of src/motet: no cycles, not too many modules, one class per name."""

from tests import house

# Upper limits: only ever lower them.
KNOWN_PACKAGE_CYCLES: list[list[str]] = []
KNOWN_MODULE_CYCLES: list[list[str]] = []
MAX_MODULES = 367
MAX_DUPLICATE_CLASSES = 0


def test_packages_have_no_cycle() -> None:
    """No two packages, nested ones included, import each other, directly or through others."""
    assert house.cycles(house.package_graph()) == []


def test_modules_have_no_cycle() -> None:
    """No two modules import each other, lazy imports included."""
    assert house.cycles(house.module_graph()) == []


def test_modules_are_few() -> None:
    """A file holds a concept: small files of one concept are merged."""
    assert len(house.modules()) <= MAX_MODULES


def test_a_class_name_stands_once() -> None:
    """A public class or type alias has a name of its own, but for the words the field repeats."""
    duplicates = house.duplicate_classes()
    assert len(duplicates) <= MAX_DUPLICATE_CLASSES, duplicates


def test_identifiers_are_split_at_underscores_and_case() -> None:
    """Old words are found inside names of every style."""
    assert house.words_of("_told_again") == {"told", "again"}
    assert house.words_of("NodeFound") == {"node", "found"}
    assert house.words_of("RDFPart") == {"rdf", "part"}
    assert house.words_of("MOST_ROWS") == {"most", "rows"}


def test_cycles_are_found_through_other_nodes() -> None:
    """A cycle is a set of nodes that reach each other; a node alone is none."""
    graph = {"a": {"b"}, "b": {"c"}, "c": {"a", "d"}, "d": {"e"}, "e": set[str]()}
    assert house.cycles(graph) == [["a", "b", "c"]]
