"""What the registry answers on each of its paths: one function for each, from a call to a JSON value.

Invariant: reads look at the state and decide nothing; writes hand a decision to ``Registry.change``. The
fields are those of Confluent's registry; what is empty is left out.
"""

from typing import Any

from moldau import __version__
from moldau.registry import errors
from moldau.registry.api.call import RegistryCall
from moldau.registry.data_contracts import metadata_form, rule_set_form
from moldau.registry.decisions import config_answer
from moldau.registry.records import AVRO, SchemaValue, references_json
from moldau.registry.state import LATEST, guid_of
from moldau.registry.subjects import split
from moldau.web.routes import Text

#: Confluent's order.
SCHEMA_TYPES = ["JSON", "PROTOBUF", "AVRO"]


def version_answer(value: SchemaValue) -> dict[str, Any]:
    """A version with all that is known of it."""
    answer: dict[str, Any] = {
        "subject": value.subject,
        "version": value.version,
        "id": value.id,
        "guid": guid_of(value),
        "schemaType": value.schema_type,
    }
    answer |= _extras(value)
    answer["schema"] = value.schema
    if value.timestamp_ms is not None:
        answer["ts"] = value.timestamp_ms
    answer["deleted"] = value.deleted
    return answer


def schema_answer(value: SchemaValue) -> dict[str, Any]:
    """A schema by itself, as an id or a guid leads to it; the type is left out for Avro."""
    answer: dict[str, Any] = {"guid": guid_of(value)}
    if value.schema_type != AVRO:
        answer["schemaType"] = value.schema_type
    return answer | {"schema": value.schema} | _extras(value)


def _extras(value: SchemaValue) -> dict[str, Any]:
    found: dict[str, Any] = {}
    if value.references:
        found["references"] = references_json(value.references)
    if metadata := metadata_form(value.metadata):
        found["metadata"] = metadata
    if rule_set := rule_set_form(value.rule_set):
        found["ruleSet"] = rule_set
    return found


# Subjects and versions.


async def list_subjects(call: RegistryCall) -> Any:
    state = call.registry.state
    deleted_only = call.flag("deletedOnly")
    return call.page(state.subjects(call.prefix(), deleted=call.flag("deleted"), deleted_only=deleted_only))


async def look_up(call: RegistryCall) -> Any:
    subject = call.subject()
    wanted = await call.registry.prepare(subject, await call.wanted())
    value = call.registry.decisions.look_up(
        subject, wanted, normalize=call.flag("normalize"), deleted=call.flag("deleted")
    )
    return await _formatted_answer(call, value)


async def delete_subject(call: RegistryCall) -> Any:
    subject, permanent = call.subject(), call.flag("permanent")
    return await call.registry.change(lambda decide: decide.delete_subject(subject, permanent=permanent))


async def list_versions(call: RegistryCall) -> Any:
    subject, deleted_only = call.subject(), call.flag("deletedOnly")
    found = call.registry.state.versions(subject, deleted=call.flag("deleted") or deleted_only)
    found = [value for value in found if value.deleted or not deleted_only]
    if not found:
        raise errors.subject_not_found(subject)
    return call.page([value.version for value in found])


async def register(call: RegistryCall) -> Any:
    subject, normalize = call.subject(), call.flag("normalize")
    given = await call.wanted()
    wanted = await call.registry.prepare(subject, given)
    if wanted.id is None and call.registry.election.leads:  # what is imported is compared with nothing
        await call.registry.compare(subject, wanted, normalize=normalize)
    value = await call.registry.change(lambda decide: decide.register(subject, wanted, normalize=normalize))
    assert isinstance(value, SchemaValue)
    answer = version_answer(value)
    del answer["subject"], answer["deleted"]
    if given.schema_type == "PROTOBUF" and given.schema != value.schema:
        # Sent as a descriptor: clients keep the text of the answer, and want it in the form that they sent.
        del answer["schema"]
    return {"id": answer.pop("id"), **answer}


def _version(call: RegistryCall) -> SchemaValue:
    number = call.version()
    return call.registry.state.version(call.subject(), number, deleted=call.flag("deleted"))


async def get_version(call: RegistryCall) -> Any:
    return await _formatted_answer(call, _version(call))


async def get_version_schema(call: RegistryCall) -> Any:
    return Text(await _formatted(call, _version(call)))


async def referenced_by(call: RegistryCall) -> Any:
    number = call.version()
    value = call.registry.state.version(call.subject(), number, deleted=number != LATEST)
    found = call.registry.state.referrers(value.subject, value.version, deleted=call.flag("deleted"))
    return call.page(sorted({each.id for each in found}))


async def delete_version(call: RegistryCall) -> Any:
    subject, number, permanent = call.subject(), call.version(), call.flag("permanent")
    return await call.registry.change(
        lambda decide: decide.delete_version(subject, number, permanent=permanent)
    )


async def latest_with_metadata(call: RegistryCall) -> Any:
    subject = call.subject()
    sought = dict(zip(call.texts("key"), call.texts("value"), strict=False))
    if not call.registry.state.has(subject, deleted=call.flag("deleted")):
        raise errors.subject_not_found(subject)
    for value in reversed(call.registry.state.versions(subject, deleted=call.flag("deleted"))):
        metadata = value.metadata if isinstance(value.metadata, dict) else {}
        properties = metadata.get("properties") or {}
        if all(properties.get(name) == wanted for name, wanted in sought.items()):
            return await _formatted_answer(call, value)
    raise errors.schema_not_found()


# Schemas by id and guid.


async def list_schemas(call: RegistryCall) -> Any:
    found = call.registry.state.schemas(
        call.prefix(), deleted=call.flag("deleted"), latest_only=call.flag("latestOnly")
    )
    return [version_answer(value) for value in call.page(list(found))]


