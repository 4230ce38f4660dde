"""What is known of statements, sources and queries, in the JSON of ksqlDB's REST interface.

Pure.
"""

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from moldau.sql.catalogue import Source
from moldau.sql.planner import Plan
from moldau.sql.running.dependents import result_of
from moldau.sql.running.statement_log import Kept
from moldau.sql.statements import ColumnDefinition
from moldau.sql.types import SqlType

Json = dict[str, Any]


def entity(kind: str, text: str, **fields: Any) -> Json:
    """An answer to a statement; ksqlDB says by ``@type`` which fields follow."""
    return {"@type": kind, "statementText": f"{text.rstrip().rstrip(';')};", **fields, "warnings": []}


def command_status(text: str, command: str, message: str, number: int, query_id: str | None = None) -> Json:
    """Of statements that change something."""
    return entity(
        "currentStatus",
        text,
        commandId=command,
        commandStatus={"status": "SUCCESS", "message": message, "queryId": query_id},
        commandSequenceNumber=number,
    )


# --- types ------------------------------------------------------------------------------------------


def type_text(kind: SqlType) -> str:
    """A type as ksqlDB writes it in the heads of results."""
    match kind.name:
        case "ARRAY" | "MAP":
            return f"{kind.name}<{', '.join(map(type_text, kind.parts))}>"
        case "STRUCT":
            inner = (
                f"`{name}` {type_text(part)}" for name, part in zip(kind.fields, kind.parts, strict=True)
            )
            return f"STRUCT<{', '.join(inner)}>"
        case "STRING" | "NULL":
            return "STRING"
    return str(kind)


def schema_text(columns: Iterable[ColumnDefinition]) -> str:
    return ", ".join(f"`{each.name}` {type_text(each.type)}" for each in columns)


def schema_of(kind: SqlType) -> Json:
    found: Json = {"type": kind.name, "fields": None, "memberSchema": None}
    if kind.name in ("ARRAY", "MAP"):
        found["memberSchema"] = schema_of(kind.parts[-1])
    elif kind.name == "STRUCT":
        pairs = zip(kind.fields, kind.parts, strict=True)
        found["fields"] = [{"name": name, "schema": schema_of(part)} for name, part in pairs]
    elif kind.name == "DECIMAL":
        found["parameters"] = {"precision": kind.precision, "scale": kind.scale}
    return found


def fields_of(columns: Iterable[ColumnDefinition]) -> list[Json]:
    return [
        {
            "name": each.name,
            "schema": schema_of(each.type),
            **({"type": "KEY"} if each.is_key else {}),
        }
        for each in columns
    ]


# --- lists ------------------------------------------------------------------------------------------


def source_list(text: str, kind: str, sources: Iterable[Source]) -> Json:
    """``kind`` is STREAM or TABLE."""
    name = f"{kind.lower()}s"
    listed = [
        {
            "type": kind,
            "name": each.name,
            "topic": each.topic,
            "keyFormat": each.key_format,
            "valueFormat": each.value_format,
            "isWindowed": each.window is not None,
        }
        for each in sorted(sources, key=lambda each: each.name)
        if each.kind == kind
    ]
    return entity(name, text, **{name: listed})


def topic_list(text: str, topics: Iterable[Sequence[Any]]) -> Json:
    """Topics as SHOW TOPICS has them: name, partitions, replicas."""
    listed = [
        {"name": name, "replicaInfo": [replicas] * partitions} for name, partitions, replicas, *_ in topics
    ]
    return entity("kafka_topics", text, topics=listed)


def query_of(kept: Kept, state: str, sink_topic: str) -> Json:
    return {
        "queryString": f"{kept.text.rstrip().rstrip(';')};",
        "sinks": [result_of(kept)],
        "sinkKafkaTopics": [sink_topic],
        "id": kept.query_id,
        "statusCount": {state: 1},
        "queryType": "PERSISTENT",
        "state": state,
    }


def function_list(text: str, functions: Iterable[Sequence[Any]]) -> Json:
    listed = [{"name": name, "type": kind, "category": ""} for name, kind, *_ in functions]
    return entity("function_names", text, functions=listed)


def property_list(text: str, properties: Mapping[str, str], defaults: Mapping[str, str]) -> Json:
    listed = [{"name": name, "scope": "KSQL", "value": value} for name, value in sorted(properties.items())]
    changed = [name for name, value in properties.items() if defaults.get(name) != value]
    return entity(
        "properties",
        text,
        properties=listed,
        overwrittenProperties=changed,
        defaultProperties=sorted(defaults),
    )


# --- descriptions -----------------------------------------------------------------------------------


def source_description(
    text: str,
    source: Source,
    *,
    read_by: Sequence[Json],
    written_by: Sequence[Json],
    extended: bool,
    partitions: int,
    replication: int,
) -> Json:
    description = {
        "name": source.name,
        "windowType": None if source.window is None else source.window.kind,
        "readQueries": list(read_by),
        "writeQueries": list(written_by),
        "fields": fields_of(source.columns),
        "type": source.kind,
        "timestamp": source.timestamp_column or "",
        "statistics": "",
        "errorStats": "",
        "extended": extended,
        "keyFormat": source.key_format,
        "valueFormat": source.value_format,
        "topic": source.topic,
        "partitions": partitions,
        "replication": replication,
        "statement": f"{source.text.rstrip().rstrip(';')};",
        "queryOffsetSummaries": [],
        "sourceConstraints": [],
    }
    return entity("sourceDescription", text, sourceDescription=description)


def query_description(
    text: str,
    plan: Plan,
    *,
    query_id: str,
    statement: str,
    sources: Sequence[str],
    sinks: Sequence[str],
    state: str,
) -> Json:
    description: Json = {
        "id": query_id,
        "statementText": f"{statement.rstrip().rstrip(';')};",
        "windowType": None if plan.window is None else plan.window.kind,
        "fields": fields_of(plan.columns),
        "sources": list(sources),
        "sinks": list(sinks),
        "topology": plan.topology.describe(),
        "executionPlan": "",
        "overriddenProperties": {},
        "ksqlHostQueryStatus": {},
        "queryType": "PERSISTENT" if sinks else "PUSH",
        "state": state,
    }
    return entity("queryDescription", text, queryDescription=description)
