import json

from moldau.web.openapi import document


def test_the_document_says_what_the_table_says(test_service):
    service = test_service()
    made = document(service.description, service.table)
    json.dumps(made)
    assert made["info"] == {"title": "Test", "version": "1"}
    operation = made["paths"]["/people/{name}"]["get"]
    assert operation["parameters"] == [
        {"name": "name", "in": "path", "required": True, "schema": {"type": "string"}},
        {"name": "loud", "in": "query", "schema": {"type": "boolean"}, "description": "Shout"},
    ]
    assert set(operation["responses"]) == {"200", "4XX", "5XX"}
    answer = operation["responses"]["200"]["content"]["application/json"]
    assert answer == {"schema": {"$ref": "#/components/schemas/Greeting"}}
    made_new = made["paths"]["/echo"]["post"]
    assert made_new["requestBody"]["content"]["application/json"]["schema"]["$ref"].endswith("/Anything")
    assert "201" in made_new["responses"]
    assert "content" not in made["paths"]["/text"]["delete"]["responses"]["204"]
    assert set(made["components"]["schemas"]) == {"Error", "Greeting", "Anything"}
