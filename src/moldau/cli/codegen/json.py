"""Dataclasses from a JSON Schema: an object with properties is a class, everything else a type.

A property that is not required is None unless it is given. Types say what the schema says of the kind of a
value; lengths, patterns and bounds are the schema's own business, and what Python has no type for is ``Any``.

Invariant: pure; see ``generated_classes``. References are followed inside the document and its registered
references, each class is made once.
"""

from collections.abc import Mapping
from typing import Any

from moldau.cli.codegen.classes import Module, class_name, comment, identifier, literal
from moldau.schemas.json_schema.schema import JsonDocument

_SCALARS = {"null": "None", "boolean": "bool", "integer": "int", "number": "float", "string": "str"}


def write_json(module: Module, document: JsonDocument, name: str) -> None:
    """``name`` is for a schema that has no title."""
    _Writer(module, document.value, document.documents).annotation(document.value, name)


class _Writer:
    def __init__(self, module: Module, root: Any, documents: Mapping[str, Any]) -> None:
        self._module = module
        self._root = root
        self._documents = documents
        #: The annotation of a schema by its identity; a class is here before it is written.
        self._made: dict[int, str] = {}

    def annotation(self, schema: Any, name: str) -> str:
        if not isinstance(schema, dict):
            return self._any()
        if "$ref" in schema:
            target, last = self._target(str(schema["$ref"]))
            return self._any() if target is None else self.annotation(target, last or name)
        if id(schema) not in self._made:
            self._made[id(schema)] = self._any()
            self._made[id(schema)] = self._annotation(schema, name)
        return self._made[id(schema)]

    def _any(self) -> str:
        return self._module.use("typing", "Any")

    def _target(self, reference: str) -> tuple[Any, str]:
        """What a reference leads to, and the last part of its name; None where that is not known."""
        document, _, pointer = reference.partition("#")
        found: Any = self._documents.get(document) if document else self._root
        if document and document == (self._root.get("$id") if isinstance(self._root, dict) else None):
            found = self._root
        parts = [part.replace("~1", "/").replace("~0", "~") for part in pointer.split("/")[1:]]
        for part in parts:
            found = found.get(part) if isinstance(found, dict) else None
        stem = document.rpartition("/")[2].partition(".")[0]
        return found, parts[-1] if parts else stem

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
