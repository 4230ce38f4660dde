"""The typed topic of the Spark benchmark: Avro orders with six fields and a nested array, and their registry.

Invariant: values are framed with a schema id as every Confluent serializer does it, so that reading them is
what users do; how they are made is not measured.
"""

from __future__ import annotations

import json
import os
import socket
import subprocess
import sys
import time
import urllib.error
import urllib.request
from collections.abc import Iterator
from contextlib import contextmanager

import numpy as np
import pyarrow as pa

from moldau.client.registry.schema_registry import RegistryClient
from moldau.client.transport.background_loop import BackgroundLoop
from moldau.schemas.schema_id import id_prefix
from moldau.spark.background_loop import open_loop
from moldau.spark.options import ClusterOptions, WriteOptions
from moldau.spark.typed.avro.write import AvroEncoder
from moldau.spark.write.task_writer import TaskWriter

SCHEMA = json.dumps(
    {
        "type": "record",
        "name": "Order",
        "fields": [
            {"name": "id", "type": "long"},
            {"name": "customer", "type": "string"},
            {"name": "amount", "type": "double"},
            {"name": "state", "type": {"type": "enum", "name": "State", "symbols": ["NEW", "PAID", "SENT"]}},
            {"name": "note", "type": ["null", "string"], "default": None},
            {
                "name": "items",
                "type": {
                    "type": "array",
                    "items": {
                        "type": "record",
                        "name": "Item",
                        "fields": [{"name": "sku", "type": "string"}, {"name": "count", "type": "int"}],
                    },
                },
            },
        ],
    }
)
_ROWS = 50_000


def fill_avro(bootstrap: str, registry: str, topic: str, count: int) -> None:
    """Writes ``count`` orders into the topic, by our own encoder and writer."""
    with RegistryClient(registry) as client:
        schema_id = client.register(f"{topic}-value", SCHEMA)
    orders = _orders()
    encoded = AvroEncoder.from_text(SCHEMA, orders.type, id_prefix(schema_id)).encode(orders)
    options = ClusterOptions(bootstrap)
    loop = open_loop(options)
    partitions = pa.array(np.arange(_ROWS, dtype=np.int32) % 4)
    batch = pa.RecordBatch.from_arrays([encoded, partitions], names=["value", "partition"])
    loop.run(_create(loop, topic))
    writer = TaskWriter(loop, WriteOptions(options, topic))
    for start in range(0, count, _ROWS):
        writer.write(batch.slice(0, min(_ROWS, count - start)))
    writer.finish()
    loop.close()


async def _create(loop: BackgroundLoop, topic: str) -> None:
    from moldau.client.admin.admin import Admin
    from moldau.client.admin.descriptions import NewTopic

    outcome = (await Admin(loop.cluster).create_topics([NewTopic(topic, 4, 1)]))[topic]
    if isinstance(outcome, Exception):
        raise outcome


def _orders() -> pa.Array:
    rows = [
        {
            "id": index * 7,
            "customer": f"customer-{index % 1000}",
            "amount": index * 0.5,
            "state": ("NEW", "PAID", "SENT")[index % 3],
            "note": None if index % 3 else f"note {index}",
            "items": [{"sku": f"sku-{index + n}", "count": n} for n in range(index % 4)],
        }
        for index in range(_ROWS)
    ]
    item = pa.struct([("sku", pa.string()), ("count", pa.int32())])
    text = pa.string()
    names = [
        ("id", pa.int64()),
        ("customer", text),
        ("amount", pa.float64()),
        ("state", text),
        ("note", text),
    ]
    return pa.array(rows, pa.struct([*names, ("items", pa.list_(item))]))


@contextmanager
def running_registry(bootstrap: str) -> Iterator[str]:
    """A schema registry on that broker, in a process of its own."""
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port = probe.getsockname()[1]
    command = [
        sys.executable,
        "-m",
        "moldau",
        "registry",
        f"--port={port}",
        f"--bootstrap-servers={bootstrap}",
    ]
    process = subprocess.Popen(command, env=os.environ, stdout=subprocess.DEVNULL)
    url = f"http://127.0.0.1:{port}"
    try:
        deadline = time.monotonic() + 60
        while True:
            try:
                urllib.request.urlopen(f"{url}/subjects", timeout=5).close()
                break
            except (urllib.error.URLError, OSError):
                if time.monotonic() > deadline or process.poll() is not None:
                    raise
                time.sleep(0.2)
        yield url
    finally:
        process.terminate()
        process.wait(30)
