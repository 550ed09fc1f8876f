"""The trees of blocks and of CONSTRUCT XML templates (language page, section 8). Immutable; equal ones are equal.

A name is written ``{namespace}local``, or ``local`` in no namespace, as lxml writes it.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field, replace


@dataclass(frozen=True, slots=True)
class TypedVariable:
    """``$variable`` or ``$variable^^datatype``: binds a text, cast to the datatype."""

    variable: str
    datatype: str | None = None  # bare IRI


@dataclass(frozen=True, slots=True)
class AttributePattern:
    """``name="text"`` or ``name=$variable``."""

    name: str
    value: str | TypedVariable


@dataclass(frozen=True, slots=True)
class NumberComparison:
    """``$variable > 100``: the text of the element, compared as a number."""

    variable: TypedVariable
    operator: str  # one of < <= = != >= >
    number: str


@dataclass(frozen=True, slots=True)
class NestedPattern:
    """A pattern for a child, or with ``//`` for any descendant."""

    element: ElementPattern
    is_descendant: bool = False


@dataclass(frozen=True, slots=True)
class ElementPattern:
    """One element: its alternative names or its tag variable, its attributes, its content and what is bound to it.

    ``text`` is the text its content must equal, ``value`` a variable or comparison for its content, ``nested`` the
    patterns of elements inside; at most one of the three is given, and without any the content is arbitrary.
    """

    names: tuple[str, ...]  # none with a tag variable
    tag_variable: str | None = None
    attributes: tuple[AttributePattern, ...] = ()
    text: str | None = None
    value: TypedVariable | NumberComparison | None = None
    nested: tuple[NestedPattern, ...] = ()
    element_as: tuple[str, ...] = ()
    content_as: tuple[str, ...] = ()
    has_variables: bool = field(init=False, compare=False, repr=False)  # here or in a nested pattern

    def __post_init__(self) -> None:
        is_inside = any(nested.element.has_variables for nested in self.nested)
        object.__setattr__(self, "has_variables", is_inside or next(self.own_variables(), None) is not None)

    @property
    def content_variable(self) -> TypedVariable | None:
        return self.value.variable if isinstance(self.value, NumberComparison) else self.value

    def walk(self) -> Iterator[ElementPattern]:
        """This pattern and all inside it, in document order."""
        yield self
        for nested in self.nested:
            yield from nested.element.walk()

    def own_variables(self) -> Iterator[str]:
        """The variables that this element binds, without those of nested patterns, in document order."""
        if self.tag_variable is not None:
            yield self.tag_variable
        yield from (a.value.variable for a in self.attributes if isinstance(a.value, TypedVariable))
        if self.content_variable is not None:
            yield self.content_variable.variable
        yield from (*self.element_as, *self.content_as)


@dataclass(frozen=True, slots=True)
class Block:
    """The pattern of one XML event; an anchored one begins at the root of the document.

    >>> Block(ElementPattern(("id",), value=TypedVariable("i"))).variables
    frozenset({'i'})
    """

    element: ElementPattern
    is_anchored: bool = False

    @property
    def variables(self) -> frozenset[str]:
        return frozenset(name for element in self.element.walk() for name in element.own_variables())


def renamed_block(block: Block, names: Mapping[str, str]) -> Block:
    """A block with other names for its variables."""
    return Block(_renamed(block.element, names), block.is_anchored)


def _renamed(pattern: ElementPattern, names: Mapping[str, str]) -> ElementPattern:
    def typed(variable: TypedVariable) -> TypedVariable:
        return replace(variable, variable=names[variable.variable])

    value = pattern.value
    if value is not None:
        value = replace(value, variable=typed(value.variable)) if isinstance(value, NumberComparison) else typed(value)
    return replace(
        pattern,
        tag_variable=pattern.tag_variable and names[pattern.tag_variable],
        attributes=tuple(
            replace(each, value=typed(each.value)) if isinstance(each.value, TypedVariable) else each
            for each in pattern.attributes
        ),
        value=value,
        nested=tuple(replace(each, element=_renamed(each.element, names)) for each in pattern.nested),
        element_as=tuple(names[name] for name in pattern.element_as),
        content_as=tuple(names[name] for name in pattern.content_as),
    )


@dataclass(frozen=True, slots=True)
class TemplateVariable:
    """``$variable`` in the content of a template."""

    variable: str


@dataclass(frozen=True, slots=True)
class TemplateAttribute:
    name: str
    value: str | TemplateVariable


@dataclass(frozen=True, slots=True)
class TemplateElement:
    """An element to construct: its name or tag variable, its attributes, and its content in document order."""

    name: str | TemplateVariable
    attributes: tuple[TemplateAttribute, ...] = ()
    content: tuple[str | TemplateVariable | TemplateElement, ...] = ()
    namespaces: tuple[tuple[str, str], ...] = ()  # declared here: prefix (empty: the default) and namespace

    @property
    def variables(self) -> frozenset[str]:
        return frozenset(variables_in(self))

    def walk(self) -> Iterator[TemplateElement]:
        """This element and all inside it, in document order."""
        yield self
        for item in self.content:
            if isinstance(item, TemplateElement):
                yield from item.walk()


def variables_in(item: str | TemplateVariable | TemplateElement) -> Iterator[str]:
    """The variables of a part of a template."""
    if isinstance(item, TemplateVariable):
        yield item.variable
    elif isinstance(item, TemplateElement):
        if isinstance(item.name, TemplateVariable):
            yield item.name.variable
        yield from (a.value.variable for a in item.attributes if isinstance(a.value, TemplateVariable))
        for part in item.content:
            yield from variables_in(part)


def split_name(name: str) -> tuple[str, str]:
    """The namespace and the local part of a name.

    >>> split_name("{urn:o}order"), split_name("order")
    (('urn:o', 'order'), ('', 'order'))
    """
    if name.startswith("{"):
        namespace, _, local = name[1:].rpartition("}")
        return namespace, local
    return "", name


def trim(text: str) -> str:
    """A text without the white space of XML at its ends."""
    return text.strip(" \t\r\n")
