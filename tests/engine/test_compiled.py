"""Compiled code is kept, but not longer than its sources stay as they are."""

from __future__ import annotations

from pathlib import Path

from motet.engine import compiled
from motet.engine.match import search_kernels


def test_a_changed_part_is_a_change(tmp_path: Path) -> None:
    """What a kernel is made of includes the other kernels beside it and the texts."""
    part = tmp_path / "some_kernels.py"
    part.write_text("A = 1")
    before = compiled.sources(tmp_path)
    compiled.sources.cache_clear()
    part.write_text("A = 10")
    after = compiled.sources(tmp_path)
    assert [name for name, *_ in before] == [name for name, *_ in after]
    assert [one[0] for one, other in zip(before, after, strict=True) if one != other] == ["some_kernels.py"]
    assert {"texts.py", "search_kernels.py", "compiled.py"} <= {name for name, *_ in after}


def test_numba_is_told_of_all_parts() -> None:
    """The stamp that Numba compares is the state of all sources, not of a function's own file alone."""
    kept = search_kernels.search._cache._cache_file  # type: ignore[attr-defined]
    assert kept._source_stamp == compiled.sources(Path(search_kernels.__file__).parent)
