"""One instance of the registry and several, on a real broker: its log taken over, fenced, broken in the
middle; schemas that take long are parsed and compared off the event loop, and given up after a while."""

import asyncio
import json
import threading
from concurrent.futures import ThreadPoolExecutor

import pytest

from moldau.client.admin.admin import Admin
from moldau.client.admin.descriptions import ConfigResource, ResourceType
from moldau.client.replicated_state.election import Election, Identity
from moldau.client.replicated_state.replicated_state import NotLeader
from moldau.client.transport.cluster import Cluster
from moldau.registry import parsing, service
from moldau.registry.decisions import SchemaToRegister
from moldau.registry.errors import RegistryProblem
from moldau.registry.records import SchemaValue
from moldau.registry.rules.compatibility import conflicts
from moldau.registry.service import Registry, replicated_state_options
from moldau.schemas import protoc
from moldau.schemas.worker_process import WorkerProcess
from moldau.testing import Broker, drop, fail
from tests.shared.waiting import until

pytestmark = pytest.mark.slow

STRING, INT, LONG = '"string"', '"int"', '"long"'
V1 = '{"type":"record","name":"Order","fields":[{"name":"id","type":"long"}]}'
V2 = '{"type":"record","name":"Order","fields":[{"name":"id","type":"double"}]}'


class Instance:
    """A registry without HTTP; ``crash`` ends it as a killed process ends: without a word to anyone."""

    def __init__(self, cluster: Cluster, port: int, *, read_only: bool = False) -> None:
        self.cluster = cluster
        options = replicated_state_options(
            timeout_ms=8_000, session_timeout_ms=6_000, heartbeat_interval_ms=50
        )
        self.registry = Registry(cluster, Identity("127.0.0.1", port), options, read_only=read_only)

    @classmethod
    async def start(cls, broker: Broker, port: int = 1, **options) -> "Instance":
        cluster = await Cluster.open(
            broker.bootstrap_servers, request_timeout_ms=5_000, api_timeout_ms=5_000, retry_backoff_ms=10
        )
        instance = cls(cluster, port, **options)
        await instance.registry.open()
        return instance

    async def register(self, subject: str, schema: str) -> SchemaValue:
        answer = await self.registry.change(lambda decide: decide.register(subject, SchemaToRegister(schema)))
        assert isinstance(answer, SchemaValue)
        return answer

    async def stop(self) -> None:
        await self.registry.close()
        await self.cluster.close()

    async def crash(self) -> None:
        self.registry.election._task.cancel()
        await self.registry.log.close()
        await self.cluster.close()


# The topic.


def test_the_topic_is_made_compacted_and_holds_confluents_bytes(broker):
    async def work():
        instance = await Instance.start(broker)
        await instance.register("s", STRING)
        resource = ConfigResource(ResourceType.TOPIC, "_schemas")
        found = await Admin(instance.cluster).describe_configs({resource: ["cleanup.policy"]})
        await instance.stop()
        return found[resource][0].value

    assert asyncio.run(work()) == "compact"
    keys = [record.key for record in broker.records("_schemas") if b"keytype" in (record.key or b"")]
    assert keys == [
        b'{"keytype":"NOOP","magic":0}',
        b'{"keytype":"SCHEMA","subject":"s","version":1,"magic":1}',
    ]


