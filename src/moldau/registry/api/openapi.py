"""The registry in the words of its OpenAPI document: media type, bodies.

Pure.
"""

from typing import Any

from moldau import __version__
from moldau.web.openapi import Description

MEDIA_TYPE = "application/vnd.schemaregistry.v1+json"

_SCHEMAS: dict[str, Any] = {
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

DESCRIPTION = Description("Moldau schema registry", __version__, MEDIA_TYPE, _SCHEMAS)
