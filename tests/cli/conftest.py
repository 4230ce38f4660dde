"""The command line against a real broker in the same process, in the clear or behind TLS and a login."""

import asyncio
import json
import socket
import ssl
import struct
import threading
from collections.abc import Callable, Iterator
from contextlib import suppress
from pathlib import Path
from typing import Any, NamedTuple

import pytest
from click.testing import CliRunner, Result

from moldau.cli.main import cli
from moldau.protocol.api_keys import ApiKey
from moldau.protocol.codec import decode, encode
from moldau.protocol.errors import ErrorCode
from moldau.protocol.framing import skip_header_tags
from moldau.protocol.messages import load
from moldau.protocol.messages.api_versions import ApiVersion, ApiVersionsResponse
from moldau.protocol.messages.sasl_authenticate import SaslAuthenticateResponse
from moldau.protocol.messages.sasl_handshake import SaslHandshakeResponse
from moldau.protocol.schema import declaration
from moldau.testing import Broker
from tests.shared.request_headers import read_request_header


@pytest.fixture(scope="session")
def running_broker() -> Iterator[Broker]:
    settings = {
        "num.partitions": "1",
        "auto.create.topics.enable": "true",
        "group.initial.rebalance.delay.ms": "0",
    }
    with Broker(settings) as broker:
        yield broker


@pytest.fixture
def broker(running_broker: Broker) -> Broker:
    """An empty broker."""
    running_broker.reset()
    return running_broker


@pytest.fixture
def moldau(broker: Broker) -> Callable[..., Result]:
    """Runs ``moldau`` with these arguments against the broker; fails unless it ends with ``code``."""

    def run(*arguments: str, input: str | bytes | None = None, code: int = 0) -> Result:
        environment = {"MOLDAU_BOOTSTRAP_SERVERS": broker.bootstrap_servers}
        result = CliRunner().invoke(cli, arguments, input=input, env=environment)
        if result.exception is not None and not isinstance(result.exception, SystemExit):
            raise result.exception
        assert result.exit_code == code, result.output
        return result

    return run


@pytest.fixture
def moldau_json(moldau: Callable[..., Result]) -> Callable[..., Any]:
    """The same with ``--json``, decoded."""
    return lambda *arguments, **options: json.loads(moldau(*arguments, "--json", **options).stdout)


class SecuredListener:
    """A SASL_SSL listener in front of a broker that has none: TLS ends here, and so does the login.

    Once a client has logged in (ada, secret) its bytes go to the broker as they are.
    """

    def __init__(self, listener: socket.socket, broker_port: int, tls: ssl.SSLContext) -> None:
        self._listener = listener
        self._broker_port = broker_port
        self._tls = tls
        self._loop = asyncio.new_event_loop()
        self._thread = threading.Thread(target=self._run, name="secured", daemon=True)

    def __enter__(self) -> "SecuredListener":
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._loop.call_soon_threadsafe(self._loop.stop)
        self._thread.join(10)
        self._loop.close()

    def _run(self) -> None:
        asyncio.set_event_loop(self._loop)  # gather needs it when no task is left
        server = self._loop.run_until_complete(
            asyncio.start_server(self._accept, sock=self._listener, ssl=self._tls)
        )
        self._loop.run_forever()
        server.close()
        left = asyncio.all_tasks(self._loop)
        for task in left:
            task.cancel()
        if left:
            self._loop.run_until_complete(asyncio.wait(left))

    async def _accept(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        to_broker: asyncio.StreamWriter | None = None
        try:
            from_broker, to_broker = await asyncio.open_connection("127.0.0.1", self._broker_port)
            while not await self._log_in(reader, writer, from_broker, to_broker):
                pass
            await asyncio.gather(_pump(reader, to_broker), _pump(from_broker, writer))
        except (asyncio.IncompleteReadError, OSError, asyncio.CancelledError):
            pass
        finally:
            for each in (writer, to_broker):
                if each is not None:
                    each.transport.abort()

    async def _log_in(
        self,
        reader: asyncio.StreamReader,
        writer: asyncio.StreamWriter,
        from_broker: asyncio.StreamReader,
        to_broker: asyncio.StreamWriter,
    ) -> bool:
        """One request; whether it was the login."""
        frame = await _read_frame(reader)
        header = read_request_header(memoryview(frame))
        key, version = ApiKey(header.api_key), header.api_version
        request_class, _ = load(key)
        flexible = version in declaration(request_class).flexible
        position = skip_header_tags(frame, header.position) if flexible else header.position
        answer: Any
        if key == ApiKey.API_VERSIONS:
            to_broker.write(struct.pack(">i", len(frame)) + frame)
            answer = decode(ApiVersionsResponse, version, await _read_frame(from_broker), 4)
            answer.api_keys.append(ApiVersion(ApiKey.SASL_HANDSHAKE, 1, 1))
            answer.api_keys.append(ApiVersion(ApiKey.SASL_AUTHENTICATE, 2, 2))
        elif key == ApiKey.SASL_HANDSHAKE:
            answer = SaslHandshakeResponse(error_code=0, mechanisms=["PLAIN"])
        else:
            assert key == ApiKey.SASL_AUTHENTICATE, f"{key.name} before the login"
            request: Any = decode(request_class, version, frame, position)
            right = bytes(request.auth_bytes) == b"\0ada\0secret"
            code = ErrorCode.NONE if right else ErrorCode.SASL_AUTHENTICATION_FAILED
            answer = SaslAuthenticateResponse(int(code), None if right else "Invalid username or password")
        tags = b"\0" if flexible and key != ApiKey.API_VERSIONS else b""
        body = struct.pack(">i", header.correlation_id) + tags + encode(answer, version)
        writer.write(struct.pack(">i", len(body)) + body)
        return key == ApiKey.SASL_AUTHENTICATE and not answer.error_code


async def _read_frame(reader: asyncio.StreamReader) -> bytes:
    (size,) = struct.unpack(">i", await reader.readexactly(4))
    return await reader.readexactly(size)


async def _pump(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    while data := await reader.read(65536):
        writer.write(data)
        await writer.drain()
    with suppress(OSError):
        writer.transport.abort()


class Secured(NamedTuple):
    """A cluster that wants TLS and a login, and a file with what it takes."""

    broker: Broker
    address: str
    settings: dict[str, str]
    config_file: Path


@pytest.fixture(scope="session")
def secured(tls_files: Path, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Secured]:
    tls = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    tls.load_cert_chain(tls_files / "server.pem", tls_files / "server.key")
    with socket.create_server(("127.0.0.1", 0)) as listener:
        address = f"127.0.0.1:{listener.getsockname()[1]}"
        settings = {
            "security.protocol": "SASL_SSL",
            "sasl.mechanism": "PLAIN",
            "sasl.jaas.config": "org.apache.kafka.common.security.plain.PlainLoginModule required "
            'username="ada" password="secret";',
            "ssl.truststore.location": str(tls_files / "server.pem"),
            "ssl.truststore.type": "PEM",
        }
        config_file = tmp_path_factory.mktemp("secured") / "client.properties"
        config_file.write_text("".join(f"{name}={value}\n" for name, value in settings.items()))
        own = {"advertised.listeners": f"PLAINTEXT://{address}", "group.initial.rebalance.delay.ms": 0}
        with socket.create_server(("127.0.0.1", 0)) as free:
            port = free.getsockname()[1]
        with Broker(own, port=port) as broker, SecuredListener(listener, port, tls):
            yield Secured(broker, address, settings, config_file)
