import asyncio
import struct
from typing import Any

import pytest

from moldau.client.transport.connection import (
    BrokerNotAvailable,
    Connection,
    ConnectionLost,
    RequestTimedOut,
    error_code,
    parse_address,
)
from moldau.protocol.api_keys import ApiKey
from moldau.protocol.codec import writer
from moldau.protocol.errors import ErrorCode, KafkaError
from moldau.protocol.messages.api_versions import ApiVersionsRequest
from moldau.protocol.messages.describe_cluster import DescribeClusterRequest, DescribeClusterResponse
from moldau.protocol.messages.metadata import MetadataRequest, MetadataRequestTopic
from tests.shared.waiting import turns


def answer_with_name(request: DescribeClusterRequest) -> DescribeClusterResponse:
    return DescribeClusterResponse(cluster_id=f"type {request.endpoint_type}")


HANDLERS = {ApiKey.DESCRIBE_CLUSTER: answer_with_name}


async def connect(broker: Any, **options: Any) -> Connection:
    return await Connection.open("127.0.0.1", broker.port, **options)


def test_open_asks_for_the_versions_in_our_highest_one(scripted: Any) -> None:
    async def run() -> None:
        async with scripted(HANDLERS) as broker:
            connection = await connect(broker)
            assert broker.versions == [(ApiKey.API_VERSIONS, 4)]
            assert broker.requests[0].client_software_name == "moldau"
            assert connection.api_versions[ApiKey.DESCRIBE_CLUSTER] == (0, 2)
            assert connection.api_versions_response.error_code == 0
            await connection.wait_closed()

    asyncio.run(run())


@pytest.mark.parametrize(("last", "asked"), [(2, [4, 2]), (0, [4, 0])])
def test_open_falls_back_to_what_an_older_broker_offers(scripted: Any, last: int, asked: list[int]) -> None:
    async def run() -> None:
        async with scripted() as broker:
            broker.api_versions = {ApiKey.API_VERSIONS: (0, last), ApiKey.METADATA: (0, 9)}
            connection = await connect(broker)
            assert broker.versions == [(ApiKey.API_VERSIONS, version) for version in asked]
            assert connection.version_of(ApiKey.METADATA) == 9

    asyncio.run(run())


def test_open_tries_version_0_when_the_refusal_names_none(scripted: Any) -> None:
    async def run() -> None:
        async with scripted() as broker:
            first = broker._api_versions

            def handler(request: Any, version: int) -> Any:
                if version == 0:
                    return first(request, 0)
                return struct.pack(">iihi", 10, 1, ErrorCode.UNSUPPORTED_VERSION, 0)

            broker.handlers[ApiKey.API_VERSIONS] = handler
            await connect(broker)
            assert [version for _, version in broker.versions] == [4, 0]

    asyncio.run(run())


def test_send_uses_the_highest_common_version(scripted: Any) -> None:
    async def run() -> None:
        async with scripted(HANDLERS) as broker:
            broker.api_versions = {ApiKey.DESCRIBE_CLUSTER: (0, 1), ApiKey.METADATA: (0, 13)}
            connection = await connect(broker)
            await connection.send(DescribeClusterRequest(endpoint_type=7))
            await connection.send(MetadataRequest(topics=None), max_version=5)
            assert broker.versions[1:] == [(ApiKey.DESCRIBE_CLUSTER, 1), (ApiKey.METADATA, 5)]

    asyncio.run(run())


def test_send_says_what_the_broker_does_not_offer(scripted: Any) -> None:
    async def run() -> None:
        async with scripted() as broker:
            broker.api_versions = {ApiKey.METADATA: (99, 99)}
            connection = await connect(broker)
            with pytest.raises(KafkaError, match="does not offer DESCRIBE_CLUSTER") as missing:
                await connection.send(DescribeClusterRequest())
            assert missing.value.code == ErrorCode.UNSUPPORTED_VERSION
            with pytest.raises(KafkaError, match="offers versions 99 to 99"):
                await connection.send(MetadataRequest())

    asyncio.run(run())


def test_requests_are_pipelined_in_order(scripted: Any) -> None:
    async def run() -> None:
        gate = asyncio.Event()

        async def slow(request: DescribeClusterRequest) -> DescribeClusterResponse:
            await gate.wait()
            return answer_with_name(request)

        async with scripted({ApiKey.DESCRIBE_CLUSTER: slow}) as broker:
            connection = await connect(broker)
            answers = [connection.submit(DescribeClusterRequest(endpoint_type=n)) for n in range(100)]
            assert connection.in_flight == 100
            gate.set()
            found = [answer.cluster_id for answer in await asyncio.gather(*answers)]
            assert found == [f"type {n}" for n in range(100)]
            assert connection.in_flight == 0

    asyncio.run(run())


