"""The frame around every page: navigation, the cluster, messages; and the parts that pages share.

Invariant: pure; no style attribute, no script in the page: both come from files of the console, so that the
browser may be forbidden everything else.
"""

from collections.abc import Sequence
from dataclasses import dataclass, field

from moldau.console.markup.html import (
    NOTHING,
    Content,
    Markup,
    code,
    div,
    joined,
    link,
    p,
    path,
    query,
    span,
    tag,
)
from moldau.console.markup.words import plural

#: Page, its address below the cluster, its name, and the key that leads there after ``g``.
SECTIONS = (
    ("overview", "", "Overview", "o"),
    ("topics", "topics", "Topics", "t"),
    ("groups", "groups", "Groups", "g"),
    ("schemas", "schemas", "Schemas", "s"),
    ("connect", "connect", "Connectors", "c"),
    ("pipelines", "pipelines", "Pipelines", "p"),
    ("sql", "sql", "SQL", "q"),
    ("brokers", "brokers", "Brokers", "b"),
    ("transactions", "transactions", "Transactions", "x"),
    ("access", "access", "Access", "a"),
    ("audit", "audit", "Audit", "u"),
)


@dataclass(frozen=True, slots=True)
class Frame:
    title: str
    active: str = ""
    cluster: str = ""
    clusters: tuple[str, ...] = ()
    user: str | None = None
    read_only: bool = False
    messages: Sequence[tuple[str, str]] = field(default_factory=list)
    token: Markup = NOTHING


def framed(frame: Frame, content: Content) -> Markup:
    """A whole document."""
    head = tag(
        "head",
        tag("meta", charset="utf-8"),
        tag("meta", name="viewport", content="width=device-width, initial-scale=1"),
        tag("meta", name="color-scheme", content="light dark"),
        tag("title", f"{frame.title} · {frame.cluster or 'Moldau'}"),
        tag("link", rel="icon", href="/assets/icon.svg", type="image/svg+xml"),
        tag("link", rel="stylesheet", href="/assets/console.css"),
        tag("script", src="/assets/console.js", defer=True),
    )
    body = tag(
        "body",
        link("#content", "Skip to the content", class_="skip"),
        _side(frame) if frame.cluster else None,
        tag(
            "main",
            [div(words, class_=f"message {kind}", role="status") for kind, words in frame.messages],
            div(id="stale", class_="message bad", role="status", hidden=True),
            content,
            id="content",
        ),
        _help() if frame.cluster else None,
        class_=None if frame.cluster else "plain",
    )
    return joined(Markup("<!doctype html>\n"), tag("html", head, body, lang="en"))


def _side(frame: Frame) -> Markup:
    entries = [
        link(
            path("c", frame.cluster, address) if address else path("c", frame.cluster),
            label,
            class_="here" if name == frame.active else None,
            aria_current="page" if name == frame.active else None,
            data_key=key,
        )
        for name, address, label, key in SECTIONS
    ]
    others = [
        link(path("c", each), each, class_="here" if each == frame.cluster else None)
        for each in frame.clusters
    ]
    chosen = (
        tag("details", tag("summary", frame.cluster), tag("nav", others), class_="clusters")
        if len(frame.clusters) > 1
        else div(frame.cluster, class_="cluster")
    )
    who = None
    if frame.user is not None:
        who = tag(
            "form",
            frame.token,
            span(frame.user, class_="user"),
            tag("button", "Log out", class_="quiet"),
            method="post",
            action="/logout",
        )
    return tag(
        "header",
        link(path("c", frame.cluster), tag("b", "Moldau"), class_="brand"),
        chosen,
        tag("nav", entries, aria_label="Pages", class_="pages"),
        div(
            span("read-only", class_="badge") if frame.read_only else None,
            who,
            tag("button", "Light / dark", type="button", id="theme", class_="quiet", hidden=True),
            tag("button", "Keys", type="button", id="keys", class_="quiet", hidden=True),
            class_="foot",
        ),
        class_="side",
    )


def _help() -> Markup:
    rows = [
        ("/", "search on this page"),
        ("r", "refresh now"),
        ("p", "pause or go on with refreshing"),
        ("d", "light or dark"),
        ("?", "this help"),
        *((f"g {key}", label.lower()) for _, _, label, key in SECTIONS),
    ]
    return tag(
        "dialog",
        tag("h2", "Keys"),
        tag("dl", [joined(tag("dt", tag("kbd", keys)), tag("dd", what)) for keys, what in rows]),
        tag("form", tag("button", "Close"), method="dialog"),
        id="help",
    )


