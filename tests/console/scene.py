"""What a walk through the console stands on: a cluster, a console beside it, and tabs of a real Chromium.

The cluster is reached over the protocol alone: the same walks are played on Moldau and on Apache Kafka.
"""

import os
import shutil
from collections.abc import Iterable, Iterator, Mapping
from contextlib import ExitStack, contextmanager
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import pytest
from confluent_kafka import ConsumerGroupTopicPartitions, Producer, TopicPartition
from confluent_kafka.admin import AdminClient, NewTopic

from moldau.console.settings import ClusterSettings, ConsoleSettings
from moldau.web.server import ListenerOptions
from tests.connect.conftest import running as connect_worker
from tests.console.conftest import running_console
from tests.shared.services import running_registry
from tests.shared.waiting import wait_until

PATIENCE_MS = 60_000
PATIENCE_SECONDS = PATIENCE_MS / 1000
_STAY = {"__consumer_offsets", "__transaction_state", "__share_group_state"}

Record = Mapping[str, Any]


@contextmanager
def chromium() -> Iterator[Any]:
    """Debian's browser, or whichever is there; the test is skipped where there is none."""
    playwright = pytest.importorskip("playwright.sync_api", reason="playwright is not installed")
    names = ("chromium", "chromium-browser", "google-chrome")
    path = next((found for name in names if (found := shutil.which(name)) is not None), None)
    if path is None:
        pytest.skip("no Chromium is installed: 'make chromium' as root, or your system's package")
    with playwright.sync_playwright() as running:
        options = ["--no-sandbox"] if os.getuid() == 0 else []
        browser = running.chromium.launch(executable_path=path, args=options, timeout=PATIENCE_MS)
        yield browser
        browser.close()


class AnyCluster:
    """What happens beside the console: other programs that make topics, write and commit."""

    def __init__(self, servers: str) -> None:
        self.bootstrap_servers = servers
        self._admin = AdminClient({"bootstrap.servers": servers})

    def topics(self) -> set[str]:
        return set(self._admin.list_topics(timeout=PATIENCE_SECONDS).topics) - _STAY

    def create_topic(self, *names: str) -> None:
        for made in self._admin.create_topics([NewTopic(name, 1, 1) for name in names]).values():
            made.result(PATIENCE_SECONDS)
        wait_until(lambda: self.topics().issuperset(names))

    def produce(self, topic: str, *records: Record) -> None:
        """Records are arguments of confluent's ``produce``."""
        settings = {"bootstrap.servers": self.bootstrap_servers, "queue.buffering.max.messages": 1_000_000}
        producer = Producer(settings)
        for each in records:
            producer.produce(topic, **each)
        assert producer.flush(PATIENCE_SECONDS) == 0

    def commit(self, group: str, topic: str, offset: int) -> None:
        wanted = ConsumerGroupTopicPartitions(group, [TopicPartition(topic, 0, offset)])
        said: list[object] = []

        def done() -> bool:
            """A coordinator that is just being made refuses at first, partition by partition."""
            (asked,) = self._admin.alter_consumer_group_offsets([wanted]).values()
            said[:] = [each.error for each in asked.result(PATIENCE_SECONDS).topic_partitions if each.error]
            return not said

        wait_until(done, lambda: str(said))

    def reset(self) -> None:
        """No topic and no group is left."""
        listed = self._admin.list_consumer_groups().result(PATIENCE_SECONDS).valid
        if listed:
            for gone in self._admin.delete_consumer_groups([each.group_id for each in listed]).values():
                gone.result(PATIENCE_SECONDS)
        names = self.topics()
        if names:
            for gone in self._admin.delete_topics(list(names)).values():
                gone.result(PATIENCE_SECONDS)
        wait_until(lambda: not self.topics())


class Tab:
    """A page that remembers everything that should not happen."""

    def __init__(self, browser: Any, url: str, **options: Any) -> None:
        self.context = browser.new_context(base_url=url, **options)
        self.context.set_default_timeout(PATIENCE_MS)
        self.page = self.context.new_page()
        self.wrong: list[str] = []
        self.page.on("console", self._said)
        self.page.on("pageerror", lambda error: self.wrong.append(str(error)))
        self.page.on("dialog", lambda dialog: (self.wrong.append(dialog.message), dialog.dismiss()))

    def _said(self, message: Any) -> None:
        # A form that was meant to be refused, or a cluster that was meant to be away.
        refused = "status of 400" in message.text or "status of 502" in message.text
        if message.type == "error" and not refused:
            self.wrong.append(message.text)


class Scene:
    def __init__(self, browser: Any, servers: str, stack: ExitStack) -> None:
        self.cluster = AnyCluster(servers)
        self.tabs: list[Tab] = []
        self._browser = browser
        self._stack = stack
        self._url: str | None = None

    def start_console(self, **cluster: Any) -> None:
        """With addresses of services; a tab starts one without."""
        settings = ConsoleSettings(
            (ClusterSettings("local", self.cluster.bootstrap_servers, **cluster),),
            ListenerOptions(stop_timeout_seconds=2),
            sample_seconds=0.2,
        )
        self._url = self._stack.enter_context(running_console(settings))

    def start_registry(self) -> str:
        """The URL of a schema registry on the cluster."""
        return self._stack.enter_context(running_registry(self.cluster.bootstrap_servers)).url

    def start_worker(self, **connector: str) -> str:
        """The URL of a worker of Connect with one connector; its files are gone with the scene."""
        folder = Path(self._stack.enter_context(TemporaryDirectory(prefix="moldau-console-")))
        return self._stack.enter_context(connect_worker(self.cluster, folder, [connector])).url

    def tab(self, **options: Any) -> Any:
        if self._url is None:
            self.start_console()
        tab = Tab(self._browser, self._url or "", **options)
        self._stack.callback(tab.context.close)
        self.tabs.append(tab)
        return tab.page


@contextmanager
def scene_on(browser: Any, servers: str) -> Iterator[Scene]:
    with ExitStack() as stack:
        scene = Scene(browser, servers, stack)
        scene.cluster.reset()
        try:
            yield scene
        except BaseException:
            for tab in scene.tabs:  # for the report of a failed test
                print(tab.page.url, tab.page.inner_text("body")[:3000], tab.wrong, sep="\n")
            raise
    assert [each for tab in scene.tabs for each in tab.wrong] == []


def values(texts: Iterable[str]) -> list[Record]:
    return [{"value": each} for each in texts]
