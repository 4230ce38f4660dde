"""The documents of a JSON Schema: which draft each is of, and what a reference leads to.

Pure. Nothing is fetched: a reference leads into the schema itself or into one of the schemas that it was
registered with, or it leads nowhere, which is an ``InvalidSchema``.
"""

from collections.abc import Mapping
from typing import Any
from urllib.parse import unquote, urldefrag, urljoin

from moldau.schemas.limits import InvalidSchema

DRAFTS = {
    "http://json-schema.org/draft-04/schema": 4,
    "http://json-schema.org/draft-06/schema": 6,
    "http://json-schema.org/draft-07/schema": 7,
    "https://json-schema.org/draft/2019-09/schema": 2019,
    "https://json-schema.org/draft/2020-12/schema": 2020,
}
DEFAULT_DRAFT = 7
#: Values below these keywords are data, not schemas.
_DATA = frozenset({"enum", "const", "default", "examples", "example"})


def draft_of(value: Any, otherwise: int = DEFAULT_DRAFT) -> int:
    named = value.get("$schema") if isinstance(value, dict) else None
    if named is not None and not isinstance(named, str):
        raise InvalidSchema("$schema is not a string")
    return DRAFTS.get(named.removesuffix("#"), otherwise) if named else otherwise


class JsonDocuments:
    """Every document by its address, and within them the parts that have addresses of their own."""

    def __init__(self, value: Any, references: Mapping[str, Any]) -> None:
        self.value = value
        #: The other documents, by the names under which they are referred to.
        self.references = references
        self.draft = draft_of(value)
        self._found: dict[str, tuple[Any, int]] = {}
        self._bases: dict[int, str] = {}
        for name, document in references.items():
            self._index(document, name, draft_of(document, self.draft))
        self._index(value, "", self.draft)

    def _index(self, document: Any, name: str, draft: int) -> None:
        """Note where every part with an id is; only schemas count, not data that looks like one."""
        self._found[name] = (document, draft)
        stack: list[tuple[Any, str]] = [(document, name)]
        while stack:
            value, base = stack.pop()
            if isinstance(value, list):
                stack.extend((each, base) for each in value)
            elif isinstance(value, dict):
                identifier = value.get("id" if draft == 4 else "$id")
                if isinstance(identifier, str):
                    base = self._join(base, identifier)
                    whole, fragment = _split(base)
                    self._found[base if fragment else whole] = (value, draft)
                    base = whole
                for keyword in ("$anchor", "$dynamicAnchor"):
                    if isinstance(value.get(keyword), str):
                        self._found[f"{base}#{value[keyword]}"] = (value, draft)
                self._bases[id(value)] = base
                stack.extend((each, base) for key, each in value.items() if key not in _DATA)

    @staticmethod
    def _join(base: str, reference: str) -> str:
        try:
            return urljoin(base, reference)
        except ValueError:
            raise InvalidSchema(f"{reference[:200]} is not a URI") from None

    def resolve(self, within: Any, reference: str) -> tuple[Any, int]:
        """What a reference in this part of a document leads to, and the draft of that."""
        base = self._bases.get(id(within), "")
        absolute, fragment = _split(self._join(base, reference))
        plain = _split(reference)[0]
        if absolute in DRAFTS:
            return True, self.draft
        if f"{absolute}#{fragment}" in self._found:
            return self._found[f"{absolute}#{fragment}"]
        for name in (absolute, plain, plain.removeprefix("./")):
            if name in self._found:
                value, draft = self._found[name]
                return self._point(value, unquote(fragment), reference), draft
        raise InvalidSchema(
            f"The reference {reference[:200]} leads nowhere; register it as a schema reference"
        )

    def _point(self, value: Any, pointer: str, reference: str) -> Any:
        if pointer and not pointer.startswith("/"):
            raise InvalidSchema(f"The reference {reference[:200]} names an unknown anchor")
        for token in pointer.split("/")[1:]:
            key = token.replace("~1", "/").replace("~0", "~")
            if isinstance(value, dict) and key in value:
                value = value[key]
            elif isinstance(value, list) and key.isdecimal() and len(key) < 7 and int(key) < len(value):
                value = value[int(key)]
            else:
                raise InvalidSchema(f"The reference {reference[:200]} leads nowhere")
        return value


def _split(uri: str) -> tuple[str, str]:
    try:
        whole, fragment = urldefrag(uri)
    except ValueError:
        raise InvalidSchema(f"{uri[:200]} is not a URI") from None
    return whole, fragment
