"""Several proxies as one: whichever is asked, the instance is found, and one that dies is not missed."""

import itertools
import json
import os
import re
import signal
import subprocess
import sys
from contextlib import ExitStack

import httpx
import pytest

from moldau.rest.api.v2 import consumers
from moldau.rest.peers import InstanceName, Peers, owner
from moldau.web import forwarding
from tests.shared.waiting import wait_until

URLS = ["http://a:1", "http://b:2", "http://c:3"]


def test_a_name_has_one_owner_and_all_agree():
    names = [InstanceName("g", f"c{number}") for number in range(300)]
    owners = [owner(URLS, name) for name in names]
    assert owners == [owner(reversed(URLS), name) for name in names]
    for url in URLS:
        assert 50 < owners.count(url) < 150
    # Without one of them, only its names have another owner.
    left = [owner(URLS[:2], name) for name in names]
    assert all(before == after for before, after in zip(owners, left, strict=True) if before != URLS[2])


def test_a_proxy_alone_has_nobody_to_ask():
    peers = Peers("http://a:1")
    assert (peers.urls, peers.candidates(InstanceName("g", "c"))) == (["http://a:1"], [])


def test_an_instance_is_asked_for_where_it_was_found():
    class Known(Peers):
        urls = URLS

    peers, name = Known("http://a:1"), InstanceName("g", "c")
    for url in ("http://b:2", "http://c:3"):
        peers.remember(name, url)
        assert peers.candidates(name)[0] == url
        assert len(peers.candidates(name)) == 2
    peers.forget(name)
    assert len(peers.candidates(name)) == 2


def test_a_forwarded_request_may_take_as_long_as_any():
    assert forwarding._TIMEOUT_SECONDS * 1000 > consumers._MAX_TIMEOUT_MS


@pytest.fixture
def proxies(start):
    """Three of them that know each other."""
    with ExitStack() as stack:
        found = [stack.enter_context(start(proxy={"group_id": "proxies"})) for _ in range(3)]
        for each in found:
            wait_until(lambda each=each: len(each.service.peers.urls) == 3)
        yield found


@pytest.mark.slow
def test_any_proxy_will_do(broker, proxies, refusal):
    """A load balancer that gives each request to the next one."""
    turn = iter(range(10**6))

    def http():
        return proxies[next(turn) % len(proxies)].http

    for number in range(10):
        broker.produce("t", str(number))
    for name in ("a", "b", "c", None):
        body = {"format": "json", "auto.offset.reset": "earliest", **({"name": name} if name else {})}
        made = http().post("/consumers/g", json=body)
        assert made.status_code == 200, made.text
        instance = made.json()["instance_id"]
        assert name in (None, instance)
        path = f"/consumers/g/instances/{instance}"
        for each in proxies:
            if name is not None:
                assert refusal(each.http.post("/consumers/g", json={"name": name})) == (409, 40902)
        assert http().post(f"{path}/subscription", json={"topics": ["t"]}).status_code == 204
        found = []
        while len(found) < 10:
            answer = http().get(f"{path}/records")
            assert answer.status_code == 200, answer.text
            assert answer.headers["content-type"] == "application/vnd.kafka.json.v2+json"
            found += answer.json()
        assert [each["value"] for each in found] == list(range(10))
        beginning = {"partitions": [{"topic": "t", "partition": 0}]}
        assert http().post(f"{path}/positions/beginning", json=beginning).status_code == 204
        assert http().delete(path).status_code == 204
        for each in proxies:
            assert refusal(each.http.delete(path)) == (404, 40403)
    assert sum(len(each.service.consumers) for each in proxies) == 0


@pytest.mark.slow
def test_links_are_those_of_the_proxy_that_was_asked(proxies):
    for number in range(6):
        for each in proxies:
            made = each.http.post("/consumers/g", json={"name": f"{number}-{each.url}"})
            assert made.json()["base_uri"].startswith(f"{each.url}/consumers/g/instances/")


def test_records_are_followed_through_another_proxy(broker, proxies):
    broker.produce("t", "1")
    made = proxies[0].http.post("/consumers/g", json={"format": "json", "auto.offset.reset": "earliest"})
    path = f"/consumers/g/instances/{made.json()['instance_id']}"
    proxies[0].http.post(f"{path}/subscription", json={"topics": ["t"]})
    with proxies[1].http.stream("GET", f"{path}/records?follow") as answer:
        data = (line.removeprefix("data: ") for line in answer.iter_lines() if line.startswith("data: "))
        assert json.loads(next(data))["value"] == 1
        broker.produce("t", "2")
        assert json.loads(next(data))["value"] == 2
    wait_until(lambda: proxies[0].service.followers == 0)


