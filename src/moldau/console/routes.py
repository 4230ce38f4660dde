"""Every address of the console, and the page that answers it. Pure: a table."""

from moldau.console.call import guarded
from moldau.console.pages import (
    access,
    assets,
    brokers,
    connectors,
    dead_letters,
    groups,
    messages,
    overview,
    people,
    pipelines,
    produce,
    provider_login,
    schemas,
    sql,
    streams,
    time_travel,
    topic,
    topics,
    transactions,
)
from moldau.web.routes import Handler, Parameter, Route, flag, number, text

_LIST = (text("q"), number("page"), text("sort"))


def _get(path: str, handler: Handler, summary: str, *query: Parameter) -> Route:
    return Route("GET", path, guarded(handler), summary, query)


def _post(path: str, handler: Handler, summary: str) -> Route:
    return Route("POST", path, guarded(handler), summary)


_RECORDS = (
    text("from"),
    text("at"),
    text("before"),
    text("partition"),
    text("key"),
    text("filter"),
    text("unread_by"),
    text("noscript"),
    text("format"),
    flag("live"),
    flag("uncommitted"),
    number("limit"),
)
_TOPIC = "/c/{cluster}/topics/{topic}"
ROUTES: tuple[Route, ...] = (
    Route("GET", "/assets/{name}", assets.show_asset, "Style and script"),
    Route("GET", "/healthz", assets.healthz, "Whether the console answers"),
    _get("/", overview.start, "To the first cluster"),
    _get("/c/{cluster}", overview.overview, "Overview"),
    _get("/c/{cluster}/brokers", brokers.brokers, "Brokers"),
    _post("/c/{cluster}/brokers/elect", brokers.elect, "Let preferred replicas lead"),
    _get("/c/{cluster}/topics", topics.topics, "Topics", *_LIST, flag("internal")),
    _get("/c/{cluster}/new-topic", topics.new_topic, "Form for a new topic"),
    _post("/c/{cluster}/new-topic", topics.create_topic, "Create a topic"),
    _get(_TOPIC, topic.topic_page, "Partitions of a topic", number("page")),
    _get(f"{_TOPIC}/configs", topic.topic_configs, "Configs of a topic", text("edit")),
    _post(f"{_TOPIC}/configs", topic.change_config, "Change a config"),
    _get(f"{_TOPIC}/groups", topic.topic_groups, "Groups that read a topic", number("page")),
    _post(f"{_TOPIC}/partitions", topic.add_partitions, "Add partitions"),
    _post(f"{_TOPIC}/empty", topic.empty_topic, "Delete the records of a topic"),
    _post(f"{_TOPIC}/delete", topic.delete_topic, "Delete a topic"),
    _get(f"{_TOPIC}/messages", messages.messages, "Messages of a topic", *_RECORDS),
    _get(f"{_TOPIC}/messages/search", streams.search_stream, "A search, as events", *_RECORDS),
    _get(f"{_TOPIC}/messages/tail", streams.tail_stream, "New messages, as events", *_RECORDS),
    _get(f"{_TOPIC}/messages/download", messages.download_messages, "Messages as a file", *_RECORDS),
    _get(
        f"{_TOPIC}/messages/one", messages.one_message, "One message", number("partition"), number("offset")
    ),
    _post(f"{_TOPIC}/messages/again", produce.send_again, "Send a message again"),
    _get(f"{_TOPIC}/dead-letters", dead_letters.dead_letters, "Dead letters"),
    _post(f"{_TOPIC}/dead-letters", dead_letters.try_again, "Send dead letters again"),
    _get(f"{_TOPIC}/produce", produce.produce_page, "Form for a record"),
    _post(f"{_TOPIC}/produce", produce.produce, "Produce a record"),
    _get(f"{_TOPIC}/time-travel", time_travel.time_travel, "A topic as it was", text("at"), text("show")),
    _post(f"{_TOPIC}/time-travel", time_travel.fork, "Fork a topic"),
    _get(f"{_TOPIC}/time-travel/snapshot", time_travel.snapshot, "A topic as a file", text("at")),
    _get("/c/{cluster}/groups", groups.groups, "Groups", *_LIST, text("state")),
    _get("/c/{cluster}/groups/view", groups.group_page, "One group", text("group"), number("page")),
    _post("/c/{cluster}/groups/reset", groups.reset_group, "Plan or make a reset"),
    _post("/c/{cluster}/groups/delete", groups.delete_group, "Delete a group"),
    _get("/c/{cluster}/schemas", schemas.schemas, "Subjects", *_LIST),
    _get(
        "/c/{cluster}/schemas/view",
        schemas.schema_page,
        "One subject",
        text("subject"),
        number("version"),
        number("against"),
    ),
    _get("/c/{cluster}/schemas/new", schemas.new_schema, "Form for a schema", text("subject")),
    _post("/c/{cluster}/schemas/new", schemas.register_schema, "Check or register a schema"),
    _get("/c/{cluster}/connect", connectors.connectors, "Connectors", number("page")),
    _post("/c/{cluster}/connect", connectors.act, "Pause, resume or restart a connector"),
    _get("/c/{cluster}/pipelines", pipelines.pipelines, "Pipelines and streams applications", *_LIST),
    _get("/c/{cluster}/pipelines/view", pipelines.query_page, "One query or application", text("name")),
    _get("/c/{cluster}/sql", sql.sql_page, "A box for SQL", text("statement")),
    _post("/c/{cluster}/sql", sql.run_sql, "Run SQL"),
    _get("/c/{cluster}/transactions", transactions.transactions, "Transactions", number("page")),
    _get("/c/{cluster}/transactions/view", transactions.transaction_page, "One transaction", text("id")),
    _post("/c/{cluster}/transactions/abort", transactions.abort_transaction, "Abort a transaction"),
    _get("/c/{cluster}/access", access.access_page, "ACLs, users, quotas", number("page")),
    _post("/c/{cluster}/access/add", access.add_acl, "Add an ACL"),
    _post("/c/{cluster}/access/remove", access.remove_acl, "Remove an ACL"),
    _post("/c/{cluster}/access/set-user", access.set_user, "Set a password"),
    _post("/c/{cluster}/access/remove-user", access.remove_user, "Remove a password"),
    _post("/c/{cluster}/access/quota", access.set_quota, "Set or remove a quota"),
    _get("/c/{cluster}/audit", people.audit_page, "What people did"),
    _get("/login", people.login_page, "The login page", text("next")),
    _post("/login", people.log_in, "Log in"),
    _get("/login/provider", provider_login.go, "To the provider of logins", text("next")),
    _get(
        "/login/callback",
        provider_login.come_back,
        "Back from the provider of logins",
        *(text(name) for name in ("code", "state", "iss", "error", "error_description")),
    ),
    _get("/logged-out", provider_login.log_out_everywhere, "After the end of a session", flag("everywhere")),
    _post("/logout", people.log_out, "Log out"),
)
