"""Makes XML documents from CONSTRUCT XML templates (language page, section 8).

A variable whose term is an rdf:XMLLiteral is inserted as XML, any other as escaped text; an unbound one inserts
nothing, and an element whose tag variable is unbound or no name is left out with its content. Characters that XML does
not allow become U+FFFD. Of several members (many-to-one) the root is made once, and each item of its content once, or
once per member if its variables differ between them.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence

from motet.model.errors import DecodeError, LimitError
from motet.model.terms import iri_value, is_iri, literal_parts
from motet.model.xml_document import canonical_form, parse_xml
from motet.xmlql.blocks import TemplateElement, TemplateVariable, split_name, variables_in
from motet.xmlql.evaluate import XML_LITERAL, canonical_content
from motet.xmlql.parse import XML_NAMESPACE, is_name
from motet.xmlql.write import escape_text, quote_text

TemplateBindings = Mapping[str, str]
TemplateItem = str | TemplateVariable | TemplateElement

MAX_DOCUMENT = 4 << 20  # characters of a constructed document
_ILLEGAL = re.compile("[^\t\n\r\x20-\ud7ff\ue000-\ufffd\U00010000-\U0010ffff]")


def construct(template: TemplateElement, members: Sequence[TemplateBindings]) -> str | None:
    """The canonical document of a template; None if its root has no name, or if it is larger than a document may be.

    >>> from motet.xmlql.parse import parse_template
    >>> template = parse_template("<paid at=$t><pn>$pn</> $n</paid>")
    >>> name = '"<name>Li</name>"^^<http://www.w3.org/1999/02/22-rdf-syntax-ns#XMLLiteral>'
    >>> construct(template, [{"pn": '"42"', "n": name}])
    '<paid><pn>42</pn><name>Li</name></paid>'
    """
    first = {name: term for member in reversed(members) for name, term in member.items()}
    writer = _Writer()
    try:
        text = writer.element(
            template, first, {}, [(item, _members_of(item, members, first)) for item in template.content]
        )
        return canonical_form(parse_xml(text.encode())).decode() if text else None
    except (LimitError, DecodeError):
        return None


def _members_of(
    item: TemplateItem, members: Sequence[TemplateBindings], first: TemplateBindings
) -> Sequence[TemplateBindings]:
    """The members for which an item of the root's content is made."""
    names = set(variables_in(item))
    differ = any(member.get(name) != members[0].get(name) for member in members for name in names)
    return members if differ else [first]


class _Writer:
    """Writes an instance of a template as text, which canonicalisation brings into its final form."""

    def __init__(self) -> None:
        self._size = 0

    def element(
        self,
        template: TemplateElement,
        bindings: TemplateBindings,
        scope: Mapping[str, str],
        content: Iterable[tuple[TemplateItem, Sequence[TemplateBindings]]],
    ) -> str:
        """``scope`` has the namespaces by prefix; each item of the content is written for its members."""
        scope = {**scope, **dict(template.namespaces)}
        declared = dict(template.namespaces)
        name = template.name
        if isinstance(name, TemplateVariable):
            name = _text(bindings.get(name.variable))
            if not is_name(name):
                return ""
        tag = _prefixed(name, scope, declared)
        attributes = []
        for attribute in template.attributes:
            value = attribute.value if isinstance(attribute.value, str) else bindings.get(attribute.value.variable)
            if value is not None:
                text = value if isinstance(attribute.value, str) else _text(value)
                attributes.append(
                    f" {_prefixed(attribute.name, scope, declared, is_attribute=True)}={quote_text(text)}"
                )
        namespaces = [f" xmlns{':' * bool(prefix)}{prefix}={quote_text(iri)}" for prefix, iri in declared.items()]
        inner = [self._item(item, member, scope) for item, members in content for member in members]
        return self._counted(f"<{tag}{''.join(namespaces)}{''.join(attributes)}>{''.join(inner)}</{tag}>")

    def _item(self, item: TemplateItem, bindings: TemplateBindings, scope: Mapping[str, str]) -> str:
        if isinstance(item, str):
            return self._counted(escape_text(item))
        if isinstance(item, TemplateElement):
            return self.element(item, bindings, scope, [(inner, [bindings]) for inner in item.content])
        if item.variable not in bindings:
            return ""
        term = bindings[item.variable]
        fragment = _fragment(term)
        return self._counted(escape_text(_text(term)) if fragment is None else fragment)

    def _counted(self, text: str) -> str:
        self._size += len(text)
        if self._size > MAX_DOCUMENT:
            raise LimitError("a constructed document is too large")
        return text


def _prefixed(name: str, scope: dict[str, str], declared: dict[str, str], *, is_attribute: bool = False) -> str:
    """A name with a prefix of the scope; one that the scope lacks is declared."""
    namespace, local = split_name(name)
    if namespace == XML_NAMESPACE:
        return f"xml:{local}"
    if not namespace:
        if not is_attribute and scope.get(""):
            scope[""] = declared[""] = ""
        return local
    prefixes = sorted(prefix for prefix, bound in scope.items() if bound == namespace and (prefix or not is_attribute))
    if not prefixes:
        prefixes = [next(f"ns{number}" for number in range(len(scope) + 1) if f"ns{number}" not in scope)]
        scope[prefixes[0]] = declared[prefixes[0]] = namespace
    return f"{prefixes[0]}:{local}" if prefixes[0] else local


def _fragment(term: str) -> str | None:
    """The XML that an rdf:XMLLiteral is, for any place; None for other terms and for what is not well-formed."""
    if is_iri(term):
        return None
    text, datatype, _ = literal_parts(term)
    if datatype != XML_LITERAL:
        return None
    try:
        root = parse_xml(f"<x>{text}</x>".encode())
    except DecodeError:
        return None
    return canonical_content(root, is_isolated=True)


def _text(term: str | None) -> str:
    """The text of a term."""
    if term is None:
        return ""
    return _ILLEGAL.sub("\ufffd", iri_value(term) if is_iri(term) else literal_parts(term)[0])
