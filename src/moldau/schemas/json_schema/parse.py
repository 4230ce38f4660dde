"""JSON Schemas to a tree: checked against their draft, and cut into the parts that rules compare.

Pure. A schema that mixes keywords of several kinds (a type and an enum, properties and anyOf) becomes an
``allOf`` of parts of one kind each. Invariant: no pattern of a schema is ever compiled or run here. The check
of keywords is a table and one pass: validating against the meta-schemas costs milliseconds for every
property, which a client could use to stop the service; tests compare with them.
"""

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any

from moldau.schemas.json_schema.documents import JsonDocuments
from moldau.schemas.limits import InvalidSchema, compact, load_json

TYPES = frozenset({"null", "boolean", "object", "array", "number", "string", "integer"})
CRITERIA = ("allOf", "anyOf", "oneOf")
_STRING = frozenset({"minLength", "maxLength", "pattern"})
_NUMBER = frozenset({"minimum", "maximum", "exclusiveMinimum", "exclusiveMaximum", "multipleOf"})
_OBJECT = frozenset(
    {
        "properties",
        "patternProperties",
        "additionalProperties",
        "unevaluatedProperties",
        "required",
        "propertyNames",
    }
    | {"minProperties", "maxProperties", "dependencies", "dependentRequired", "dependentSchemas"}
)
_ARRAY = frozenset(
    {"items", "prefixItems", "additionalItems", "unevaluatedItems", "contains", "minContains", "maxContains"}
    | {"minItems", "maxItems", "uniqueItems"}
)
_FAMILIES = {"object": _OBJECT, "array": _ARRAY, "string": _STRING, "number": _NUMBER}
#: Where subschemas are, and since which draft.
_ONE = {
    **dict.fromkeys(("not", "additionalProperties"), 4),
    **dict.fromkeys(("propertyNames", "contains"), 6),
    **dict.fromkeys(("if", "then", "else"), 7),
    **dict.fromkeys(("unevaluatedProperties", "unevaluatedItems"), 2019),
}
_MANY = {
    **dict.fromkeys(("properties", "patternProperties", "definitions"), 4),
    **dict.fromkeys(("$defs", "dependentSchemas"), 2019),
}


@dataclass(slots=True, eq=False)
class JsonSchema:
    """One part: `kind` says which rules apply; subschemas are built, everything else is read from
    `keywords`.
    """

    kind: str
    keywords: Mapping[str, Any] = field(default_factory=dict)
    parts: tuple["JsonSchema", ...] = ()
    criterion: str = ""
    one: dict[str, "JsonSchema"] = field(default_factory=dict)
    many: dict[str, dict[str, "JsonSchema"]] = field(default_factory=dict)
    prefix: tuple["JsonSchema", ...] = ()
    rest: "JsonSchema | None" = None
    target: "JsonSchema | None" = None
    integer: bool = False
    required: frozenset[str] = frozenset()


@dataclass(frozen=True, slots=True, eq=False)
class JsonDocument:
    """A parsed schema with the documents that it refers to."""

    root: JsonSchema
    documents: JsonDocuments

    @property
    def value(self) -> Any:
        return self.documents.value


def parse_json(text: str, references: Mapping[str, Any]) -> JsonDocument:
    """Parse and check; `references` are the JSON values of referenced schemas by reference name."""
    value = load_json(text)
    if not isinstance(value, dict | bool):
        raise InvalidSchema("A JSON Schema is an object or a boolean")
    try:
        documents = JsonDocuments(value, references)
        return JsonDocument(_Builder(documents).root(), documents)
    except RecursionError:
        raise InvalidSchema("The schema is nested too deeply") from None


