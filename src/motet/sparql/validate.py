"""The variables of a stretch of SPARQL that can be understood; what cannot is refused with an offset into the text.

Results are kept for a while: subscriptions made by programs repeat their bodies.
"""

from __future__ import annotations

from functools import lru_cache

from motet.model.errors import SubscriptionError

_ADVICE = "a BIND variable must be new in its group, a blank node belongs to one group, a VALUES row has every value"


@lru_cache(maxsize=4096)
def group_variables(text: str) -> frozenset[str]:
    """The variables a group graph pattern may bind.

    >>> sorted(group_variables("?a <urn:p> ?b FILTER ( ?c > 1 )"))
    ['a', 'b']
    """
    from motet.sparql.parse_cache import checked_group
    from motet.sparql.scope import in_scope

    try:
        return in_scope(checked_group(text))
    except SubscriptionError as error:
        raise _with_advice(error) from None


@lru_cache(maxsize=4096)
def expression_variables(text: str) -> frozenset[str]:
    """The variables an expression mentions.

    >>> sorted(expression_variables("?a > ?b"))
    ['a', 'b']
    """
    from motet.sparql.parse_cache import checked_expression
    from motet.sparql.scope import mentioned

    return mentioned(checked_expression(text))


@lru_cache(maxsize=4096)
def check_template(text: str) -> None:
    """Refuse what is no CONSTRUCT template; its variables are simply those written in it."""
    import pyoxigraph

    try:
        pyoxigraph.Store().query(f"CONSTRUCT {{ {text} }} WHERE {{ FILTER(false) }}")
    except SyntaxError:
        raise SubscriptionError("not a template of triples", text=text, position=0, advice="no paths here") from None


def _with_advice(error: SubscriptionError) -> SubscriptionError:
    if error.advice is not None:
        return error
    return SubscriptionError(error.message, text=error.text, position=error.position, advice=_ADVICE)
