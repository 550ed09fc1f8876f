"""Writes blocks and templates as text that stands alone: every namespace is declared in it."""

from __future__ import annotations

from collections.abc import Mapping

from motet.xmlql.blocks import (
    AttributePattern,
    Block,
    ElementPattern,
    NumberComparison,
    TemplateElement,
    TemplateVariable,
    TypedVariable,
    split_name,
)
from motet.xmlql.parse import XML_NAMESPACE

_ESCAPES = {"&": "&amp;", "<": "&lt;", ">": "&gt;", "$": "&#36;"}


def block_text(block: Block, *, is_xml_ql: bool = False) -> str:
    """The text of a block; in XML-QL's own form elements are closed by ``</>``.

    >>> from motet.xmlql.parse import parse_block
    >>> block_text(parse_block("//<order> <id>$i</> <n> 'a b' </n> </>"))
    "<order><id>$i</id><n>'a b'</n></order>"
    """
    names = {
        name for element in block.element.walk() for name in (*element.names, *(a.name for a in element.attributes))
    }
    prefixes = {"": "", XML_NAMESPACE: "xml"}
    for namespace in sorted({split_name(name)[0] for name in names} - {"", XML_NAMESPACE}):
        prefixes[namespace] = f"n{len(prefixes) - 2}"
    return ("/" if block.is_anchored else "") + _BlockWriter(prefixes, is_xml_ql).element(block.element, is_outer=True)


def template_text(template: TemplateElement, *, is_xml_ql: bool = False) -> str:
    """The text of a template; in XML-QL's own form elements are closed by ``</>``.

    >>> from motet.xmlql.parse import parse_template
    >>> template_text(parse_template("<result at='x'> <pn>$pn</> $n </result>"))
    '<result at="x"><pn>$pn</pn>$n</result>'
    """
    return _template(template, {}, is_xml_ql)


class _BlockWriter:
    def __init__(self, prefixes: Mapping[str, str], is_xml_ql: bool) -> None:
        self._prefixes = prefixes
        self._is_xml_ql = is_xml_ql

    def element(self, pattern: ElementPattern, *, is_outer: bool = False) -> str:
        tag = f"${pattern.tag_variable}" if pattern.tag_variable else "|".join(map(self._name, pattern.names))
        declared = _declarations(self._prefixes) if is_outer else ""
        attributes = "".join(f" {self._name(each.name)}={self._value(each)}" for each in pattern.attributes)
        clauses = [f" ELEMENT_AS ${name}" for name in pattern.element_as]
        clauses += [f" CONTENT_AS ${name}" for name in pattern.content_as]
        end = "</>" if self._is_xml_ql else f"</{tag}>"
        return f"<{tag}{declared}{attributes}>{self._content(pattern)}{end}{''.join(clauses)}"

    def _content(self, pattern: ElementPattern) -> str:
        if pattern.text is not None:
            return _escaped(pattern.text)
        if isinstance(pattern.value, NumberComparison):
            value = pattern.value
            return f" {_typed(value.variable)} {value.operator} {value.number} "
        if pattern.value is not None:
            return _typed(pattern.value)
        text = ""
        for each in pattern.nested:
            text += " " if text and not text.endswith(">") else ""  # behind the variable of ELEMENT_AS
            text += ("//" if each.is_descendant else "") + self.element(each.element)
        return text

    def _name(self, name: str) -> str:
        namespace, local = split_name(name)
        prefix = self._prefixes[namespace]
        return f"{prefix}:{local}" if prefix else local

    def _value(self, attribute: AttributePattern) -> str:
        if isinstance(attribute.value, TypedVariable):
            return _typed(attribute.value)
        return quote_text(attribute.value)


def _typed(variable: TypedVariable) -> str:
    if variable.datatype is None:
        return f"${variable.variable}"
    return f"${variable.variable}^^<{variable.datatype}>"


def _template(element: TemplateElement, scope: Mapping[str, str], is_xml_ql: bool) -> str:
    """``scope`` has the namespaces by prefix."""
    scope = {**scope, **dict(element.namespaces)}
    tag = (
        f"${element.name.variable}"
        if isinstance(element.name, TemplateVariable)
        else _template_name(element.name, scope)
    )
    declared = "".join(_declaration(prefix, namespace) for prefix, namespace in element.namespaces)
    attributes = "".join(
        f" {_template_name(each.name, scope, is_attribute=True)}="
        + (f"${each.value.variable}" if isinstance(each.value, TemplateVariable) else quote_text(each.value))
        for each in element.attributes
    )
    content = ""
    for index, item in enumerate(element.content):
        if isinstance(item, TemplateElement):
            content += _template(item, scope, is_xml_ql)
        elif isinstance(item, TemplateVariable):
            content += f"{' ' if is_xml_ql and content.endswith('>') else ''}${item.variable}"
        else:
            content += _template_run(
                item, is_first=index == 0, is_last=index + 1 == len(element.content), before=content
            )
    return f"<{tag}{declared}{attributes}>{content}</{'' if is_xml_ql else tag}>"


def _template_run(text: str, *, is_first: bool, is_last: bool, before: str) -> str:
    """A text of a template; white space that would be trimmed, and what would lengthen a variable, is escaped."""
    begin = len(text) - len(text.lstrip())
    end = len(text.rstrip())
    if not text.strip():
        return "".join(f"&#{ord(character)};" for character in text)
    head = "".join(f"&#{ord(character)};" for character in text[:begin]) if is_first else text[:begin]
    tail = "".join(f"&#{ord(character)};" for character in text[end:]) if is_last else text[end:]
    body = _escaped(text[begin:end])
    if not body.strip("/"):  # else it would be read as a path
        body = body.replace("/", "&#47;")
    if (
        before
        and not head
        and not before.endswith(">")
        and (body[0].isalnum() or body[0] in "_^" or ord(body[0]) > 127)
    ):
        body = f"&#{ord(body[0])};{body[1:]}"
    return head + body + tail


def _template_name(name: str, scope: Mapping[str, str], *, is_attribute: bool = False) -> str:
    namespace, local = split_name(name)
    if namespace == XML_NAMESPACE:
        return f"xml:{local}"
    if not namespace:
        return local
    prefixes = sorted(
        prefix for prefix, bound in scope.items() if bound == namespace and not (is_attribute and not prefix)
    )
    return f"{prefixes[0]}:{local}" if prefixes[0] else local


def _declarations(prefixes: Mapping[str, str]) -> str:
    return "".join(
        _declaration(prefix, namespace)
        for namespace, prefix in prefixes.items()
        if namespace not in ("", XML_NAMESPACE)
    )


def _declaration(prefix: str, namespace: str) -> str:
    return f" xmlns:{prefix}={quote_text(namespace)}" if prefix else f" xmlns={quote_text(namespace)}"


def quote_text(text: str) -> str:
    """A text as the value of an attribute."""
    escaped = text.replace("&", "&amp;").replace("<", "&lt;").replace('"', "&quot;")
    return '"' + "".join(f"&#{ord(each)};" if each in "\t\n\r" else each for each in escaped) + '"'


def escape_text(text: str) -> str:
    """A text as content of canonical XML."""
    return text.replace("&", "&amp;").replace("<", "&lt;").replace(">", "&gt;").replace("\r", "&#xD;")


def _escaped(text: str) -> str:
    return "".join(_ESCAPES.get(character, character) for character in text)
