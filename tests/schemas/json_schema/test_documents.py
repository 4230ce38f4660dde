"""Where references of JSON Schemas lead: by pointer, by id, by anchor, into other documents."""

from typing import Any

import pytest

from moldau.schemas.json_schema.documents import JsonDocuments, draft_of
from moldau.schemas.limits import InvalidSchema

INNER: dict[str, Any] = {"$ref": "item.json#/definitions/Sku"}
SCHEMA: dict[str, Any] = {
    "$id": "http://shop.example/order.json",
    "$schema": "https://json-schema.org/draft/2020-12/schema",
    "definitions": {"a/b": {"type": "string"}, "anchored": {"$anchor": "here", "type": "null"}},
    "properties": {"item": INNER},
}
OTHER: dict[str, Any] = {
    "$schema": "http://json-schema.org/draft-04/schema#",
    "definitions": {"Sku": {"type": "string"}},
}


@pytest.mark.parametrize(
    ("reference", "found"),
    [
        ("#", SCHEMA),
        ("#/definitions/a~1b", {"type": "string"}),
        ("http://shop.example/order.json#/definitions/a~1b", {"type": "string"}),
        ("#here", SCHEMA["definitions"]["anchored"]),
        ("order.json", SCHEMA),
    ],
)
def test_where_references_lead(reference: str, found: Any) -> None:
    assert JsonDocuments(SCHEMA, {}).resolve(SCHEMA, reference) == (found, 2020)


def test_other_documents_have_drafts_of_their_own() -> None:
    assert JsonDocuments(SCHEMA, {"item.json": OTHER}).resolve(INNER, INNER["$ref"]) == (
        {"type": "string"},
        4,
    )


@pytest.mark.parametrize("reference", ["#/nowhere", "#gone", "other.json", "http://[", "#/definitions/x/0"])
def test_references_that_lead_nowhere(reference: str) -> None:
    with pytest.raises(InvalidSchema):
        JsonDocuments(SCHEMA, {}).resolve(SCHEMA, reference)


def test_drafts() -> None:
    assert draft_of(True) == draft_of({}) == draft_of({"$schema": "https://elsewhere.example/"}) == 7
    assert draft_of({"$schema": "http://json-schema.org/draft-06/schema#"}) == 6
    with pytest.raises(InvalidSchema):
        draft_of({"$schema": 7})
