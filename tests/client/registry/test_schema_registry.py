"""The registry's HTTP client: against `moldau registry` as it is, and against a server that misbehaves."""

import json
import pickle
import ssl
import threading
from concurrent.futures import ThreadPoolExecutor
from datetime import UTC, datetime, timedelta
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from ipaddress import ip_address

import pytest
from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec

from moldau.client.registry.schema_registry import Reference, RegistryClient, RegistryError
from moldau.testing import Broker
from tests.shared.services import service_process

V1 = '{"type":"record","name":"Order","fields":[{"name":"id","type":"long"}]}'
V2 = (
    '{"type":"record","name":"Order","fields":[{"name":"id","type":"long"},'
    '{"name":"note","type":["null","string"],"default":null}]}'
)
BAD = '{"type":"record","name":"Order","fields":[{"name":"id","type":"long"},{"name":"x","type":"int"}]}'
ADDRESS = '{"type":"record","name":"Address","fields":[{"name":"street","type":"string"}]}'
USER = '{"type":"record","name":"User","fields":[{"name":"home","type":"Address"}]}'


@pytest.fixture(scope="module")
def url():
    with Broker() as broker:
        options = ("--port", "0", "--user", "ann:s:crét", "-b", broker.bootstrap_servers)
        with service_process("registry", *options) as (_, url):
            yield url


@pytest.fixture
def client(url):
    with RegistryClient(url, user="ann", password="s:crét") as client:
        yield client


def refused(status, code):
    return pytest.raises(RegistryError, check=lambda error: (error.status, error.code) == (status, code))


@pytest.mark.slow
def test_from_registration_to_deletion(client):
    first = client.register("orders-value", V1)
    second = client.register("orders-value", V2, normalize=True)
    assert client.register("orders-value", V1) == first
    assert client.by_id(second).text == V2
    assert client.by_id(second) is client.by_id(second)
    assert client.by_id(first, "orders-value").schema_type == "AVRO"
    latest = client.version("orders-value")
    assert (latest.subject, latest.version, latest.schema_id) == ("orders-value", 2, second)
    assert client.by_guid(latest.guid).text == V2
    assert client.lookup("orders-value", V1).version == 1
    assert client.versions("orders-value") == [1, 2]
    assert client.subjects("orders") == ["orders-value"]
    assert client.incompatibilities("orders-value", V1) == []
    assert client.incompatibilities("nowhere", V1) == []
    assert any("READER_FIELD_MISSING" in each for each in client.incompatibilities("orders-value", BAD))
    assert client.incompatibilities("orders-value", BAD, version="all")
    assert client.incompatibilities("orders-value", BAD, version=1)
    with refused(409, 409):
        client.register("orders-value", BAD)
    with refused(404, 40403):
        client.lookup("orders-value", BAD)
    assert client.delete_version("orders-value", 1) == 1
    assert client.version("orders-value", 1, deleted=True).text == V1
    assert client.versions("orders-value", deleted=True) == [1, 2]
    assert client.delete_subject("orders-value") == [2]
    assert client.subjects("orders") == []
    assert client.subjects("orders", deleted=True) == ["orders-value"]
    assert client.delete_subject("orders-value", permanent=True) == [1, 2]
    with refused(404, 40401):
        client.versions("orders-value")


def test_names_with_signs_references_and_other_types(client):
    client.register("a/b ü?-value", ADDRESS)
    references = (Reference("Address", "a/b ü?-value", 1),)
    made = client.register("user", USER, references=references)
    assert client.by_id(made).references == references
    assert client.lookup("user", USER, references=references).schema_id == made
    made = client.register("thing", '{"type": "object"}', "JSON")
    assert client.by_id(made).schema_type == "JSON"
    with refused(422, 42201):
        client.register("user", USER)