def test_an_encoded_request_calls_back(scripted: Any) -> None:
    """With the answer, in the order of the requests, and with the error of a connection that is closed."""

    async def run() -> None:
        async with scripted(HANDLERS) as broker:
            connection = await connect(broker)
            version, decode = connection.agreed(ApiKey.DESCRIBE_CLUSTER)
            body = bytearray()
            writer(DescribeClusterRequest, version)(DescribeClusterRequest(endpoint_type=1), body, [])
            found: list[Any] = []

            def submit() -> None:
                connection.submit_encoded([body], ApiKey.DESCRIBE_CLUSTER, version, decode, found.append)

            submit()
            await connection.send(DescribeClusterRequest(endpoint_type=2))
            assert [each.cluster_id for each in found] == ["type 1"]
            submit()
            connection.close()
            assert isinstance(found[-1], ConnectionLost)
            with pytest.raises(ConnectionLost):
                submit()
            assert len(found) == 2

    asyncio.run(run())


def test_a_caller_who_leaves_does_not_disturb_the_others(scripted: Any) -> None:
    async def run() -> None:
        gate = asyncio.Event()

        async def slow(request: DescribeClusterRequest) -> DescribeClusterResponse:
            await gate.wait()
            return answer_with_name(request)

        async with scripted({ApiKey.DESCRIBE_CLUSTER: slow}) as broker:
            connection = await connect(broker)
            first = asyncio.ensure_future(connection.send(DescribeClusterRequest(endpoint_type=1)))
            second = asyncio.ensure_future(connection.send(DescribeClusterRequest(endpoint_type=2)))
            await turns()
            first.cancel()
            gate.set()
            assert (await second).cluster_id == "type 2"

    asyncio.run(run())


@pytest.mark.slow
def test_frames_are_cut_right_however_they_arrive(scripted: Any) -> None:
    """Byte by byte, many at once, and larger than the buffer for small ones."""

    async def run() -> None:
        name = "n" * 20_000
        request = MetadataRequest(topics=[MetadataRequestTopic(name=name)])
        async with scripted(HANDLERS) as broker:
            broker.topics = {name: 5_000}
            connection = await connect(broker)
            big = connection.submit(request)
            small = [connection.submit(DescribeClusterRequest(endpoint_type=n)) for n in range(50)]
            assert len((await big).topics[0].partitions) == 5_000
            assert [a.cluster_id for a in await asyncio.gather(*small)] == [f"type {n}" for n in range(50)]

    asyncio.run(run())


