"""All rules over all subscriptions: the one way in.

| rule | severity | what it says |
|---|---|---|
| times-never-fit | error | operators, windows and FILTERs on DURING leave no times (limits, Allen path consistency) |
| conditions-never-hold | error | conditions that are never true together, in one event or in events that are joined |
| contradicts-ontology | error | a leaf that no event agreeing with the ontology can match |
| part-never-matches | warning | one of the errors above, in a part without which the pattern can still match |
| idle-guard | warning | UNLESS or WITHOUT that can never stand in the way |
| unknown-class, unknown-property | warning | not in the ontology |
| same-as-another | warning | equal to an earlier subscription |
| covered-by-another | hint | tells nothing that another one does not tell |
| unbounded-state, unbounded-keys, unbounded-count, many-pairs, matches-everything | warning | holds much state |
| long-window | hint | longer than a day |
| unrelated-pair, similar-variables, never-bound | warning | probably a slip |
| used-once, may-be-unbound | hint | perhaps a slip |
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass

from motet.language.syntax import Subscription
from motet.lint import state_size, suspicious
from motet.lint.diagnostics import Finding, Found
from motet.lint.ontology_rules import Vocabulary
from motet.lint.redundant import Subsumes, rivals, same_class
from motet.lint.unsatisfiable import ways
from motet.ontology.load import Ontology


@dataclass(frozen=True, slots=True)
class Document:
    """Subscriptions and the text they were read from."""

    text: str
    subscriptions: tuple[Subscription, ...]
    source: str | None = None


def lint(documents: Iterable[Document], ontology: Ontology | None = None) -> tuple[Finding, ...]:
    """Everything there is to say about some documents, in their order, then by place.

    >>> from motet.language.parse import parse
    >>> text = "SUBSCRIPTION quiet EVENT a : <urn:C> WHEN NO a FOR 10 min WITHIN 5 min"
    >>> print(lint([Document(text, parse(text))])[0])
    line 1, column 59: error[times-never-fit] quiet: no times fit: NO a FOR 10 min lasts 10 min; WITHIN 5 min
      SUBSCRIPTION quiet EVENT a : <urn:C> WHEN NO a FOR 10 min WITHIN 5 min
                                                                ^
      each of these can be kept alone, not all together: make a window longer, or drop one of them
    """
    documents = tuple(documents)
    vocabulary = Vocabulary(ontology) if ontology is not None else None
    everyone = [one for document in documents for one in document.subscriptions]
    among = list(rivals(everyone, _subsumption(ontology)))
    findings: list[Finding] = []
    for document in documents:
        for subscription in document.subscriptions:
            found = [*_alone(subscription, document.text, vocabulary), *_about(subscription, among)]
            own = sorted(dict.fromkeys(found), key=lambda one: one.position)
            findings += [Finding(subscription.name, one, document.text, document.source) for one in own]
    return tuple(findings)


def _alone(subscription: Subscription, text: str, vocabulary: Vocabulary | None) -> Iterator[Found]:
    possible = ways(subscription, text)
    yield from possible.found
    if vocabulary is not None:
        for event in subscription.events:
            yield from vocabulary.found(event, text)
    yield from state_size.found(subscription)
    yield from suspicious.found(subscription, possible.parts, text)


def _about(subscription: Subscription, among: Sequence[tuple[Subscription, Found]]) -> Iterator[Found]:
    return (found for other, found in among if other is subscription)


def _subsumption(ontology: Ontology | None) -> Subsumes:
    if ontology is None:
        return same_class
    return lambda wider, narrower: wider == narrower or wider in ontology.superclasses(narrower)
