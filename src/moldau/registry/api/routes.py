"""The paths of the registry: one table, from which requests are answered and the OpenAPI document is made."""

from moldau.registry.api import resources
from moldau.web.routes import Route, RouteTable, flag, number, text

_PAGE = (number("offset"), number("limit"))
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
        (text("subjectPrefix"), flag("deleted"), flag("deletedOnly"), *_PAGE),
    ),
    Route(
        "POST",
        _SUBJECT,
        resources.look_up,
        "Look up a schema under a subject",
        (flag("normalize"), flag("deleted"), text("format")),
        "Schema",
    ),
    Route("DELETE", _SUBJECT, resources.delete_subject, "Delete a subject", (flag("permanent"),)),
    Route(
        "GET",
        f"{_SUBJECT}/versions",
        resources.list_versions,
        "List the versions of a subject",
        (flag("deleted"), flag("deletedOnly"), *_PAGE),
    ),
    Route(
        "POST",
        f"{_SUBJECT}/versions",
        resources.register,
        "Register a schema under a subject",
        (flag("normalize"),),
        "Schema",
    ),
    Route(
        "GET",
        f"{_SUBJECT}/metadata",
        resources.latest_with_metadata,
        "The latest version with these properties",
        (text("key"), text("value"), flag("deleted"), text("format")),
    ),
    Route(
        "GET", _VERSION, resources.get_version, "A version of a subject", (flag("deleted"), text("format"))
    ),
    Route("DELETE", _VERSION, resources.delete_version, "Delete a version", (flag("permanent"),)),
    Route(
        "GET",
        f"{_VERSION}/schema",
        resources.get_version_schema,
        "The schema of a version",
        (flag("deleted"), text("format")),
    ),
    Route(
        "GET",
        f"{_VERSION}/referencedby",
        resources.referenced_by,
        "The ids of schemas that refer to a version",
        (flag("deleted"), *_PAGE),
    ),
    Route(
        "GET",
        "/schemas",
        resources.list_schemas,
        "List versions of all subjects",
        (text("subjectPrefix"), flag("deleted"), flag("latestOnly"), *_PAGE),
    ),
    Route("GET", "/schemas/types", resources.schema_types, "The types of schemas"),
    Route(
        "GET",
        "/schemas/ids/{id:integer}",
        resources.get_by_id,
        "A schema by its id",
        (text("subject"), text("format"), flag("fetchMaxId")),
    ),
    Route(
        "GET",
        "/schemas/ids/{id:integer}/schema",
        resources.get_schema_by_id,
        "The text of a schema by its id",
        (text("subject"), text("format")),
    ),
    Route(
        "GET",
        "/schemas/ids/{id:integer}/subjects",
        resources.subjects_of_id,
        "The subjects that use a schema",
        (text("subject"), flag("deleted"), *_PAGE),
    ),
    Route(
        "GET",
        "/schemas/ids/{id:integer}/versions",
        resources.versions_of_id,
        "The versions that use a schema",
        (text("subject"), flag("deleted"), *_PAGE),
    ),
    Route("GET", "/schemas/guids/{guid}", resources.get_by_guid, "A schema by its guid", (text("format"),)),
    Route("GET", "/schemas/guids/{guid}/ids", resources.ids_of_guid, "The ids of a schema in each context"),
    Route(
        "POST",
        _CHECK,
        resources.check_compatibility,
        "Check a schema beside the versions that the level asks for",
        (flag("verbose"), flag("normalize")),
        "Schema",
    ),
    Route(
        "POST",
        f"{_CHECK}/{{version}}",
        resources.check_compatibility,
        "Check a schema beside one version",
        (flag("verbose"), flag("normalize"), flag("deleted")),
        "Schema",
    ),
    *(
        route
        for path in ("", "/{subject}")
        for route in (
            Route("GET", f"/config{path}", resources.get_config, "The config", (flag("defaultToGlobal"),)),
            Route("PUT", f"/config{path}", resources.set_config, "Change the config", (), "Config"),
            Route("DELETE", f"/config{path}", resources.delete_config, "Take the config back"),
            Route("GET", f"/mode{path}", resources.get_mode, "The mode", (flag("defaultToGlobal"),)),
            Route("PUT", f"/mode{path}", resources.set_mode, "Change the mode", (flag("force"),), "Mode"),
            Route("DELETE", f"/mode{path}", resources.delete_mode, "Take the mode back"),
        )
    ),
    Route("GET", "/contexts", resources.contexts, "List contexts", _PAGE),
    Route("GET", "/v1/metadata/id", resources.metadata_id, "The ids of the clusters"),
    Route("GET", "/v1/metadata/version", resources.metadata_version, "The version of the server"),
)

#: Every path exists in every context too.
TABLE = RouteTable(ROUTES, prefix="/contexts/{context}")
