"""One HTTP request as the registry's resources see it: subject, version, flags and body, checked.

Invariant: from text to values. What a client got wrong becomes a ``RegistryError``; nothing here knows what
the values are for. A body is read up to ``max_bytes``, never further.
"""

import json
from typing import Any

from starlette.requests import Request

from moldau.registry.decisions import Wanted
from moldau.registry.errors import RegistryError, invalid_schema, invalid_version
from moldau.registry.records import AVRO, read_references
from moldau.registry.service import Registry
from moldau.registry.state import LATEST
from moldau.registry.subjects import ALL_CONTEXTS, DEFAULT_CONTEXT, normal, qualified

_LARGEST = (1 << 31) - 1


class Call:
    """``parameters`` are the variable parts of the path; ``context`` is that of ``/contexts/{context}/…``."""

    def __init__(
        self, registry: Registry, request: Request, parameters: dict[str, str], context: str, max_bytes: int
    ) -> None:
        self.registry = registry
        self.request = request
        self.parameters = parameters
        self.context = context
        self._max_bytes = max_bytes
        self._body: bytes | None = None

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
            raise RegistryError(404, 404, "HTTP 404 Not Found")
        return int(text)

    def _qualified(self, name: str) -> str:
        if name.startswith(":") or self.context == DEFAULT_CONTEXT:
            return normal(name)
        return qualified(self.context, name)

    # The query.

    def flag(self, name: str) -> bool:
        return self.request.query_params.get(name, "").lower() == "true"

    def text(self, name: str) -> str | None:
        return self.request.query_params.get(name)

    def number(self, name: str, default: int) -> int:
        text = self.request.query_params.get(name)
        if text is None or text == "":
            return default
        try:
            return int(text)
        except ValueError:
            raise RegistryError(400, 400, f"{name}={text} is no number") from None

    def query_subject(self) -> str:
        """The subject in whose context an id is meant."""
        return self._qualified(self.request.query_params.get("subject", ""))

    def prefix(self) -> str:
        """How the names of subjects have to begin; those of the default context where nothing is said."""
        text = self.request.query_params.get("subjectPrefix", "")
        return text if text.startswith(ALL_CONTEXTS) else self._qualified(text)

    def page(self, found: list[Any]) -> list[Any]:
        offset, limit = self.number("offset", 0), self.number("limit", -1)
        begin = max(offset, 0)
        return found[begin:] if limit < 0 else found[begin : begin + limit]

    # The body.

    async def raw_body(self) -> bytes:
        if self._body is None:
            parts, size = [], 0
            async for part in self.request.stream():
                size += len(part)
                if size > self._max_bytes:
                    raise RegistryError(413, 413, f"The request is larger than {self._max_bytes} bytes")
                parts.append(part)
            self._body = b"".join(parts)
        return self._body

    async def body(self) -> dict[str, Any]:
        try:
            found = json.loads(await self.raw_body())
        except (ValueError, RecursionError) as error:
            raise RegistryError(400, 400, f"The request is no JSON: {error}") from None
        if not isinstance(found, dict):
            raise RegistryError(400, 400, "The request is no JSON object")
        return found

    async def wanted(self) -> Wanted:
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
        try:
            references = read_references(body.get("references") or [])
        except ValueError as error:
            raise invalid_schema(error) from None
        return Wanted(
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
