"""A growing file: ends of lines, pieces, cuts and replacements."""

from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from moldau.connect.connectors.file.lines import GrowingFile


def texts(file: GrowingFile, limit: int = 100) -> list[str]:
    return [line.text for line in file.read(limit)]


def test_every_end_of_a_line(tmp_path: Path) -> None:
    path = tmp_path / "f"
    path.write_bytes(b"a\r\nb\rc\n\nd\npart")
    file = GrowingFile(path)
    assert texts(file) == ["a", "b", "c", "", "d"]
    with path.open("ab") as out:
        out.write(b"ial rest\r")
    assert texts(file) == []  # a line feed may follow
    with path.open("ab") as out:
        out.write(b"\nnext\n")
    assert texts(file) == ["partial rest", "next"]


def test_positions_are_bytes(tmp_path: Path) -> None:
    path = tmp_path / "f"
    path.write_text("é1\né2\né3\n")
    lines = GrowingFile(path).read(2)
    assert [line.position for line in lines] == [4, 8]
    assert texts(GrowingFile(path, 8)) == ["é3"]


def test_a_file_that_is_cut_is_read_anew(tmp_path: Path) -> None:
    path = tmp_path / "f"
    path.write_text("one\ntwo\n")
    file = GrowingFile(path)
    assert texts(file) == ["one", "two"]
    path.write_text("x\n")
    assert texts(file) == []
    assert texts(file) == ["x"]


def test_a_file_that_is_replaced_is_read_to_its_end_first(tmp_path: Path) -> None:
    path = tmp_path / "f"
    path.write_text("one\n")
    file = GrowingFile(path)
    assert texts(file, 1) == ["one"]
    with path.open("a") as out:
        out.write("two\n")
    path.rename(tmp_path / "f.1")
    path.write_text("three, which is longer\n")
    assert texts(file) == ["two"]
    assert texts(file) == []
    assert texts(file) == ["three, which is longer"]


def test_a_file_that_comes_later_and_long_lines(tmp_path: Path) -> None:
    path = tmp_path / "f"
    file = GrowingFile(path)
    assert texts(file) == []
    path.write_text("x" * 200_000 + "\n")
    assert texts(file) == ["x" * 200_000]


@pytest.mark.slow
@given(
    st.lists(st.binary(max_size=8).map(lambda raw: raw.replace(b"\n", b"").replace(b"\r", b""))), st.data()
)
def test_any_pieces_give_the_same_lines(rows: list[bytes], data: st.DataObject) -> None:
    import tempfile

    whole = b"".join(row + data.draw(st.sampled_from([b"\n", b"\r\n"])) for row in rows)
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "f"
        path.write_bytes(b"")
        file = GrowingFile(path)
        found: list[str] = []
        while whole:
            size = data.draw(st.integers(1, len(whole)))
            with path.open("ab") as out:
                out.write(whole[:size])
            whole = whole[size:]
            found += texts(file)
        assert found == [row.decode("utf-8", "replace") for row in rows]
