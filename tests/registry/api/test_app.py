"""The registry over HTTP: paths, fields, codes and media types, on a real broker behind a real port."""

import json

import pytest

from moldau.registry.api.app import MEDIA_TYPES, SERVICE
from moldau.registry.api.routes import TABLE
from moldau.web.limits import Limits
from moldau.web.media_types import accepted
from moldau.web.openapi import document
from moldau.web.routes import Matched

V1 = '{"type":"record","name":"R","fields":[{"name":"a","type":"int"}]}'
V2 = '{"type":"record","name":"R","fields":[{"name":"a","type":"int"},{"name":"b","type":"int","default":0}]}'
BAD = '{"type":"record","name":"R","fields":[{"name":"a","type":"int"},{"name":"c","type":"int"}]}'
V1_MEDIA = "application/vnd.schemaregistry.v1+json"


@pytest.fixture
def http(start):
    with start() as running:
        yield running.http


def register(http, subject, schema, **more):
    response = http.post(f"/subjects/{subject}/versions", json={"schema": schema, **more})
    assert response.status_code == 200, response.text
    return response.json()


def code(response):
    assert set(response.json()) == {"error_code", "message"}
    return response.status_code, response.json()["error_code"]


# Without a broker.


def test_paths_are_matched_as_they_were_sent():
    found = TABLE.match("GET", "/subjects/a%2Fb/versions/latest")
    assert isinstance(found, Matched)
    assert found.parameters == {"subject": "a/b", "version": "latest"}
    found = TABLE.match("GET", "/contexts/.eu/subjects?x=1")
    assert isinstance(found, Matched)
    assert found.parameters == {"context": ".eu"}
    assert TABLE.match("PATCH", "/config") == ["GET", "PUT", "DELETE"]
    assert TABLE.match("GET", "/nowhere") == []


@pytest.mark.parametrize(
    ("header", "media_type"),
    [
        (None, V1_MEDIA),
        ("*/*", V1_MEDIA),
        ("*", V1_MEDIA),
        ("application/json", "application/json"),
        ("text/html, application/json;q=0.5", "application/json"),
        ("application/json;q=0.1, application/vnd.schemaregistry+json", MEDIA_TYPES[1]),
    ],
)
def test_the_client_chooses_the_media_type(header, media_type):
    assert accepted(header, MEDIA_TYPES) == media_type


def test_the_openapi_document_has_every_route():
    made = document(SERVICE.description, TABLE)
    found = {(path, method) for path, methods in made["paths"].items() for method in methods}
    assert found == {(route.plain_path, route.method.lower()) for route in TABLE.routes}
    json.dumps(made)


# Over the wire.


def test_the_way_of_a_schema(http):
    assert http.get("/").json() == {}
    assert http.get("/subjects").json() == []
    first = register(http, "orders-value", V1)
    assert (first["id"], first["version"], first["schemaType"]) == (1, 1, "AVRO")
    assert register(http, "orders-value", V2)["id"] == 2
    assert http.get("/subjects").json() == ["orders-value"]
    assert http.get("/subjects/orders-value/versions").json() == [1, 2]
    for version in ("latest", "-1", "2"):
        found = http.get(f"/subjects/orders-value/versions/{version}")
        assert found.headers["content-type"] == V1_MEDIA
        answer = found.json()
        assert answer.pop("guid")
        assert answer.pop("ts") > 0
        assert answer == {
            "subject": "orders-value",
            "version": 2,
            "id": 2,
            "schemaType": "AVRO",
            "schema": V2,
            "deleted": False,
        }
    assert http.get("/subjects/orders-value/versions/1/schema").json() == json.loads(V1)
    by_id = http.get("/schemas/ids/1", params={"fetchMaxId": "true"}).json()
    assert (by_id["schema"], by_id["maxId"], "schemaType" in by_id) == (V1, 2, False)
    assert http.get("/schemas/ids/1/schema").text == V1
    assert http.get("/schemas/ids/1/subjects").json() == ["orders-value"]
    assert http.get("/schemas/ids/1/versions").json() == [{"subject": "orders-value", "version": 1}]
    guid = by_id["guid"]
    assert http.get(f"/schemas/guids/{guid}").json()["schema"] == V1
    assert http.get(f"/schemas/guids/{guid}/ids").json() == [{"context": ".", "id": 1}]
    looked_up = http.post("/subjects/orders-value", json={"schema": V1}).json()
    assert (looked_up["version"], looked_up["id"]) == (1, 1)


