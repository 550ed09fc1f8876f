"""What every class code can do."""

from __future__ import annotations

from typing import Protocol

import numpy as np
from numpy.typing import NDArray

from motet.ontology.hierarchy import Hierarchy

Nodes = NDArray[np.int64]


class Codes(Protocol):
    """Codes for the nodes of a hierarchy. Classes are given by their node: ``hierarchy.node_of[name]``."""

    @property
    def hierarchy(self) -> Hierarchy: ...

    @property
    def bits(self) -> int:
        """Bits of the longest code."""
        ...

    def subsumes(self, upper: Nodes, lower: Nodes) -> NDArray[np.bool_]:
        """Element by element, whether the upper class has every member of the lower one; the arrays broadcast."""
        ...