def test_frames_that_arrive_byte_by_byte(scripted: Any) -> None:
    async def run() -> None:
        async with scripted(HANDLERS) as broker:

            async def drip(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
                while True:
                    (size,) = struct.unpack(">i", await reader.readexactly(4))
                    answer = await broker._answer(await reader.readexactly(size))
                    for byte in answer:
                        writer.write(bytes((byte,)))
                        await writer.drain()
                        await turns()

            broker.raw = drip
            connection = await connect(broker)
            assert (await connection.send(DescribeClusterRequest(endpoint_type=3))).cluster_id == "type 3"

    asyncio.run(run())


def test_no_answer_in_time_closes_the_connection(scripted: Any) -> None:
    async def run() -> None:
        async with scripted({ApiKey.DESCRIBE_CLUSTER: lambda request: None}) as broker:
            connection = await connect(broker)
            patient = connection.submit(DescribeClusterRequest(), timeout_ms=60_000)
            with pytest.raises(RequestTimedOut, match="did not answer DESCRIBE_CLUSTER") as late:
                await connection.send(DescribeClusterRequest(), timeout_ms=1)
            assert late.value.retriable
            assert broker.address in str(late.value)
            assert connection.closed
            with pytest.raises(RequestTimedOut):
                await patient
            with pytest.raises(RequestTimedOut):
                connection.submit(DescribeClusterRequest())

    asyncio.run(run())


def test_an_answer_in_time_is_not_late_for_the_next_one(scripted: Any) -> None:
    async def run() -> None:
        async with scripted(HANDLERS) as broker:
            connection = await connect(broker)
            await connection.send(DescribeClusterRequest(), timeout_ms=50)
            connection._check_deadlines()
            waiting = connection.submit(DescribeClusterRequest(endpoint_type=9), timeout_ms=60_000)
            connection._check_deadlines()
            assert (await waiting).cluster_id == "type 9"

    asyncio.run(run())


def test_a_broken_connection_is_told_to_everyone_who_waits(scripted: Any) -> None:
    async def run() -> None:
        async with scripted({ApiKey.DESCRIBE_CLUSTER: lambda request: scripted.CLOSE}) as broker:
            connection = await connect(broker)
            waiting = [connection.submit(DescribeClusterRequest()) for _ in range(3)]
            for answer in waiting:
                with pytest.raises(ConnectionLost, match="closed the connection") as lost:
                    await answer
                assert lost.value.code == ErrorCode.NETWORK_EXCEPTION
            assert connection.closed

    asyncio.run(run())


def test_close_is_heard_too(scripted: Any) -> None:
    async def run() -> None:
        async with scripted({ApiKey.DESCRIBE_CLUSTER: lambda request: None}) as broker:
            connection = await connect(broker)
            waiting = connection.submit(DescribeClusterRequest())
            await connection.wait_closed()
            with pytest.raises(ConnectionLost, match="closed here"):
                await waiting

    asyncio.run(run())


@pytest.mark.parametrize(
    ("answer", "reason"),
    [
        (struct.pack(">ii", 4, 77), "answered 77"),
        (struct.pack(">iib", 5, 2, 0), "cannot be read"),
        (struct.pack(">i", -5), "no Kafka frame"),
        (b"\x00\x00\x00\x01x", "answer to nothing"),
    ],
)
def test_answers_that_make_no_sense(scripted: Any, answer: bytes, reason: str) -> None:
    async def run() -> None:
        async with scripted({ApiKey.DESCRIBE_CLUSTER: lambda request: answer}) as broker:
            connection = await connect(broker)
            with pytest.raises(ConnectionLost, match=reason):
                await connection.send(DescribeClusterRequest())
            assert connection.closed

    asyncio.run(run())


def test_nothing_listens(unused_port: int) -> None:
    with pytest.raises(BrokerNotAvailable, match=f"nothing listens at 127.0.0.1:{unused_port}"):
        asyncio.run(Connection.open("127.0.0.1", unused_port))


@pytest.mark.parametrize(
    ("said", "reason"),
    [
        (b"HTTP/1.1 400 Bad Request\r\n\r\n", "plaintext"),
        (b"\x15\x03\x03\x00\x02\x02\x46", "plaintext"),
        (b"", "closed it without an answer"),
    ],
)
def test_a_port_that_is_no_brokers(scripted: Any, said: bytes, reason: str) -> None:
    async def run() -> None:
        async with scripted() as broker:

            async def foreign(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
                await reader.read(10)
                writer.write(said)
                await writer.drain()
                writer.close()

            broker.raw = foreign
            with pytest.raises(BrokerNotAvailable, match=reason):
                await connect(broker)

    asyncio.run(run())


def test_a_port_that_never_answers(scripted: Any) -> None:
    async def run() -> None:
        async with scripted({ApiKey.API_VERSIONS: lambda request: None}) as broker:
            with pytest.raises(BrokerNotAvailable, match="did not answer within 5 ms"):
                await connect(broker, request_timeout_ms=5)

    asyncio.run(run())


def test_post_sends_without_waiting(scripted: Any) -> None:
    async def run() -> None:
        async with scripted(HANDLERS) as broker:
            connection = await connect(broker)
            broker.handlers[ApiKey.METADATA] = lambda request: None
            connection.post(MetadataRequest(topics=[]))
            assert connection.in_flight == 0
            assert (await connection.send(DescribeClusterRequest(endpoint_type=4))).cluster_id == "type 4"
            assert len(broker.of(MetadataRequest)) == 1
            assert len(broker.of(ApiVersionsRequest)) == 1

    asyncio.run(run())


@pytest.mark.parametrize(
    ("text", "address"),
    [
        ("localhost:9092", ("localhost", 9092)),
        (" kafka.example ", ("kafka.example", 9092)),
        ("PLAINTEXT://10.0.0.1:19092", ("10.0.0.1", 19092)),
        ("[::1]:9093", ("::1", 9093)),
        ("[::1]", ("::1", 9092)),
    ],
)
def test_addresses(text: str, address: tuple[str, int]) -> None:
    assert parse_address(text) == address


@pytest.mark.parametrize("text", ["", ":9092", "host:port", "host:0", "host:70000", "http://host:80"])
def test_what_is_no_address(text: str) -> None:
    with pytest.raises(ValueError, match=r"host:port|between 1 and 65535"):
        parse_address(text)


def test_a_code_of_the_future_is_an_unknown_error() -> None:
    assert error_code(3) is ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
    assert error_code(9999) is ErrorCode.UNKNOWN_SERVER_ERROR


def test_who_gives_up_while_a_connection_is_made_gives_up(scripted: Any) -> None:
    async def run() -> None:
        async with scripted() as broker:
            for steps in range(12):  # of the loop, from the first one to where the connection is there
                opening = asyncio.ensure_future(connect(broker))
                await turns(steps)
                finished = opening.done()
                opening.cancel()
                (outcome,) = await asyncio.gather(opening, return_exceptions=True)
                assert finished or isinstance(outcome, asyncio.CancelledError)
                if isinstance(outcome, Connection):
                    await outcome.wait_closed()

    asyncio.run(run())
