"""The OpenAPI document of the registry, made from the table of its routes.

Invariant: pure; says nothing that the table does not.
"""

from typing import Any

from moldau import __version__
from moldau.registry.api.routes import ROUTES, Route

MEDIA_TYPE = "application/vnd.schemaregistry.v1+json"
_NUMBERS = frozenset({"offset", "limit", "id"})
_TEXTS = frozenset({"subjectPrefix", "subject", "format", "key", "value", "version", "guid"})

_COMPONENTS: dict[str, Any] = {
    "Error": {
        "type": "object",
        "required": ["error_code", "message"],
        "properties": {"error_code": {"type": "integer"}, "message": {"type": "string"}},
    },
    "Reference": {
        "type": "object",
        "required": ["name", "subject", "version"],
        "properties": {
            "name": {"type": "string"},
            "subject": {"type": "string"},
            "version": {"type": "integer"},
        },
    },
    "Schema": {
        "type": "object",
        "required": ["schema"],
        "properties": {
            "schema": {"type": "string"},
            "schemaType": {"type": "string", "enum": ["AVRO", "JSON", "PROTOBUF"]},
            "references": {"type": "array", "items": {"$ref": "#/components/schemas/Reference"}},
            "metadata": {"type": "object"},
            "ruleSet": {"type": "object"},
            "id": {"type": "integer", "description": "Only in import mode"},
            "version": {"type": "integer", "description": "Only in import mode"},
        },
    },
    "Config": {
        "type": "object",
        "properties": {
            "compatibility": {
                "type": "string",
                "enum": [
                    "NONE",
                    "BACKWARD",
                    "BACKWARD_TRANSITIVE",
                    "FORWARD",
                    "FORWARD_TRANSITIVE",
                    "FULL",
                    "FULL_TRANSITIVE",
                ],
            },
            "compatibilityGroup": {"type": "string"},
            "normalize": {"type": "boolean"},
        },
    },
    "Mode": {
        "type": "object",
        "required": ["mode"],
        "properties": {
            "mode": {
                "type": "string",
                "enum": ["READWRITE", "READONLY", "READONLY_OVERRIDE", "IMPORT", "FORWARD"],
            }
        },
    },
}


def document() -> dict[str, Any]:
    paths: dict[str, Any] = {}
    for route in ROUTES:
        paths.setdefault(route.path, {})[route.method.lower()] = _operation(route)
    return {
        "openapi": "3.1.0",
        "info": {"title": "Moldau schema registry", "version": __version__},
        "paths": paths,
        "components": {"schemas": _COMPONENTS},
    }


def _operation(route: Route) -> dict[str, Any]:
    in_path = [part[1:-1] for part in route.segments if part.startswith("{")]
    parameters = [
        {"name": name, "in": "path", "required": True, "schema": _type(name)} for name in in_path
    ] + [{"name": name, "in": "query", "schema": _type(name)} for name in route.query]
    error = {"content": {MEDIA_TYPE: {"schema": {"$ref": "#/components/schemas/Error"}}}}
    operation: dict[str, Any] = {
        "summary": route.summary,
        "parameters": parameters,
        "responses": {
            "200": {"description": "The answer", "content": {MEDIA_TYPE: {}}},
            "4XX": {"description": "The request is refused", **error},
            "5XX": {"description": "The log cannot be reached", **error},
        },
    }
    if route.body is not None:
        content = {MEDIA_TYPE: {"schema": {"$ref": f"#/components/schemas/{route.body}"}}}
        operation["requestBody"] = {"required": True, "content": content}
    return operation


def _type(name: str) -> dict[str, str]:
    if name in _NUMBERS:
        return {"type": "integer"}
    return {"type": "string" if name in _TEXTS else "boolean"}
