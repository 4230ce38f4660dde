"""A console behind a real port, on a real broker in the same process."""

import re
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

import httpx
import pytest

# All that is imported by and by is imported here: CPython 3.11 fails when two threads rewrite modules at once
# (gh-106905), and the broker, the console and the test are three.
import moldau.serde.avro
import moldau.serde.json_schema
import moldau.serde.protobuf
from moldau.console.masks import parse_mask
from moldau.console.server import serve
from moldau.console.settings import ClusterSettings, ConsoleSettings
from moldau.testing import Broker
from moldau.web.server import ListenerOptions
from tests.shared.services import load_handlers, running


class Page:
    """An answer: its text, its status, and the token of its forms."""

    def __init__(self, response: httpx.Response) -> None:
        self.response = response
        self.status = response.status_code
        self.text = response.text

    @property
    def words(self) -> str:
        """What one reads: without the tags."""
        return " ".join(re.sub(r"<[^>]*>", " ", self.text).split())

    @property
    def token(self) -> str:
        found = re.search(r'name="token" value="([0-9a-f]+)"', self.text)
        assert found is not None, self.words
        return found[1]


class Browser:
    """Asks for pages and sends forms, as a person does."""

    def __init__(self, url: str, cluster: str = "local") -> None:
        self.url = url
        self.http = httpx.Client(base_url=url, timeout=60, trust_env=False, follow_redirects=True)
        self._base = f"/c/{cluster}"

    def get(self, path: str = "", **parameters: Any) -> Page:
        names = {name.rstrip("_"): value for name, value in parameters.items()}
        return Page(self.http.get(self._base + path, params=names or None))

    def post(self, path: str, page: str | None = None, **fields: Any) -> Page:
        """Sends a form with the token of the page that it stands on."""
        token = self.get(page if page is not None else "/new-topic").token
        names = {name.rstrip("_").replace("__", "-"): value for name, value in fields.items()}
        return Page(self.http.post(self._base + path, data={"token": token, **names}))


@contextmanager
def running_console(settings: ConsoleSettings) -> Iterator[str]:
    """The URL of a console in a thread of its own."""
    with running(serve, settings) as found:
        yield found.url


def settings_for(broker: Broker, **options: Any) -> ConsoleSettings:
    of_cluster = ("client", "schema_registry", "connect", "name")
    cluster = {name: options.pop(name) for name in of_cluster if name in options}
    name = cluster.pop("name", "local")
    masks = tuple(parse_mask(each) for each in options.pop("masks", ()))
    listener = options.pop("listener", ListenerOptions(stop_timeout_seconds=2))
    return ConsoleSettings(
        (ClusterSettings(name, broker.bootstrap_servers, **cluster),),
        listener,
        masks=masks,
        **{"sample_seconds": 0.2, **options},
    )


@pytest.fixture(scope="session")
def shared_broker() -> Iterator[Broker]:
    load_handlers()
    assert moldau.serde.avro
    with Broker({"group.initial.rebalance.delay.ms": 0, "num.partitions": 1}) as broker:
        yield broker


@pytest.fixture
def broker(shared_broker: Broker) -> Broker:
    """An empty broker."""
    shared_broker.reset()
    return shared_broker


@pytest.fixture
def make_console(broker: Broker) -> Iterator[Callable[..., Browser]]:
    """Starts consoles on the broker, with these settings; they end with the test."""
    from contextlib import ExitStack

    with ExitStack() as stack:

        def make(**options: Any) -> Browser:
            on = options.pop("broker", broker)
            settings = settings_for(on, **options)
            browser = Browser(stack.enter_context(running_console(settings)), settings.clusters[0].name)
            stack.callback(browser.http.close)
            return browser

        yield make


@pytest.fixture
def console(make_console: Callable[..., Browser]) -> Browser:
    return make_console()
