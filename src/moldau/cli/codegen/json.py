"""Dataclasses from a JSON Schema: an object with properties becomes a class, everything else a type.

A property that is not required has the default None. Lengths, patterns and bounds of the schema are left out,
and what Python has no type for is ``Any``. Pure.
"""

from typing import Any

from moldau.cli.codegen.classes import Module, class_name, comment, identifier, literal
from moldau.schemas.json_schema.documents import JsonDocuments
from moldau.schemas.json_schema.parse import JsonDocument

_SCALARS = {"null": "None", "boolean": "bool", "integer": "int", "number": "float", "string": "str"}


def write_json(module: Module, document: JsonDocument, name: str) -> None:
    """Adds the classes of a schema; ``name`` is used if it has no title."""
    _Writer(module, document.documents).annotation(document.value, name)


class _Writer:
    def __init__(self, module: Module, documents: JsonDocuments) -> None:
        self._module = module
        self._documents = documents
        #: The annotation of each schema, by its ``id``. That of a class is added before its fields are
        #: written, because they may refer to it.
        self._made: dict[int, str] = {}

    def annotation(self, schema: Any, name: str) -> str:
        if not isinstance(schema, dict):
            return self._any()
        if "$ref" in schema:
            target, _ = self._documents.resolve(schema, schema["$ref"])
            return self.annotation(target, _last_part(schema["$ref"]) or name)
        if id(schema) not in self._made:
            self._made[id(schema)] = self._any()
            self._made[id(schema)] = self._annotation(schema, name)
        return self._made[id(schema)]

    def _any(self) -> str:
        return self._module.use("typing", "Any")

    def _annotation(self, schema: dict[str, Any], name: str) -> str:
        for keyword in ("anyOf", "oneOf"):
            if isinstance(schema.get(keyword), list):
                parts = [self.annotation(each, f"{name}_{at}") for at, each in enumerate(schema[keyword], 1)]
                return self._union(parts)
        if isinstance(schema.get("allOf"), list) and len(schema["allOf"]) == 1:
            return self.annotation(schema["allOf"][0], name)
        if "enum" in schema or "const" in schema:
            return self._literal(schema["enum"] if "enum" in schema else [schema["const"]])
        types = schema.get("type")
        if isinstance(types, list):
            return self._union([self._of_type(schema, each, name) for each in types])
        if types is None and "properties" in schema:
            types = "object"
        return self._of_type(schema, types, name)

    def _union(self, parts: list[str]) -> str:
        if "Any" in parts:
            return "Any"
        return " | ".join(sorted(dict.fromkeys(parts), key=lambda part: part == "None"))

    def _literal(self, values: list[Any]) -> str:
        if not values or not all(isinstance(each, str | int | None) for each in values):
            return self._any()
        written = (literal(each) if isinstance(each, str) else repr(each) for each in values)
        return f"{self._module.use('typing', 'Literal')}[{', '.join(written)}]"

    def _of_type(self, schema: dict[str, Any], kind: Any, name: str) -> str:
        if kind in _SCALARS:
            return _SCALARS[kind]
        if kind == "array":
            items = schema.get("items")
            inner = self.annotation(items, f"{name}_item") if isinstance(items, dict) else self._any()
            return f"list[{inner}]"
        if kind != "object":
            return self._any()
        if isinstance(schema.get("properties"), dict) and schema["properties"]:
            return self._class(schema, name)
        values = schema.get("additionalProperties")
        inner = self.annotation(values, f"{name}_value") if isinstance(values, dict) else self._any()
        return f"dict[str, {inner}]"

    def _class(self, schema: dict[str, Any], name: str) -> str:
        title = schema.get("title")
        made = self._module.name(class_name(title if isinstance(title, str) and title else name))
        self._made[id(schema)] = made
        required = schema.get("required")
        needed = set(map(str, required)) if isinstance(required, list) else set()
        lines: list[str] = []
        for key, each in schema["properties"].items():
            lines += self._property(key, each, key in needed, f"{made}_{key}")
        doc = schema.get("description")
        self._module.dataclass(made, doc if isinstance(doc, str) else None, lines)
        return made

    def _property(self, key: str, schema: Any, required: bool, name: str) -> list[str]:
        annotation = self.annotation(schema, name)
        doc = schema.get("description") if isinstance(schema, dict) else None
        lines = [comment(doc)] if isinstance(doc, str) else []
        made = identifier(key)
        if made != key:
            lines.append(comment(f"{key!r} in the schema"))
        if required:
            return [*lines, f"{made}: {annotation}"]
        if annotation != "Any" and "None" not in annotation.split(" | "):
            annotation += " | None"
        return [*lines, f"{made}: {annotation} = None"]


def _last_part(reference: str) -> str:
    """A name for the target of a reference."""
    document, _, pointer = reference.partition("#")
    last = pointer.rpartition("/")[2].replace("~1", "/").replace("~0", "~")
    return last or document.rpartition("/")[2].partition(".")[0]
