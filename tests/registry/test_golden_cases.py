"""Cases that every schema registry is taught with: customers, contacts and sensor alerts, from end to end."""

import json

import pytest
from confluent_kafka import Producer
from confluent_kafka.schema_registry import SchemaRegistryClient
from confluent_kafka.schema_registry.avro import AvroDeserializer, AvroSerializer
from confluent_kafka.serialization import MessageField, SerializationContext, SerializationError

from moldau.serde.avro import AvroDeserializer as OwnDeserializer

VALUE = SerializationContext("customers", MessageField.VALUE)


def customer(*fields):
    optional = [{"name": name, "type": ["null", "string"], "default": None} for name in fields]
    known = [{"name": "id", "type": "int"}, {"name": "name", "type": "string"}]
    made = {"namespace": "customerManagement.avro", "type": "record", "name": "Customer"}
    return json.dumps({**made, "fields": [*known, *optional]})


FAX, EMAIL = customer("faxNumber"), customer("email")
_STREET = [
    {"name": name, "type": "string", "default": "NONE"} for name in ("street", "city", "state_prov", "zip")
]
_ADDRESS = {"type": "record", "name": "home_address", "fields": _STREET}
CONTACT = {
    "namespace": "avro.example",
    "type": "record",
    "name": "contactDetails",
    "fields": [
        {"name": "fullname", "type": "string", "default": "NONE"},
        {"name": "age", "type": "int", "default": -1},
        {"name": "cell_number", "type": "string", "default": "NONE"},
        {"name": "address", "type": _ADDRESS, "default": {}},
    ],
}
ALERT = {
    "namespace": "com.kafkainaction",
    "type": "record",
    "name": "Alert",
    "fields": [
        {"name": "sensor_id", "type": "long"},
        {"name": "time", "type": "long", "doc": "seconds since the epoch"},
        {
            "name": "status",
            "type": {"type": "enum", "name": "alert_status", "symbols": ["Critical", "Major", "Minor"]},
        },
    ],
}


@pytest.fixture
def running(start):
    with start() as running:
        yield running


@pytest.fixture
def client(running):
    return SchemaRegistryClient({"url": running.url})


def register(running, subject, schema):
    return running.http.post(f"/subjects/{subject}/versions", json={"schema": schema})


@pytest.mark.slow
def test_a_field_goes_and_another_comes_and_every_pair_understands_itself(running, client):
    """S3, SER-6, SER-11: both may be registered under FULL, and each reads what the other wrote."""
    assert running.http.put("/config", json={"compatibility": "FULL"}).status_code == 200
    assert register(running, "customers-value", FAX).json()["id"] == 1
    assert register(running, "customers-value", EMAIL).json()["id"] == 2
    ann = {"id": 1, "name": "Ann"}
    values = {FAX: {**ann, "faxNumber": "5"}, EMAIL: {**ann, "email": "a@b"}}
    for writer, value in values.items():
        data = AvroSerializer(client, writer, conf={"auto.register.schemas": False})(value, VALUE)
        for reader, other in values.items():
            read = AvroDeserializer(client, reader)(data, VALUE)
            assert read == (value if reader == writer else {**dict.fromkeys(other), **ann})


def test_defaults_within_defaults(running, client):
    """S4: an address that is left out has the defaults of its own fields; a zip is text."""
    assert register(running, "contacts-value", json.dumps(CONTACT)).status_code == 200
    before = {**CONTACT, "fields": [{"name": "fullname", "type": "string"}]}
    old = SerializationContext("old", MessageField.VALUE)
    data = AvroSerializer(client, json.dumps(before))({"fullname": "Bo"}, old)
    # Not confluent-kafka's: fastavro leaves an address without fields there.
    read = OwnDeserializer(running.url, json.dumps(CONTACT)).deserialize("old", data)
    nowhere = dict.fromkeys(("street", "city", "state_prov", "zip"), "NONE")
    assert read == {"fullname": "Bo", "age": -1, "cell_number": "NONE", "address": nowhere}
    numbers = json.dumps(CONTACT).replace('{"name": "zip", "type": "string", "default": "NONE"}', "%s")
    changed = register(running, "contacts-value", numbers % '{"name": "zip", "type": "int", "default": 0}')
    assert changed.json()["error_code"] == 409
    assert "zip" in changed.json()["message"]


def test_alerts(running, client):
    """S5, S6: an alert there and back, no symbol that the enum does not have, and a class made of it."""
    serialize = AvroSerializer(client, json.dumps(ALERT))
    alert = {"sensor_id": 12345, "time": 1_700_000_000, "status": "Critical"}
    assert AvroDeserializer(client)(serialize(alert, VALUE), VALUE) == alert
    with pytest.raises(Exception, match="Unknown"):
        serialize({**alert, "status": "Unknown"}, VALUE)
    from moldau.cli.commands.data.schemas_generate import module_text
    from moldau.registry.schemas import SchemaType, parse

    made: dict[str, object] = {}
    exec(module_text("alerts-value", 1, parse(SchemaType.AVRO, json.dumps(ALERT)), plain=True), made)
    assert made["Alert"](sensor_id=1, time=2, status=made["alert_status"].Critical).sensor_id == 1


def test_the_history_of_a_subject_and_a_broker_that_looks_at_none_of_it(running, client, broker):
    """S7, SER-7: a record carries an id and no schema, which makes it less than half as long."""
    register(running, "customers-value", FAX)
    register(running, "customers-value", EMAIL)
    versions = running.http.get("/subjects/customers-value/versions").json()
    texts = [
        running.http.get(f"/subjects/customers-value/versions/{number}/schema").text for number in versions
    ]
    assert [json.loads(text)["fields"][2]["name"] for text in texts] == ["faxNumber", "email"]
    data = AvroSerializer(client, EMAIL)({"id": 1, "name": "Ann", "email": None}, VALUE)
    assert data[:5] == b"\0" + (2).to_bytes(4, "big")
    assert 2 * len(data) < len(data) + len(EMAIL)
    producer = Producer({"bootstrap.servers": broker.bootstrap_servers})
    values = sorted([data, b"not Avro at all"])
    for value in values:
        producer.produce("customers", value)
    assert producer.flush(20) == 0
    assert sorted(record.value for record in broker.records("customers")) == values


def test_what_does_not_fit_is_refused_before_anything_is_written(running, client, broker):
    """S8, SER-10: at the producer by the registry, at the consumer by a clear error."""
    register(running, "customers-value", FAX)
    other = customer().replace('"int"', '"string"')
    with pytest.raises(Exception, match="incompatible"):
        AvroSerializer(client, other)({"id": "1", "name": "Ann"}, VALUE)
    assert running.http.get("/subjects/customers-value/versions").json() == [1]
    assert "customers" not in broker.topics()
    with pytest.raises(SerializationError):
        AvroDeserializer(client)(b"plain text", VALUE)
