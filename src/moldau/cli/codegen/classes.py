"""Writes a Python module with dataclasses: names, imports, classes.

Pure: the same schema gives the same text. Invariant: every text from a schema becomes a literal, a comment or
a valid name; none becomes code.
"""

import json
import keyword
import re
from dataclasses import dataclass, field

_NOT_IN_NAMES = re.compile(r"\W+", re.ASCII)


def identifier(text: str) -> str:
    """A valid Python name that is as close to the text as possible."""
    made = _NOT_IN_NAMES.sub("_", text) or "_"
    if made[0].isdecimal():
        made = f"_{made}"
    return f"{made}_" if keyword.iskeyword(made) or made.startswith("__") else made


def class_name(text: str) -> str:
    """``shipping_address`` and ``shipping-address`` become ``ShippingAddress``; ``Order`` stays."""
    parts = [part for part in re.split(r"[\W_]+", text, flags=re.ASCII) if part]
    return identifier("".join(part[:1].upper() + part[1:] for part in parts) or "Value")


def literal(text: str) -> str:
    """A text as a Python literal in double quotes, in one line."""
    return json.dumps(text, ensure_ascii=True)


@dataclass(slots=True)
class Module:
    """The parts of a module; ``text`` puts them together."""

    title: str
    _imports: dict[str, set[str]] = field(default_factory=dict)
    _enums: list[list[str]] = field(default_factory=list)
    _classes: list[list[str]] = field(default_factory=list)
    _taken: set[str] = field(default_factory=set)

    def use(self, module: str, name: str) -> str:
        self._imports.setdefault(module, set()).add(name)
        return name

    def name(self, wanted: str) -> str:
        """A name for a class, with a number where the wanted one is taken."""
        made, number = wanted, 2
        while made in self._taken:
            made, number = f"{wanted}{number}", number + 1
        self._taken.add(made)
        return made

    def enum(self, name: str, base: str, doc: str | None, lines: list[str]) -> None:
        self.use("enum", base)
        self._enums.append([f"class {name}({base}):", *_body(doc, lines)])

    def dataclass(self, name: str, doc: str | None, lines: list[str]) -> None:
        self.use("dataclasses", "dataclass")
        self._classes.append(["@dataclass(kw_only=True)", f"class {name}:", *_body(doc, lines)])

    def default(self, code: str) -> str:
        """The default of a field: a list or a dict is made for each instance."""
        if code in ("[]", "{}"):
            return f"{self.use('dataclasses', 'field')}(default_factory={'list' if code == '[]' else 'dict'})"
        if code[:1] in "[{" or code.endswith("})"):
            return f"{self.use('dataclasses', 'field')}(default_factory=lambda: {code})"
        return code

    def text(self) -> str:
        lines = [f'"""{_doc(self.title)}"""', "", "from __future__ import annotations", ""]
        modules = sorted(self._imports, key=lambda each: (each.startswith("moldau"), each))
        lines += [f"from {module} import {', '.join(sorted(self._imports[module]))}" for module in modules]
        for block in (*self._enums, *self._classes):
            lines += ["", "", *block]
        return "\n".join(lines) + "\n"


def _doc(text: str) -> str:
    """A text that can stand inside triple quotes."""
    plain = " ".join(text.split()).replace("\\", "\\\\").replace('"""', "'''")
    return f"{plain} " if plain.endswith('"') else plain


def _body(doc: str | None, lines: list[str]) -> list[str]:
    body = [f'    """{_doc(doc)}"""', ""] if doc and doc.strip() else []
    return body + [f"    {line}" if line else "" for line in lines or ["pass"]]


def comment(text: str) -> str:
    """A comment above a field, in one line."""
    return f"#: {' '.join(text.split())}"
