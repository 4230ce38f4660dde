"""A principal between two brokers: Kafka's bytes, and what is not one."""

import io

import pytest
from kio.schema.default_principal_data.v0.data import DefaultPrincipalData as KioPrincipal
from kio.serial import entity_writer

from moldau.protocol.primitives import MalformedMessage
from moldau.protocol.principal_data import (
    ANONYMOUS,
    DefaultPrincipalData,
    decode_principal,
    encode_principal,
)


def test_the_bytes_are_those_of_kafka() -> None:
    buffer = io.BytesIO()
    entity_writer(KioPrincipal)(buffer, KioPrincipal(type_="User", name="alice", token_authenticated=True))
    ours = encode_principal(DefaultPrincipalData("User", "alice", True))
    assert ours == b"\x00\x00" + buffer.getvalue()
    assert decode_principal(ours) == DefaultPrincipalData("User", "alice", True)
    assert decode_principal(encode_principal(ANONYMOUS)) == ANONYMOUS


@pytest.mark.parametrize("content", [b"", b"\x00", b"\x00\x01abc", b"\x00\x00\x09ab"])
def test_what_is_no_principal(content: bytes) -> None:
    with pytest.raises(MalformedMessage):
        decode_principal(content)