async def schema_types(call: RegistryCall) -> Any:
    return SCHEMA_TYPES


def _with_id(call: RegistryCall) -> list[SchemaValue]:
    context = split(call.query_subject())[0]
    found = call.registry.state.with_id(context, call.schema_id())
    if not found:
        raise errors.schema_not_found(call.schema_id())
    return found


async def get_by_id(call: RegistryCall) -> Any:
    found = _with_id(call)
    answer = schema_answer(found[0]) | {"schema": await _formatted(call, found[0])}
    if call.flag("fetchMaxId"):
        answer["maxId"] = call.registry.state.max_id(split(found[0].subject)[0])
    return answer


async def get_schema_by_id(call: RegistryCall) -> Any:
    return Text(await _formatted(call, _with_id(call)[0]))


def _uses(call: RegistryCall) -> list[SchemaValue]:
    found, name = _with_id(call), split(call.query_subject())[1]
    return [
        value
        for value in found
        if (call.flag("deleted") or not value.deleted) and name in ("", split(value.subject)[1])
    ]


async def subjects_of_id(call: RegistryCall) -> Any:
    return call.page(list(dict.fromkeys(value.subject for value in _uses(call))))


async def versions_of_id(call: RegistryCall) -> Any:
    return call.page([{"subject": value.subject, "version": value.version} for value in _uses(call)])


def _with_guid(call: RegistryCall) -> list[SchemaValue]:
    guid = call.parameters["guid"]
    found = call.registry.state.with_guid(guid)
    if not found:
        raise errors.schema_not_found(guid)
    return found


async def get_by_guid(call: RegistryCall) -> Any:
    found = _with_guid(call)[0]
    return schema_answer(found) | {"schema": await _formatted(call, found)}


async def ids_of_guid(call: RegistryCall) -> Any:
    found = sorted({(split(value.subject)[0], value.id) for value in _with_guid(call)})
    return [{"context": context, "id": number} for context, number in found]


async def _formatted_answer(call: RegistryCall, value: SchemaValue) -> dict[str, Any]:
    return version_answer(value) | {"schema": await _formatted(call, value)}


async def _formatted(call: RegistryCall, value: SchemaValue) -> str:
    """The text of a schema, in another form where one is asked for."""
    wanted = call.text("format")
    if not wanted:
        return value.schema
    await call.registry.prepare_stored(value)
    return call.registry.decisions.parser.formatted(call.registry.state, value, wanted)


# Compatibility.


async def check_compatibility(call: RegistryCall) -> Any:
    """Compares with one version, or with those that the level asks for."""
    subject, normalize = call.subject(), call.flag("normalize")
    given = await call.wanted()
    against = _version_to_compare(call) if "version" in call.parameters else None
    try:
        wanted = await call.registry.prepare(subject, given)
        await call.registry.compare(subject, wanted, against, normalize=normalize)
        messages = call.registry.decisions.incompatibilities(subject, wanted, against, normalize=normalize)
    except errors.RegistryProblem as problem:
        if problem.code != errors.INVALID_SCHEMA or not call.flag("verbose"):
            raise
        messages = [problem.message]  # who asks for reasons gets this one too
    answer: dict[str, Any] = {"is_compatible": not messages}
    if call.flag("verbose"):
        answer["messages"] = messages
    return answer


def _version_to_compare(call: RegistryCall) -> SchemaValue | None:
    """None where the latest of no versions is meant: a first schema breaks nobody."""
    try:
        return _version(call)
    except errors.RegistryProblem as problem:
        if problem.code != errors.SUBJECT_NOT_FOUND:
            raise
        if call.version() == LATEST:
            return None
        raise errors.version_not_found(call.version()) from None


# Configs and modes.


async def get_config(call: RegistryCall) -> Any:
    state, subject = call.registry.state, call.subject_or_context()
    if subject is None or call.flag("defaultToGlobal"):
        return config_answer(state.effective_config(subject))
    if subject not in state.configs:
        raise errors.config_not_found(subject)
    return config_answer(state.configs[subject])


async def set_config(call: RegistryCall) -> Any:
    subject, body = call.subject_or_context(), await call.body()
    return await call.registry.change(lambda decide: decide.set_config(subject, body))


async def delete_config(call: RegistryCall) -> Any:
    subject = call.subject_or_context()
    return await call.registry.change(lambda decide: decide.delete_config(subject))


async def get_mode(call: RegistryCall) -> Any:
    state, subject = call.registry.state, call.subject_or_context()
    if call.registry.read_only:
        return {"mode": "READONLY"}
    if subject is None or call.flag("defaultToGlobal"):
        return {"mode": state.effective_mode(subject)}
    if subject not in state.modes:
        raise errors.mode_not_found(subject)
    return {"mode": state.modes[subject]}


async def set_mode(call: RegistryCall) -> Any:
    subject, body, force = call.subject_or_context(), await call.body(), call.flag("force")
    mode = body.get("mode")
    return await call.registry.change(lambda decide: decide.set_mode(subject, mode, force=force))


async def delete_mode(call: RegistryCall) -> Any:
    subject = call.subject_or_context()
    return await call.registry.change(lambda decide: decide.delete_mode(subject))


# The service itself.


async def root(call: RegistryCall) -> Any:
    return {}


async def contexts(call: RegistryCall) -> Any:
    return call.page(call.registry.state.contexts())


async def metadata_id(call: RegistryCall) -> Any:
    registry = call.registry
    clusters = {"kafka-cluster": registry.cluster.cluster_id, "schema-registry-cluster": registry.group_id}
    return {"scope": {"path": [], "clusters": clusters}, "id": ""}


async def metadata_version(call: RegistryCall) -> Any:
    return {"version": __version__, "commitId": "moldau"}
