"""HTML as values: elements are made by functions, and every text in them is escaped.

    tag("td", topic.name, class_="name")      # a text is a text, whatever is in it
    link("/c/local/topics", "Topics")

Invariant: only what ``tag`` made is markup. Text and attributes that come from others are escaped, and what
turns the direction of writing around, or is no character, is shown by its number. A link leads within the
console: any other address is a programmer's error. Pure.
"""

import html
from collections.abc import Iterable
from functools import partial
from typing import Any, TypeAlias
from urllib.parse import quote, urlencode

from moldau.base.escaping import escaped, escaped_lines


class Markup(str):
    """HTML that was made here."""

    __slots__ = ()


#: What may stand in an element: None and False leave nothing, a list is taken apart.
Content: TypeAlias = "Markup | str | int | float | Iterable[Content] | None"
Attribute: TypeAlias = str | int | float | bool | None

NOTHING = Markup("")
_VOID = frozenset({"br", "hr", "img", "input", "link", "meta"})
_ADDRESSES = frozenset({"href", "src", "action", "formaction"})


def text(content: str) -> Markup:
    return Markup(html.escape(escaped_lines(content)))


def joined(*content: Content) -> Markup:
    """Several things one after the other."""
    parts: list[str] = []
    _add(parts, content)
    return Markup("".join(parts))


def _add(parts: list[str], content: Content) -> None:
    if isinstance(content, Markup):
        parts.append(content)
    elif content is None or content is False:
        return
    elif isinstance(content, str):
        parts.append(text(content))
    elif isinstance(content, int | float):
        parts.append(str(content))
    else:
        for each in content:
            _add(parts, each)


def tag(name: str, /, *content: Content, **attributes: Attribute) -> Markup:
    """An element. ``class_`` is the attribute class, ``data_x`` is data-x; True is one without a value."""
    parts = [f"<{name}"]
    # Nobody sees it, and it has to come back as it is.
    exact = attributes.get("type") == "hidden"
    for key, value in attributes.items():
        if value is None or value is False:
            continue
        written = key.rstrip("_").replace("_", "-")
        if value is True:
            parts.append(f" {written}")
            continue
        if written in _ADDRESSES:
            check_address(str(value))
        shown = str(value) if exact and written == "value" else escaped(str(value))
        parts.append(f' {written}="{html.escape(shown)}"')
    parts.append(">")
    if name not in _VOID:
        _add(parts, content)
        parts.append(f"</{name}>")
    return Markup("".join(parts))


def check_address(address: str) -> None:
    """ValueError for an address that would lead out of the console, or run a script."""
    inside = address.startswith(("/", "?", "#")) and not address.startswith(("//", "/\\"))
    if not inside or any(character < " " for character in address):
        raise ValueError(f"{address!r} does not lead within the console")


div = partial(tag, "div")
span = partial(tag, "span")
p = partial(tag, "p")
code = partial(tag, "code")


def link(address: str, *content: Content, **attributes: Attribute) -> Markup:
    return tag("a", *content, href=address, **attributes)


def path(*segments: str) -> str:
    """An address from names that may hold anything."""
    return "/" + "/".join(quote(segment, safe="") for segment in segments)


def query(address: str, **parameters: str | int | bool | None) -> str:
    """An address with the parameters that are not None, False or empty."""
    given = {
        name.rstrip("_"): "true" if value is True else str(value)
        for name, value in parameters.items()
        if value is not None and value is not False and value != ""
    }
    return f"{address}?{urlencode(given, errors='replace')}" if given else address


def table(
    columns: Iterable[Content], rows: Iterable[Iterable[Any]], *, empty: str, class_: str = ""
) -> Markup:
    """A table; a cell is a ``td`` that was made already, or what stands in one."""
    body = [tag("tr", [_cell(cell) for cell in row]) for row in rows]
    if not body:
        return p(empty, class_="empty")
    head = [column if _is_cell(column) else tag("th", column, scope="col") for column in columns]
    return div(
        tag("table", tag("thead", tag("tr", head)), tag("tbody", body), class_=class_ or None),
        class_="scroll",
        tabindex=0,
    )


def _cell(content: Content) -> Content:
    return content if _is_cell(content) else tag("td", content)


def _is_cell(content: Content) -> bool:
    return isinstance(content, Markup) and content.startswith(("<td", "<th"))


def number_cell(content: Content) -> Markup:
    return tag("td", content, class_="number")


def number_head(content: Content) -> Markup:
    return tag("th", content, class_="number", scope="col")
