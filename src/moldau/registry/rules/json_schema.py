"""What a new JSON Schema changes, and whether everything that the old one allowed is still allowed.

The vocabulary is that of Confluent's registry (`PROPERTY_REMOVED_FROM_CLOSED_CONTENT_MODEL` and its like).
A content model is open when unnamed properties are free, closed when there may be none, partially open when
they must fit a schema or a pattern. A pattern decides only when running it is harmless; otherwise both
outcomes must be compatible, and a doubtful change is refused. Where Confluent looks away (required names
without a property, patterns, conditionals, propertyNames) a narrowing is refused here too.
"""

from dataclasses import dataclass, field

from moldau.registry.rules.differences import Difference, TooComplex, Walk, breaks, under
from moldau.registry.rules.json_patterns import may_match
from moldau.registry.rules.json_values import changed_limits, changed_values
from moldau.schemas.json_schema.parse import JsonSchema, dereferenced

_EMPTY = JsonSchema("empty")
_FALSE = JsonSchema("false")


def _allowed(kind: str, path: str = "") -> Difference:
    return Difference(kind, path, breaking=False)


def changes(original: JsonSchema, update: JsonSchema) -> list[Difference]:
    """All differences, with paths such as `#/properties/age`; data stays readable when none of them is
    breaking.
    """
    try:
        found = list(_Comparison().compare(original, update))
    except (TooComplex, RecursionError):
        found = [Difference("SCHEMA_TOO_COMPLEX")]
    return [
        Difference(each.kind, "#" + (each.path or "/"), each.breaking, each.information) for each in found
    ]


