"""One HTTP request as the registry's resources see it: subject, version, flags and schema, checked.

Invariant: from text to values. What a client got wrong becomes a ``Problem``; nothing here knows what the
values are for.
"""

from typing import Any

from moldau.registry.decisions import SchemaToRegister
from moldau.registry.errors import invalid_schema, invalid_version
from moldau.registry.records import AVRO, read_references
from moldau.registry.service import Registry
from moldau.registry.state import LATEST
from moldau.registry.subjects import ALL_CONTEXTS, DEFAULT_CONTEXT, context_name, normal, qualified
from moldau.web.call import Asked, Call
from moldau.web.problems import http_problem

_LARGEST = (1 << 31) - 1


class RegistryCall(Call):
    def __init__(self, registry: Registry, asked: Asked) -> None:
        super().__init__(asked)
        self.registry = registry
        context = self.parameters.get("context")
        #: That of ``/contexts/{context}/…``.
        self.context = DEFAULT_CONTEXT if context is None else context_name(context)

    # The path.

    def subject(self) -> str:
        return self._qualified(self.parameters["subject"])

    def subject_or_context(self) -> str | None:
        """What a config or a mode belongs to; None for all."""
        name = self.parameters.get("subject", "")
        if not name and self.context == DEFAULT_CONTEXT:
            return None
        return self._qualified(name) or None

    def version(self) -> int:
        """A version's number, -1 for the latest."""
        text = self.parameters["version"]
        if text in ("latest", "-1"):
            return LATEST
        if not text.isascii() or not text.isdigit() or not 1 <= int(text) <= _LARGEST:
            raise invalid_version(text)
        return int(text)

    def schema_id(self) -> int:
        text = self.parameters["id"]
        if not text.isascii() or not text.isdigit() or int(text) > _LARGEST:
            raise http_problem(404)
        return int(text)

    def _qualified(self, name: str) -> str:
        if name.startswith(":") or self.context == DEFAULT_CONTEXT:
            return normal(name)
        return qualified(self.context, name)

    # The query.

    def query_subject(self) -> str:
        """The subject in whose context an id is meant."""
        return self._qualified(self.text("subject") or "")

    def prefix(self) -> str:
        """How the names of subjects have to begin; those of the default context where nothing is said."""
        text = self.text("subjectPrefix") or ""
        return text if text.startswith(ALL_CONTEXTS) else self._qualified(text)

    # The body.

    async def wanted(self) -> SchemaToRegister:
        """The schema that a body brings."""
        body = await self.body()
        schema = body.get("schema")
        if not isinstance(schema, str) or not schema.strip():
            raise invalid_schema("Empty schema")
        schema_type = body.get("schemaType") or AVRO
        if not isinstance(schema_type, str):
            raise invalid_schema("the type of a schema is a text")
        for name in ("metadata", "ruleSet"):
            if not isinstance(body.get(name), dict | None):
                raise invalid_schema(f"{name} is no object")
        if not isinstance(body.get("references"), list | None):
            raise http_problem(400, "references is no array")
        try:
            references = read_references(body.get("references") or [])
        except ValueError as error:
            raise invalid_schema(error) from None
        return SchemaToRegister(
            schema=schema,
            schema_type=schema_type,
            references=references,
            metadata=body.get("metadata"),
            rule_set=body.get("ruleSet"),
            id=_given(body, "id", least=0),
            version=_given(body, "version", least=1),
        )


def _given(body: dict[str, Any], name: str, *, least: int) -> int | None:
    """A number of the body; what is below the least means that there is none, as with Confluent's client."""
    found = body.get(name)
    if found is None:
        return None
    if not isinstance(found, int) or isinstance(found, bool) or found > _LARGEST:
        raise invalid_schema(f"{name} is no number")
    return found if found >= least else None