def test_codes_of_what_is_not_there(http):
    assert code(http.get("/subjects/no/versions")) == (404, 40401)
    assert code(http.get("/subjects/no/versions/1")) == (404, 40401)
    assert code(http.delete("/subjects/no")) == (404, 40401)
    assert code(http.get("/schemas/ids/9")) == (404, 40403)
    assert code(http.get("/config/no")) == (404, 40408)
    assert code(http.get("/mode/no")) == (404, 40409)
    assert code(http.get("/nowhere")) == (404, 404)
    assert code(http.patch("/config")) == (405, 405)
    register(http, "s", V1)
    assert code(http.get("/subjects/s/versions/5")) == (404, 40402)
    for bad in ("0", "x", "2147483648"):
        assert code(http.get(f"/subjects/s/versions/{bad}")) == (422, 42202)
    assert code(http.post("/subjects/s", json={"schema": V2})) == (404, 40403)


def test_codes_of_what_is_wrong(http):
    register(http, "s", V1)
    path = "/subjects/s/versions"
    assert code(http.post(path, json={"schema": BAD})) == (409, 409)
    assert code(http.post(path, json={"schema": "{"})) == (422, 42201)
    assert code(http.post(path, json={})) == (422, 42201)
    assert code(http.post(path, json={"schema": V1, "references": {}})) == (400, 400)
    assert code(http.post(path, json={"schema": V1, "references": [5]})) == (422, 42201)
    assert code(http.post(path, json={"schema": V1, "metadata": 5})) == (422, 42201)
    assert code(http.post(path, json={"schema": V2, "id": 7})) == (422, 42205)
    assert code(http.post(path, content=b"{", headers={"content-type": V1_MEDIA})) == (400, 400)
    assert code(http.post(path, content=b"[]", headers={"content-type": V1_MEDIA})) == (400, 400)
    assert code(http.post(path, content=b"x", headers={"content-type": "text/plain"})) == (415, 415)
    assert code(http.get("/subjects", headers={"accept": "text/html"})) == (406, 406)
    assert code(http.put("/config", json={"compatibility": "SOMEWHAT"})) == (422, 42203)
    assert code(http.put("/mode", json={"mode": "SLEEP"})) == (422, 42204)
    assert code(http.put("/mode", json={"mode": "IMPORT"})) == (422, 42205)
    assert code(http.get("/subjects", params={"offset": "x"})) == (400, 400)


def test_compatibility_is_explained(http):
    register(http, "s", V1)
    path = "/compatibility/subjects/s/versions"
    assert http.post(f"{path}/latest", json={"schema": V2}).json() == {"is_compatible": True}
    answer = http.post(f"{path}/1", json={"schema": BAD}, params={"verbose": "true"}).json()
    assert answer["is_compatible"] is False
    assert any("oldSchemaVersion: 1" in message for message in answer["messages"])
    assert http.post(path, json={"schema": BAD}).json() == {"is_compatible": False}
    assert http.post("/compatibility/subjects/new/versions", json={"schema": BAD}).json() == {
        "is_compatible": True
    }
    assert http.post("/compatibility/subjects/new/versions/latest", json={"schema": BAD}).json() == {
        "is_compatible": True
    }
    assert code(http.post("/compatibility/subjects/new/versions/1", json={"schema": BAD})) == (404, 40402)
    assert code(http.post(path, json={"schema": "{"})) == (422, 42201)
    told = http.post(f"{path}/latest", json={"schema": "{"}, params={"verbose": "true"})
    assert told.status_code == 200
    assert told.json()["is_compatible"] is False
    assert told.json()["messages"][0].startswith("Invalid schema")


