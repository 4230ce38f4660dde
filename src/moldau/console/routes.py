"""Every address of the console, and the page that answers it. Pure: a table."""

from moldau.console.call import guarded
from moldau.console.pages import assets, overview, topic, topics
from moldau.web.routes import Handler, Parameter, Route, flag, number, text

_LIST = (text("q"), number("page"), text("sort"))


def _get(path: str, handler: Handler, summary: str, *query: Parameter) -> Route:
    return Route("GET", path, guarded(handler), summary, query)


def _post(path: str, handler: Handler, summary: str) -> Route:
    return Route("POST", path, guarded(handler), summary)


_TOPIC = "/c/{cluster}/topics/{topic}"
ROUTES: tuple[Route, ...] = (
    Route("GET", "/assets/{name}", assets.show_asset, "Style and script"),
    Route("GET", "/healthz", assets.healthz, "Whether the console answers"),
    _get("/", overview.start, "To the first cluster"),
    _get("/c/{cluster}", overview.overview, "Overview"),
    _get("/c/{cluster}/brokers", overview.brokers, "Brokers"),
    _post("/c/{cluster}/brokers/elect", overview.elect, "Let preferred replicas lead"),
    _get("/c/{cluster}/topics", topics.topics, "Topics", *_LIST, flag("internal")),
    _get("/c/{cluster}/new-topic", topics.new_topic, "Form for a new topic"),
    _post("/c/{cluster}/new-topic", topics.create_topic, "Create a topic"),
    _get(_TOPIC, topic.topic_page, "Partitions of a topic"),
    _get(f"{_TOPIC}/configs", topic.topic_configs, "Configs of a topic", text("edit")),
    _post(f"{_TOPIC}/configs", topic.change_config, "Change a config"),
    _get(f"{_TOPIC}/groups", topic.topic_groups, "Groups that read a topic"),
    _post(f"{_TOPIC}/partitions", topic.add_partitions, "Add partitions"),
    _post(f"{_TOPIC}/empty", topic.empty_topic, "Delete the records of a topic"),
    _post(f"{_TOPIC}/delete", topic.delete_topic, "Delete a topic"),
)
