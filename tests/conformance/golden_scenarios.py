"""For each golden transcript: its state, what its commands need, what is known to differ and why.

Plain data. `needs` names a feature; a command whose feature a broker does not have yet is reported as "not
yet" and not run. `differs` is the list of differences that we keep on purpose, each with its reason."""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import Literal

from tests.conformance.golden_nodes import Kind
from tests.conformance.golden_transcripts import Block

# What Moldau will never have.
NOT_APPLICABLE = {"KRaft log": "Moldau keeps its metadata in its own store, not in a KRaft log"}
# What no run can repeat, a real Kafka included.
NOT_REPEATABLE = {
    "captured history": "prints internal records of groups, transactions and brokers of the capture",
    "captured logging": "prints the loggers of the captured process",
    "captured groups": "lists all groups of the captured node (for lists see the clients above)",
    "random placement": "which broker is the first is drawn",
}

NEEDS: tuple[tuple[str, str], ...] = (
    (r"__consumer_offsets|__transaction_state|__cluster_metadata", "captured history"),
    (r"--entity-type broker-loggers", "captured logging"),
    (
        r"kafka-groups.sh .*--list( --consumer| --share| --group-type (classic|share)| --protocol \S+)?$",
        "captured groups",
    ),
    (r"--cluster-metadata-decoder", "KRaft log"),
    (r"--topic (dflt|rf3)\b| --generate$", "random placement"),
)

# Commands that wait for Kafka's default of 60 s; they get a shorter timeout through --command-config.
IMPATIENT = (
    r"--bootstrap-server 127.0.0.1:1 ",
    r"--entity-name 7 --add-config",
    r"--offset-json-file dr2.json",
)
IMPATIENT_PROPERTIES = "default.api.timeout.ms=3000\nrequest.timeout.ms=2000\n"


@dataclass(frozen=True, slots=True)
class Difference:
    """Commands for which Moldau's broker answers, or Moldau's tool prints, something else on purpose."""

    pattern: str
    of: Literal["broker", "tools"]
    why: str


@dataclass(frozen=True, slots=True)
class Stage:
    """What happened during the capture before a block: more fixtures, actors that came and went."""

    before: int
    fixtures: tuple[str, ...] = ()
    commands: tuple[tuple[str, ...], ...] = ()
    starts: tuple[str, ...] = ()
    ends: tuple[str, ...] = ()
    stops_brokers: tuple[int, ...] = ()
    starts_brokers: tuple[int, ...] = ()


@dataclass(frozen=True, slots=True)
class Scenario:
    """How one transcript is replayed: fixtures of java/Fixtures.java, then tool commands, then its blocks."""

    transcript: str
    node: Kind = "one"
    fixtures: tuple[str, ...] = ()
    commands: tuple[tuple[str, ...], ...] = ()
    differs: tuple[Difference, ...] = ()
    stages: tuple[Stage, ...] = ()


ACTIVE_INDEX = Difference(
    r"perf-0/\d+\.(time)?index",
    "broker",
    "Kafka preallocates and maps the index files of an active segment; Moldau appends entries in groups, at "
    "the latest on roll and clean stop (the files of a stopped broker are compared above)",
)
NO_RETRY = Difference(
    r"dr2\.json",
    "tools",
    "Kafka's tool asks for the missing topic until its timeout; ours says at once what is wrong",
)
TWO_PHASE_COMMIT = Difference(
    r"kafka-broker-api-versions",
    "broker",
    "Kafka has InitProducerId v6 (two-phase commit, KIP-939) but does not advertise it; Moldau does",
)
REQUEST_NAMED = Difference(
    r"kafka-acls.sh .*22294",
    "broker",
    "Kafka's message names an object of its own process; Moldau's says what was refused",
)
LOGIN_EXPLAINED = Difference(
    r"bad\.properties",
    "tools",
    "Moldau's tools also say where and as whom, and which settings to look at",
)
OWN_TOKENS = Difference(
    r"--describe$",
    "tools",
    "Kafka's tool says that it asks for the tokens of the current user, and asks for those of nobody",
)
PERF_LOAD = (
    "kafka-producer-perf-test",
    *("--topic", "perf", "--num-records", "30000", "--record-size", "100", "--throughput", "-1"),
    *("--bootstrap-server", "127.0.0.1:22092", "--command-property", "linger.ms=1000"),
)
PERF_TRANSACTIONS = (
    "kafka-producer-perf-test",
    *("--topic", "perf", "--num-records", "2000", "--record-size", "100", "--throughput", "-1"),
    *("--bootstrap-server", "127.0.0.1:22092", "--transactional-id", "pt", "--transaction-duration-ms", "50"),
)

