"""A factory: sensors report their health, people give commands, and nothing is lost while readers are down.

    python examples/connect/factory.py

Three topics, one for each question: ``health`` (how is each stage of the line, over time?), ``alert`` (what
is broken now?) and ``audit-commands`` (who told which sensor what?). Commands lie in a table of SQLite, as an
administration's program would write them; a source brings them to the topic. A sink writes health and alerts
into a table each. The worker is stopped amid the work, the sensors go on, and the worker catches up.
"""

import json
import sqlite3
import tempfile
import time
from collections.abc import Callable
from pathlib import Path

from running import worker

from moldau.testing import Broker

STAGES = ("press", "weld", "paint", "check")
FIELDS = [
    {"field": "id", "type": "string"},
    {"field": "stage", "type": "string"},
    {"field": "status", "type": "string"},
]


def report(broker: Broker, moments: range) -> None:
    """Each stage says how it is; the weld breaks now and then, which is an alert too."""
    for moment in moments:
        for stage in STAGES:
            broken = stage == "weld" and moment % 10 == 9
            row = {"id": f"{stage}-{moment}", "stage": stage, "status": "broken" if broken else "working"}
            schema = {"type": "struct", "fields": FIELDS}
            value = json.dumps({"schema": schema, "payload": row})
            broker.produce("health", value, key=json.dumps({"schema": None, "payload": stage}))
            if broken:
                broker.produce("alert", value, key=json.dumps({"schema": None, "payload": stage}))


def command(database: Path, who: str, what: str) -> None:
    with sqlite3.connect(database) as connection:
        connection.execute(
            "CREATE TABLE IF NOT EXISTS commands "
            "(id INTEGER PRIMARY KEY, who TEXT NOT NULL, what TEXT NOT NULL)"
        )
        connection.execute("INSERT INTO commands (who, what) VALUES (?, ?)", (who, what))
    connection.close()


def count(database: Path, query: str) -> int:
    connection = sqlite3.connect(database)
    try:
        return int(connection.execute(query).fetchone()[0])
    except sqlite3.OperationalError:
        return 0  # the sink has not made the table yet
    finally:
        connection.close()


def wait(done: Callable[[], bool], what: str) -> None:
    deadline = time.monotonic() + 60
    while not done():
        if time.monotonic() > deadline:
            raise SystemExit(f"waited a minute in vain: {what}")
        time.sleep(0.2)


def main() -> None:
    with tempfile.TemporaryDirectory() as name, Broker() as broker:
        folder = Path(name)
        commands, history = folder / "commands.db", folder / "history.db"
        for topic in ("health", "alert", "audit-commands"):
            broker.create_topic(topic)
        connectors: dict[str, dict[str, object]] = {
            "audit": {
                "connector.class": "JdbcSourceConnector",
                "connection.url": f"jdbc:sqlite:{commands}",
                "mode": "incrementing",
                "incrementing.column.name": "id",
                "topic.prefix": "audit-",
                "poll.interval.ms": 200,
            },
            "history": {
                "connector.class": "JdbcSinkConnector",
                "connection.url": f"jdbc:sqlite:{history}",
                "topics": "health,alert",
                "insert.mode": "upsert",
                "pk.mode": "record_value",
                "pk.fields": "id",
                "auto.create": "true",
            },
        }
        command(commands, "ann", "start the line")
        report(broker, range(10))
        with worker(folder, broker.bootstrap_servers, connectors):
            wait(lambda: count(history, "SELECT count(*) FROM health") == 40, "health is in the table")
            wait(lambda: len(broker.records("audit-commands")) == 1, "the command is in the topic")
        report(broker, range(10, 30))  # nobody reads now
        command(commands, "bob", "stop the weld")
        with worker(folder, broker.bootstrap_servers, connectors):
            wait(lambda: count(history, "SELECT count(*) FROM health") == 120, "health catches up")
            wait(lambda: count(history, "SELECT count(*) FROM alert") == 3, "alerts catch up")
            wait(lambda: len(broker.records("audit-commands")) >= 2, "both commands are in the topic")
        broken = count(history, "SELECT count(*) FROM health WHERE status = 'broken'")
        print(f"health: {count(history, 'SELECT count(*) FROM health')} reports, {broken} of them broken")
        print(f"alerts: {count(history, 'SELECT count(*) FROM alert')}")
        for record in broker.records("audit-commands"):
            row = json.loads(record.value or b"{}")["payload"]
            print(f"audit: {row['who']}: {row['what']}")


if __name__ == "__main__":
    main()
