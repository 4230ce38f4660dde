"""``moldau schemas export`` and ``import``: one registry becomes another."""

import json

import click
import pytest

from moldau.cli.commands.data.schemas_transfer import exported, read
from moldau.client.registry.schema_registry import Reference, RegistryClient

ADDRESS = '{"type":"record","name":"Address","namespace":"x","fields":[{"name":"street","type":"string"}]}'
USER = '{"type":"record","name":"User","fields":[{"name":"home","type":"x.Address"}]}'
PROTO = 'syntax = "proto3";\nmessage P {\n  string a = 1;\n}\n'


def fill(client):
    # The one that refers has the smaller id: an order by ids would not do.
    client.set_mode("IMPORT")
    client.register("address", ADDRESS, schema_id=50, version=3)
    reference = [Reference("x.Address", "address", 3)]
    client.register("users-value", USER, references=reference, schema_id=7, version=1)
    client.set_mode("READWRITE")
    client.register("numbers", '"int"')
    client.register("numbers", '"long"')
    client.delete_version("numbers", 1)
    client.register("gone", '"string"')
    client.delete_subject("gone")
    client.register("proto", PROTO, "PROTOBUF")
    client.register("again", '"long"')
    client.register(":.other:inside", '"bytes"')
    client.set_config("FULL_TRANSITIVE")
    client.set_config("NONE", "numbers")
    client.set_mode("READONLY", "users-value")
    body = {"schema": '"double"', "metadata": {"properties": {"owner": "ann"}}}
    client.call("POST", "/subjects/tagged/versions", body)


@pytest.fixture
def source(registry):
    with RegistryClient(registry) as client:
        fill(client)
        yield registry


@pytest.mark.slow
def test_all_of_it_arrives(source, serve_registry, moldau, tmp_path):
    file = str(tmp_path / "schemas.jsonl")
    assert "9 versions of 8 subjects, 2 of them deleted" in moldau("schemas", "export", file).stderr
    with (
        serve_registry(topic="_second", group_id="second") as url,
        RegistryClient(url) as target,
        RegistryClient(source) as client,
    ):
        assert "9 versions" in moldau("schemas", "import", file, "-r", url).stderr
        assert list(exported(target)) == list(exported(client))
        assert target.by_id(50).text == client.by_id(50).text
        assert target.mode() == "READWRITE"
        assert target.register("next", '"float"') == 56
        # A second time: it holds schemas already, and the same ones are no trouble.
        refused = moldau("schemas", "import", file, "-r", url, code=1).stderr
        assert "--force" in refused
        target.delete_subject("next")
        moldau("schemas", "import", file, "-r", url, "--force")
        rows = [row for row in exported(target) if row.get("subject") != "next"]
        assert rows == list(exported(client))


@pytest.mark.slow
def test_through_a_pipe(source, serve_registry, moldau):
    text = moldau("schemas", "export", "-", "--prefix", "numbers").stdout
    assert [json.loads(line).get("subject") for line in text.splitlines()[3:]] == ["numbers"] * 3
    with serve_registry(topic="_second", group_id="second") as url, RegistryClient(url) as target:
        moldau("schemas", "import", "-", "-r", url, input=text)
        assert target.versions("numbers", deleted=True) == [1, 2]
        assert target.versions("numbers") == [2]


@pytest.mark.slow
def test_what_fails_half_way_says_so(registry, moldau, tmp_path):
    file = tmp_path / "bad.jsonl"
    rows = [
        {"format": "moldau-schemas-1"},
        {"kind": "schema", "subject": "s", "version": 1, "id": 1, "schema": '"nonsense"'},
    ]
    file.write_text("".join(json.dumps(row) + "\n" for row in rows))
    assert "left in the mode IMPORT" in moldau("schemas", "import", str(file), code=1).stderr


@pytest.mark.parametrize(
    ("lines", "said"),
    [
        ([], "empty"),
        (["{}"], "not one that"),
        (["nonsense"], "not one that"),
        (['{"format": "moldau-schemas-1"}', "x"], "line 2"),
        (['{"format": "moldau-schemas-1"}', '{"kind": "x"}'], "line 2"),
        (['{"format": "moldau-schemas-1"}'], "empty"),
    ],
)
def test_files_of_others(lines, said):
    with pytest.raises(click.UsageError, match=said):
        read(lines)
