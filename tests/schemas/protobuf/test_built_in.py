"""What a Protobuf schema may import although nobody registered it."""

import base64

import pytest
from google.protobuf import descriptor_pb2
from google.type import date_pb2

from moldau.schemas.limits import InvalidSchema
from moldau.schemas.protobuf.built_in import built_in
from moldau.schemas.protobuf.schema import parse_protobuf

HEAD = 'syntax = "proto3";\n'


@pytest.mark.parametrize("name", ["calendar_period", "date", "datetime", "dayofweek", "money", "timeofday"])
def test_common_types_of_google(name):
    path = f"google/type/{name}.proto"
    assert path in built_in([f'import "{path}";'])
    assert path not in built_in([HEAD])


def test_a_schema_with_a_common_type():
    text = f'{HEAD}import "google/type/date.proto";\nmessage Order {{ google.type.Date day = 1; }}\n'
    schema = parse_protobuf(text, {})
    assert schema.types["google.type.Date"].file == "google/type/date.proto"


def test_a_descriptor_with_a_common_type_as_pythons_client_sends_it():
    file = descriptor_pb2.FileDescriptorProto(name="o.proto", syntax="proto3")
    file.dependency.append(date_pb2.DESCRIPTOR.name)
    file.message_type.add(name="Order").field.add(
        name="day", number=1, type=11, label=1, type_name=".google.type.Date"
    )
    sent = base64.b64encode(file.SerializeToString()).decode()
    assert 'import "google/type/date.proto";' in parse_protobuf(sent, {}).text


@pytest.mark.parametrize(
    ("path", "kind"),
    [
        ("confluent/type/decimal.proto", "confluent.type.Decimal"),
        ("confluent/types/decimal.proto", "confluent.type.Decimal"),
        ("confluent/type/variant.proto", "confluent.type.Variant"),
        ("confluent/meta.proto", "confluent.Meta"),
    ],
)
def test_confluents_files(path, kind):
    text = f'{HEAD}import "{path}";\nmessage Order {{ {kind} value = 1; }}\n'
    assert parse_protobuf(text, {}).types[kind]


def test_their_bytes_are_those_of_confluents_own_classes():
    from confluent_kafka.schema_registry.confluent import meta_pb2
    from confluent_kafka.schema_registry.confluent.type import decimal_pb2, variant_pb2

    for path, module in (
        ("confluent/meta.proto", meta_pb2),
        ("confluent/type/decimal.proto", decimal_pb2),
        ("confluent/type/variant.proto", variant_pb2),
    ):
        theirs = descriptor_pb2.FileDescriptorProto.FromString(module.DESCRIPTOR.serialized_pb)
        ours = parse_protobuf(f'{HEAD}import public "{path}";\n', {}).types
        for message in theirs.message_type:
            found = ours[f"{theirs.package}.{message.name}"].descriptor
            numbers = [(each.name, each.number, each.type, each.label) for each in message.field]
            assert [(each.name, each.number, each.type, each.label) for each in found.field] == numbers


def test_nothing_else_can_be_imported():
    with pytest.raises(InvalidSchema, match="not found"):
        parse_protobuf(f'{HEAD}import "google/cloud/extended_operations.proto";\n', {})
