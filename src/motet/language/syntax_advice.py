"""What a writer of another language meant: advice for words and signs that the pattern language does not have."""

from __future__ import annotations

import re
from collections.abc import Collection
from typing import NamedTuple

from motet.model.errors import SubscriptionError
from motet.sparql.tokens import Document

NO_AGGREGATES = (
    "there are no aggregates: `a{3} EVERY 1 min` counts events and `a+ EVERY 1 min WITHIN 1 h` finds runs, per value "
    "of the variables used outside; compute other figures from the notifications"
)
AGGREGATES = frozenset({"COUNT", "SUM", "AVG", "MIN", "MAX", "SAMPLE", "GROUP_CONCAT"})
_NO_MODIFIERS = "notifications are a set in the order of time: sort and cut them where they are read"
_SEQUENCE = "write LEFT BEFORE RIGHT WITHIN 5 min, with a duration of yours"
_ABSENCE = (
    "write LEFT UNLESS RIGHT WITHIN 5 min for no RIGHT in the time after LEFT, (x BEFORE y) WITHOUT RIGHT for none in "
    "between, or NO RIGHT FOR 5 min for a silence"
)

_EVERYWHERE = {
    **dict.fromkeys((*AGGREGATES, "GROUP", "HAVING"), NO_AGGREGATES),
    **dict.fromkeys(("ORDER", "LIMIT", "OFFSET", "DISTINCT", "REDUCED"), _NO_MODIFIERS),
}
_IN_PATTERNS = {
    **dict.fromkeys(("NOT", "!"), _ABSENCE),
    **dict.fromkeys(("THEN", "FOLLOWED", "FOLLOWEDBY", "FOLLOWED_BY", "SEQ", "NEXT", "->", "=>", "→", ";"), _SEQUENCE),
    **dict.fromkeys(("&&", "&", ","), "write LEFT AND RIGHT"),
    **dict.fromkeys(("||", "|"), "write LEFT OR RIGHT, or LEFT ALONGSIDE RIGHT for events at the same time"),
    **dict.fromkeys(("WHERE", "IF"), "write FILTER(…) after the pattern, or a FILTER in the body of an EVENT"),
    "IN": "write WITHIN and a duration",
    "*": "write LEFT{3} for three of them, or LEFT+ EVERY 1 min for a run",
}
_IN_LISTS = {",": "write the variables without commas", "(": f"select variables only; {NO_AGGREGATES}"}
_IN_BRACES = {",": "write one number: a{3} is three of them, a+ EVERY 1 min a run of any number"}
_QUERY_FORMS = frozenset({"SELECT", "CONSTRUCT", "ASK", "DESCRIBE"})
_SIGN = re.compile(r"->|=>|&&|\|\||[A-Za-z_]\w*|[^\s\w]")
_WORD_BEFORE = re.compile(r"[A-Za-z_]\w*(?=\s*\Z)")
_DECLARED = re.compile(r"\bEVENT\s+([A-Za-z_]\w*)", re.IGNORECASE)


def foreign_sign(document: Document, position: int, accepted: Collection[str] = ()) -> SubscriptionError | None:
    """The error for a word or sign of another language at or just before a position; None if there is none.

    ``accepted`` are the kinds of terminals that the grammar accepts at the position.

    >>> print(foreign_sign(Document("EVENT a EVENT b WHEN a THEN b"), 23, {"AND"}).advice)
    write a BEFORE b WITHIN 5 min, with a duration of yours
    """
    declared = {name.upper() for name in _DECLARED.findall(document.text)}
    known = _known_signs(accepted)
    for match in (_SIGN.match(document.text, position), _WORD_BEFORE.search(document.text[:position])):
        sign = match[0].upper() if match else ""
        if match is not None and sign in known and sign not in declared:
            advice = _with_names(known[sign], _neighbours(document.text, *match.span()))
            return document.refusal(f"'{match[0]}' cannot stand here", match.start(), advice)
    return None


def unreadable_sign(
    document: Document, error: SubscriptionError, accepted: Collection[str]
) -> SubscriptionError | None:
    """The error for a sign that is no token; ``accepted`` is what the grammar accepts where tokens end."""
    before = document.text[: error.position]
    if not re.search(r"\bSUBSCRIPTION\b", before, re.IGNORECASE):
        start = re.search(r"\S+", document.text)
        return document_start(document, start[0] if start else "", start.start() if start else 0)
    if "PREFIX" in accepted:  # the text could not be split into tokens
        accepted = {"AND"} if re.search(r"\bWHEN\b", before, re.IGNORECASE) else ()
    return foreign_sign(document, error.position, accepted)


def _known_signs(accepted: Collection[str]) -> dict[str, str]:
    if "AND" in accepted or {"NAME", "LPAR"} <= set(accepted):
        return _EVERYWHERE | _IN_PATTERNS
    if "VAR" in accepted:
        return _EVERYWHERE | _IN_LISTS
    return _EVERYWHERE | _IN_BRACES if "RBRACE" in accepted else _EVERYWHERE


