"""Log aggregation: programs log to syslog, a topic keeps it, OpenSearch (or Elasticsearch) finds it.

    python examples/connect/logs_to_opensearch.py http://127.0.0.1:9200

Starts a broker and a worker with two connectors, lets three programs log over UDP, as Python's
``SysLogHandler`` does it, and asks the index: how much of each program, and who talks of disks. One message
is no document, because somebody wrote it to the topic by hand: it becomes a dead letter and stops nobody.
"""

import json
import logging.handlers
import socket
import sys
import tempfile
import time
import urllib.error
import urllib.request
from collections import Counter
from pathlib import Path
from typing import Any

from running import worker

from moldau.testing import Broker

LINES = {
    "checkout": ["paid order %d", "card of order %d refused"],
    "storage": ["disk sd%d is 91 percent full"],
    "search": ["query %d took 12 ms"],
}
ROUNDS = 25


def free_port() -> int:
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as tried:
        tried.bind(("127.0.0.1", 0))
        return int(tried.getsockname()[1])


def wait_for_listener(port: int) -> None:
    """UDP loses what nobody listens for: somebody has the port when we cannot."""
    for _ in range(300):
        with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as tried:
            try:
                tried.bind(("127.0.0.1", port))
            except OSError:
                return
        time.sleep(0.1)
    raise SystemExit("nobody listens for messages of syslog")


def ask(url: str, method: str, path: str, body: Any = None) -> Any:
    sent = None if body is None else json.dumps(body).encode()
    request = urllib.request.Request(url + path, sent, {"Content-Type": "application/json"}, method=method)
    try:
        with urllib.request.urlopen(request, timeout=30) as answer:
            return json.load(answer)
    except urllib.error.HTTPError as error:
        return {"error": error.code}


def log_something(port: int) -> Counter[str]:
    """What each program has sent."""
    sent: Counter[str] = Counter()
    for program, lines in LINES.items():
        logger = logging.Logger(program)
        handler = logging.handlers.SysLogHandler(("127.0.0.1", port))
        handler.setFormatter(logging.Formatter(f"Jan  1 00:00:00 factory-1 {program}: %(message)s"))
        logger.addHandler(handler)
        for number in range(ROUNDS):
            for line in lines:
                logger.warning(line, number)
                sent[program] += 1
        handler.close()
    return sent


def found_by_program(url: str, index: str) -> Counter[str]:
    ask(url, "POST", f"/{index}/_refresh")
    answer = ask(url, "GET", f"/{index}/_search", {"size": 1000})
    hits = answer.get("hits", {}).get("hits", [])
    return Counter(str(each["_source"]["appName"]) for each in hits)


def main(url: str) -> None:
    port = free_port()
    connectors: dict[str, dict[str, object]] = {
        "programs": {
            "connector.class": "io.confluent.connect.syslog.SyslogSourceConnector",
            "topic": "program-logs",
            "syslog.port": port,
        },
        "index": {
            "connector.class": "io.aiven.kafka.connect.opensearch.OpensearchSinkConnector",
            "topics": "program-logs",
            "connection.url": url,
            "key.ignore": "true",
            "errors.tolerance": "all",
            "errors.deadletterqueue.topic.name": "bad-logs",
            "errors.deadletterqueue.topic.replication.factor": 1,
        },
    }
    with tempfile.TemporaryDirectory() as folder, Broker() as broker:
        broker.create_topic("program-logs")
        broker.create_topic("bad-logs")
        ask(url, "DELETE", "/program-logs")
        with worker(Path(folder), broker.bootstrap_servers, connectors):
            wait_for_listener(port)
            sent = log_something(port)
            broker.produce("program-logs", "no document")  # somebody writes to the topic by hand
            deadline = time.monotonic() + 60
            while found_by_program(url, "program-logs") != sent or not broker.records("bad-logs"):
                if time.monotonic() > deadline:
                    kept = len(broker.records("program-logs"))
                    found = found_by_program(url, "program-logs")
                    raise SystemExit(f"sent {sent}, in the topic {kept}, in the index {found}")
                time.sleep(0.3)
        for program, count in sorted(found_by_program(url, "program-logs").items()):
            print(f"{program}: {count} messages")
        query = {"query": {"match": {"message": "disk"}}, "size": 0}
        total = ask(url, "GET", "/program-logs/_search", query)["hits"]["total"]["value"]
        print(f"about disks: {total}; dead letters: {len(broker.records('bad-logs'))}")


if __name__ == "__main__":
    main(sys.argv[1].rstrip("/") if len(sys.argv) > 1 else "http://127.0.0.1:9200")