def heading(title: Content, *beside: Content) -> Markup:
    return div(tag("h1", title), div(*beside, class_="actions"), class_="heading")


def live(name: str, *content: Content) -> Markup:
    """A part of a page that is refreshed by itself; it never holds a field that one types into."""
    return div(*content, id=f"live-{name}", data_live=True)


def card(title: Content, *content: Content, class_: str = "") -> Markup:
    return tag("section", tag("h2", title) if title else None, *content, class_=f"card {class_}".strip())


def figure(label: str, value: Content, note: Content = None, *, state: str = "") -> Markup:
    """A number that matters, with its name."""
    return div(
        span(label, class_="label"),
        tag("b", value),
        span(note, class_="note") if note else None,
        class_=f"figure {state}".strip(),
    )


def badge(words: str, state: str = "") -> Markup:
    return span(words, class_=f"badge {state}".strip())


def error_box(what: str, step: str, *, retried: bool = False) -> Markup:
    """With ``retried`` the page asks for itself until it is there."""
    return div(
        tag("h1", "This did not work"),
        p(what),
        p(step, " This page tries again by itself." if retried else None, class_="note"),
        class_="card trouble",
        role="alert",
        data_retry=retried,
    )


def refusal(words: str | None) -> Markup | None:
    """Why a form was not taken, above it."""
    return p(words, class_="message bad", role="alert") if words else None


def finding(state: str, subject: Content, words: Content, step: Content = None) -> Markup:
    """Something that is wrong, or well: a dot, what it is, and what to do."""
    return tag(
        "li",
        span(class_=f"dot {state}", title=state),
        div(
            tag("b", subject) if subject else None,
            " " if subject else None,
            words,
            div(step, class_="note") if step else None,
        ),
    )


def labelled(label: str, control: Content, hint: Content = None) -> Markup:
    """A field of a form with its name, and what to know about it."""
    return tag("label", span(label), control, tag("small", hint) if hint else None)


def text_input(name: str, value: str = "", **attributes: str | int | bool | None) -> Markup:
    return tag(
        "input", type="text", name=name, value=value, autocomplete="off", spellcheck="false", **attributes
    )


def select(
    name: str, choices: Sequence[tuple[str, str]], chosen: str = "", **attributes: str | None
) -> Markup:
    options = [
        tag("option", label, value=value, selected=value == chosen or None) for value, label in choices
    ]
    return tag("select", options, name=name, **attributes)


def search_form(address: str, value: str, hint: str, *hidden: Content) -> Markup:
    return tag(
        "form",
        tag(
            "input",
            type="search",
            name="q",
            value=value,
            placeholder=hint,
            aria_label=hint,
            data_search=True,
            autocomplete="off",
            spellcheck="false",
        ),
        *hidden,
        tag("button", "Search", class_="quiet"),
        method="get",
        action=address,
        class_="search",
        role="search",
    )


def hidden(name: str, value: str | int) -> Markup:
    return tag("input", type="hidden", name=name, value=value)


def pager(
    address: str, page: int, size: int, total: int, **parameters: str | int | bool | None
) -> Markup | None:
    """Links to the pages of a long list; the first page is 0."""
    if total <= size:
        return None
    last = (total - 1) // size
    begin, end = page * size + 1, min((page + 1) * size, total)

    def to(number: int, words: str, rel: str) -> Markup:
        if not 0 <= number <= last:
            return span(words, class_="off")
        return link(query(address, **parameters, page=number or None), words, rel=rel)

    return tag(
        "nav",
        to(page - 1, "← Back", "prev"),
        span(f"{begin:,}–{end:,} of {total:,}"),
        to(page + 1, "Next →", "next"),
        class_="pager",
        aria_label="More of the list",
    )


def left_out(total: int, shown: int, what: str) -> Markup | None:
    """Of a table that has no pages: that there is more than it shows."""
    more = total - shown
    return p(f"{plural(more, f'more {what}')}, not shown here.", class_="note") if more > 0 else None


def tabs(entries: Sequence[tuple[str, str]], active: str) -> Markup:
    return tag(
        "nav",
        [
            link(
                address,
                label,
                class_="here" if label == active else None,
                aria_current="page" if label == active else None,
            )
            for label, address in entries
        ],
        class_="tabs",
    )


def command(text: str) -> Markup:
    return code(text, class_="command")
