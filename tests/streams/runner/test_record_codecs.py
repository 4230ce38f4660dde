"""Columns become the values that serdes give one by one, and back."""

from typing import Any

import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from moldau.streams import Serdes, StreamsError
from moldau.streams.engine.records import Windowed
from moldau.streams.runner.record_codecs import Undecodable, decoder, encoder

VALUES: list[tuple[Any, Any]] = [
    (Serdes.string(), st.text()),
    (Serdes.long(), st.integers(-(2**63), 2**63 - 1)),
    (Serdes.integer(), st.integers(-(2**31), 2**31 - 1)),
    (Serdes.double(), st.floats(allow_nan=False)),
    (Serdes.json(), st.dictionaries(st.text(), st.integers())),
    (Serdes.bytes(), st.binary()),
]


@pytest.mark.slow
@given(st.data())
def test_columns_are_what_serdes_give(data: st.DataObject) -> None:
    serde, values = data.draw(st.sampled_from(VALUES))
    given_values = data.draw(st.lists(st.none() | values, max_size=5))
    column = encoder(serde, "t")(given_values)
    assert column.to_pylist() == [serde.serialize("t", value) for value in given_values]
    assert decoder(serde, "t")(column) == given_values
    if len(given_values) > 1:
        assert decoder(serde, "t")(column.slice(1)) == given_values[1:]


def test_what_does_not_decode_is_found() -> None:
    column = pa.array([b"12345678", b"short", b"x"], pa.binary())
    with pytest.raises(Undecodable) as caught:
        decoder(Serdes.long(), "t")(column)
    assert caught.value.at == 1
    with pytest.raises(Undecodable):
        decoder(Serdes.string(), "t")(pa.array([b"\xff"], pa.binary()))


@pytest.mark.parametrize("value", [True, "1", 2**70])
def test_a_value_of_another_type_is_refused(value: Any) -> None:
    with pytest.raises(StreamsError, match="cannot be written"):
        encoder(Serdes.long(), "t")([1, value])


def test_keys_of_windows_ask_for_their_serde() -> None:
    with pytest.raises(StreamsError, match="time_windowed"):
        encoder(Serdes.string(), "t")([Windowed("a", 0, 10)])


def test_without_a_serde_only_bytes_are_written() -> None:
    assert encoder(None, "t")([b"x", None]).to_pylist() == [b"x", None]
    with pytest.raises(StreamsError, match="no serde"):
        encoder(None, "t")([1])
