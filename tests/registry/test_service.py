"""What takes long is done beside the loop, and given up when it takes too long."""

import socket
import threading
from concurrent.futures import ThreadPoolExecutor

import pytest

from moldau.registry import parsing, service
from moldau.registry.rules.compatibility import conflicts

V1 = '{"type":"record","name":"Order","fields":[{"name":"id","type":"long"}]}'
V2 = '{"type":"record","name":"Order","fields":[{"name":"id","type":"double"}]}'


@pytest.fixture
def running(start):
    with start() as running:
        yield running


@pytest.fixture
def held(monkeypatch):
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


def test_a_long_comparison_holds_nobody_up(running, held):
    begun, go = held
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
def test_a_comparison_without_end_is_given_up(running, held, monkeypatch, path):
    assert register(running, V1).json()["id"] == 1
    monkeypatch.setattr(service, "_PATIENCE_SECONDS", 0.05)
    answer = running.http.post(path, json={"schema": V2})
    assert (answer.status_code, answer.json()["error_code"]) == (500, 50002)
    assert "too long" in answer.json()["message"]
    assert running.http.get("/subjects/orders-value/versions").json() == [1]


def test_a_comparison_is_made_once(running, monkeypatch):
    made = []
    monkeypatch.setattr(parsing, "conflicts", lambda *given: made.append(given) or conflicts(*given))
    assert register(running, V1).json()["id"] == 1
    for _ in range(2):
        answer = running.http.post("/compatibility/subjects/orders-value/versions", json={"schema": V2})
        assert answer.json() == {"is_compatible": True}
    assert register(running, V2).json()["id"] == 2
    assert len(made) == 1


def test_references_of_references_are_parsed_beside_the_loop(running, monkeypatch):
    inner = '{"type":"record","name":"A","fields":[{"name":"x","type":"int"}]}'
    running.http.post("/subjects/a/versions", json={"schema": inner})
    outer = '{"type":"record","name":"B","fields":[{"name":"a","type":"A"}]}'
    refers = [{"name": "A", "subject": "a", "version": 1}]
    running.http.post("/subjects/b/versions", json={"schema": outer, "references": refers})
    running.registry.decisions.parser._parsed.clear()
    loop_thread = running.run(_thread())
    threads = []
    parse = parsing.schemas.parse

    def noted(*given):
        threads.append(threading.get_ident())
        return parse(*given)

    monkeypatch.setattr(parsing.schemas, "parse", noted)
    last = '{"type":"record","name":"C","fields":[{"name":"b","type":"B"}]}'
    refers = [{"name": "B", "subject": "b", "version": 1}]
    made = running.http.post("/subjects/c/versions", json={"schema": last, "references": refers})
    assert made.json()["id"] == 3
    assert threads
    assert loop_thread not in threads


async def _thread():
    return threading.get_ident()


def test_answers_are_sent_at_once():
    """An answer leaves in two parts; without this the second one waited for the client's acknowledgement."""
    from moldau.registry.server import ServerOptions, _listener

    with _listener(ServerOptions(bootstrap_servers="", port=0)) as listener:
        address = listener.getsockname()
        with socket.create_connection(address), listener.accept()[0] as accepted:
            assert accepted.getsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY) == 1
