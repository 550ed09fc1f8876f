"""Reads the BASE and PREFIX lines of a document and expands names to IRIs (RFC 3986, section 5)."""

from __future__ import annotations

import re
from dataclasses import dataclass, field
from functools import lru_cache

from motet.sparql.tokens import Document, Token

_COMPONENTS = re.compile(r"(?:([A-Za-z][A-Za-z0-9+.\-]*):)?(?://([^/?#]*))?([^?#]*)(?:\?([^#]*))?(?:#(.*))?", re.DOTALL)
_UNICODE = re.compile(r"\\u([0-9A-Fa-f]{4})|\\U([0-9A-Fa-f]{8})")
_FORBIDDEN = re.compile(r"[<>\"{}|^`\\\x00-\x20]")


@dataclass(slots=True)
class Prologue:
    """The BASE and PREFIX declarations of one document; expands its names to IRIs."""

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
    match = _COMPONENTS.fullmatch(iri)
    return match is not None and match[1] is not None


@lru_cache(maxsize=10_000)
def is_valid_iri(iri: str) -> bool:
    """Whether an absolute IRI is one by RFC 3987; no data can have others.

    >>> is_valid_iri("urn:a"), is_valid_iri("http://[a")
    (True, False)
    """
    import pyoxigraph

    try:
        pyoxigraph.NamedNode(iri)
    except ValueError:
        return False
    return True


def resolve(base: str, reference: str) -> str:
    """
    >>> resolve("http://a/b/c?q", "../d#e")
    'http://a/d#e'
    """
    scheme, authority, path, query, _ = _components(base)
    reference_scheme, reference_authority, reference_path, reference_query, fragment = _components(reference)
    if reference_scheme is not None:
        return reference
    if reference_authority is not None:
        authority, path, query = reference_authority, _remove_dot_segments(reference_path or ""), reference_query
    elif reference_path:
        path, query = _remove_dot_segments(_merge_paths(authority, path or "", reference_path)), reference_query
    else:
        query = reference_query if reference_query is not None else query
    signs = ((authority, "//"), (path, ""), (query, "?"), (fragment, "#"))
    return f"{scheme}:" + "".join(sign + component for component, sign in signs if component is not None)


def _components(iri: str) -> tuple[str | None, ...]:
    match = _COMPONENTS.fullmatch(iri)
    return match.groups() if match else (None, None, iri, None, None)


def _merge_paths(authority: str | None, base: str, path: str) -> str:
    if path.startswith("/"):
        return path
    if authority is not None and not base:
        return "/" + path
    return base[: base.rfind("/") + 1] + path


def _remove_dot_segments(path: str) -> str:
    resolved: list[str] = []
    segments = path.split("/")
    for index, segment in enumerate(segments):
        is_last = index == len(segments) - 1
        if segment == "..":
            if len(resolved) > 1 or (resolved and resolved[0]):
                resolved.pop()
        elif segment != ".":
            resolved.append(segment)
            continue
        if is_last:
            resolved.append("")
    return "/".join(resolved)


def _character(match: re.Match[str]) -> str:
    code = int(match[1] or match[2], 16)
    return chr(code) if code <= 0x10FFFF else "<"


_BLANK = re.compile(r"(?:\s|#[^\n\r]*)*")
_DECLARATION = re.compile(
    r"(?:BASE|PREFIX(?:\s|#[^\n\r]*)+(?P<prefix>[^\s:<>()]*):)(?:\s|#[^\n\r]*)*(?P<iri><[^<>\"{}|^`\x00-\x20]*>)",
    re.IGNORECASE,
)


def read_prologue(document: Document) -> tuple[Prologue, str]:
    """The declarations, and the text with the prologue blanked, so that positions stay.

    >>> prologue, rest = read_prologue(Document("PREFIX ex: <urn:> a"))
    >>> prologue.prefixes, rest.strip()
    ({'ex': 'urn:'}, 'a')
    """
    prologue, position = Prologue(document), 0
    while match := _DECLARATION.match(document.text, _skipped(document.text, position)):
        iri = prologue.expand(Token("IRIREF", match["iri"], match.start("iri")))
        if match["prefix"] is None:
            prologue.base = iri
        else:
            prologue.prefixes[match["prefix"]] = iri
        position = match.end()
    return prologue, re.sub(r"[^\n]", " ", document.text[:position]) + document.text[position:]


def _skipped(text: str, position: int) -> int:
    match = _BLANK.match(text, position)
    return match.end() if match else position
