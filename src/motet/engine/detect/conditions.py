"""FILTERs across events: a SPARQL expression over the values of occurrences; an error is false."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

from motet.engine.detect.dictionary import Dictionary
from motet.engine.detect.grouping_kernels import first_equal
from motet.engine.detect.occurrences import UNBOUND, Ints
from motet.plan.nodes import variable_number
from motet.sparql.algebra import Expr
from motet.sparql.expressions import test
from motet.sparql.scope import variables_in_order


class Condition:
    """Evaluated once for each combination of values."""

    def __init__(self, expression: Expr) -> None:
        self._test = test(expression)
        self._names = list(variables_in_order(expression))

    def holds(self, values: Ints, names: Dictionary) -> npt.NDArray[np.bool_]:
        """For each row; values are given by variable and row."""
        known = [(variable_number(name), name) for name in self._names]
        used = [(column, name) for column, name in known if column < len(values)]
        count = values.shape[1]
        if not count:
            return np.zeros(0, np.bool_)
        columns = np.array([column for column, _ in used], np.int64)
        zeros = np.zeros(count + 1, np.int64)
        first = first_equal(np.ascontiguousarray(values), columns, zeros, np.empty(0, np.int64))
        truth = np.zeros(count, np.bool_)
        for row in np.unique(first).tolist():
            truth[row] = self._test(_bindings(values[:, row], used, names))
        return truth[first]


def _bindings(row: Ints, used: list[tuple[int, str]], names: Dictionary) -> dict[str, str]:
    return {name: names.string(int(row[column])) for column, name in used if row[column] != UNBOUND}