def test_what_this_registry_does_not_have_is_said_so(http):
    for path, words in (
        ("/dek-registry/v1/keks/k", "encryption keys"),
        ("/associations/resources/-/t", "associations"),
    ):
        assert code(http.get(path)) == (404, 404)
        assert words in http.get(path).json()["message"]


@pytest.mark.slow
def test_other_forms_of_a_schema_wherever_one_is_answered(http):
    text = 'syntax = "proto3";\nmessage M { int32 a = 1; }\n'
    register(http, "s", text, schemaType="PROTOBUF", metadata={"properties": {"k": "v"}})
    serialized = {"format": "serialized"}
    expected = http.get("/subjects/s/versions/1", params=serialized).json()["schema"]
    assert expected != text
    wanted = {"schema": text, "schemaType": "PROTOBUF"}
    assert http.post("/subjects/s", json=wanted, params=serialized).json()["schema"] == expected
    sought = {"key": "k", "value": "v", **serialized}
    assert http.get("/subjects/s/metadata", params=sought).json()["schema"] == expected


@pytest.mark.slow
def test_configs_and_modes(http):
    assert http.get("/config").json() == {"compatibilityLevel": "BACKWARD"}
    assert http.put("/config", json={"compatibility": "FULL"}).json() == {"compatibility": "FULL"}
    assert http.get("/config/s", params={"defaultToGlobal": "true"}).json() == {"compatibilityLevel": "FULL"}
    http.put("/config/s", json={"compatibility": "NONE", "normalize": True})
    assert http.get("/config/s").json() == {"compatibilityLevel": "NONE", "normalize": True}
    assert http.delete("/config/s").json() == {"compatibilityLevel": "NONE", "normalize": True}
    assert http.delete("/config").json() == {"compatibilityLevel": "FULL"}
    assert http.get("/mode").json() == {"mode": "READWRITE"}
    assert http.put("/mode/s", json={"mode": "READONLY"}).json() == {"mode": "READONLY"}
    assert code(http.post("/subjects/s/versions", json={"schema": V1})) == (422, 42205)
    assert http.get("/mode/s").json() == {"mode": "READONLY"}
    assert http.delete("/mode/s").json() == {"mode": "READONLY"}
    register(http, "s", V1)
    assert http.put("/mode", json={"mode": "IMPORT"}, params={"force": "true"}).json() == {"mode": "IMPORT"}
    assert register(http, "t", V2, id=77, version=3)["id"] == 77


@pytest.mark.slow
def test_deletion_filters_and_pages(http):
    for subject in ("a", "b", "c"):
        register(http, subject, V1)
    register(http, "a", V2)
    assert http.delete("/subjects/a/versions/1").json() == 1
    assert code(http.delete("/subjects/a/versions/1")) == (404, 40406)
    assert http.get("/subjects/a/versions").json() == [2]
    assert http.get("/subjects/a/versions", params={"deleted": "true"}).json() == [1, 2]
    assert http.get("/subjects/a/versions", params={"deletedOnly": "true"}).json() == [1]
    assert http.delete("/subjects/b").json() == [1]
    assert http.get("/subjects").json() == ["a", "c"]
    assert http.get("/subjects", params={"deleted": "true", "offset": 1, "limit": 1}).json() == ["b"]
    assert http.get("/subjects", params={"deletedOnly": "true"}).json() == ["b"]
    listed = http.get("/schemas", params={"deleted": "true", "latestOnly": "true"}).json()
    assert [(each["subject"], each["version"], each["deleted"]) for each in listed] == [
        ("a", 2, False),
        ("b", 1, True),
        ("c", 1, False),
    ]
    assert http.delete("/subjects/b", params={"permanent": "true"}).json() == [1]
    assert http.get("/subjects", params={"deleted": "true"}).json() == ["a", "c"]


