"""The Java client as applications use it (ClientSmoke.java, GroupSmoke.java), against our broker."""

from __future__ import annotations

import pytest

from benchmarks.moldau_broker import MoldauBroker
from tests.conformance.kafka_tools import JavaTools

STEPS = {
    "acks": "produce with acks 0, 1 and all",
    "compressions": "produce and consume with every compression",
    "headers": "headers, null keys and null values",
    "idempotence": "idempotent producer, 5,000 records in order",
    "big": "records of 900 KB; one of 2 MB refused",
    "timestamps": "offsets by timestamp, beginning and end",
    "admin": "topics, partitions, configs, deleted records, log directories",
}


@pytest.mark.parametrize(
    "step",
    [pytest.param(step, marks=pytest.mark.check("Java client 4.3.0", what)) for step, what in STEPS.items()],
)
def test_java_client(step: str, moldau: MoldauBroker, java_tools: JavaTools) -> None:
    ran = java_tools.run_class("ClientSmoke", [moldau.bootstrap_servers, step])
    assert (ran.exit_code, ran.stdout) == (0, "ok\n"), ran.stderr


GROUP_STEPS = {
    "classic": "a group of the classic protocol: list, describe, put members out, delete",
    "consumer": "a group of the consumer protocol: list, describe, delete",
    "offsets": "offsets of groups: alter, list for many groups, delete",
    "transactions": "transactions: commit, abort, describe, list, describe producers",
    "abort": "a hanging transaction is aborted from outside",
    "fence": "producers are fenced; a fenced one cannot commit",
    "send-offsets": "offsets in a transaction: visible after its commit only",
}


@pytest.mark.parametrize(
    "step",
    [
        pytest.param(step, marks=pytest.mark.check("Java client 4.3.0", what))
        for step, what in GROUP_STEPS.items()
    ],
)
def test_groups_and_transactions(step: str, moldau: MoldauBroker, java_tools: JavaTools) -> None:
    ran = java_tools.run_class("GroupSmoke", [moldau.bootstrap_servers, step])
    assert (ran.exit_code, ran.stdout) == (0, "ok\n"), ran.stderr
