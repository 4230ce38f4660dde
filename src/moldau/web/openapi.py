"""The OpenAPI document of a service, made from its table of routes.

Pure: it says nothing that the table does not say.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from moldau.web.problems import ERROR_CODE_AND_MESSAGE_SCHEMA
from moldau.web.routes import Parameter, Route, RouteTable


@dataclass(frozen=True, slots=True)
class Description:
    """A service in the words of its OpenAPI document."""

    title: str
    version: str
    media_type: str = "application/json"
    #: JSON Schemas by name, for bodies and answers.
    schemas: Mapping[str, Any] = field(default_factory=dict)
    problem_schema: Mapping[str, Any] = field(default_factory=lambda: ERROR_CODE_AND_MESSAGE_SCHEMA)


def document(description: Description, table: RouteTable) -> dict[str, Any]:
    paths: dict[str, Any] = {}
    for route in table.routes:
        paths.setdefault(route.plain_path, {})[route.method.lower()] = _operation(description, route)
    return {
        "openapi": "3.1.0",
        "info": {"title": description.title, "version": description.version},
        "paths": paths,
        "components": {"schemas": {"Error": dict(description.problem_schema), **description.schemas}},
    }


def _operation(description: Description, route: Route) -> dict[str, Any]:
    in_path = [part for part in route.segments if isinstance(part, Parameter)]
    answers = route.media_types[:1] or (description.media_type,)
    error = _content(("application/json", *answers) if route.media_types else answers, "Error")
    operation: dict[str, Any] = {
        "summary": route.summary,
        "parameters": [
            *({**_described(each, "path"), "required": True} for each in in_path),
            *(_described(each, "query") for each in route.query),
        ],
        "responses": {
            str(route.status): {"description": "The answer", **_answer(answers, route)},
            "4XX": {"description": "The request is refused", **error},
            "5XX": {"description": "The request cannot be answered at the moment", **error},
        },
    }
    if route.body is not None:
        bodies = route.body_types or (description.media_type,)
        operation["requestBody"] = {"required": True, **_content(bodies, route.body)}
    return operation


def _answer(media_types: Sequence[str], route: Route) -> dict[str, Any]:
    if route.status == 204 or not route.has_answer:
        return {}
    if route.answer is None:
        return {"content": {name: {} for name in media_types}}
    return _content(media_types, route.answer)


def _content(media_types: Sequence[str], schema: str) -> dict[str, Any]:
    return {"content": {name: {"schema": {"$ref": f"#/components/schemas/{schema}"}} for name in media_types}}


def _described(parameter: Parameter, where: str) -> dict[str, Any]:
    found: dict[str, Any] = {"name": parameter.name, "in": where, "schema": {"type": parameter.type}}
    if parameter.description:
        found["description"] = parameter.description
    return found