@pytest.mark.slow
def test_references_metadata_and_contexts(http):
    address = '{"type":"record","name":"Address","fields":[{"name":"street","type":"string"}]}'
    user = '{"type":"record","name":"User","fields":[{"name":"home","type":"Address"}]}'
    register(http, "address", address)
    references = [{"name": "Address", "subject": "address", "version": 1}]
    metadata = {"properties": {"owner": "ann"}}
    rule = {"name": "r", "kind": "CONDITION", "type": "CEL", "expr": "true"}
    rules = {"domainRules": [{**rule, "mode": "WRITEREAD", "disabled": False}]}
    given = {"domainRules": [{**rule, "tags": None}], "migrationRules": []}
    made = register(http, "user", user, references=references, metadata=metadata, ruleSet=given)
    found = http.get("/subjects/user/versions/1").json()
    assert (found["references"], found["metadata"], found["ruleSet"]) == (references, metadata, rules)
    assert http.get("/subjects/address/versions/1/referencedby").json() == [made["id"]]
    assert code(http.delete("/subjects/address")) == (422, 42206)
    found = http.get("/subjects/user/metadata", params={"key": "owner", "value": "ann"})
    assert found.json()["version"] == 1
    assert code(http.get("/subjects/user/metadata", params={"key": "owner", "value": "bob"})) == (404, 40403)
    assert register(http, ":.eu:user", V1)["id"] == 1
    assert http.get("/contexts").json() == [".", ".eu"]
    assert http.get("/contexts/.eu/subjects").json() == [":.eu:user"]
    assert http.get("/subjects", params={"subjectPrefix": ":*:"}).json() == [":.eu:user", "address", "user"]
    assert http.get("/schemas/ids/1", params={"subject": ":.eu:user"}).json()["schema"] == V1
    assert http.get("/contexts/.eu/subjects/user/versions/1").json()["schema"] == V1
    register(http, "a%2Fb", V1)
    assert "a/b" in http.get("/subjects").json()


def test_other_types(http):
    assert http.get("/schemas/types").json() == ["JSON", "PROTOBUF", "AVRO"]
    made = register(http, "j", '{"type": "object"}', schemaType="JSON")
    assert http.get(f"/schemas/ids/{made['id']}").json()["schemaType"] == "JSON"


def test_what_the_service_tells_of_itself(http):
    clusters = http.get("/v1/metadata/id").json()["scope"]["clusters"]
    assert clusters["schema-registry-cluster"] == "schema-registry"
    assert clusters["kafka-cluster"]
    assert http.get("/v1/metadata/version").json()["version"]
    assert http.get("/openapi.json").json()["openapi"] == "3.1.0"


def test_users_limits_and_no_cors(start):
    with start(users={"ann": "secret"}, limits=Limits(max_body_bytes=1000)) as running:
        http = running.http
        refused = http.get("/subjects")
        assert code(refused) == (401, 401)
        assert refused.headers["www-authenticate"].startswith("Basic")
        for wrong in (("ann", "wrong"), ("bob", "secret"), ("", "")):
            assert http.get("/subjects", auth=wrong).status_code == 401
        assert http.get("/subjects", headers={"authorization": "Basic ???"}).status_code == 401
        found = http.get("/subjects", auth=("ann", "secret"), headers={"origin": "http://evil"})
        assert found.status_code == 200
        assert "access-control-allow-origin" not in found.headers
        big = {"schema": json.dumps("x" * 2000)}
        assert code(http.post("/subjects/s/versions", json=big, auth=("ann", "secret"))) == (413, 413)


@pytest.mark.slow
def test_a_read_only_instance_reads(start):
    with start() as leader, start(read_only=True) as reader:
        register(leader.http, "s", V1)
        reader.run(reader.service.log.wait_for(leader.service.log.position - 1))
        assert reader.http.get("/subjects").json() == ["s"]
        assert code(reader.http.post("/subjects/s/versions", json={"schema": V2})) == (422, 42205)
        assert reader.http.get("/mode").json() == {"mode": "READONLY"}


def test_what_a_scrape_tells_of_the_registry(http):
    register(http, "orders-value", V1)
    register(http, "orders-value", V2)
    register(http, ":.eu:orders-value", V1)
    lines = set(http.get("/metrics").text.splitlines())
    assert "kafka_schema_registry_registered_count_registered_count 3" in lines
    assert "moldau_registry_subjects_count 2" in lines
    assert "kafka_schema_registry_master_slave_role_master_slave_role 1" in lines