@pytest.mark.slow
def test_a_proxy_that_is_killed(broker, start, refusal, read):
    """What it had is gone, which the other says at once; everything else goes on."""
    command = [sys.executable, "-m", "moldau", "rest", "--port", "0", "--group", "proxies"]
    process = subprocess.Popen(
        [*command, "-b", broker.bootstrap_servers], stdout=subprocess.PIPE, text=True, env={**os.environ}
    )
    try:
        assert process.stdout is not None
        url = re.search(r"ready: (\S+)", process.stdout.readline())[1]
        with (
            start(proxy={"group_id": "proxies"}) as survivor,
            httpx.Client(base_url=url, timeout=60, trust_env=False) as victim,
        ):
            peers = survivor.service.peers
            wait_until(lambda: len(peers.urls) == 2)
            # Until the other knows of it too: then names that it makes belong to it.
            here, there = survivor.http, victim
            for number in range(10):
                broker.produce("t", str(number))
            settings = {"format": "json", "auto.offset.reset": "earliest"}
            kept = here.post("/consumers/kept", json=settings).json()["instance_id"]
            lost = there.post("/consumers/lost", json=settings).json()["instance_id"]
            paths = {"kept": f"/consumers/kept/instances/{kept}", "lost": f"/consumers/lost/instances/{lost}"}
            for path in paths.values():
                wait_until(
                    lambda path=path: (
                        here.post(f"{path}/subscription", json={"topics": ["t"]}).status_code == 204
                    )
                )
            for path in paths.values():
                assert len(read(here, path, 10)) == 10
                assert here.post(f"{path}/offsets").status_code == 204
            process.send_signal(signal.SIGKILL)
            process.wait(60)
            broker.produce("t", "10")
            assert [each["value"] for each in read(here, paths["kept"], 1)] == [10]
            assert refusal(here.get(f"{paths['lost']}/records")) == (404, 40403)
            # Names belong to either of them; those of the dead one are taken over.
            for name in ("a", "b", "c", "d", "e", "f", "again"):
                again = here.post("/consumers/lost", json={**settings, "name": name})
                assert again.status_code == 200, again.text
            path = "/consumers/lost/instances/again"
            # It does not wait for the dead member's session: partitions by hand go on where it had committed.
            assigned = {"partitions": [{"topic": "t", "partition": 0}]}
            assert here.post(f"{path}/assignments", json=assigned).status_code == 204
            assert [each["value"] for each in read(here, path, 1)] == [10]
    finally:
        process.kill()
        process.wait(60)
        process.stdout.close()


@pytest.mark.slow
def test_behind_a_load_balancer_nobody_notices_that_a_proxy_is_killed(broker, start):
    """Requests go to the proxies in turn; one that is dead refuses the connection, and the other is asked."""
    command = [sys.executable, "-m", "moldau", "rest", "--port", "0", "--group", "balanced"]
    process = subprocess.Popen(
        [*command, "-b", broker.bootstrap_servers], stdout=subprocess.PIPE, text=True, env={**os.environ}
    )
    try:
        assert process.stdout is not None
        url = re.search(r"ready: (\S+)", process.stdout.readline())[1]
        with (
            start(proxy={"group_id": "balanced"}) as survivor,
            httpx.Client(base_url=url, timeout=60, trust_env=False) as victim,
        ):
            wait_until(lambda: len(survivor.service.peers.urls) == 2)
            turns = itertools.cycle(((victim, survivor.http), (survivor.http, victim)))
            used: list[httpx.Client] = []

            def ask(method, path, **more):
                for client in next(turns):
                    try:
                        found = client.request(method, path, **more)
                        used.append(client)
                        break
                    except (httpx.ConnectError, httpx.RemoteProtocolError, httpx.ReadError):
                        continue  # as a balancer does with a server that is gone
                assert found.status_code < 300, found.text
                return found

            settings = {"format": "json", "auto.offset.reset": "earliest"}
            made = survivor.http.post("/consumers/b", json=settings).json()
            path = f"/consumers/b/instances/{made['instance_id']}"
            assigned = {"partitions": [{"topic": "balanced", "partition": 0}]}
            broker.create_topic("balanced", 1)
            ask("POST", f"{path}/assignments", json=assigned)
            values = []
            for number in range(40):
                if number == 20:
                    process.send_signal(signal.SIGKILL)
                    process.wait(60)
                body = {"records": [{"value": number}]}
                media = {"Content-Type": "application/vnd.kafka.json.v2+json"}
                ask("POST", "/topics/balanced", json=body, headers=media)
                values += [each["value"] for each in ask("GET", f"{path}/records?timeout=1000").json()]
            while len(values) < 40:
                values += [each["value"] for each in ask("GET", f"{path}/records?timeout=1000").json()]
            assert values == list(range(40))
            assert used.count(victim) >= 10
    finally:
        process.kill()
        process.wait(60)
        process.stdout.close()