class _Builder:
    """The parts built so far, by the identity of their JSON."""

    def __init__(self, documents: JsonDocuments) -> None:
        self.documents = documents
        self.made: dict[int, JsonSchema] = {}
        self.pending: list[tuple[JsonSchema, Mapping[str, Any], str]] = []

    def root(self) -> JsonSchema:
        made = self.build(self.documents.value, self.documents.draft, "#")
        while self.pending:
            part, within, reference = self.pending.pop()
            value, draft = self.documents.resolve(within, reference)
            part.target = self.build(value, draft, reference)
        for part in self.made.values():
            dereferenced(part)
        return made

    def build(self, value: Any, draft: int, path: str) -> JsonSchema:
        if isinstance(value, bool) and draft != 4:
            return JsonSchema("empty" if value else "false")
        if not isinstance(value, dict):
            raise InvalidSchema(f"{path}: a schema is an object{'' if draft == 4 else ' or a boolean'}")
        if id(value) not in self.made:
            made = JsonSchema("empty", value)
            self.made[id(value)] = made
            _check_keywords(value, draft, path)
            self._fill(made, value, draft, path)
        return self.made[id(value)]

    def _fill(self, made: JsonSchema, value: dict[str, Any], draft: int, path: str) -> None:
        # All subschemas are checked, also those that say nothing here, such as properties of a string.
        self._one(value, [keyword for keyword, since in _ONE.items() if draft >= since], draft, path)
        for keyword, since in _MANY.items():
            if draft >= since:
                self._many(value, keyword, draft, path)
        parts: list[JsonSchema] = []
        for keyword in ("$ref", "$recursiveRef", "$dynamicRef"):
            if keyword in value and (keyword == "$ref" or draft >= 2019):
                part = JsonSchema("ref", {})
                self.pending.append((part, value, value[keyword]))
                parts.append(part)
        if not parts or draft >= 2019:
            parts += self._parts(value, draft, path)
        if len(parts) == 1:
            only = parts[0]
            made.keywords = value if only.kind in ("ref", "combined") else only.keywords
            for name in (
                "kind",
                "parts",
                "criterion",
                "one",
                "many",
                "prefix",
                "rest",
                "integer",
                "required",
            ):
                setattr(made, name, getattr(only, name))
            if only.kind == "ref":
                made.target = only
        elif parts:
            made.kind, made.criterion, made.parts = "combined", "allOf", tuple(parts)

    def _parts(self, value: dict[str, Any], draft: int, path: str) -> Iterator[JsonSchema]:
        kinds = value.get("type")
        if isinstance(kinds, list):
            typed = tuple(self._typed(kind, value, draft, path) for kind in kinds)
            yield typed[0] if len(typed) == 1 else JsonSchema("combined", {}, typed, "anyOf")
        elif kinds is not None:
            yield self._typed(kinds, value, draft, path)
        else:
            for kind, family in _FAMILIES.items():
                if not family.isdisjoint(value):
                    yield self._typed(kind, value, draft, path)
        if "enum" in value:
            yield JsonSchema("enum", {**value, "enum": value["enum"]})
        if "const" in value and draft >= 6:
            yield JsonSchema("enum", {**value, "enum": [value["const"]]})
        if "not" in value:
            yield JsonSchema("not", value, one={"not": self.build(value["not"], draft, f"{path}/not")})
        for criterion in CRITERIA:
            if criterion in value:
                subs = tuple(
                    self.build(each, draft, f"{path}/{criterion}/{index}")
                    for index, each in enumerate(value[criterion])
                )
                yield JsonSchema("combined", {}, subs, criterion)
        if "if" in value and draft >= 7 and ("then" in value or "else" in value):
            yield JsonSchema("conditional", value, one=self._one(value, ("if", "then", "else"), draft, path))

    def _one(self, value: dict[str, Any], names: Any, draft: int, path: str) -> dict[str, JsonSchema]:
        return {name: self._below(value[name], draft, f"{path}/{name}") for name in names if name in value}

    def _below(self, value: Any, draft: int, path: str) -> JsonSchema:
        """Draft 4 knows booleans in two places only: for properties and items beyond those that are named."""
        if isinstance(value, bool) and path.endswith(("/additionalProperties", "/additionalItems")):
            return JsonSchema("empty" if value else "false")
        return self.build(value, draft, path)

    def _many(self, value: dict[str, Any], keyword: str, draft: int, path: str) -> dict[str, JsonSchema]:
        return {
            name: self.build(each, draft, f"{path}/{keyword}/{name}")
            for name, each in value.get(keyword, {}).items()
        }

    def _typed(self, kind: str, value: dict[str, Any], draft: int, path: str) -> JsonSchema:
        # A keyword of a later draft is a remark here, whatever its value is.
        known = {key: each for key, each in value.items() if key not in _CHECKS or draft >= _CHECKS[key][1]}
        if kind in ("number", "integer"):
            return JsonSchema("number", _limits(known), integer=kind == "integer")
        made = JsonSchema(kind, known)
        if kind == "object":
            made.required = frozenset(known.get("required", ()))
            names = ("additionalProperties", "propertyNames", "unevaluatedProperties")
            made.one = self._one(value, [each for each in names if draft >= _ONE[each]], draft, path)
            made.many = {
                keyword: self._many(known, keyword, draft, path)
                for keyword in ("properties", "patternProperties", "dependentSchemas")
            }
            for name, each in value.get("dependencies", {}).items():
                if not isinstance(each, list):
                    built = self.build(each, draft, f"{path}/dependencies/{name}")
                    made.many["dependentSchemas"][name] = built
        elif kind == "array":
            self._items(made, value, draft, path)
        return made

    def _items(self, made: JsonSchema, value: dict[str, Any], draft: int, path: str) -> None:
        tuple_keyword, rest_keyword = "prefixItems", "items"
        if draft < 2020:
            tuple_keyword, rest_keyword = "items", "additionalItems"
        declared = value.get(tuple_keyword)
        if isinstance(declared, list):
            made.prefix = tuple(
                self.build(each, draft, f"{path}/{tuple_keyword}/{index}")
                for index, each in enumerate(declared)
            )
        elif draft < 2020:
            rest_keyword = "items"
        if rest_keyword not in value and draft >= 2019:
            rest_keyword = "unevaluatedItems"
        if rest_keyword in value:
            made.rest = self._below(value[rest_keyword], draft, f"{path}/{rest_keyword}")
        if draft >= 6:
            made.one = self._one(value, ("contains",), draft, path)