METRICS_SUBSCRIPTION = (
    "kafka-client-metrics",
    *("--alter", "--name", "cm1", "--interval", "30000", "--match", "client_id=a.*"),
    *("--metrics", "org.apache.kafka.producer.", "--bootstrap-server", "127.0.0.1:22092"),
)
MOVED_LOAD = (
    "kafka-producer-perf-test",
    *("--topic", "mv", "--num-records", "20000", "--record-size", "1000", "--throughput", "-1"),
    *("--bootstrap-server", "127.0.0.1:22311"),
)
#: Moves of empty partitions, which had ended when the next command was captured.
SHORT_MOVES = r"plan2?\.json.* --execute"


def _topic(name: str, replicas: str) -> tuple[str, ...]:
    at = ("--bootstrap-server", "127.0.0.1:22311")
    return ("kafka-topics", "--create", "--topic", name, "--replica-assignment", replicas, *at)


SCENARIOS: tuple[Scenario, ...] = (
    Scenario("topics"),
    Scenario("console-producer", fixtures=("con",)),
    Scenario("console-consumer", fixtures=("topics", "records", "deleted-records", "con", "transaction")),
    Scenario("configs", fixtures=("topics",)),
    Scenario("get-offsets", fixtures=("topics", "records")),
    Scenario("delete-records", fixtures=("topics", "records"), differs=(NO_RETRY,)),
    Scenario("log-dirs", fixtures=("topics", "records")),
    Scenario(
        "dump-log",
        fixtures=("topics", "records", "batches", "transaction"),
        commands=(PERF_LOAD,),
        differs=(ACTIVE_INDEX,),
    ),
    Scenario("perf"),
    Scenario("broker-api-versions", differs=(TWO_PHASE_COMMIT,)),
    Scenario("cluster"),
    Scenario(
        "consumer-groups",
        fixtures=("topics", "records"),
        stages=(
            Stage(4, fixtures=("g-empty",), starts=("group members",)),
            Stage(40, ends=("group members",)),
            Stage(94, fixtures=("g-shift",)),
        ),
    ),
    Scenario("groups", fixtures=("topics", "consumer-protocol-groups")),
    Scenario(
        "transactions",
        fixtures=("txt",),
        commands=(PERF_TRANSACTIONS,),
        stages=(Stage(1, starts=("open transaction",)), Stage(16, fixtures=("transaction",))),
    ),
    Scenario("verifiable", fixtures=("ver",)),
    Scenario("client-metrics", commands=(METRICS_SUBSCRIPTION,)),
    Scenario("acls", node="secured", fixtures=("topics",), differs=(REQUEST_NAMED, LOGIN_EXPLAINED)),
    Scenario("delegation-tokens", node="secured", differs=(OWN_TOKENS,)),
    Scenario("leader-election", fixtures=("topics",)),
    Scenario(
        "topics-3-brokers",
        node="three",
        commands=(_topic("mv", "2:1,1:3"), _topic("dflt", "1:2,2:3,3:1")),
        stages=(
            Stage(10, stops_brokers=(3,)),
            Stage(20, stops_brokers=(2,)),
            Stage(23, starts_brokers=(2, 3)),
        ),
    ),
    Scenario(
        "reassign-partitions",
        node="three",
        commands=(_topic("mv", "1:2,2:1"),),
        stages=(Stage(18, commands=(MOVED_LOAD,)),),
    ),
)


def need_of(block: Block) -> str | None:
    return next((need for pattern, need in NEEDS if re.search(pattern, block.line)), None)


def missing(need: str | None, tools: str, broker: str) -> tuple[str, str] | None:
    """Status and reason of a command that is not run with these tools and this broker."""
    if need in NOT_REPEATABLE:
        return "not repeatable", NOT_REPEATABLE[need]
    if need in NOT_APPLICABLE and "moldau" in (tools, broker):
        return "not applicable", NOT_APPLICABLE[need]
    return None


def known_difference(scenario: Scenario, block: Block, tools: str, broker: str) -> str:
    """Why the outcome may differ; empty when there is no reason."""
    ours = {"tools": tools == "moldau", "broker": broker == "moldau"}
    reasons = (
        known.why for known in scenario.differs if ours[known.of] and re.search(known.pattern, block.line)
    )
    return next(reasons, "")


def is_impatient(block: Block) -> bool:
    return any(re.search(pattern, block.line) for pattern in IMPATIENT)


def is_short_move(block: Block) -> bool:
    return re.search(SHORT_MOVES, block.line) is not None
