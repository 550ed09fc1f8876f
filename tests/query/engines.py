"""The engines that answer whole queries, by name: tests of queries and the W3C suites run on each of them.

What an engine cannot do it refuses by a MotetError.
"""

from __future__ import annotations

from collections.abc import Callable

from motet.sparql.algebra import Query
from motet.sparql.dataset import Dataset
from motet.sparql.query import Answer, answer

Engine = Callable[[Query, Dataset], Answer]
ENGINES: dict[str, Engine] = {"memory": answer}
