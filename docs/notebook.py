"""Writes examples/detect_on_spark.ipynb: the cells of the example of that name, each with its output.

Run: python docs/notebook.py     (a test compares)
"""

import json
import re
from contextlib import redirect_stdout
from io import StringIO
from pathlib import Path

EXAMPLE = Path(__file__).parent.parent / "examples" / "detect_on_spark.py"
CELL = re.compile(r"^# %%(?P<markdown> \[markdown\])?\n", re.MULTILINE)


def notebook(example: Path = EXAMPLE) -> str:
    """The notebook as JSON; the example is run, cell by cell."""
    _, *parts = CELL.split(example.read_text(encoding="utf-8"))
    pairs = zip(parts[::2], parts[1::2], strict=True)
    scope: dict[str, object] = {}
    cells = [text_cell(source) if markdown else code_cell(source, scope) for markdown, source in pairs]
    for number, cell in enumerate((cell for cell in cells if cell["cell_type"] == "code"), start=1):
        cell["execution_count"] = number
    kernel = {"display_name": "Python 3", "language": "python", "name": "python3"}
    metadata = {"kernelspec": kernel, "language_info": {"name": "python"}}
    document = {"cells": cells, "metadata": metadata, "nbformat": 4, "nbformat_minor": 4}
    return json.dumps(document, ensure_ascii=False, indent=1, sort_keys=True) + "\n"


def text_cell(source: str) -> dict[str, object]:
    lines = [line.removeprefix("#").removeprefix(" ") for line in source.strip().split("\n")]
    return {"cell_type": "markdown", "metadata": {}, "source": "\n".join(lines).splitlines(keepends=True)}


def code_cell(source: str, scope: dict[str, object]) -> dict[str, object]:
    with redirect_stdout(StringIO()) as printed:
        exec(compile(source, EXAMPLE.name, "exec"), scope)  # noqa: S102  (our own example)
    text = printed.getvalue().splitlines(keepends=True)
    outputs = [{"name": "stdout", "output_type": "stream", "text": text}] if text else []
    lines = source.strip().splitlines(keepends=True)
    return {"cell_type": "code", "metadata": {}, "outputs": outputs, "source": lines}


if __name__ == "__main__":
    EXAMPLE.with_suffix(".ipynb").write_text(notebook(), encoding="utf-8")
