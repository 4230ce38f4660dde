"""``moldau rest``: from options to a running proxy and back to the prompt."""

import signal
import socket
import subprocess
import sys

import httpx
import pytest

from tests.shared.services import service_process

pytestmark = pytest.mark.slow

READY = r"^moldau rest ready: (http://127\.0\.0\.1:\d+) \(cluster \S+\)\n"


def running(*arguments):
    return service_process("rest", *arguments, ready=READY)


def failed(*arguments):
    command = [sys.executable, "-m", "moldau", "rest", *arguments]
    done = subprocess.run(command, capture_output=True, text=True, timeout=60)
    assert done.returncode != 0
    return done.stderr


def test_it_answers_and_stops(broker):
    broker.create_topic("t", 1)
    options = ("--port", "0", "-b", broker.bootstrap_servers, "--user", "ann:secret", "--alone")
    with running(*options) as (process, url):
        with httpx.Client(base_url=url, timeout=60, trust_env=False) as http:
            assert http.get("/topics").status_code == 401
            assert http.get("/topics", auth=("ann", "secret")).json() == ["t"]
        process.send_signal(signal.SIGTERM)
        out, err = process.communicate(timeout=60)
    assert (process.returncode, out, err) == (0, "moldau rest stopped\n", "")


def test_a_port_that_is_taken(broker):
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = str(taken.getsockname()[1])
        said = failed("--port", port, "-b", broker.bootstrap_servers)
        assert f"cannot listen on 127.0.0.1:{port}" in said
        assert "Next: choose another --port" in said
        with running("--port", port, "--or-free-port", "-b", broker.bootstrap_servers) as (_, url):
            assert not url.endswith(f":{port}")


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (("--pass-login", "--user", "a:b"), "--pass-login leaves logins to the cluster"),
        (("--certificate-users", __file__), "--certificate-users belongs to --pass-login"),
        (("--tls-key", __file__), "--tls-key belongs to a certificate"),
        (("--user", "nobody"), "NAME:PASSWORD"),
        (("-X", "security.protocol=WRONG"), "security.protocol is one of"),
        (("-b", "127.0.0.1:1"), "127.0.0.1:1"),
    ],
)
def test_wrong_options_are_one_line(arguments, said):
    assert said in failed("--port", "0", *arguments)