def test_configs_modes_import_and_contexts(client):
    assert client.config()["compatibilityLevel"] == "BACKWARD"
    client.set_config("FULL", "imported")
    assert client.config("imported") == {"compatibilityLevel": "FULL"}
    assert client.config("untouched")["compatibilityLevel"] == "BACKWARD"
    with refused(404, 40408):
        client.config("untouched", effective=False)
    client.set_mode("IMPORT", "imported")
    assert client.mode("imported") == "IMPORT"
    assert client.mode() == "READWRITE"
    assert client.register("imported", V1, schema_id=4711, version=7) == 4711
    assert client.version("imported", 7).schema_id == 4711
    client.register(":.eu:orders", V2)
    assert client.call("GET", "/contexts") == [".", ".eu"]
    assert client.by_id(1, ":.eu:orders").text == V2


@pytest.mark.slow
def test_many_threads_share_one_client(client):
    def work(number):
        made = client.register(f"shared-{number % 4}", V1)
        return client.by_id(made).text

    with ThreadPoolExecutor(12) as threads:
        assert set(threads.map(work, range(60))) == {V1}


def test_a_wrong_password_is_said_so_and_a_right_one_may_stand_in_the_url(url):
    with RegistryClient(url, user="ann", password="wrong") as client, refused(401, 401) as caught:
        client.subjects()
    assert f"at {url} wants another user or password" in str(caught.value)
    with RegistryClient(url.replace("//", "//ann:s%3Acr%C3%A9t@")) as client:
        assert isinstance(client.subjects(), list)


def test_nobody_there(unused_port):
    client = RegistryClient(f"http://ann:secret@127.0.0.1:{unused_port}/registry")
    with refused(0, 0) as caught:
        client.subjects()
    said = str(caught.value)
    assert f"http://127.0.0.1:{unused_port}/registry cannot be reached" in said
    assert "moldau registry" in said
    assert "secret" not in said
    again = pickle.loads(pickle.dumps(caught.value))
    assert (again.status, again.code, str(again)) == (0, 0, said)


@pytest.mark.parametrize("url", ["", "localhost:8081", "ftp://ann:secret@x", "http://ann:secret@x:port"])
def test_what_is_no_url(url):
    with refused(0, 0) as caught:
        RegistryClient(url)
    assert "http://127.0.0.1:8081" in str(caught.value)
    assert "secret" not in str(caught.value)


def test_certificates_that_cannot_be_read(tmp_path):
    with refused(0, 0) as caught:
        RegistryClient("https://127.0.0.1:8081", ca_location=str(tmp_path / "none.pem"))
    assert "none.pem cannot be used" in str(caught.value)


@pytest.fixture
def certificate(tmp_path):
    """A certificate for 127.0.0.1 that vouches for itself, with its key: the paths of both."""
    key = ec.generate_private_key(ec.SECP256R1())
    name = x509.Name([x509.NameAttribute(x509.NameOID.COMMON_NAME, "registry")])
    now = datetime.now(UTC)
    made = (
        x509.CertificateBuilder()
        .subject_name(name)
        .issuer_name(name)
        .public_key(key.public_key())
        .serial_number(1)
        .not_valid_before(now - timedelta(days=1))
        .not_valid_after(now + timedelta(days=1))
        .add_extension(x509.SubjectAlternativeName([x509.IPAddress(ip_address("127.0.0.1"))]), critical=False)
        .add_extension(x509.BasicConstraints(ca=True, path_length=None), critical=True)
        .sign(key, hashes.SHA256())
    )
    pem = serialization.Encoding.PEM
    (tmp_path / "cert.pem").write_bytes(made.public_bytes(pem))
    plain = serialization.NoEncryption()
    (tmp_path / "key.pem").write_bytes(key.private_bytes(pem, serialization.PrivateFormat.PKCS8, plain))
    return str(tmp_path / "cert.pem"), str(tmp_path / "key.pem")


def test_https_with_a_certificate_of_ones_own(servers, certificate):
    server = servers((200, ["a"]), (200, ["b"]))
    context = ssl.create_default_context(ssl.Purpose.CLIENT_AUTH)
    context.load_cert_chain(*certificate)
    server.socket = context.wrap_socket(server.socket, server_side=True)
    address = server.url.replace("http:", "https:")
    with RegistryClient(address, ca_location=certificate[0]) as client:
        assert client.subjects() == ["a"]
    with RegistryClient(address) as client, refused(0, 0) as caught:
        client.subjects()
    assert "certificate verify failed" in str(caught.value)