@dataclass(slots=True)
class _Comparison:
    walk: Walk = field(default_factory=Walk)

    def compare(self, original: JsonSchema, update: JsonSchema) -> tuple[Difference, ...]:
        original, update = dereferenced(original), dereferenced(update)
        return self.walk.compare(original, update, lambda: self._compare(original, update))

    def _compare(self, original: JsonSchema, update: JsonSchema) -> list[Difference]:
        if original.kind != "combined" and update.kind == "combined":
            return self._into_combined(original, update)
        if original.kind == "combined" and update.kind != "combined":
            return self._out_of_combined(original, update)
        if original.kind != update.kind:
            fine = original.kind == "false" or update.kind == "empty"
            return [] if fine else [Difference("TYPE_CHANGED")]
        found = _annotations(original, update)
        match original.kind:
            case "string" | "number" | "enum":
                found += changed_values(original, update)
            case "combined":
                found += self._combined(original, update)
            case "not":
                # What must not match may only shrink: the same comparison, the other way round.
                narrowed = not breaks(self.compare(update.one["not"], original.one["not"]))
                found.append(
                    Difference(f"NOT_TYPE_{'NARROWED' if narrowed else 'EXTENDED'}", "/not", not narrowed)
                )
            case "object":
                found += self._object(original, update)
            case "array":
                found += self._array(original, update)
            case "conditional":
                found += self._conditional(original, update)
        return found

    def _into_combined(self, original: JsonSchema, update: JsonSchema) -> list[Difference]:
        answers = [self.compare(original, part) for part in update.parts]
        compatible = [answer for answer in answers if not breaks(answer)]
        if len(answers) == 1 and compatible:
            return list(compatible[0])
        if update.criterion == "allOf":
            if len(compatible) == len(answers):
                return [each for answer in answers for each in answer]
            return [Difference("PRODUCT_TYPE_EXTENDED")]
        if compatible:
            return [*compatible[0], _allowed("SUM_TYPE_EXTENDED")]
        return [] if original.kind == "false" else [Difference("TYPE_CHANGED")]

    def _out_of_combined(self, original: JsonSchema, update: JsonSchema) -> list[Difference]:
        if update.kind == "empty":
            return []
        answers = [self.compare(part, update) for part in original.parts]
        compatible = [answer for answer in answers if not breaks(answer)]
        if original.criterion == "allOf" and compatible:
            return [*compatible[0], *([_allowed("PRODUCT_TYPE_NARROWED")] if len(answers) > 1 else [])]
        if len(compatible) == len(answers):
            return [each for answer in answers for each in answer]
        if original.criterion != "allOf" and compatible:
            return [Difference("SUM_TYPE_NARROWED")]
        return [Difference("TYPE_CHANGED")]

    def _combined(self, original: JsonSchema, update: JsonSchema) -> list[Difference]:
        found: list[Difference] = []
        if original.criterion != update.criterion:
            if not _criterion_may_change(original, update):
                return [Difference("COMBINED_TYPE_CHANGED")]
            found.append(_allowed("COMBINED_TYPE_EXTENDED"))
        fewer = len(original.parts) > len(update.parts)
        if len(original.parts) != len(update.parts):
            product = update.criterion == "allOf"
            kind = f"{'PRODUCT' if product else 'SUM'}_TYPE_{'NARROWED' if fewer else 'EXTENDED'}"
            found.append(Difference(kind, breaking=product != fewer))
        edges = [
            {
                column: answer
                for column, new in enumerate(update.parts)
                if not breaks(answer := self.compare(old, new))
            }
            for old in original.parts
        ]
        pairs = _matching([list(row) for row in edges])
        for column, row in sorted(pairs.items(), key=lambda pair: pair[1]):
            found += under(f"/{original.criterion}/{row}", edges[row][column])
        if len(pairs) < min(len(original.parts), len(update.parts)):
            found.append(Difference("COMBINED_TYPE_SUBSCHEMAS_CHANGED"))
        return found

    def _conditional(self, original: JsonSchema, update: JsonSchema) -> list[Difference]:
        condition = (original.one["if"], update.one["if"])
        if breaks(self.compare(*condition)) or breaks(self.compare(*reversed(condition))):
            return [Difference("COMBINED_TYPE_CHANGED", "/if")]
        found: list[Difference] = []
        for branch in ("then", "else"):
            found += under(
                f"/{branch}", self.compare(original.one.get(branch, _EMPTY), update.one.get(branch, _EMPTY))
            )
        return found

    # Objects.

    def _object(self, original: JsonSchema, update: JsonSchema) -> list[Difference]:
        found = self._required(original, update)
        before, after = original.many["properties"], update.many["properties"]
        for name in {**before, **after}:
            if name not in after:
                answer = self._property_removed(name, before[name], update)
            elif name not in before:
                answer = self._property_added(name, original, update)
            else:
                answer = list(self.compare(before[name], after[name]))
                for schema in self._new_patterns(name, original, update):
                    answer += [each for each in self.compare(before[name], schema) if each.breaking]
            found += under(f"/properties/{name}", answer)
        found += self._dependencies(original, update)
        found += self._additional(original, update)
        found += self._patterns(original, update)
        names = self.compare(
            original.one.get("propertyNames", _EMPTY), update.one.get("propertyNames", _EMPTY)
        )
        found += under("/propertyNames", names)
        return found + changed_limits(original, update, ("maxProperties", "minProperties"))

    def _required(self, original: JsonSchema, update: JsonSchema) -> list[Difference]:
        before, after = original.required, update.required
        declared = update.many["properties"]
        known = original.many["properties"]
        found = [
            _allowed("REQUIRED_ATTRIBUTE_REMOVED", f"/required/{name}") for name in sorted(before - after)
        ]
        for name in sorted(after - before):
            path = f"/required/{name}"
            if name in declared and _has_default(declared[name]):
                found.append(_allowed("REQUIRED_ATTRIBUTE_WITH_DEFAULT_ADDED", path))
            elif name in known or name not in declared or dereferenced(declared[name]).kind == "empty":
                # A property that is new as well is compared with the property itself.
                found.append(Difference("REQUIRED_ATTRIBUTE_ADDED", path))
        return found

    def _property_removed(self, name: str, schema: JsonSchema, update: JsonSchema) -> list[Difference]:
        if _is_open(update):
            return [_allowed("PROPERTY_REMOVED_FROM_OPEN_CONTENT_MODEL")]
        covers = self._covers(update, name)
        if covers == [_FALSE]:
            if dereferenced(schema).kind == "false":
                return [_allowed("PROPERTY_WITH_FALSE_REMOVED_FROM_CLOSED_CONTENT_MODEL")]
            return [Difference("PROPERTY_REMOVED_FROM_CLOSED_CONTENT_MODEL")]
        found = [each for cover in covers for each in self.compare(schema, cover)]
        outcome = "NOT" if breaks(found) else "IS"
        kind = f"PROPERTY_REMOVED_{outcome}_COVERED_BY_PARTIALLY_OPEN_CONTENT_MODEL"
        return [*found, Difference(kind, breaking=outcome == "NOT")]

    def _property_added(self, name: str, original: JsonSchema, update: JsonSchema) -> list[Difference]:
        schema = update.many["properties"][name]
        if _is_open(original):
            if dereferenced(schema).kind == "empty":
                return [_allowed("PROPERTY_WITH_EMPTY_SCHEMA_ADDED_TO_OPEN_CONTENT_MODEL")]
            return [Difference("PROPERTY_ADDED_TO_OPEN_CONTENT_MODEL")]
        found: list[Difference] = []
        covers = self._covers(original, name)
        if covers != [_FALSE]:
            found += [each for cover in covers for each in self.compare(cover, schema)]
            outcome = "NOT" if breaks(found) else "IS"
            kind = f"PROPERTY_ADDED_{outcome}_COVERED_BY_PARTIALLY_OPEN_CONTENT_MODEL"
            found.append(Difference(kind, breaking=outcome == "NOT"))
        if name not in update.required or name in original.required:
            found.append(_allowed("OPTIONAL_PROPERTY_ADDED_TO_UNOPEN_CONTENT_MODEL"))
        elif _has_default(schema):
            found.append(_allowed("REQUIRED_PROPERTY_WITH_DEFAULT_ADDED_TO_UNOPEN_CONTENT_MODEL"))
        else:
            found.append(Difference("REQUIRED_PROPERTY_ADDED_TO_UNOPEN_CONTENT_MODEL"))
        return found

    def _dependencies(self, original: JsonSchema, update: JsonSchema) -> list[Difference]:
        found: list[Difference] = []
        before, after = _needed(original), _needed(update)
        for name in {**before, **after}:
            old, new = before.get(name), after.get(name)
            path = f"/dependencies/{name}"
            if new is None:
                found.append(_allowed("DEPENDENCY_ARRAY_REMOVED", path))
            elif old is None:
                found.append(Difference("DEPENDENCY_ARRAY_ADDED", path))
            elif old != new:
                kind = "EXTENDED" if new > old else "NARROWED" if new < old else "CHANGED"
                found.append(Difference(f"DEPENDENCY_ARRAY_{kind}", path, breaking=kind != "NARROWED"))
        schemas, updated = original.many["dependentSchemas"], update.many["dependentSchemas"]
        for name in {**schemas, **updated}:
            path = f"/dependencies/{name}"
            if name not in updated:
                found.append(_allowed("DEPENDENCY_SCHEMA_REMOVED", path))
            elif name not in schemas:
                found.append(Difference("DEPENDENCY_SCHEMA_ADDED", path))
            else:
                found += under(path, self.compare(schemas[name], updated[name]))
        return found

    def _additional(self, original: JsonSchema, update: JsonSchema) -> list[Difference]:
        word = "additionalProperties"
        if {"unevaluatedProperties"} <= {*original.one, *update.one} and word not in {
            *original.one,
            *update.one,
        }:
            word = "unevaluatedProperties"
        kind = "ADDITIONAL_PROPERTIES" if word == "additionalProperties" else "UNEVALUATED_PROPERTIES"
        return under(f"/{word}", self._content(_additional(original), _additional(update), kind))

    def _content(self, before: JsonSchema, after: JsonSchema, kind: str) -> list[Difference]:
        """The schema of what is not named, for objects and arrays alike."""
        if (before.kind == "false") != (after.kind == "false"):
            added = before.kind == "false"
            return [Difference(f"{kind}_{'ADDED' if added else 'REMOVED'}", breaking=not added)]
        if (before.kind == "empty") != (after.kind == "empty"):
            narrowed = before.kind == "empty"
            return [Difference(f"{kind}_{'NARROWED' if narrowed else 'EXTENDED'}", breaking=narrowed)]
        return list(self.compare(before, after))

    def _new_patterns(self, name: str, original: JsonSchema, update: JsonSchema) -> list[JsonSchema]:
        """A named property has to fit the patterns that match its name as well."""
        before, after = original.many["patternProperties"], update.many["patternProperties"]
        return [
            schema
            for pattern, schema in after.items()
            if pattern not in before and self._matches(pattern, name) is not False
        ]

    def _matches(self, pattern: str, name: str) -> bool | None:
        # Running a pattern costs more the longer the name is.
        self.walk.spend(1 + len(name))
        return may_match(pattern, name)

    def _covers(self, schema: JsonSchema, name: str) -> list[JsonSchema]:
        """What an unnamed property has to fit: every pattern that may match it, and the rest unless one
        surely does.
        """
        covers: list[JsonSchema] = []
        surely = False
        for pattern, each in schema.many["patternProperties"].items():
            matches = self._matches(pattern, name)
            if matches is not False:
                covers.append(each)
            surely = surely or matches is True
        rest = _additional(schema)
        if not surely:
            covers.append(_FALSE if rest.kind == "false" else rest)
        return covers

    def _patterns(self, original: JsonSchema, update: JsonSchema) -> list[Difference]:
        """Names that a pattern governs in one schema fall to the rest of the other one."""
        found: list[Difference] = []
        before, after = original.many["patternProperties"], update.many["patternProperties"]
        for pattern in {**before, **after}:
            old = dereferenced(before.get(pattern, _additional(original)))
            new = dereferenced(after.get(pattern, _additional(update)))
            found += under(f"/patternProperties/{pattern}", self._content(old, new, "ADDITIONAL_PROPERTIES"))
        return found

    # Arrays.

    def _array(self, original: JsonSchema, update: JsonSchema) -> list[Difference]:
        found = self._prefix(original, update)
        before = dereferenced(original.rest or _EMPTY)
        after = dereferenced(update.rest or _EMPTY)
        if original.prefix or update.prefix or "false" in (before.kind, after.kind):
            found += under("/additionalItems", self._content(before, after, "ADDITIONAL_ITEMS"))
        elif (before.kind == "empty") != (after.kind == "empty"):
            added = before.kind == "empty"
            found.append(Difference(f"SCHEMA_{'ADDED' if added else 'REMOVED'}", "/items", breaking=added))
        else:
            found += under("/items", self.compare(before, after))
        contains = self.compare(original.one.get("contains", _EMPTY), update.one.get("contains", _EMPTY))
        if "contains" in update.one and "contains" not in original.one:
            contains = (Difference("SCHEMA_ADDED"),)
        found += under("/contains", contains)
        found += changed_limits(original, update, ("maxItems", "minItems", "maxContains", "minContains"))
        unique = bool(update.keywords.get("uniqueItems"))
        if bool(original.keywords.get("uniqueItems")) != unique:
            found.append(
                Difference(f"UNIQUE_ITEMS_{'ADDED' if unique else 'REMOVED'}", "/uniqueItems", unique)
            )
        return found

    def _prefix(self, original: JsonSchema, update: JsonSchema) -> list[Difference]:
        found: list[Difference] = []
        before = dereferenced(original.rest or _EMPTY)
        if not original.prefix and before.kind != "false":
            before = _EMPTY  # an array of one kind of items is no tuple: other registries refuse to mix them
        for index in range(max(len(original.prefix), len(update.prefix))):
            if index >= len(update.prefix):
                answer = self._item_removed(original.prefix[index], dereferenced(update.rest or _EMPTY))
            elif index >= len(original.prefix):
                answer = self._item_added(before, update.prefix[index])
            else:
                answer = list(self.compare(original.prefix[index], update.prefix[index]))
            found += under(f"/items/{index}", answer)
        return found

    def _item_removed(self, schema: JsonSchema, rest: JsonSchema) -> list[Difference]:
        if rest.kind == "empty":
            return [_allowed("ITEM_REMOVED_FROM_OPEN_CONTENT_MODEL")]
        if rest.kind == "false":
            if dereferenced(schema).kind == "false":
                return [_allowed("ITEM_WITH_FALSE_REMOVED_FROM_CLOSED_CONTENT_MODEL")]
            return [Difference("ITEM_REMOVED_FROM_CLOSED_CONTENT_MODEL")]
        found = list(self.compare(schema, rest))
        outcome = "NOT" if breaks(found) else "IS"
        kind = f"ITEM_REMOVED_{outcome}_COVERED_BY_PARTIALLY_OPEN_CONTENT_MODEL"
        return [*found, Difference(kind, breaking=outcome == "NOT")]

    def _item_added(self, rest: JsonSchema, schema: JsonSchema) -> list[Difference]:
        if rest.kind == "false":
            return [_allowed("ITEM_ADDED_TO_CLOSED_CONTENT_MODEL")]
        if rest.kind == "empty":
            if dereferenced(schema).kind == "empty":
                return [_allowed("ITEM_WITH_EMPTY_SCHEMA_ADDED_TO_OPEN_CONTENT_MODEL")]
            return [Difference("ITEM_ADDED_TO_OPEN_CONTENT_MODEL")]
        found = list(self.compare(rest, schema))
        outcome = "NOT" if breaks(found) else "IS"
        kind = f"ITEM_ADDED_{outcome}_COVERED_BY_PARTIALLY_OPEN_CONTENT_MODEL"
        return [*found, Difference(kind, breaking=outcome == "NOT")]