def dereferenced(schema: JsonSchema) -> JsonSchema:
    """Follows references to what they stand for; a chain that only leads back to itself says nothing."""
    seen: set[int] = set()
    while schema.kind == "ref" and schema.target is not None:
        if id(schema) in seen:
            raise InvalidSchema("A $ref leads back to itself")
        seen.add(id(schema))
        schema = schema.target
    return schema


def _limits(value: Mapping[str, Any]) -> dict[str, Any]:
    """Draft 4 says `exclusiveMaximum: true` beside a maximum; later drafts give the number itself."""
    made = dict(value)
    for inclusive, exclusive in (("maximum", "exclusiveMaximum"), ("minimum", "exclusiveMinimum")):
        if isinstance(made.get(exclusive), bool) and made.pop(exclusive) and inclusive in made:
            made[exclusive] = made.pop(inclusive)
    return made


def _number(value: Any) -> bool:
    return isinstance(value, int | float) and not isinstance(value, bool)


def _count(value: Any) -> bool:
    return _number(value) and value >= 0 and value == int(value)


def _names(value: Any) -> bool:
    return (
        isinstance(value, list)
        and all(isinstance(each, str) for each in value)
        and len(set(value)) == len(value)
    )


def _schemas(value: Any) -> bool:
    return isinstance(value, dict)


def _text(value: Any) -> bool:
    return isinstance(value, str)


def _flag(value: Any) -> bool:
    return isinstance(value, bool)


def _list(value: Any) -> bool:
    return isinstance(value, list) and bool(value)


def _type(value: Any) -> bool:
    return (
        value in TYPES
        if isinstance(value, str)
        else _names(value) and bool(value) and TYPES.issuperset(value)
    )


def _dependencies(value: Any) -> bool:
    return isinstance(value, dict) and all(_names(each) for each in value.values() if isinstance(each, list))


def _required_by(value: Any) -> bool:
    return isinstance(value, dict) and all(_names(each) for each in value.values())


#: keyword -> the check of its own value, since which draft; subschemas are checked where they are built
_CHECKS: dict[str, tuple[Callable[[Any], bool], int]] = {
    **dict.fromkeys(
        ("minLength", "maxLength", "minItems", "maxItems", "minProperties", "maxProperties"), (_count, 4)
    ),
    **dict.fromkeys(("minContains", "maxContains"), (_count, 2019)),
    **dict.fromkeys(("title", "description", "pattern", "format", "$ref"), (_text, 4)),
    **dict.fromkeys(("$comment",), (_text, 7)),
    **dict.fromkeys(("$anchor", "$recursiveRef", "$dynamicRef"), (_text, 2019)),
    **dict.fromkeys(("properties", "patternProperties", "definitions"), (_schemas, 4)),
    **dict.fromkeys(("$defs", "dependentSchemas"), (_schemas, 2019)),
    **dict.fromkeys(CRITERIA, (_list, 4)),
    **dict.fromkeys(("minimum", "maximum"), (_number, 4)),
    "multipleOf": (lambda value: _number(value) and value > 0, 4),
    "uniqueItems": (_flag, 4),
    "required": (_names, 4),
    "type": (_type, 4),
    "enum": (lambda value: isinstance(value, list), 4),
    "dependencies": (_dependencies, 4),
    "dependentRequired": (_required_by, 2019),
    "prefixItems": (_list, 2020),
    "$id": (_text, 6),
}


def _check_keywords(value: dict[str, Any], draft: int, path: str) -> None:
    for keyword, (check, since) in _CHECKS.items():
        if keyword in value and draft >= since and not check(value[keyword]):
            raise InvalidSchema(f"{path}/{keyword}: {compact(value[keyword])[:100]} is not allowed here")
    for keyword in ("exclusiveMinimum", "exclusiveMaximum"):
        limit = value.get(keyword, 0)
        if not (_flag(limit) or keyword not in value if draft == 4 else _number(limit)):
            raise InvalidSchema(f"{path}/{keyword}: {compact(limit)[:100]} is not allowed in this draft")
    if draft == 4 and (
        ("required" in value and not value["required"]) or ("enum" in value and not value["enum"])
    ):
        raise InvalidSchema(f"{path}: draft 4 does not allow an empty required or enum")
    if draft >= 2020 and isinstance(value.get("items"), list):
        raise InvalidSchema(f"{path}/items: an array of schemas is called prefixItems since 2020-12")
