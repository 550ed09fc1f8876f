"""Prefixed names and relative IRIs to full IRIs (RFC 3986, section 5), with the BASE and PREFIX lines of a document."""

from __future__ import annotations

import re
from dataclasses import dataclass, field

from motet.sparql.tokens import Document, Token

_PARTS = re.compile(r"(?:([A-Za-z][A-Za-z0-9+.\-]*):)?(?://([^/?#]*))?([^?#]*)(?:\?([^#]*))?(?:#(.*))?", re.DOTALL)
_UNICODE = re.compile(r"\\u([0-9A-Fa-f]{4})|\\U([0-9A-Fa-f]{8})")
_FORBIDDEN = re.compile(r"[<>\"{}|^`\\\x00-\x20]")


@dataclass(slots=True)
class Names:
    """What a prologue declares, and how it expands the names of one document."""

    document: Document
    base: str | None = None
    prefixes: dict[str, str] = field(default_factory=dict)

    def expand(self, token: Token) -> str:
        """The full IRI of an IRIREF, PNAME or PREFIX_NAME token."""
        if token.kind == "IRIREF":
            return self._reference(token)
        prefix, _, local = token.text.partition(":")
        if prefix not in self.prefixes:
            raise self.document.refusal(
                f"'{prefix}' is not a declared prefix", token.position, f"declare it: PREFIX {prefix}: <…>"
            )
        return self.prefixes[prefix] + re.sub(r"\\(.)", r"\1", local)

    def _reference(self, token: Token) -> str:
        iri = _UNICODE.sub(_character, token.text[1:-1])
        if _FORBIDDEN.search(iri):
            raise self.document.refusal(f"{token.text} is not an IRI", token.position)
        if is_absolute(iri):
            return iri
        if self.base is None:
            raise self.document.refusal(
                f"<{iri}> is relative and there is no BASE", token.position, "write the whole IRI or declare BASE <…>"
            )
        return resolve(self.base, iri)


def is_absolute(iri: str) -> bool:
    match = _PARTS.fullmatch(iri)
    return match is not None and match[1] is not None


def resolve(base: str, reference: str) -> str:
    """
    >>> resolve("http://a/b/c?q", "../d#e")
    'http://a/d#e'
    """
    scheme, authority, path, query, _ = _parts(base)
    own_scheme, own_authority, own_path, own_query, fragment = _parts(reference)
    if own_scheme is not None:
        return reference
    if own_authority is not None:
        authority, path, query = own_authority, _without_dots(own_path or ""), own_query
    elif own_path:
        path, query = _without_dots(_merged(authority, path or "", own_path)), own_query
    else:
        query = own_query if own_query is not None else query
    signs = ((authority, "//"), (path, ""), (query, "?"), (fragment, "#"))
    return f"{scheme}:" + "".join(sign + part for part, sign in signs if part is not None)


def _parts(iri: str) -> tuple[str | None, ...]:
    match = _PARTS.fullmatch(iri)
    return match.groups() if match else (None, None, iri, None, None)


def _merged(authority: str | None, base: str, path: str) -> str:
    if path.startswith("/"):
        return path
    if authority is not None and not base:
        return "/" + path
    return base[: base.rfind("/") + 1] + path


def _without_dots(path: str) -> str:
    kept: list[str] = []
    segments = path.split("/")
    for index, segment in enumerate(segments):
        last = index == len(segments) - 1
        if segment == "..":
            if len(kept) > 1 or (kept and kept[0]):
                kept.pop()
        elif segment != ".":
            kept.append(segment)
            continue
        if last:
            kept.append("")
    return "/".join(kept)


def _character(match: re.Match[str]) -> str:
    code = int(match[1] or match[2], 16)
    return chr(code) if code <= 0x10FFFF else "<"


_BLANK = re.compile(r"(?:\s|#[^\n\r]*)*")
_DECLARATION = re.compile(
    r"(?:BASE|PREFIX(?:\s|#[^\n\r]*)+(?P<prefix>[^\s:<>()]*):)(?:\s|#[^\n\r]*)*(?P<iri><[^<>\"{}|^`\x00-\x20]*>)",
    re.IGNORECASE,
)


def read_prologue(document: Document) -> tuple[Names, str]:
    """The declared names, and the text with the prologue blanked, so that positions stay.

    >>> names, rest = read_prologue(Document("PREFIX ex: <urn:> a"))
    >>> names.prefixes, rest.strip()
    ({'ex': 'urn:'}, 'a')
    """
    names, position = Names(document), 0
    while match := _DECLARATION.match(document.text, _skipped(document.text, position)):
        iri = names.expand(Token("IRIREF", match["iri"], match.start("iri")))
        if match["prefix"] is None:
            names.base = iri
        else:
            names.prefixes[match["prefix"]] = iri
        position = match.end()
    return names, re.sub(r"[^\n]", " ", document.text[:position]) + document.text[position:]


def _skipped(text: str, position: int) -> int:
    match = _BLANK.match(text, position)
    return match.end() if match else position