def _criterion_may_change(original: JsonSchema, update: JsonSchema) -> bool:
    if update.criterion == "anyOf":
        return True
    single = len(original.parts) == 1
    return single if update.criterion == "oneOf" else single and len(update.parts) == 1


def _matching(edges: list[list[int]]) -> dict[int, int]:
    """As many pairs as possible, no part used twice: column -> row, by augmenting paths."""
    taken: dict[int, int] = {}

    def place(row: int, tried: set[int]) -> bool:
        for column in edges[row]:
            if column not in tried:
                tried.add(column)
                if column not in taken or place(taken[column], tried):
                    taken[column] = row
                    return True
        return False

    for row in range(len(edges)):
        place(row, set())
    return taken


def _annotations(original: JsonSchema, update: JsonSchema) -> list[Difference]:
    pairs = (
        ("$id", "ID"),
        ("id", "ID"),
        ("title", "TITLE"),
        ("description", "DESCRIPTION"),
        ("default", "DEFAULT"),
    )
    return [
        _allowed(f"{word}_CHANGED")
        for keyword, word in pairs
        if original.keywords.get(keyword) != update.keywords.get(keyword)
    ]


def _has_default(schema: JsonSchema) -> bool:
    return "default" in schema.keywords or "default" in dereferenced(schema).keywords


def _additional(schema: JsonSchema) -> JsonSchema:
    fallback = schema.one.get("unevaluatedProperties", _EMPTY)
    return dereferenced(schema.one.get("additionalProperties", fallback))


def _is_open(schema: JsonSchema) -> bool:
    return _additional(schema).kind == "empty" and not schema.many["patternProperties"]


def _needed(schema: JsonSchema) -> dict[str, frozenset[str]]:
    declared = {**schema.keywords.get("dependencies", {}), **schema.keywords.get("dependentRequired", {})}
    return {name: frozenset(each) for name, each in declared.items() if isinstance(each, list)}
