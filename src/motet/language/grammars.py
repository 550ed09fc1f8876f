"""Runs a small Lark grammar over a document and turns what Lark reports into refusals with a place."""

from __future__ import annotations

from functools import cache
from typing import Any

from lark import Lark, Token, Transformer_NonRecursive, UnexpectedInput, UnexpectedToken
from lark.exceptions import VisitError

from motet.sparql.tokens import MAX_EXPRESSION, Document


def transformed(
    grammar: str, document: Document, text: str, builder: Transformer_NonRecursive[Token, Any], fault: tuple[str, str]
) -> Any:
    """What the builder makes of a text; ``fault`` is the message and advice for a text that does not fit the grammar.

    ``text`` is the document's, with what was read already blanked.
    """
    if len(text.strip()) > MAX_EXPRESSION:
        message = f"a document of this syntax may have {MAX_EXPRESSION} characters"
        raise document.refusal(message, MAX_EXPRESSION, "split it into several documents")
    try:
        return builder.transform(_parser(grammar).parse(text))
    except VisitError as error:  # Lark wraps what a rule's method raises
        raise error.orig_exc from None
    except UnexpectedInput as error:
        at_end = isinstance(error, UnexpectedToken) and error.token.type == "$END"
        position = len(document.text.rstrip()) if at_end else error.pos_in_stream
        raise document.refusal(fault[0], position or 0, fault[1]) from None


@cache
def _parser(grammar: str) -> Lark:
    return Lark.open(grammar, rel_to=__file__, parser="lalr", start="document")
