"""Reads the subscriptions of several files, in any surface syntax or as RDF."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path

from motet.language.parse import parse
from motet.language.syntax import Subscription
from motet.model.batches import Triple
from motet.model.errors import UsageError
from motet.model.terms import RDF_TYPE
from motet.sparql.prologue import read_prologue
from motet.sparql.tokens import Document

SubscriptionFile = tuple[str, tuple[Subscription, ...], str]  # text, subscriptions, path


def load_subscriptions(paths: Sequence[str], *, syntax: str = "motet") -> tuple[Subscription, ...]:
    """The subscriptions of several files; two files must not contain the same name."""
    documents = load_documents(paths, syntax=syntax)
    return tuple(subscription for _, subscriptions, _ in documents for subscription in subscriptions)


def load_documents(paths: Sequence[str], *, syntax: str = "motet") -> list[SubscriptionFile]:
    """The text, subscriptions and path of each file; two files must not contain the same name."""
    paths_by_name: dict[str, str] = {}
    documents: list[SubscriptionFile] = []
    for path in paths:
        text = _read(existing_file(path, "subscription file"))
        subscriptions = parse(text, syntax=syntax, source=path)
        for subscription in subscriptions:
            if subscription.name in paths_by_name:
                raise UsageError(
                    f"{path}: subscription {subscription.name!r} is also in {paths_by_name[subscription.name]}",
                    advice="Give one of them another name.",
                )
            paths_by_name[subscription.name] = path
        documents.append((text, subscriptions, path))
    return documents


def load_rdf_subscriptions(paths: Sequence[str]) -> tuple[Subscription, ...]:
    """The subscriptions that RDF files describe, each file in the format of its name."""
    from motet.language.rdf import from_rdf
    from motet.ontology.load import read_ontology_file

    subscriptions: dict[str, Subscription] = {}
    for path in paths:
        for triples in _split_by_subscription(read_ontology_file(Path(path)).triples, path):
            subscription = from_rdf(triples)
            if subscription.name in subscriptions:
                message = f"{path}: there is another subscription {subscription.name!r}"
                raise UsageError(message, advice="Give one of them another name.")
            subscriptions[subscription.name] = subscription
    return tuple(subscriptions.values())


def rdf_prefixes(paths: Sequence[str]) -> dict[str, str]:
    """The prefixes that RDF files declare; a later file wins."""
    from motet.ontology.load import read_ontology_file

    return {name: iri for path in paths for name, iri in read_ontology_file(Path(path)).prefixes.items()}


def _split_by_subscription(triples: Iterable[Triple], path: str) -> list[list[Triple]]:
    """The triples of each subscription: those reachable from its node."""
    from motet.language.rdf import term

    by_subject: defaultdict[str, list[Triple]] = defaultdict(list)
    for triple in triples:
        by_subject[triple[0]].append(triple)
    type_ = term("Subscription")
    roots = [subject for subject, about in by_subject.items() if any((p, o) == (RDF_TYPE, type_) for _, p, o in about)]
    if not roots:
        raise UsageError(f"{path} describes no subscription", advice=f"A resource of the type {type_} is required.")
    return [_reachable(root, by_subject) for root in sorted(roots)]


def _reachable(root: str, by_subject: Mapping[str, list[Triple]]) -> list[Triple]:
    triples: list[Triple] = []
    visited, stack = {root}, [root]
    while stack:
        about = by_subject.get(stack.pop(), [])
        triples += about
        new = {o for _, _, o in about} - visited
        visited |= new
        stack += sorted(new)
    return triples


def declared_prefixes(documents: Iterable[SubscriptionFile]) -> dict[str, str]:
    """The prefixes that subscription files declare; a later file wins."""
    prefixes: dict[str, str] = {}
    for text, _, path in documents:
        prefixes |= read_prologue(Document(text, path))[0].prefixes
    return prefixes


def existing_file(path: str, kind: str) -> Path:
    """The path of a file that the user names, refused when there is no such file."""
    if not Path(path).is_file():
        raise UsageError(f"there is no {kind} {path!r}", advice="Check the path; directories are not read.")
    return Path(path)


def _read(path: Path) -> str:
    try:
        return path.read_text(encoding="utf-8-sig")
    except UnicodeDecodeError as error:
        raise UsageError(f"{path}: not UTF-8 at byte {error.start}", advice="Save the file as UTF-8.") from None
