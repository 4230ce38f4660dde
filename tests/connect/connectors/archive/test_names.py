"""Names of files in an archive."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from moldau.connect.connectors.archive.names import FileName, Flush, folder_of, value_of


def test_names() -> None:
    name = FileName("orders", 3, 0, 99, "parquet", "partition=3")
    assert name.path("topics") == "topics/orders/partition=3/orders+3+0000000000+0000000099.parquet"
    assert FileName.parse(name.path("topics"), "topics") == name
    assert FileName.parse("topics/_complete/orders/3/0000000000+0000000099", "topics") is None
    assert FileName.parse("topics/orders/partition=3/notes.txt", "topics") is None
    flush = Flush("orders", 3, 0, 99)
    assert Flush.parse(flush.path("topics"), "topics") == flush
    assert Flush.parse("topics/_complete/orders/x/1+2", "topics") is None


@pytest.mark.slow
@given(st.text(min_size=1))
def test_no_value_leads_out_of_its_folder(text: str) -> None:
    folder = folder_of("f", text)
    assert "/" not in folder
    assert folder not in ("f=.", "f=..")
    assert value_of(folder) == text