def test_an_existing_topic_is_taken_over_garbage_and_all(broker):
    """Written by another registry: plain records, odd ones among them."""
    key = '{"keytype":"SCHEMA","subject":"s","version":%d,"magic":1}'
    schema = '{"subject":"s","version":%d,"id":%d,"schema":%s,"deleted":false}'
    broker.create_topic("_schemas", configs={"cleanup.policy": "compact"})
    broker.produce("_schemas", None, key='{"keytype":"NOOP","magic":0}')
    broker.produce("_schemas", schema % (1, 10, r'"\"string\""'), key=key % 1)
    broker.produce("_schemas", b"\x00\xff", key=b"\xff garbage")
    broker.produce("_schemas", '{"x":1}', key='{"keytype":"EXPORTER","magic":3}')
    broker.produce("_schemas", schema % (2, 11, '"{broken"'), key=key % 2)
    config = '{"keytype":"CONFIG","subject":"s","magic":0}'
    broker.produce("_schemas", '{"compatibilityLevel":"NONE"}', key=config)

    async def work():
        instance = await Instance.start(broker)
        found = await instance.register("s", STRING), await instance.register("s", INT)
        passed_over = instance.registry.state.passed_over_count
        await instance.stop()
        return found, passed_over

    (old, new), passed_over = asyncio.run(work())
    assert (old.id, old.version) == (10, 1)
    assert (new.id, new.version) == (12, 3)
    assert passed_over == 2


def test_a_restart_keeps_everything(broker):
    async def work():
        first = await Instance.start(broker)
        await first.register("s", STRING)
        await first.register("t", INT)
        await first.stop()
        broker_restart()
        second = await Instance.start(broker)
        again, new = await second.register("t", INT), await second.register("u", LONG)
        await second.stop()
        return again, new

    def broker_restart():
        broker.stop()
        broker.start()

    again, new = asyncio.run(work())
    assert (again.id, again.version) == (2, 1)
    assert new.id == 3


def test_the_broker_may_go_away_and_come_back(broker):
    async def work():
        instance = await Instance.start(broker)
        first = await instance.register("s", STRING)
        broker.stop()
        broker.start()
        for _ in range(20):  # until it has found its place again, errors are the honest answer
            try:
                second = await instance.register("t", INT)
                break
            except RegistryProblem as error:
                assert error.code in (50001, 50002, 50004)  # noqa: PT017
        await instance.stop()
        return first.id, second.id

    assert asyncio.run(work()) == (1, 2)


# Writers.


@pytest.mark.parametrize("api", ["Produce", "EndTxn"])
@pytest.mark.parametrize("handled", [False, True])
def test_killed_between_the_request_and_the_answer(broker, api, handled):
    """Whatever was lost on the way: no id stands for two schemas, and what was acknowledged is there."""

    async def work():
        first = await Instance.start(broker, 1)
        acknowledged = await first.register("s", STRING)
        with broker.intercept(api, lambda request: drop(handled=handled)) as interception:
            writing = asyncio.create_task(first.register("s2", INT))
            await until(lambda: interception.calls)
            writing.cancel()
            await asyncio.gather(writing, return_exceptions=True)
            await first.crash()
        broker.clock.advance(60)  # the group forgets the member that crashed
        second = await Instance.start(broker, 2)
        found = await second.register("t", LONG), await second.register("s2", INT)
        again = await second.register("s", STRING)
        await second.stop()
        return acknowledged, again, found

    acknowledged, again, (other, lost) = asyncio.run(work())
    assert (again.id, again.version) == (acknowledged.id, acknowledged.version) == (1, 1)
    assert len({1, other.id, lost.id}) == 3


def test_a_write_that_is_refused_is_an_error_and_the_next_one_works(broker):
    async def work():
        instance = await Instance.start(broker)
        await instance.register("s", STRING)
        with broker.intercept("Produce", lambda request: fail("INVALID_TXN_STATE")):
            with pytest.raises(RegistryProblem) as error:
                await instance.register("t", INT)
            assert error.value.code == 50001
        found = await instance.register("u", LONG)
        subjects = instance.registry.state.subjects()
        await instance.stop()
        return found.id, subjects

    assert asyncio.run(work()) == (2, ["s", "u"])


def test_a_schema_that_no_record_can_hold_is_refused(broker):
    broker.create_topic("_schemas", configs={"cleanup.policy": "compact", "max.message.bytes": 2000})

    async def work():
        instance = await Instance.start(broker)
        with pytest.raises(RegistryProblem) as error:
            await instance.register("s", json.dumps({"type": "enum", "name": "E", "symbols": ["x" * 3000]}))
        found = await instance.register("t", INT)
        await instance.stop()
        return error.value.code, found.id

    assert asyncio.run(work()) == (42209, 1)


