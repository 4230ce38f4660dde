"""kcat (librdkafka from C, Debian package `kcat`) against our broker."""

from __future__ import annotations

import json
import shutil
import subprocess

import pytest

from benchmarks.moldau_broker import MoldauBroker

pytestmark = pytest.mark.skipif(shutil.which("kcat") is None, reason="kcat is missing: apt-get install kcat")


def kcat(moldau: MoldauBroker, *arguments: str, stdin: str = "") -> str:
    command = ["kcat", "-b", moldau.bootstrap_servers, *arguments]
    ended = subprocess.run(command, input=stdin, text=True, capture_output=True, timeout=60)
    assert ended.returncode == 0, ended.stderr
    return ended.stdout


@pytest.mark.check("kcat", "list brokers and topics")
def test_list(moldau: MoldauBroker) -> None:
    kcat(moldau, "-P", "-t", "kcat-list", stdin="x\n")
    listed = json.loads(kcat(moldau, "-L", "-J"))
    assert [broker["name"] for broker in listed["brokers"]] == [moldau.bootstrap_servers]
    assert "kcat-list" in [topic["topic"] for topic in listed["topics"]]


@pytest.mark.parametrize(
    "codec",
    [
        pytest.param(codec, marks=pytest.mark.check("kcat", f"produce and consume, {codec}"))
        for codec in ("none", "gzip", "snappy", "lz4", "zstd")
    ],
)
def test_produce_and_consume(codec: str, moldau: MoldauBroker) -> None:
    topic = f"kcat-{codec}"
    lines = "".join(f"k{number}:v{number}\n" for number in range(1000))
    kcat(moldau, "-P", "-t", topic, "-K:", "-z", codec, "-H", "h=x", stdin=lines)
    read = kcat(moldau, "-C", "-t", topic, "-p", "0", "-o", "beginning", "-e", "-K:")
    assert read == lines


@pytest.mark.check("kcat", "offset of a timestamp")
def test_query_offset(moldau: MoldauBroker) -> None:
    kcat(moldau, "-P", "-t", "kcat-query", stdin="a\nb\n")
    assert kcat(moldau, "-Q", "-t", "kcat-query:0:-2").strip() == "kcat-query [0] offset 0"
    assert kcat(moldau, "-Q", "-t", "kcat-query:0:-1").strip() == "kcat-query [0] offset 2"
