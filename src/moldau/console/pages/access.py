"""Who may do what: ACLs, users with passwords (SCRAM), quotas.

Invariant: a password is hashed before it leaves the console and is kept nowhere. A part that the cluster does
not have, or does not show to this user, says so.
"""

import math
import secrets
from collections.abc import Awaitable, Callable, Mapping
from typing import Any

from moldau.client.admin.access import ANY, Access, ScramSetting
from moldau.console.advice import in_words, next_step
from moldau.console.call import REFUSALS, ConsoleCall, Refused, WrongInput, changing, refused
from moldau.console.markup.html import Content, Markup, number_cell, number_head, p, table, tag
from moldau.console.markup.layout import (
    badge,
    card,
    heading,
    hidden,
    labelled,
    left_out,
    pager,
    refusal,
    select,
    text_input,
)
from moldau.console.markup.words import plural
from moldau.protocol.errors import KafkaError
from moldau.security.acls import Acl, AclFilter, Operation, PatternType, Permission, ResourceType
from moldau.security.scram import ScramMechanism

PAGE = 50
_MOST_ROWS = 500
_ITERATIONS = 8192
_RESOURCES = (
    ResourceType.TOPIC,
    ResourceType.GROUP,
    ResourceType.CLUSTER,
    ResourceType.TRANSACTIONAL_ID,
    ResourceType.USER,
)
_OPERATIONS = tuple(each for each in Operation if each not in (Operation.UNKNOWN, Operation.ANY))
_QUOTAS = ("producer_byte_rate", "consumer_byte_rate", "request_percentage", "controller_mutation_rate")


async def access_page(call: ConsoleCall) -> Any:
    return await _page(call, call.number("page", 0), None)


async def _page(call: ConsoleCall, page: int, why: Refused | None) -> Any:
    access = await (await call.workspace()).access()
    return call.show(
        "Access",
        heading("Access"),
        refusal(why.words if why is not None else None),
        await _acls(call, access, page, _typed(why, "acl")),
        await _users(call, access, _typed(why, "user")),
        await _quotas(call, access, _typed(why, "quota")),
        active="access",
        status=why.status if why is not None else 200,
    )


def _typed(why: Refused | None, form: str) -> Mapping[str, str] | None:
    """What was typed into a form, if it is this one that was not taken."""
    return why.given if why is not None and why.form == form else None


async def _changed(
    call: ConsoleCall, form: str, given: dict[str, str], work: Callable[[], Awaitable[str]]
) -> Any:
    """Makes a change, which says what to tell then; the form comes again where it is refused."""
    try:
        done = await work()
    except REFUSALS as error:
        return await _page(call, 0, refused(given, error, form))
    return call.done(done, call.here("access"))


def _not_shown(error: KafkaError) -> Markup:
    return p(f"{in_words(error)}. {next_step(error)}", class_="note")


