"""``moldau schemas`` against a registry."""

import json

import pytest

from moldau.client.registry.schema_registry import Reference, RegistryClient

V1 = '{"type":"record","name":"Order","fields":[{"name":"id","type":"long"}]}'
V2 = (
    '{"type":"record","name":"Order","fields":[{"name":"id","type":"long"},'
    '{"name":"note","type":["null","string"],"default":null}]}'
)
BAD = '{"type":"record","name":"Order","fields":[{"name":"id","type":"long"},{"name":"x","type":"int"}]}'
ADDRESS = '{"type":"record","name":"Address","namespace":"x","fields":[{"name":"street","type":"string"}]}'
USER = '{"type":"record","name":"User","fields":[{"name":"home","type":"x.Address"}]}'


@pytest.fixture
def client(registry):
    with RegistryClient(registry) as client:
        yield client


@pytest.fixture
def write(tmp_path):
    def make(text, name="order.avsc"):
        path = tmp_path / name
        path.write_text(text)
        return str(path)

    return make


def test_an_empty_registry(registry, moldau, moldau_json):
    assert "There are no subjects" in moldau("schemas", "list").stderr
    assert moldau_json("schemas", "list") == []


def test_from_a_file_to_a_list(registry, moldau, moldau_json, write):
    assert moldau("schemas", "register", "orders-value", write(V1)).stdout == (
        "orders-value version 1 has the id 1\n"
    )
    made = moldau_json("schemas", "register", "orders-value", write(V2))
    assert made == {"subject": "orders-value", "version": 2, "id": 2}
    again = moldau_json("schemas", "register", "orders-value", write(V1))
    assert again == {"subject": "orders-value", "version": 1, "id": 1}
    assert moldau("schemas", "list", "--names").stdout == "orders-value\n"
    (row,) = moldau_json("schemas", "list")
    expected = {"type": "AVRO", "versions": 2, "latest": 2, "id": 2, "references": 0}
    assert row == {"subject": "orders-value", **expected}
    assert moldau_json("schemas", "list", "other") == []
    assert "orders-value" in moldau("schemas", "list").stdout


def test_show(registry, client, moldau, moldau_json):
    client.register("address", ADDRESS)
    client.register("users-value", USER, references=[Reference("x.Address", "address", 1)])
    shown = moldau_json("schemas", "show", "users-value")
    assert shown["references"] == [{"name": "x.Address", "subject": "address", "version": 1}]
    assert (shown["id"], shown["versions"], shown["compatibility"]) == (2, [1], "BACKWARD")
    assert moldau("schemas", "show", "users-value", "--text").stdout.strip() == shown["schema"]
    shown = moldau("schemas", "show", "users-value").stdout
    assert "x.Address address:1" in shown
    assert '  "name": "User"' in shown
    assert "address:1" in moldau("schemas", "show", "--id", "1").stdout
    assert "give a SUBJECT or an --id" in moldau("schemas", "show", code=2).stderr
    refused = moldau("schemas", "show", "nobody", code=1).stderr
    assert "40401" in refused
    assert "Next: 'moldau schemas list'" in refused


@pytest.mark.slow
def test_check(registry, client, moldau, moldau_json, write):
    assert moldau_json("schemas", "check", "orders-value", write(V1))["compatible"] is True
    client.register("orders-value", V1)
    assert "may follow in orders-value (BACKWARD)" in moldau(
        "schemas", "check", "orders-value", write(V2)
    ).stdout.replace("\x1b", "")
    refused = moldau("schemas", "check", "orders-value", write(BAD), code=1).stdout
    assert "READER_FIELD_MISSING_DEFAULT_VALUE" in refused
    assert "oldSchema" not in refused
    answer = moldau("schemas", "check", "orders-value", write(BAD), "--json", code=1).stdout
    assert json.loads(answer)["compatible"] is False
    assert "409" in moldau("schemas", "register", "orders-value", write(BAD), code=1).stderr


def test_diff(registry, client, moldau, write):
    client.register("orders-value", V1)
    assert "one version only" in moldau("schemas", "diff", "orders-value", code=1).stderr
    client.register("orders-value", V2)
    shown = moldau("schemas", "diff", "orders-value").stdout
    assert '+      "name": "note",' in shown
    assert "backward: new readers understand old data" in shown
    assert "forward: old readers understand new data" in shown
    shown = moldau("schemas", "diff", "orders-value", "1", "--file", write(BAD), code=1).stdout
    assert "new readers do not understand old data, which the level BACKWARD promises" in shown
    assert "  READER_FIELD_MISSING_DEFAULT_VALUE" in shown
    shown = json.loads(moldau("schemas", "diff", "orders-value", "2", "1", "--json").stdout)
    assert shown["breaks"] == []
    assert "The two are the same" in moldau("schemas", "diff", "orders-value", "1", "1").stdout
    wrong = write("{", "broken.avsc")
    assert "makes no sense" in moldau("schemas", "diff", "orders-value", "--file", wrong, code=1).stderr


def test_delete(registry, client, moldau, moldau_json):
    client.register("orders-value", V1)
    client.register("orders-value", V2)
    assert moldau("schemas", "delete", "orders-value", input="n\n", code=1)
    gone = moldau_json("schemas", "delete", "orders-value", "--version", "1", "--yes")
    assert gone == {"subject": "orders-value", "deleted": [1], "permanent": False}
    assert moldau("schemas", "delete", "orders-value", "-y").stdout == (
        "deleted subject orders-value (version 2)\n"
    )
    assert moldau_json("schemas", "list") == []
    assert moldau_json("schemas", "list", "--deleted")[0]["versions"] == 2
    gone = moldau("schemas", "delete", "orders-value", "-y", "--permanent").stdout
    assert "versions 1, 2" in gone


def test_who_is_not_there_and_who_may_not(registry, serve_registry, moldau, write):
    refused = moldau("schemas", "list", "-r", "http://127.0.0.1:1", code=1).stderr
    assert "cannot be reached" in refused
    assert "moldau registry" in refused
    with serve_registry(users={"ann": "s:cret"}) as url:
        assert "another user or password" in moldau("schemas", "list", "-r", url, code=1).stderr
        moldau("schemas", "list", "-r", url, "--user", "ann:s:cret")
    assert "Say --type" in moldau("schemas", "register", "s", write(V1, "order.txt"), code=2).stderr
    wrong = moldau("schemas", "register", "s", write(V1), "--reference", "x", code=2).stderr
    assert "NAME=SUBJECT:VERSION" in wrong


@pytest.mark.parametrize(
    "name", ["list", "show", "register", "check", "diff", "delete", "export", "import", "generate"]
)
def test_every_command_has_examples(moldau, name):
    assert f"\n    moldau schemas {name} " in moldau("schemas", name, "--help").stdout.replace(
        "      ", "    "
    )
