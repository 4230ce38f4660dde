"""A box for SQL over topics: batch SELECT in ksqlDB's words, and its rows.

Invariant: what is typed is run as the user, within the bounds of ``sql_runner``; without the library of SQL
the page says what to install.
"""

from typing import Any

from moldau.console.call import ConsoleCall
from moldau.console.markup.html import Content, p, span, table, tag
from moldau.console.markup.layout import card, error_box, heading
from moldau.console.markup.words import count
from moldau.protocol.errors import KafkaError
from moldau.web.problems import http_problem

_EXAMPLE = """SHOW STREAMS;
-- say what is in a topic, once:
-- CREATE STREAM clicks (user STRING KEY, page STRING, ms BIGINT)
--   WITH (KAFKA_TOPIC='clicks', VALUE_FORMAT='JSON');
-- SELECT page, COUNT(*) AS n FROM clicks GROUP BY page;"""


async def sql_page(call: ConsoleCall) -> Any:
    return _page(call, call.text("statement") or _EXAMPLE)


async def run_sql(call: ConsoleCall) -> Any:
    given = await call.form(changes=False)
    text = given.get("statement", "")
    try:
        from moldau.console.sql_runner import changes_something, parsed, run_statements
        from moldau.sql.errors import SqlError
    except ModuleNotFoundError:
        return _page(call, text)
    workspace = await call.workspace()
    try:
        statements = parsed(text)
        if changes_something(statements) and call.read_only:
            raise http_problem(403, "This console is read-only: nothing can be changed with it")
        async with call.console.queries:
            found = await workspace.blocking(
                lambda: run_statements(workspace, call.console.masks, statements)
            )
    except SqlError as error:
        call.note("SQL", "", str(error))
        return _page(call, text, error_box(str(error), "Correct it and run it again."), status=400)
    except KafkaError as error:
        call.note("SQL", "", str(error))
        raise
    call.note("SQL", f"{len(statements)} statements")
    return _page(call, text, [_result(each) for each in found])


def _result(shown: Any) -> Content:
    if shown.message:
        return card("", p(shown.message))
    more = f", and {count(shown.left_out)} more" if shown.left_out else ""
    return card(
        f"{count(len(shown.rows))} rows{more}",
        table(list(shown.columns), [list(row) for row in shown.rows], empty="No row."),
    )


def _page(call: ConsoleCall, text: str, result: Content = None, *, status: int = 200) -> Any:
    if not _is_installed():
        words = "SQL needs a library that is not installed here: pip install 'moldau[sql]'."
        return call.show("SQL", heading("SQL"), card("", p(words, class_="empty")), active="sql")
    box = tag(
        "form",
        call.token(),
        tag("textarea", text, name="statement", rows="8", spellcheck="false", aria_label="Statements"),
        p(
            tag("button", "Run"),
            span(
                "Batch SELECT, SHOW, DESCRIBE, EXPLAIN, CREATE STREAM or TABLE; up to 30 seconds and "
                "500 rows.",
                class_="beside",
            ),
            class_="note",
        ),
        method="post",
        action=call.here("sql"),
    )
    return call.show("SQL", heading("SQL"), card("", box), result, active="sql", status=status)


def _is_installed() -> bool:
    from importlib.util import find_spec

    return find_spec("sqlglot") is not None