async def _acls(call: ConsoleCall, access: Access, page: int, typed: Mapping[str, str] | None) -> Markup:
    try:
        acls = sorted(
            await access.list_acls(),
            key=lambda each: (each.principal, each.resource_type, each.resource_name),
        )
    except KafkaError as error:
        return card("Permissions (ACLs)", _not_shown(error))
    page = min(max(page, 0), max(0, (len(acls) - 1) // PAGE))
    rows = []
    for each in acls[page * PAGE : (page + 1) * PAGE]:
        allowed = each.permission == Permission.ALLOW
        rows.append(
            [
                each.principal,
                badge("may" if allowed else "may not", "good" if allowed else "bad"),
                Operation(each.operation).name.lower().replace("_", " "),
                [
                    ResourceType(each.resource_type).title,
                    " ",
                    tag("b", each.resource_name),
                    "…" if each.pattern_type == PatternType.PREFIXED else None,
                ],
                each.host,
                None if call.read_only else _remove(call, each),
            ]
        )
    form = None if call.read_only else _acl_form(call, typed)
    columns = ["Who", "", "Operation", "On", "From host", ""]
    return card(
        "Permissions (ACLs)",
        p(plural(len(acls), "ACL"), class_="note"),
        table(columns, rows, empty="There is none."),
        pager(call.here("access"), page, PAGE, len(acls)),
        form,
    )


def _fields(acl: Acl) -> list[Markup]:
    given = acl._asdict()
    texts = ("resource_name", "principal", "host")
    return [hidden(name, value if name in texts else int(value)) for name, value in given.items()]


def _remove(call: ConsoleCall, acl: Acl) -> Markup:
    return tag(
        "form",
        call.token(),
        _fields(acl),
        tag("button", "Remove", class_="quiet"),
        method="post",
        action=call.here("access", "remove"),
    )


def _acl_form(call: ConsoleCall, typed: Mapping[str, str] | None) -> Markup:
    given = typed or {}
    resources = [(str(int(each)), each.title) for each in _RESOURCES]
    operations = [(str(int(each)), each.name.lower().replace("_", " ")) for each in _OPERATIONS]
    return tag(
        "details",
        tag("summary", "Add a permission"),
        tag(
            "form",
            call.token(),
            labelled("Who", text_input("principal", given.get("principal", "User:"), required=True)),
            labelled(
                "",
                select(
                    "permission",
                    [(str(int(Permission.ALLOW)), "may"), (str(int(Permission.DENY)), "may not")],
                    given.get("permission", ""),
                ),
            ),
            labelled(
                "Operation",
                select("operation", operations, given.get("operation", str(int(Operation.READ)))),
            ),
            labelled("Resource", select("resource_type", resources, given.get("resource_type", ""))),
            labelled(
                "Name",
                text_input(
                    "resource_name",
                    given.get("resource_name", ""),
                    required=True,
                    placeholder="orders, or * for all",
                ),
            ),
            labelled(
                "",
                select(
                    "pattern_type",
                    [
                        (str(int(PatternType.LITERAL)), "exactly"),
                        (str(int(PatternType.PREFIXED)), "names that begin so"),
                    ],
                    given.get("pattern_type", ""),
                ),
            ),
            labelled("From host", text_input("host", given.get("host", "*"))),
            tag("button", "Add"),
            method="post",
            action=call.here("access", "add"),
            class_="toolbar",
        ),
        open=typed is not None,
    )


def _acl(given: dict[str, str]) -> Acl:
    try:
        return Acl(
            ResourceType(int(given["resource_type"])),
            given["resource_name"],
            PatternType(int(given["pattern_type"])),
            given["principal"],
            given.get("host") or "*",
            Operation(int(given["operation"])),
            Permission(int(given["permission"])),
        )
    except (KeyError, ValueError):
        raise WrongInput("That is no permission: choose from the lists.") from None


def _in_words(acl: Acl) -> str:
    """For the audit."""
    may = "may" if acl.permission == Permission.ALLOW else "may not"
    operation = Operation(acl.operation).name.lower().replace("_", " ")
    names = "names that begin with " if acl.pattern_type == PatternType.PREFIXED else ""
    what = f"{ResourceType(acl.resource_type).title} {names}{acl.resource_name}"
    return f"{acl.principal} {may} {operation} {what} from {acl.host}"


async def add_acl(call: ConsoleCall) -> Any:
    given = await call.form()

    async def work() -> str:
        acl = _acl({name: text.strip() for name, text in given.items()})
        if ":" not in acl.principal or acl.principal.endswith(":"):
            raise WrongInput("Who is written with a type: User:ann.")
        access = await (await call.workspace()).access()
        await changing(call, "add acl", _in_words(acl), access.create_acls([acl]))
        return "The permission is added."

    return await _changed(call, "acl", given, work)


async def remove_acl(call: ConsoleCall) -> Any:
    acl = _acl(await call.form())  # as it was shown: names may have spaces at their ends
    access = await (await call.workspace()).access()
    if not await changing(call, "remove acl", _in_words(acl), access.delete_acls([AclFilter(*acl)])):
        raise WrongInput("The permission is not there any more.")
    return call.done("The permission is removed.", call.here("access"))


# --- users ------------------------------------------------------------------------------------------


async def _users(call: ConsoleCall, access: Access, typed: Mapping[str, str] | None) -> Markup:
    try:
        users = await access.scram_users()
    except KafkaError as error:
        return card("Users", _not_shown(error))
    rows = [
        [
            tag("b", name),
            ", ".join(f"{each.title} ({iterations} iterations)" for each, iterations in found.items()),
            None
            if call.read_only
            else [
                tag(
                    "form",
                    call.token(),
                    hidden("user", name),
                    hidden("mechanism", int(each)),
                    tag("button", f"Remove {each.title}", class_="quiet"),
                    method="post",
                    action=call.here("access", "remove-user"),
                )
                for each in found
            ],
        ]
        for name, found in sorted(users.items())[:_MOST_ROWS]
    ]
    return card(
        "Users (SCRAM)",
        table(["User", "Mechanisms", ""], rows, empty="There is none."),
        left_out(len(users), _MOST_ROWS, "user"),
        None if call.read_only else _user_form(call, typed),
    )


def _user_form(call: ConsoleCall, typed: Mapping[str, str] | None) -> Markup:
    given = typed or {}
    return tag(
        "details",
        tag("summary", "Add a user, or set a password"),
        tag(
            "form",
            call.token(),
            labelled("Name", text_input("user", given.get("user", ""), required=True)),
            labelled(
                "Password",
                tag("input", type="password", name="password", required=True, autocomplete="new-password"),
            ),
            labelled(
                "Mechanism",
                select(
                    "mechanism",
                    [(str(int(each)), each.title) for each in reversed(ScramMechanism)],
                    given.get("mechanism", ""),
                ),
            ),
            tag("button", "Set the password"),
            method="post",
            action=call.here("access", "set-user"),
            class_="toolbar",
        ),
        open=typed is not None,
    )


def _mechanism(given: dict[str, str]) -> ScramMechanism:
    try:
        return ScramMechanism(int(given.get("mechanism", "")))
    except ValueError:
        raise WrongInput("Choose a mechanism.") from None


async def set_user(call: ConsoleCall) -> Any:
    given = await call.form()

    async def work() -> str:
        user, password = given.get("user", "").strip(), given.get("password", "")
        if not user or not password:
            raise WrongInput("A name and a password are needed.")
        setting = ScramSetting(user, _mechanism(given), password, secrets.token_bytes(16), _ITERATIONS)
        access = await (await call.workspace()).access()
        await changing(call, "set password", user, access.alter_scram_users([setting]))
        return f"{user} has a password now."

    return await _changed(call, "user", given, work)


async def remove_user(call: ConsoleCall) -> Any:
    given = await call.form()
    user = given.get("user", "")
    access = await (await call.workspace()).access()
    await changing(call, "remove password", user, access.alter_scram_users([], [(user, _mechanism(given))]))
    return call.done(f"{user} has that password no more.", call.here("access"))


# --- quotas -----------------------------------------------------------------------------------------


async def _quotas(call: ConsoleCall, access: Access, typed: Mapping[str, str] | None) -> Markup:
    given = typed or {}
    found = []
    try:
        for kind in ("user", "client-id", "ip"):
            found += await access.quotas([(kind, ANY, None)], strict=False)
    except KafkaError as error:
        return card("Quotas", _not_shown(error))
    seen = {tuple(sorted(entity.items(), key=str)): (entity, values) for entity, values in found}
    rows = [
        [
            ", ".join(f"{kind} {name or '(default)'}" for kind, name in entity.items()),
            name_,
            number_cell(_plain(value)),
            None if call.read_only else _quota_removal(call, entity, name_),
        ]
        for entity, values in seen.values()
        for name_, value in values.items()
    ]
    form: Content = None
    if not call.read_only:
        form = tag(
            "details",
            tag("summary", "Set a quota"),
            tag(
                "form",
                call.token(),
                labelled("User", text_input("user", given.get("user", ""), placeholder="any")),
                labelled("Client id", text_input("client-id", given.get("client-id", ""), placeholder="any")),
                labelled(
                    "Quota", select("quota", [(each, each) for each in _QUOTAS], given.get("quota", ""))
                ),
                labelled(
                    "Value", text_input("value", given.get("value", ""), inputmode="numeric", required=True)
                ),
                tag("button", "Set"),
                method="post",
                action=call.here("access", "quota"),
                class_="toolbar",
            ),
            open=typed is not None,
        )
    return card(
        "Quotas",
        table(["Of", "Quota", number_head("Value"), ""], rows[:_MOST_ROWS], empty="There is none."),
        left_out(len(rows), _MOST_ROWS, "quota"),
        form,
    )


def _plain(value: float) -> str:
    """1,048,576 or 12.5: quotas are bytes as well as per cent."""
    return f"{value:,.6f}".rstrip("0").rstrip(".")


def _quota_removal(call: ConsoleCall, entity: dict[str, str | None], name: str) -> Markup:
    fields = [hidden(kind, value if value is not None else "<default>") for kind, value in entity.items()]
    return tag(
        "form",
        call.token(),
        fields,
        hidden("quota", name),
        hidden("value", ""),
        tag("button", "Remove", class_="quiet"),
        method="post",
        action=call.here("access", "quota"),
    )


async def set_quota(call: ConsoleCall) -> Any:
    given = await call.form()

    async def work() -> str:
        entity: dict[str, str | None] = {
            kind: None if given[kind] == "<default>" else given[kind].strip()
            for kind in ("user", "client-id", "ip")
            if given.get(kind, "").strip()
        }
        if not entity:
            raise WrongInput(
                "Name a user or a client id; <default> is for those without a quota of their own."
            )
        text = given.get("value", "").strip()
        try:
            value = float(text) if text else None
            if value is not None and not math.isfinite(value):
                raise ValueError(text)
        except ValueError:
            raise WrongInput(f"A quota is a number, not {text!r}.") from None
        name = given.get("quota", "")
        access = await (await call.workspace()).access()
        setting = access.alter_quotas(entity, {name: value})
        of = ", ".join(f"{kind} {named or '(default)'}" for kind, named in entity.items())
        await changing(call, "set quota", f"{of}: {name}={text or 'removed'}", setting)
        return "The quota is removed." if value is None else "The quota is set."

    return await _changed(call, "quota", given, work)
