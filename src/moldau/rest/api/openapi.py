"""The proxy in the words of its OpenAPI document: bodies and answers.

Pure.
"""

from typing import Any

from moldau import __version__
from moldau.web.openapi import Description

_NUMBER = {"type": "integer", "minimum": 0}
_NAMES = {"type": "array", "items": {"type": "string"}}
_PLACE = {"topic": {"type": "string"}, "partition": _NUMBER}


def _object(properties: dict[str, Any], *required: str) -> dict[str, Any]:
    return {"type": "object", "properties": properties, "required": list(required)}


def _list_of(properties: dict[str, Any], *required: str) -> dict[str, Any]:
    return {"type": "array", "items": _object(properties, *required)}


_V2: dict[str, Any] = {
    "Names": _NAMES,
    "Topic": _object(
        {"name": {"type": "string"}, "configs": {"type": "object"}, "partitions": {"type": "array"}},
        "name",
        "configs",
        "partitions",
    ),
    "ProduceRequest": _object(
        {
            "records": _list_of({"key": {}, "value": {}, "partition": _NUMBER}),
            "key_schema": {"type": "string"},
            "key_schema_id": {"type": "integer"},
            "value_schema": {"type": "string"},
            "value_schema_id": {"type": "integer"},
        },
        "records",
    ),
    "ProduceResponse": _object(
        {
            "offsets": _list_of(
                {
                    "partition": {"type": ["integer", "null"]},
                    "offset": {"type": ["integer", "null"]},
                    "error_code": {"type": ["integer", "null"]},
                    "error": {"type": ["string", "null"]},
                },
                "partition",
                "offset",
            ),
            "key_schema_id": {"type": ["integer", "null"]},
            "value_schema_id": {"type": ["integer", "null"]},
        },
        "offsets",
    ),
    "Offsets": _object(
        {"beginning_offset": _NUMBER, "end_offset": _NUMBER}, "beginning_offset", "end_offset"
    ),
    "Brokers": _object({"brokers": {"type": "array", "items": {"type": "integer"}}}, "brokers"),
    "CreateConsumer": _object(
        {
            "name": {"type": "string"},
            "format": {"type": "string", "enum": ["binary", "json", "avro", "jsonschema", "protobuf"]},
            "auto.offset.reset": {"type": "string", "enum": ["earliest", "latest", "none"]},
            "auto.commit.enable": {"type": ["string", "boolean"]},
            "fetch.min.bytes": {"type": ["string", "integer"]},
            "consumer.request.timeout.ms": {"type": ["string", "integer"]},
            "isolation.level": {"type": "string", "enum": ["read_uncommitted", "read_committed"]},
            "redelivery": {"type": ["string", "boolean"]},
            "group.protocol": {"type": "string", "enum": ["classic", "consumer"]},
        }
    ),
    "Consumer": _object(
        {"instance_id": {"type": "string"}, "base_uri": {"type": "string"}}, "instance_id", "base_uri"
    ),
    "Subscription": _object({"topics": _NAMES, "topic_pattern": {"type": "string"}}),
    "Partitions": _object({"partitions": _list_of(_PLACE, "topic", "partition")}, "partitions"),
    "Positions": _object(
        {"offsets": _list_of({**_PLACE, "offset": _NUMBER}, "topic", "partition", "offset")}, "offsets"
    ),
}

_CONFIG_CHANGES = _list_of(
    {
        "name": {"type": "string"},
        "value": {"type": ["string", "null"]},
        "operation": {"type": "string", "enum": ["SET", "DELETE"]},
    },
    "name",
)
_DATA = {
    "type": ["object", "null"],
    "properties": {
        "type": {"type": "string", "enum": ["BINARY", "JSON", "AVRO", "JSONSCHEMA", "PROTOBUF", "STRING"]},
        "subject": {"type": "string"},
        "subject_name_strategy": {
            "type": "string",
            "enum": ["TOPIC_NAME", "RECORD_NAME", "TOPIC_RECORD_NAME"],
        },
        "schema_id": {"type": "integer"},
        "schema_version": {"type": "integer"},
        "schema": {"type": "string"},
        "data": {},
    },
}
_ACL = _object(
    {
        "resource_type": {"type": "string"},
        "resource_name": {"type": "string"},
        "pattern_type": {"type": "string"},
        "principal": {"type": "string"},
        "host": {"type": "string"},
        "operation": {"type": "string"},
        "permission": {"type": "string"},
    },
    "resource_type",
    "resource_name",
    "pattern_type",
    "principal",
    "host",
    "operation",
    "permission",
)
_V3: dict[str, Any] = {
    "Resource": _object({"kind": {"type": "string"}, "metadata": {"type": "object"}}, "kind", "metadata"),
    "ResourceList": _object(
        {"kind": {"type": "string"}, "metadata": {"type": "object"}, "data": {"type": "array"}},
        "kind",
        "metadata",
        "data",
    ),
    "CreateTopic": _object(
        {
            "topic_name": {"type": "string"},
            "partitions_count": {"type": "integer", "minimum": 1},
            "replication_factor": {"type": "integer", "minimum": 1},
            "replicas_assignments": _list_of(
                {"partition_id": _NUMBER, "broker_ids": {"type": "array", "items": _NUMBER}},
                "partition_id",
                "broker_ids",
            ),
            "configs": _list_of({"name": {"type": "string"}, "value": {"type": ["string", "null"]}}, "name"),
            "validate_only": {"type": "boolean"},
        },
        "topic_name",
    ),
    "UpdatePartitionCount": _object({"partitions_count": _NUMBER}, "partitions_count"),
    "UpdateConfig": _object({"value": {"type": ["string", "null"]}}),
    "AlterConfigs": _object({"data": _CONFIG_CHANGES, "validate_only": {"type": "boolean"}}, "data"),
    "Record": _object(
        {
            "partition_id": {"type": ["integer", "null"]},
            "headers": _list_of({"name": {"type": "string"}, "value": {"type": ["string", "null"]}}, "name"),
            "key": _DATA,
            "value": _DATA,
            "timestamp": {"type": ["string", "null"]},
        }
    ),
    "Acl": _ACL,
    "Acls": _object({"data": {"type": "array", "items": _ACL}}, "data"),
    "Reassign": _object(
        {"broker_ids": {"type": ["array", "null"], "items": {"type": "integer"}}}, "broker_ids"
    ),
    "ElectLeaders": _object(
        {
            "election_type": {"type": "string", "enum": ["PREFERRED", "UNCLEAN"]},
            "partitions": _list_of({"topic_name": {"type": "string"}, "partition_id": _NUMBER}),
        }
    ),
}

DESCRIPTION = Description("Moldau REST proxy", __version__, "application/json", {**_V2, **_V3})
