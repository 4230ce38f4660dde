"""One REST proxy: its sessions with the cluster, its consumer instances, its way to the schema registry.

Invariant: what is opened here is closed here, in the other order.
"""

import asyncio
import json
from dataclasses import dataclass
from functools import partial

from moldau.client.consumer.fetched import ConsumerRecord
from moldau.client.registry.schema_registry import RegistryClient
from moldau.client.replicated_state.election import Identity
from moldau.rest import formats, problems
from moldau.rest.consumers.instance import Render
from moldau.rest.consumers.instances import Instances
from moldau.rest.formats import Format
from moldau.rest.peers import Peers
from moldau.rest.plain_answers import plain_texts
from moldau.rest.schema_formats import NotPrepared, SchemaFormats
from moldau.rest.sessions import Session, SessionOptions, Sessions
from moldau.web.problems import Problem

_LOOK_SECONDS = 30.0


@dataclass(frozen=True, slots=True)
class ProxyOptions:
    sessions: SessionOptions
    #: None: only binary and JSON records.
    registry_url: str | None = None
    #: The Kafka group by which proxies find each other; None for one that is alone.
    group_id: str | None = "moldau-rest"
    consumer_idle_timeout_ms: int = 300_000
    max_consumers: int = 10_000
    #: The largest answer with records, by the bytes of their keys and values.
    max_answer_bytes: int = 16 * 1024 * 1024
    #: The largest record, as JSON, of a stream of records.
    max_record_bytes: int = 2 * 1024 * 1024
    max_followers: int = 1_000


class Proxy:
    def __init__(self, options: ProxyOptions, identity: Identity) -> None:
        self.options = options
        self.sessions = Sessions(options.sessions)
        self.consumers = Instances(
            idle_timeout_ms=options.consumer_idle_timeout_ms, max_instances=options.max_consumers
        )
        registry = None if options.registry_url is None else RegistryClient(options.registry_url)
        self.schemas = SchemaFormats(registry)
        self.peers = Peers(identity.url)
        #: Of requests without a login of the cluster's; there when the proxy is open, and as long as it is.
        self.own_session: Session
        #: Requests that follow records now.
        self.followers = 0
        #: Set when the proxy is to stop: whoever follows records is let go.
        self.stopping = False
        self._identity = identity
        self._tidying: asyncio.Task[None] | None = None

    async def open(self) -> None:
        """Raises the ``KafkaError`` of a cluster that does not let the proxy in."""
        self.own_session = await self.sessions.open_own()
        if self.options.group_id is not None:
            self.peers.join(self.own_session.cluster, self._identity, self.options.group_id)
        self.consumers.start()
        self._tidying = asyncio.create_task(self._tidy(), name="rest-sessions")

    async def close(self) -> None:
        if self._tidying is not None:
            self._tidying.cancel()
            await asyncio.gather(self._tidying, return_exceptions=True)
        await self.consumers.close()
        await self.peers.close()
        await self.sessions.close()
        self.schemas.close()

    def renders(self, form: Format, *, whole: bool = False) -> Render:
        """How records are shown in a format: v2's five fields, or with time and headers too."""
        texts: dict[str, str] = {}

        def render(record: ConsumerRecord) -> str:
            topic = texts.get(record.topic)
            if topic is None:
                topic = texts[record.topic] = json.dumps(record.topic)
            key, value = self._read(form, record, is_key=True), self._read(form, record, is_key=False)
            shown = (
                f'{{"topic":{topic},"key":{key},"value":{value},'
                f'"partition":{record.partition},"offset":{record.offset}'
            )
            if not whole:
                return f"{shown}}}"
            headers = [{"name": name, "value": formats.header_text(value)} for name, value in record.headers]
            return f'{shown},"timestamp":{record.timestamp},"headers":{json.dumps(headers)}}}'

        quick = None if whole or form.has_schema else partial(plain_texts, form)
        return Render(render, self._prepare, quick)

    def _read(self, form: Format, record: ConsumerRecord, *, is_key: bool) -> str:
        data = record.key if is_key else record.value
        try:
            if form.has_schema:
                return json.dumps(self.schemas.read(form, data, is_key, record.headers))
            return formats.json_text(form, data)
        except (Problem, ValueError) as error:
            raise self._unreadable(form, record, "key" if is_key else "value", error) from None

    async def _prepare(self, missing: NotPrepared, record: ConsumerRecord) -> None:
        try:
            await self.schemas.prepare(missing)
        except Problem as error:
            raise self._unreadable(missing.form, record, "schema", error) from None

    def _unreadable(self, form: Format, record: ConsumerRecord, part: str, why: Exception) -> Problem:
        return problems.serialization_failed(
            f"The {part} of {record.topic}-{record.partition} at offset {record.offset} "
            f"cannot be read as {form.name}: {why}"
        )

    async def _tidy(self) -> None:
        while True:
            await asyncio.sleep(_LOOK_SECONDS)
            await self.sessions.close_idle()
