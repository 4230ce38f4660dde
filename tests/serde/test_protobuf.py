"""The Protobuf serializers over a real registry: generated classes, classes from descriptors, failures."""

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from moldau.client.registry.schema_registry import Reference
from moldau.serde.errors import SerdeError
from moldau.serde.options import ReaderOptions, WriterOptions
from moldau.serde.protobuf import ProtobufDeserializer, ProtobufSerializer
from tests.serde.messages import classes

TEXT = (
    'syntax = "proto3"; package p; message A { int64 id = 1; message In { string s = 1; } } '
    "message B { A.In inner = 1; }"
)
MADE = classes("tp/")
Order, Line, Other, Need = MADE["Order"], MADE["Line"], MADE["Other"], MADE["Need"]


def order(number=5):
    return Order(id=number, lines=[Line(sku="a"), Line(sku="b")], far={"x": 7}, at={"seconds": 9})


@pytest.mark.slow
def test_a_generated_class_there_and_back(registry, topic):
    data = ProtobufSerializer(registry, Order).serialize(topic, order())
    found = registry.version(f"{topic}-value")
    # The message is the second of its file: one index, which is 1.
    assert data[:7] == b"\x00" + found.schema_id.to_bytes(4, "big") + b"\x02\x02"
    assert data[7:] == order().SerializeToString()
    assert found.schema_type == "PROTOBUF"
    assert found.references == (Reference("tp/far.proto", "tp/far.proto", 1),)
    assert "message Order" in found.text
    read = ProtobufDeserializer(registry, Order)
    assert read.deserialize(topic, data) == order()
    assert read.deserialize(topic, data) == order()
    assert isinstance(read.deserialize(topic, data), Order)


def test_classes_made_from_the_registrys_descriptor(registry, topic):
    data = ProtobufSerializer(registry).serialize(topic, order())
    found = ProtobufDeserializer(registry).deserialize(topic, data)
    assert found.DESCRIPTOR.full_name == "shop.Order"
    assert (found.id, found.lines[1].sku, found.far.x, found.at.seconds) == (5, "b", 7, 9)
    as_dict = ProtobufDeserializer(registry, options=ReaderOptions(as_dict=True))
    assert as_dict.deserialize(topic, data) == {
        "id": "5", "lines": [{"sku": "a"}, {"sku": "b"}], "far": {"x": "7"}, "at": "1970-01-01T00:00:09Z",
    }  # fmt: skip


def test_the_first_message_and_one_inside_another(registry, topic):
    data = ProtobufSerializer(registry, Other).serialize(topic, Other(y="x"))
    assert data[5:6] == b"\x00"
    read = ProtobufDeserializer(registry)
    assert read.deserialize(topic, data).y == "x"
    assert read.deserialize(topic, data).y == "x"
    data = ProtobufSerializer(registry, Line).serialize(topic, Line(sku="x"))
    assert data[5:8] == b"\x04\x02\x00"
    assert read.deserialize(topic, data).sku == "x"


def test_text_and_dicts(registry, topic):
    write = ProtobufSerializer(registry, TEXT, message="p.B")
    data = write.serialize(topic, {"inner": {"s": "x"}})
    assert data[5:7] == b"\x02\x02"
    assert ProtobufDeserializer(registry).deserialize(topic, data).inner.s == "x"
    data = ProtobufSerializer(registry, TEXT, message="A.In").serialize(topic, {"s": "y"})
    assert data[5:8] == b"\x04\x00\x00"
    assert ProtobufSerializer(registry, TEXT).serialize(topic, {"id": 3})[5:] == b"\x00\x08\x03"
    with pytest.raises(SerdeError, match='no field named "nothing"'):
        write.serialize(topic, {"nothing": 1})
    with pytest.raises(SerdeError, match=r"no message 'C'; it has p\.A, p\.A\.In, p\.B"):
        ProtobufSerializer(registry, TEXT, message="C").serialize(topic, {})


def test_the_latest_version(registry, topic):
    registry.register(f"{topic}-value", TEXT, "PROTOBUF")
    newer = TEXT.replace("message A", "message B2 { A a = 1; } message A").replace(
        "int64 id = 1;", "int64 id = 1; int64 n = 2;"
    )
    registry.set_config("NONE", f"{topic}-value")
    made = registry.register(f"{topic}-value", newer, "PROTOBUF")
    options = WriterOptions(use_latest_version=True)
    data = ProtobufSerializer(registry, message="p.A", options=options).serialize(topic, {"id": 1, "n": 2})
    assert data[:7] == b"\x00" + made.to_bytes(4, "big") + b"\x02\x02"
    read = ProtobufDeserializer(registry, options=ReaderOptions(use_latest_version=True))
    assert read.deserialize(topic, data).n == 2


def test_headers_and_record_names(registry, topic):
    headers = []
    options = WriterOptions(schema_id_in="header", subject_name="topic-record")
    data = ProtobufSerializer(registry, Order, options=options).serialize(topic, order(), headers)
    assert data == order().SerializeToString()
    assert headers[0][0] == "__value_schema_id"
    assert headers[0][1][17:] == b"\x02\x02"
    assert ProtobufDeserializer(registry, Order).deserialize(topic, data, headers) == order()
    assert ProtobufDeserializer(registry).deserialize(topic, data, headers).id == 5
    assert registry.versions(f"{topic}-shop.Order") == [1]


def test_failures(registry, topic):
    write, read = ProtobufSerializer(registry, Order), ProtobufDeserializer(registry, Order)
    with pytest.raises(SerdeError, match=r"is no shop.Order: pass such a message, or a dict"):
        write.serialize(topic, Other(y="x"))
    with pytest.raises(SerdeError, match="is no message"):
        ProtobufSerializer(registry).serialize(topic, {"id": 1})
    with pytest.raises(SerdeError) as caught:
        ProtobufSerializer(registry, Need).serialize(f"{topic}-need", Need())
    assert caught.value.path == "x"
    data = write.serialize(topic, order())
    with pytest.raises(SerdeError, match=r"The data is no shop.Order, or is damaged"):
        read.deserialize(topic, data[:-1])
    with pytest.raises(SerdeError, match="ends within the indexes"):
        read.deserialize(topic, data[:5])
    with pytest.raises(SerdeError, match=r"names the message \[9\] of its schema"):
        read.deserialize(topic, data[:5] + b"\x02\x12" + data[7:])
    with pytest.raises(SerdeError, match=r"The data is a shop.Other, not a shop.Order"):
        read.deserialize(topic, data[:5] + b"\x00")
    with pytest.raises(SerdeError, match="The schema with the id 99999 cannot be had"):
        read.deserialize(topic, b"\x00\x00\x01\x86\x9f\x00")
    unregistered = ProtobufSerializer(registry, Order, options=WriterOptions(auto_register=False))
    with pytest.raises(SerdeError, match="not registered under the subject"):
        unregistered.serialize(f"{topic}-2", order())


@pytest.mark.slow
@settings(suppress_health_check=[HealthCheck.function_scoped_fixture, HealthCheck.too_slow], deadline=None)
@given(st.integers(-(2**63), 2**63 - 1), st.lists(st.text(), max_size=3))
def test_random_messages_go_there_and_back(registry, number, skus):
    value = Order(id=number, lines=[Line(sku=sku) for sku in skus])
    write, read = _kept(registry)
    assert read.deserialize("random", write.serialize("random", value)) == value


_KEPT = []


def _kept(registry):
    if not _KEPT:
        _KEPT.extend((ProtobufSerializer(registry, Order), ProtobufDeserializer(registry, Order)))
    return _KEPT