def _with_names(advice: str, names: tuple[str, str]) -> str:
    return re.sub("LEFT|RIGHT", lambda word: names[word[0] == "RIGHT"], advice)


def _neighbours(text: str, start: int, end: int) -> tuple[str, str]:
    """The event names around a sign, for an example; ``x`` and ``y`` where there are none."""
    left = re.search(r"([A-Za-z_]\w*)(?:\s+AND)?\s*\Z", text[:start], re.IGNORECASE)
    right = re.match(r"(?:\s*BY)?\s*([A-Za-z_]\w*)", text[end:], re.IGNORECASE)
    return (
        left[1] if left and left[1].upper() not in ("WHEN", "AND") else "x",
        right[1] if right else "y",
    )


def document_start(document: Document, word: str, position: int) -> SubscriptionError:
    """The error for a text that does not begin with a prologue and SUBSCRIPTION.

    >>> print(document_start(Document("ASK { ?s ?p ?o }"), "ASK", 0).advice)
    only SELECT ?g … WHERE { GRAPH ?g { … } } can be a subscription, with --syntax sparql (syntax="sparql" in calls)
    """
    refuse = document.refusal
    if word.upper() == "SELECT" and re.search(r"\bGRAPH\b", document.text, re.IGNORECASE):
        advice = 'read it with --syntax sparql (syntax="sparql" in calls)'
        return refuse("this is a SPARQL query, not a subscription of the motet syntax", position, advice)
    if word.upper() in _QUERY_FORMS:
        advice = "only SELECT ?g … WHERE { GRAPH ?g { … } } can be a subscription, with --syntax sparql"
        message = "this is a SPARQL query, not a subscription of the motet syntax"
        return refuse(message, position, f'{advice} (syntax="sparql" in calls)')
    if word.upper() == "EVENT":
        return refuse("SUBSCRIPTION is missing", position, "begin with SUBSCRIPTION and a name")
    if word.lower() == "@prefix":
        return refuse("this is a prefix of Turtle", position, "write PREFIX ex: <…>, without @ and without a dot")
    advice = "write SUBSCRIPTION name EVENT … WHEN …; for another syntax say --syntax sparql, jtang or cecube"
    return refuse(f"'{word}' cannot begin a subscription" if word else "there is no subscription", position, advice)


class _Group(NamedTuple):
    """Terminals that are listed by one text when all of them are possible."""

    terminals: frozenset[str]
    text: str


_RELATIONS = frozenset({"BEFORE", "AFTER", "MEETS", "MET", "OVERLAPS", "OVERLAPPED", "STARTS", "STARTED", "DURING"}) | {
    "INCLUDES", "FINISHES", "FINISHED", "EQUALS", "ALONGSIDE",
}  # fmt: skip
_GROUPS = (
    _Group(
        _RELATIONS | {"AND", "OR", "XOR", "UNLESS", "WITHOUT", "FILTER"},
        "an operator (AND, OR, XOR, BEFORE or another time relation, UNLESS, WITHOUT, FILTER)",
    ),
    _Group(frozenset({"REPEAT", "PLUS"}), "{n} or +"),
    _Group(frozenset({"SELECT", "CONSTRUCT", "SIGNAL", "EVENTS"}), "a delivery clause (SELECT, CONSTRUCT, …)"),
    _Group(frozenset({"IRIREF", "PNAME", "PREFIX_NAME", "COLON"}), "an IRI"),
    _Group(frozenset({"INTEGER", "DECIMAL", "DOUBLE"}), "a number"),
)
_TEXTS = {
    "SUBNAME": "a subscription's name",
    "NAME": "a name",
    "BODY": "'{'",
    "TEMPLATE": "'{'",
    "XML_BLOCK": "XML { <element>…</element> }",
    "XML_TEMPLATE": "XML { <element>…</element> }",
    "REPEAT": "'{'",
    "EXPRESSION": "'('",
    "LPAR": "'('",
    "RPAR": "')'",
    "RBRACE": "'}'",
    "STAR": "'*'",
    "PLUS": "'+'",
    "COLON": "':'",
    "DATATYPE_SIGN": "'^^'",
    "IRIREF": "an IRI",
    "PNAME": "a prefixed name",
    "PREFIX_NAME": "a prefix",
    "VAR": "a variable",
    "STRING": "a string",
    "INTEGER": "a number",
    "$END": "the end",
}


def expected_text(accepted: Collection[str]) -> str:
    """What may stand at a place, by the kinds of terminals the grammar accepts there.

    >>> expected_text({"LPAR", "NO", "NAME"})
    "expected '(', NO or a name"
    """
    rest, texts = set(accepted), []
    for group in _GROUPS:
        if group.terminals <= rest:
            rest -= group.terminals
            texts.append(group.text)
    texts += sorted({_TEXTS.get(kind, kind) for kind in rest})
    listed = ", ".join(texts[:-1]) + f" or {texts[-1]}" if len(texts) > 1 else texts[0]
    return f"expected {listed}"