# Several instances.


def test_one_leads_and_the_next_one_takes_over(broker):
    async def work():
        first, second = await Instance.start(broker, 1), await Instance.start(broker, 2)
        await until(lambda: first.registry.election.leads and second.registry.election.leader)
        made = await first.register("s", STRING)
        with pytest.raises(NotLeader) as elsewhere:
            await second.register("s", INT)
        assert elsewhere.value.leader.port == 1
        await first.stop()
        await until(lambda: second.registry.election.leads)
        again, new = await second.register("s", STRING), await second.register("t", INT)
        await second.stop()
        return made.id, again.id, new.id

    assert asyncio.run(work()) == (1, 1, 2)


def test_two_that_both_think_they_lead_give_no_id_twice(broker, monkeypatch):
    """The group is no safeguard here: both believe that they lead. The fence is."""
    monkeypatch.setattr(Election, "leads", property(lambda self: True))

    async def believe(self):
        return True

    monkeypatch.setattr(Election, "confirm", believe)

    async def work():
        pair = await Instance.start(broker, 1), await Instance.start(broker, 2)
        given: dict[int, str] = {}
        for number in range(12):
            schema = f'{{"type":"fixed","name":"F{number}","size":4}}'
            try:
                found = await pair[number % 2].register(f"s{number}", schema)
            except RegistryProblem:
                continue  # it was fenced: nothing was written, nothing was promised
            assert given.setdefault(found.id, schema) == schema
        for instance in pair:
            await instance.stop()
        reader = await Instance.start(broker, 3, read_only=True)
        for number, schema in given.items():
            assert [v.schema.count(schema[26:30]) for v in reader.registry.state.with_id(".", number)] == [1]
        await reader.stop()
        return len(given)

    assert asyncio.run(work()) >= 3


def test_a_follower_hands_writes_on(start):
    with start() as first, start() as second:
        for each in (first, second):
            made = each.http.post(
                f"/subjects/s{each.service.election.identity.port}/versions", json={"schema": STRING}
            )
            assert made.status_code == 200, made.text
            assert made.json()["id"] == 1
        assert first.http.post("/subjects/a%2Fb/versions", json={"schema": INT}).json()["id"] == 2
        assert second.http.post("/subjects/a%2Fb/versions", json={"schema": INT}).json()["id"] == 2
        bad = second.http.put("/config", json={"compatibility": "?"})
        assert bad.json()["error_code"] == 42203


# What takes long.


@pytest.fixture
def running(start):
    with start() as running:
        yield running


@pytest.fixture
def blocked(monkeypatch):
    """Comparisons wait until the event is set."""
    begun, go = threading.Event(), threading.Event()

    def wait(*given):
        begun.set()
        go.wait(30)
        return conflicts(*given)

    monkeypatch.setattr(parsing, "conflicts", wait)
    yield begun, go
    go.set()


def register(running, text):
    return running.http.post("/subjects/orders-value/versions", json={"schema": text})


def test_a_long_comparison_blocks_nobody(running, blocked):
    begun, go = blocked
    assert register(running, V1).json()["id"] == 1
    with ThreadPoolExecutor(1) as threads:
        answer = threads.submit(register, running, V2)
        assert begun.wait(30)
        assert running.http.get("/subjects").json() == ["orders-value"]
        go.set()
        assert answer.result(30).json()["id"] == 2


@pytest.mark.parametrize(
    "path", ["/subjects/orders-value/versions", "/compatibility/subjects/orders-value/versions"]
)
def test_a_comparison_without_end_is_given_up(running, blocked, monkeypatch, path):
    assert register(running, V1).json()["id"] == 1
    monkeypatch.setattr(service, "_PARSING_TIMEOUT_SECONDS", 0.05)
    answer = running.http.post(path, json={"schema": V2})
    assert (answer.status_code, answer.json()["error_code"]) == (500, 50002)
    assert "too long" in answer.json()["message"]
    assert running.http.get("/subjects/orders-value/versions").json() == [1]


