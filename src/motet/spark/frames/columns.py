"""The columns of a DataFrame by the names that users write, resolved as Spark resolves them.

A name is that of a column, also with dots in it; otherwise it is what Spark makes of it: in any case unless the session
is case-sensitive, in backticks, or a path into nested columns.
"""

from __future__ import annotations

from pyspark.errors import PySparkException
from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as f
from pyspark.sql.types import DataType, StructField

from motet.model.errors import UsageError


class FrameColumns:
    """Resolves names of columns; every name is resolved once."""

    def __init__(self, df: DataFrame) -> None:
        self._df = df
        self._resolved: dict[str, tuple[Column, StructField]] = {}

    def __contains__(self, name: object) -> bool:
        try:
            self.field(str(name))
        except UsageError:
            return False
        return True

    def column(self, name: str) -> Column:
        return self._resolve(name)[0]

    def field(self, name: str) -> StructField:
        """Name, type and metadata of a column in a result."""
        return self._resolve(name)[1]

    def type(self, name: str) -> DataType:
        return self.field(name).dataType

    def _resolve(self, name: str) -> tuple[Column, StructField]:
        if name not in self._resolved:
            is_name = name in self._df.columns
            column = f.col("`" + name.replace("`", "``") + "`" if is_name else name)
            try:
                fields = self._df.select(column).schema.fields
            except PySparkException as error:
                raise self._missing(name, error) from None
            if len(fields) != 1:
                raise UsageError(f"{name!r} is not one column", advice="name a single column")
            self._resolved[name] = column, fields[0]
        return self._resolved[name]

    def _missing(self, name: str, error: PySparkException) -> UsageError:
        columns = ", ".join(self._df.columns)
        if error.getCondition() == "AMBIGUOUS_REFERENCE":
            return UsageError(f"the DataFrame has several columns {name!r}", advice=f"rename one of {columns}")
        return UsageError(f"the DataFrame has no column {name!r}", advice=f"it has {columns}")
