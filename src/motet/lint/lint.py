"""Runs all lint rules over all subscriptions.

| rule | severity | reports |
|---|---|---|
| times-never-fit | error | operators, windows and FILTERs on DURING leave no times (limits, Allen path consistency) |
| conditions-never-hold | error | conditions that are never true together, in one event or in events that are joined |
| contradicts-ontology | error | a leaf, condition or join that no event agreeing with the ontology can match |
| part-never-matches | warning | one of the errors above, in a part without which the pattern can still match |
| idle-guard | warning | UNLESS or WITHOUT without effect |
| unknown-class, unknown-property | warning | not in the ontology |
| same-as-another | warning | equal to an earlier subscription |
| construct-cycle | error | derived events feed each other in a cycle |
| covered-by-another | hint | its events are always those of a notification of another subscription |
| unbounded-state, unbounded-keys, unbounded-count, many-pairs, matches-everything | warning | holds much state |
| long-window | hint | longer than a day |
| unrelated-pair, similar-variables, never-bound, string-comparison | warning | probably a mistake |
| latest-of-all | warning, hint | recent keeps one occurrence of all, because the sides of a pair share no variable |
| selected-key | warning, hint | an iteration counts per value of a delivered variable |
| used-once, may-be-unbound, time-without-zone | hint | perhaps a mistake |
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass

from motet.language.syntax import Subscription
from motet.lint import suspicious
from motet.lint.diagnostics import Diagnostic, LocatedDiagnostic
from motet.lint.ontology_rules import OntologyRules
from motet.lint.redundant import Subsumes, construct_cycles, redundant, same_class
from motet.lint.unsatisfiable import pattern_alternatives
from motet.ontology.entailment import Reasoner
from motet.ontology.load import Ontology


@dataclass(frozen=True, slots=True)
class SubscriptionDocument:
    """Subscriptions and the text they were read from."""

    text: str
    subscriptions: tuple[Subscription, ...]
    source: str | None = None


def lint(documents: Iterable[SubscriptionDocument], ontology: Ontology | None = None) -> tuple[LocatedDiagnostic, ...]:
    """The diagnostics of documents, in their order, then by position.

    >>> from motet.language.parse import parse
    >>> text = "SUBSCRIPTION quiet EVENT a : <urn:C> WHEN NO a FOR 10 min WITHIN 5 min"
    >>> print(lint([SubscriptionDocument(text, parse(text))])[0])
    line 1, column 59: error[times-never-fit] quiet: no times fit: NO a FOR 10 min lasts 10 min; WITHIN 5 min
      SUBSCRIPTION quiet EVENT a : <urn:C> WHEN NO a FOR 10 min WITHIN 5 min
                                                                ^
      each of these is possible alone, but not all together: make a window longer, or drop one of them
    """
    documents = tuple(documents)
    reasoner = Reasoner(ontology.triples) if ontology is not None else None
    rules = OntologyRules(ontology, reasoner) if ontology is not None and reasoner is not None else None
    subscriptions = [subscription for document in documents for subscription in document.subscriptions]
    redundancies = [
        *redundant(subscriptions, _subsumption(ontology)),
        *construct_cycles(subscriptions, reasoner),
    ]
    diagnostics: list[LocatedDiagnostic] = []
    for document in documents:
        for subscription in document.subscriptions:
            reported = [*_diagnostics(subscription, document.text, rules), *_redundancies(subscription, redundancies)]
            diagnostics += [
                LocatedDiagnostic(subscription.name, diagnostic, document.text, document.source)
                for diagnostic in sorted(dict.fromkeys(reported), key=lambda diagnostic: diagnostic.position)
            ]
    return tuple(diagnostics)


def _diagnostics(subscription: Subscription, text: str, rules: OntologyRules | None) -> Iterator[Diagnostic]:
    possible = pattern_alternatives(subscription, text, rules.ranges if rules is not None else None)
    yield from possible.diagnostics
    if rules is not None:
        for event in subscription.events:
            yield from rules.diagnostics(event, text)
    yield from suspicious.state_size_diagnostics(subscription)
    yield from suspicious.suspicious_diagnostics(subscription, possible.alternatives, text)


def _redundancies(
    subscription: Subscription, redundancies: Sequence[tuple[Subscription, Diagnostic]]
) -> Iterator[Diagnostic]:
    return (diagnostic for about, diagnostic in redundancies if about is subscription)


def _subsumption(ontology: Ontology | None) -> Subsumes:
    if ontology is None:
        return same_class
    return lambda wider, narrower: wider == narrower or wider in ontology.superclasses(narrower)
