"""The paths of the registry: one table, from which requests are answered and the OpenAPI document is made.

Invariant: a path is matched as it was sent, segment by segment, and decoded after that: the name of a
subject may hold a slash (``%2F``). What is not in the table does not exist.
"""

from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from typing import Any, TypeAlias
from urllib.parse import unquote

from moldau.registry.api import resources
from moldau.registry.api.call import Call
from moldau.registry.subjects import DEFAULT_CONTEXT, context_name

Handler: TypeAlias = Callable[[Call], Awaitable[Any]]


@dataclass(frozen=True, slots=True)
class Route:
    method: str
    path: str
    handler: Handler
    summary: str
    query: tuple[str, ...] = ()
    #: The name of the body's schema in the OpenAPI document.
    body: str | None = None
    #: Whether it has to be answered by the instance that leads.
    writes: bool = False

    @property
    def segments(self) -> list[str]:
        return self.path.strip("/").split("/")


_PAGE = ("offset", "limit")
_SUBJECT = "/subjects/{subject}"
_VERSION = "/subjects/{subject}/versions/{version}"
_CHECK = "/compatibility/subjects/{subject}/versions"

ROUTES = (
    Route("GET", "/", resources.root, "Whether the registry answers"),
    Route(
        "GET",
        "/subjects",
        resources.list_subjects,
        "List subjects",
        ("subjectPrefix", "deleted", "deletedOnly", *_PAGE),
    ),
    Route(
        "POST",
        _SUBJECT,
        resources.look_up,
        "Look up a schema under a subject",
        ("normalize", "deleted"),
        "Schema",
    ),
    Route("DELETE", _SUBJECT, resources.delete_subject, "Delete a subject", ("permanent",), writes=True),
    Route(
        "GET",
        f"{_SUBJECT}/versions",
        resources.list_versions,
        "List the versions of a subject",
        ("deleted", "deletedOnly", *_PAGE),
    ),
    Route(
        "POST",
        f"{_SUBJECT}/versions",
        resources.register,
        "Register a schema under a subject",
        ("normalize",),
        "Schema",
        writes=True,
    ),
    Route(
        "GET",
        f"{_SUBJECT}/metadata",
        resources.latest_with_metadata,
        "The latest version with these properties",
        ("key", "value", "deleted"),
    ),
    Route("GET", _VERSION, resources.get_version, "A version of a subject", ("deleted", "format")),
    Route("DELETE", _VERSION, resources.delete_version, "Delete a version", ("permanent",), writes=True),
    Route(
        "GET",
        f"{_VERSION}/schema",
        resources.get_version_schema,
        "The schema of a version",
        ("deleted", "format"),
    ),
    Route(
        "GET",
        f"{_VERSION}/referencedby",
        resources.referenced_by,
        "The ids of schemas that refer to a version",
        ("deleted", *_PAGE),
    ),
    Route(
        "GET",
        "/schemas",
        resources.list_schemas,
        "List versions of all subjects",
        ("subjectPrefix", "deleted", "latestOnly", *_PAGE),
    ),
    Route("GET", "/schemas/types", resources.schema_types, "The types of schemas"),
    Route(
        "GET",
        "/schemas/ids/{id}",
        resources.get_by_id,
        "A schema by its id",
        ("subject", "format", "fetchMaxId"),
    ),
    Route(
        "GET",
        "/schemas/ids/{id}/schema",
        resources.get_schema_by_id,
        "The text of a schema by its id",
        ("subject", "format"),
    ),
    Route(
        "GET",
        "/schemas/ids/{id}/subjects",
        resources.subjects_of_id,
        "The subjects that use a schema",
        ("subject", "deleted", *_PAGE),
    ),
    Route(
        "GET",
        "/schemas/ids/{id}/versions",
        resources.versions_of_id,
        "The versions that use a schema",
        ("subject", "deleted", *_PAGE),
    ),
    Route("GET", "/schemas/guids/{guid}", resources.get_by_guid, "A schema by its guid", ("format",)),
    Route("GET", "/schemas/guids/{guid}/ids", resources.ids_of_guid, "The ids of a schema in each context"),
    Route(
        "POST",
        _CHECK,
        resources.check_compatibility,
        "Check a schema beside the versions that the level asks for",
        ("verbose", "normalize"),
        "Schema",
    ),
    Route(
        "POST",
        f"{_CHECK}/{{version}}",
        resources.check_compatibility,
        "Check a schema beside one version",
        ("verbose", "normalize"),
        "Schema",
    ),
    *(
        route
        for path in ("", "/{subject}")
        for route in (
            Route("GET", f"/config{path}", resources.get_config, "The config", ("defaultToGlobal",)),
            Route(
                "PUT", f"/config{path}", resources.set_config, "Change the config", (), "Config", writes=True
            ),
            Route("DELETE", f"/config{path}", resources.delete_config, "Take the config back", writes=True),
            Route("GET", f"/mode{path}", resources.get_mode, "The mode", ("defaultToGlobal",)),
            Route(
                "PUT", f"/mode{path}", resources.set_mode, "Change the mode", ("force",), "Mode", writes=True
            ),
            Route("DELETE", f"/mode{path}", resources.delete_mode, "Take the mode back", writes=True),
        )
    ),
    Route("GET", "/contexts", resources.contexts, "List contexts", _PAGE),
    Route("GET", "/v1/metadata/id", resources.metadata_id, "The ids of the clusters"),
    Route("GET", "/v1/metadata/version", resources.metadata_version, "The version of the server"),
)


@dataclass(frozen=True, slots=True)
class Matched:
    route: Route
    parameters: dict[str, str]
    context: str


def match(method: str, raw_path: str) -> Matched | list[str]:
    """The route of a request; otherwise the methods that the path has, none where it does not exist."""
    segments = [unquote(part) for part in raw_path.partition("?")[0].strip("/").split("/")]
    context = DEFAULT_CONTEXT
    if segments[0] == "contexts" and len(segments) > 2:
        context, segments = context_name(segments[1]), segments[2:]
    methods = []
    for route in ROUTES:
        parameters = _parameters(route.segments, segments)
        if parameters is None:
            continue
        if route.method == method:
            return Matched(route, parameters, context)
        methods.append(route.method)
    return methods


def _parameters(pattern: list[str], segments: list[str]) -> dict[str, str] | None:
    if len(pattern) != len(segments):
        return None
    found: dict[str, str] = {}
    for expected, segment in zip(pattern, segments, strict=True):
        if expected.startswith("{"):
            found[expected[1:-1]] = segment
        elif expected != segment:
            return None
    return found
