"""Lists of data files that share their elements."""

import pickle

from hypothesis import given
from hypothesis import strategies as st

from motet.lake.snapshot import DataFile, FileList


def file(number: int) -> DataFile:
    return DataFile(str(number), number, number + 1, 1, 1)


@given(st.lists(st.tuples(st.integers(0, 30), st.integers(0, 3)), max_size=30))
def test_a_list_never_changes(steps: list[tuple[int, int]]) -> None:
    """Extending any of the lists leaves the elements of all others unchanged."""
    made: list[tuple[FileList, tuple[DataFile, ...]]] = [(FileList(), ())]
    for number, (which, count) in enumerate(steps):
        files, expected = made[which % len(made)]
        more = [file(100 * number + n) for n in range(count)]
        made.append((files.extended(more), (*expected, *more)))
    for files, expected in made:
        assert (tuple(files), len(files), files[:], files[1:-1]) == (expected, len(expected), expected, expected[1:-1])
        assert files == FileList(expected)
        assert pickle.loads(pickle.dumps(files)) == files  # noqa: S301  (our own bytes)
        assert not expected or (files[-1], files[0]) == (expected[-1], expected[0])
