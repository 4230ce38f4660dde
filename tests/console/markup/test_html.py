"""Elements as text: nothing that others wrote becomes markup, and no link leads away."""

from html.parser import HTMLParser

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from moldau.console.markup.html import Markup, check_address, joined, link, path, query, table, tag, text
from tests.shared.hostile_texts import HOSTILE


class _Reader(HTMLParser):
    def __init__(self) -> None:
        super().__init__(convert_charrefs=True)
        self.tags: list[tuple[str, dict[str, str | None]]] = []
        self.texts: list[str] = []

    def handle_starttag(self, name, attributes):
        self.tags.append((name, dict(attributes)))

    def handle_data(self, data):
        self.texts.append(data)


def read(markup: str) -> _Reader:
    reader = _Reader()
    reader.feed(markup)
    reader.close()
    return reader


def check(hostile: str) -> None:
    made = tag("td", hostile, title=hostile, data_x=hostile)
    found = read(made)
    assert [name for name, _ in found.tags] == ["td"]
    assert set(found.tags[0][1]) == {"title", "data-x"}
    assert "".join(found.texts).replace("\r", "") == "".join(read(text(hostile)).texts).replace("\r", "")
    assert not any(character in made for character in "\u202e\u2066\u2028\x00\x1b")
    made.encode("utf-8")  # half a surrogate pair would not


@pytest.mark.parametrize("hostile", HOSTILE)
def test_hostile_texts_stay_texts(hostile: str) -> None:
    check(hostile)


@settings(max_examples=50)
@given(st.text())
def test_any_text_stays_a_text(content: str) -> None:
    check(content)


def test_what_content_may_be() -> None:
    assert joined("a", 1, 2.5, None, False, ["b", ("<", [Markup("<b>")])]) == "a12.5b&lt;<b>"
    assert tag("input", name="x", disabled=True, hidden=False, value=None) == '<input name="x" disabled>'
    assert tag("label", "a", class_="b", aria_label="c") == '<label class="b" aria-label="c">a</label>'
    assert tag("line", x1=1) == '<line x1="1"></line>'  # an element of SVG has an end


@pytest.mark.parametrize(
    "address",
    ["javascript:boom()", "https://evil.example", "//evil.example", "/\\evil", "data:,x", "", "x", "/a\nb"],
)
def test_links_lead_within_the_console(address: str) -> None:
    with pytest.raises(ValueError, match="does not lead within"):
        link(address, "x")
    with pytest.raises(ValueError, match="does not lead within"):
        tag("form", action=address)


@pytest.mark.parametrize("name", HOSTILE)
def test_addresses_are_made_of_any_name(name: str) -> None:
    clean = name.encode("utf-8", "replace").decode()
    for address in (path("c", clean), query("/x", group=name)):
        check_address(address)
        assert not set(address) & set("<>\"' \n\r\t")


def test_a_table_knows_its_cells() -> None:
    made = table(["A", tag("th", "B")], [["x", tag("td", "y", class_="number")]], empty="none")
    assert made.count("<td") == 2
    assert made.count("<th") == 3  # thead is one of them
    assert "none" in table(["A"], [], empty="none")