@pytest.mark.parametrize(
    "path", ["/subjects/{}/versions", "/subjects/{}", "/compatibility/subjects/{}/versions"]
)
def test_comments_within_comments_hold_up_nobody(running, monkeypatch, path):
    """protoc takes minutes to complain about each of them; it is ended, and not asked again for the same."""
    fine = {"schemaType": "PROTOBUF", "schema": 'syntax = "proto3";\nmessage M { int32 a = 1; }\n'}
    assert running.http.post("/subjects/m/versions", json=fine).status_code == 200
    asked = []
    monkeypatch.setattr(protoc._worker, "ask", lambda *given: asked.append(given))
    bomb = {"schemaType": "PROTOBUF", "schema": 'syntax = "proto3";\n' + "/*" * 10_000}
    answer = running.http.post(path.format("m"), json=bomb)
    assert (answer.status_code, answer.json()["error_code"]) == (500, 50002)
    assert len(asked) == 1
    assert register(running, V1).status_code == 200
    monkeypatch.undo()
    assert running.http.post("/subjects/n/versions", json=fine).status_code == 200


def test_a_large_schema_is_looked_at_in_a_process(running, monkeypatch):
    asked = []
    ask = WorkerProcess.ask
    monkeypatch.setattr(WorkerProcess, "ask", lambda *given: asked.append(given) or ask(*given))

    def enum(count):
        return json.dumps({"type": "enum", "name": "E", "symbols": [f"SYMBOL_{n}" for n in range(count)]})

    assert register(running, enum(1_500)).json()["version"] == 1
    assert register(running, enum(1_600)).json()["version"] == 2
    assert register(running, enum(1_400)).json()["error_code"] == 409
    assert len(asked) == 3 + 2, "each was parsed, and two of them were compared"


def test_what_is_wrong_is_found_out_once(running, monkeypatch):
    asked = []
    ask = protoc._worker.ask
    monkeypatch.setattr(protoc._worker, "ask", lambda *given: asked.append(given) or ask(*given))
    wrong = {"schemaType": "PROTOBUF", "schema": "message {"}
    for _ in range(2):
        assert running.http.post("/subjects/m/versions", json=wrong).json()["error_code"] == 42201
    assert len(asked) == 1


def test_a_comparison_is_made_once(running, monkeypatch):
    made = []
    monkeypatch.setattr(parsing, "conflicts", lambda *given: made.append(given) or conflicts(*given))
    assert register(running, V1).json()["id"] == 1
    for _ in range(2):
        answer = running.http.post("/compatibility/subjects/orders-value/versions", json={"schema": V2})
        assert answer.json() == {"is_compatible": True}
    assert register(running, V2).json()["id"] == 2
    assert len(made) == 1


def test_references_of_references_are_parsed_off_the_event_loop(running, monkeypatch):
    inner = '{"type":"record","name":"A","fields":[{"name":"x","type":"int"}]}'
    running.http.post("/subjects/a/versions", json={"schema": inner})
    outer = '{"type":"record","name":"B","fields":[{"name":"a","type":"A"}]}'
    refers = [{"name": "A", "subject": "a", "version": 1}]
    running.http.post("/subjects/b/versions", json={"schema": outer, "references": refers})
    running.service.decisions.parser._parsed.clear()
    loop_thread = running.run(_thread())
    threads = []
    parse = parsing.schemas.parse

    def noted(*given, **how):
        threads.append(threading.get_ident())
        return parse(*given, **how)

    monkeypatch.setattr(parsing.schemas, "parse", noted)
    last = '{"type":"record","name":"C","fields":[{"name":"b","type":"B"}]}'
    refers = [{"name": "B", "subject": "b", "version": 1}]
    made = running.http.post("/subjects/c/versions", json={"schema": last, "references": refers})
    assert made.json()["id"] == 3
    assert threads
    assert loop_thread not in threads


async def _thread():
    return threading.get_ident()
