"""What may be said of formats and schemas, and what is refused with a hint."""

import pytest

from moldau.spark.options import READ, WRITE, OptionError
from moldau.spark.typed.options import RegistryOptions, SideOptions, TypedOptions, typed_options

SERVERS = {"kafka.bootstrap.servers": "localhost:9092"}
URL = {"schema.registry.url": "http://r:8081"}


def read(**more: str) -> TypedOptions:
    return typed_options({**SERVERS, **{k.replace("_", "."): v for k, v in more.items()}}, READ)


def test_nothing_said_is_bytes() -> None:
    assert read() == TypedOptions()
    assert read().plain
    assert read(value_format="BYTES", key_format="bytes").plain
    assert not read(value_format="string").plain
    assert not read(flatten="true").plain
    assert not typed_options({**SERVERS, **URL}, READ).plain


def test_what_is_said_of_a_side() -> None:
    found = typed_options(
        {
            **SERVERS,
            **URL,
            "schema.registry.basic.auth.user.info": "ann:se:cret",
            "schema.registry.ssl.ca.location": "/ca.pem",
            "value.format": "Avro",
            "value.subject": "s",
            "value.schema.version": "3",
            "key.schema.version": "latest",
        },
        READ,
    )
    assert found.registry == RegistryOptions("http://r:8081", "ann", "se:cret", "/ca.pem")
    assert found.value == SideOptions("value", "avro", None, "s", 3)
    assert found.key == SideOptions("key", None, None, None, "latest")


@pytest.mark.parametrize(
    ("given", "message"),
    [
        ({"value.format": "xml"}, "bytes, string, json, avro or protobuf, not 'xml'"),
        ({"value.format": "avro"}, "needs a schema: set schema.registry.url, or value.schema"),
        ({"key.schema": "INT"}, "key.schema needs key.format"),
        ({"value.format": "string", "value.schema": "x"}, "no meaning with value.format=string"),
        ({"value.subject": "s"}, "need schema.registry.url"),
        (
            {"value.format": "json", "value.schema": "a INT", "value.message": "M"},
            "for value.format=protobuf",
        ),
        (
            {**URL, "value.format": "avro", "value.schema": "x", "value.schema.version": "1"},
            "set one of them",
        ),
        ({**URL, "value.schema.version": "0"}, "a number from 1 on or latest"),
        ({"decode.errors": "skip"}, "fail, null or dead-letter, not 'skip'"),
        ({"dead.letter.topic": "x"}, "needs decode.errors=dead-letter"),
        ({"error.column": "x"}, "needs decode.errors=null"),
        ({"flatten": "maybe"}, "flatten is true or false"),
        ({"schema.registry.basic.auth.user.info": "a:b"}, "needs schema.registry.url"),
        ({**URL, "schema.registry.basic.auth.user.info": "ann"}, "is user:password"),
        ({"value.fromat": "avro"}, "did you mean 'value.format'"),
    ],
)
def test_what_is_refused(given: dict[str, str], message: str) -> None:
    with pytest.raises(OptionError) as refused:
        typed_options({**SERVERS, **given}, READ)
    assert message in str(refused.value)


def test_writing_json_needs_no_schema() -> None:
    assert typed_options({**SERVERS, "value.format": "json"}, WRITE).value.format == "json"
    with pytest.raises(OptionError, match="'flatten' is for read"):
        typed_options({**SERVERS, "flatten": "true"}, WRITE)


def test_infer_is_for_reading_json() -> None:
    found = read(value_format="json", value_schema="infer").value
    assert (found.infers, found.inferred) == (True, None)
    found = read(value_format="json", value_schema="Infer: id BIGINT").value
    assert (found.infers, found.inferred) == (True, "id BIGINT")
    assert not read(value_format="json", value_schema="infer BIGINT").value.infers, (
        "a field may have that name"
    )
    with pytest.raises(OptionError, match=r"is for reading with value\.format=json"):
        read(value_format="avro", value_schema="infer")
    with pytest.raises(OptionError, match="is for reading"):
        typed_options({**SERVERS, "value.format": "json", "value.schema": "infer"}, WRITE)
    with pytest.raises(OptionError, match="or to infer"):
        read(value_format="json")
