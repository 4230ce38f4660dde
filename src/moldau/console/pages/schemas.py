"""Schemas of the registry: subjects, versions and what changed between them, checks and new versions.

Invariant: a schema is registered only as it was checked: the form shows what would break first, if anything
does.
"""

import difflib
import json
from typing import Any

from moldau.client.registry.schema_registry import (
    Reference,
    RegisteredSchema,
    RegistryClient,
    RegistryError,
)
from moldau.console.call import ConsoleCall, WrongInput, changing
from moldau.console.markup.html import Content, Markup, link, number_cell, number_head, p, query, table, tag
from moldau.console.markup.layout import (
    badge,
    card,
    heading,
    labelled,
    pager,
    refusal,
    search_form,
    select,
    text_input,
)
from moldau.console.markup.words import plural
from moldau.console.typed import digits

PAGE = 50
_MOST_DIFF_LINES = 5_000


async def _registry(call: ConsoleCall) -> RegistryClient | None:
    return (await call.workspace()).registry


def _without(call: ConsoleCall) -> Any:
    words = "This console knows no schema registry. Start it with --registry URL to see schemas."
    return call.show("Schemas", heading("Schemas"), card("", p(words, class_="empty")), active="schemas")


async def schemas(call: ConsoleCall) -> Any:
    registry = await _registry(call)
    if registry is None:
        return _without(call)
    workspace = await call.workspace()
    wanted = (call.text("q") or "").strip()
    subjects = sorted(await workspace.blocking(registry.subjects))
    found = [each for each in subjects if all(word in each.lower() for word in wanted.lower().split())]
    page = min(max(call.number("page", 0), 0), max(0, (len(found) - 1) // PAGE))
    shown = found[page * PAGE : (page + 1) * PAGE]
    latest = await workspace.blocking(lambda: [_latest(registry, each) for each in shown])
    rows = []
    for subject, schema in zip(shown, latest, strict=True):
        name = link(query(call.here("schemas", "view"), subject=subject), subject)
        if schema is None:
            rows.append([name, "–", "", ""])
        else:
            rows.append(
                [
                    name,
                    badge(schema.schema_type),
                    number_cell(schema.version or 0),
                    number_cell(schema.schema_id),
                ]
            )
    new = (
        None
        if not call.may_change_services
        else link(call.here("schemas", "new"), "New schema", class_="button")
    )
    return call.show(
        "Schemas",
        heading("Schemas", search_form(call.here("schemas"), wanted, "Search subjects"), new),
        p(plural(len(found), "subject"), class_="note"),
        card(
            "",
            table(
                ["Subject", "Type", number_head("Latest version"), number_head("Id")],
                rows,
                empty="There is no subject.",
            ),
        ),
        pager(call.here("schemas"), page, PAGE, len(found), q=wanted),
        active="schemas",
    )


def _latest(registry: RegistryClient, subject: str) -> RegisteredSchema | None:
    try:
        return registry.version(subject)
    except RegistryError as error:
        if error.status == 404:  # deleted between two questions
            return None
        raise


def pretty(schema: RegisteredSchema) -> str:
    """The text of a schema as one reads it, and as versions are compared."""
    if schema.schema_type == "PROTOBUF":
        return schema.text
    try:
        return json.dumps(json.loads(schema.text), indent=2, ensure_ascii=False)
    except ValueError:
        return schema.text


def diff(before: str, after: str) -> Markup:
    """Lines that went and lines that came, in colours."""
    lines = []
    old, new = before.splitlines()[:_MOST_DIFF_LINES], after.splitlines()[:_MOST_DIFF_LINES]
    for line in difflib.unified_diff(old, new, lineterm="", n=3):
        if line.startswith(("---", "+++")):
            continue
        name = {"+": "ins", "-": "del"}.get(line[:1])
        lines.append(tag(name, line) if name else f"{line}\n")
    return tag("pre", lines or "No difference.", class_="diff")


async def schema_page(call: ConsoleCall) -> Any:
    registry = await _registry(call)
    if registry is None:
        return _without(call)
    workspace = await call.workspace()
    subject = call.text("subject") or ""
    versions = await workspace.blocking(lambda: registry.versions(subject))
    chosen = call.number("version", versions[-1])
    against = call.number("against", 0)
    schema = await workspace.blocking(lambda: registry.version(subject, chosen))
    config = await workspace.blocking(lambda: registry.config(subject))
    level = str(config.get("compatibilityLevel") or config.get("compatibility") or "?")
    if not against:
        against = max((each for each in versions if each < chosen), default=0)
    here = call.here("schemas", "view")
    rows = [
        [
            number_cell(link(query(here, subject=subject, version=each), each)),
            badge("shown", "good")
            if each == chosen
            else link(query(here, subject=subject, version=chosen, against=each), "compare"),
        ]
        for each in reversed(versions)
    ]
    compared: Content = None
    if against and against != chosen:
        other = await workspace.blocking(lambda: registry.version(subject, against))
        compared = card(f"From version {against} to {chosen}", diff(pretty(other), pretty(schema)))
    new = (
        None
        if not call.may_change_services
        else link(query(call.here("schemas", "new"), subject=subject), "New version", class_="button")
    )
    return call.show(
        f"Schema {subject}",
        heading(
            [link(call.here("schemas"), "Schemas", class_="trail"), " / ", subject],
            badge(schema.schema_type),
            badge(f"id {schema.schema_id}"),
            badge(level),
            new,
        ),
        tag(
            "div",
            card(f"Version {chosen}", tag("pre", pretty(schema)), _references(here, schema)),
            tag("div", compared, card("Versions", table([number_head("Version"), ""], rows, empty="None."))),
            class_="columns",
        ),
        active="schemas",
    )


def _references(here: str, schema: RegisteredSchema) -> Content:
    found = [
        tag(
            "li",
            link(
                query(here, subject=each.subject, version=each.version),
                f"{each.name}: {each.subject} version {each.version}",
            ),
        )
        for each in schema.references
    ]
    return tag("ul", found) if found else None


# --- a new version ----------------------------------------------------------------------------------


async def new_schema(call: ConsoleCall) -> Any:
    registry = await _registry(call)
    if registry is None:
        return _without(call)
    subject = call.text("subject") or ""
    given = {"subject": subject}
    if subject:
        workspace = await call.workspace()
        schema = await workspace.blocking(lambda: registry.version(subject))
        references = [f"{each.name}={each.subject}:{each.version}" for each in schema.references]
        given |= {
            "schema": pretty(schema),
            "type": schema.schema_type,
            "references": "\n".join(references),
        }
    return call.show("New schema", heading("New schema"), _form(call, given, None), active="schemas")


def _form(call: ConsoleCall, given: dict[str, str], result: Content) -> Markup:
    types = [("AVRO", "Avro"), ("JSON", "JSON Schema"), ("PROTOBUF", "Protobuf")]
    return tag(
        "form",
        call.token(),
        result,
        labelled(
            "Subject",
            text_input("subject", given.get("subject", ""), required=True, placeholder="orders-value"),
            "For the values of a topic: its name and -value.",
        ),
        labelled("Type", select("type", types, given.get("type", "AVRO"))),
        labelled(
            "Schema",
            tag(
                "textarea", given.get("schema", ""), name="schema", rows=18, spellcheck="false", required=True
            ),
        ),
        labelled(
            "References",
            tag(
                "textarea",
                given.get("references", ""),
                name="references",
                rows=2,
                placeholder="town.proto=town-value:1",
                spellcheck="false",
            ),
            "What the schema imports from other subjects, one name=subject:version in a line.",
        ),
        tag(
            "div",
            tag("button", "Check", name="action", value="check", class_="quiet"),
            tag("button", "Register", name="action", value="register"),
            class_="actions",
        ),
        method="post",
        action=call.here("schemas", "new"),
        class_="card form",
    )


def _not_taken(call: ConsoleCall, given: dict[str, str], box: Content) -> Any:
    return call.show(
        "New schema", heading("New schema"), _form(call, given, box), active="schemas", status=400
    )


def _typed_references(text: str) -> list[Reference]:
    """``name=subject:version``, one in a line; names and subjects may have colons themselves."""
    found = []
    for line in text.splitlines():
        if not line.strip():
            continue
        name, equals, place = line.strip().rpartition("=")
        subject, colon, version = place.rpartition(":")
        number = digits(version)
        if not (equals and colon and name.strip() and subject.strip()) or number is None:
            raise WrongInput(f"A reference has the form name=subject:version: {line[:80]!r}.")
        found.append(Reference(name.strip(), subject.strip(), number))
    return found


async def register_schema(call: ConsoleCall) -> Any:
    given = await call.form()
    if given.get("action") == "register":
        call.check_services()
    registry = await _registry(call)
    if registry is None:
        return _without(call)
    workspace = await call.workspace()
    subject, text, kind = given.get("subject", "").strip(), given.get("schema", ""), given.get("type", "AVRO")
    try:
        if not subject or not text.strip():
            raise WrongInput("A subject and a schema are needed.")
        references = _typed_references(given.get("references", ""))
    except WrongInput as error:
        return _not_taken(call, given, refusal(str(error)))
    try:
        problems = await workspace.blocking(
            lambda: registry.incompatibilities(subject, text, kind, references, version="all")
        )
    except RegistryError as error:
        return _not_taken(call, given, refusal(error.message))
    if problems:
        lines = [tag("li", each) for each in problems[:50]]
        box = tag(
            "div",
            p("It is not compatible with what is registered:"),
            tag("ul", lines),
            class_="message bad",
            role="alert",
        )
        return _not_taken(call, given, box)
    if given.get("action") != "register":
        box = tag(
            "div",
            "It is compatible with what is registered. Nothing was registered yet.",
            class_="message good",
            role="status",
        )
        return call.show("New schema", heading("New schema"), _form(call, given, box), active="schemas")
    work = workspace.blocking(lambda: registry.register(subject, text, kind, references))
    try:
        number = await changing(call, "register schema", subject, work)
    except RegistryError as error:
        return _not_taken(call, given, refusal(error.message))
    return call.done(f"Registered under id {number}.", query(call.here("schemas", "view"), subject=subject))