class Scripted(ThreadingHTTPServer):
    """Answers with what the test has put into ``answers``, in order; None hangs up."""

    def __init__(self):
        self.answers = []
        self.requests = []
        self.connections = 0
        scripted = self

        class Handler(BaseHTTPRequestHandler):
            protocol_version = "HTTP/1.1"

            def setup(self):
                super().setup()
                scripted.connections += 1

            def log_message(self, *_):
                pass

            def answer(self):
                body = self.rfile.read(int(self.headers.get("Content-Length") or 0))
                scripted.requests.append((self.command, self.path, body))
                answer = scripted.answers.pop(0)
                if answer is None:
                    self.close_connection = True
                    return
                status, content = answer
                content = content if isinstance(content, bytes) else json.dumps(content).encode()
                self.send_response(status)
                self.send_header("Content-Length", str(len(content)))
                self.end_headers()
                self.wfile.write(content)

            do_GET = do_POST = do_PUT = do_DELETE = answer  # noqa: N815 (http.server's names)

        super().__init__(("127.0.0.1", 0), Handler)

    @property
    def url(self):
        return f"http://127.0.0.1:{self.server_address[1]}"


@pytest.fixture
def servers():
    made, threads = [], []

    def start(*answers):
        server = Scripted()
        server.answers += answers
        thread = threading.Thread(target=server.serve_forever, args=(0.01,))
        thread.start()
        made.append(server)
        threads.append(thread)
        return server

    yield start
    for server, thread in zip(made, threads, strict=True):
        server.shutdown()
        thread.join()
        server.server_close()


def test_connections_are_kept_and_a_stale_one_costs_a_second_try(servers):
    server = servers((200, ["a"]), (200, ["b"]), None, (200, ["c"]))
    with RegistryClient(server.url) as client:
        assert client.subjects() == ["a"]
        assert client.subjects() == ["b"]
        assert server.connections == 1
        assert client.subjects() == ["c"]
    assert server.connections == 2
    assert len(server.requests) == 4


def test_a_fresh_connection_that_is_closed_is_a_failure(servers):
    server = servers(None)
    with RegistryClient(server.url) as client, refused(0, 0):
        client.subjects()
    assert len(server.requests) == 1


def test_several_addresses_are_tried_in_turn_and_the_good_one_is_kept(servers, unused_port):
    busy = servers((503, {"error_code": 50301, "message": "starting"}))
    good = servers((200, ["a"]), (200, ["b"]))
    with RegistryClient(f"http://127.0.0.1:{unused_port},{busy.url} , {good.url}") as client:
        assert client.subjects() == ["a"]
        assert client.subjects() == ["b"]
    assert len(busy.requests) == 1


def test_when_none_of_several_answers_all_are_named(servers, unused_port):
    busy = servers((503, {"error_code": 50301, "message": "starting"}))
    with (
        RegistryClient(f"http://127.0.0.1:{unused_port},{busy.url}") as client,
        refused(503, 50301) as caught,
    ):
        client.subjects()
    assert str(unused_port) in str(caught.value)
    assert "starting" in str(caught.value)


def test_a_refusal_is_not_asked_elsewhere(servers):
    first, second = servers((422, {"error_code": 42201, "message": "Invalid schema"})), servers()
    with RegistryClient(f"{first.url},{second.url}") as client, refused(422, 42201):
        client.register("s", "{")
    assert second.requests == []


def test_something_that_is_no_registry(servers):
    server = servers((200, b"<html>"), (404, b"<html>no</html>"), (500, b""))
    with RegistryClient(server.url) as client:
        with refused(200, 200) as caught:
            client.subjects()
        assert "Check that it is a schema registry" in str(caught.value)
        with refused(404, 404) as caught:
            client.subjects()
        assert "answered with the status 404: <html>no" in str(caught.value)
        with refused(500, 500):
            client.subjects()


@pytest.mark.slow
def test_the_path_of_the_url_stands_before_every_path(servers):
    server = servers((200, {"schema": '"int"'}))
    with RegistryClient(f"{server.url}/registry/") as client:
        assert client.by_id(7, ":.eu:x").text == '"int"'
    assert server.requests[0][1] == "/registry/schemas/ids/7?subject=%3A.eu%3Ax"
