"""Take out of a tool's output what differs from run to run, so that the rest can be compared word for word.

Both sides, the golden text and what was printed now, pass through the same functions. Nothing here may hide
a word that a tool chose: only addresses, directories, ids, times, speeds, stack frames and the order of
hash-ordered lists."""

from __future__ import annotations

import json
import re
from collections.abc import Callable
from itertools import groupby
from typing import Any

from tests.conformance.golden_nodes import Place
from tests.conformance.golden_transcripts import Block, Printed

View = Callable[[str], str]

ALWAYS = (
    (re.compile(r"(console-consumer|verifiable)-[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}"), r"\1-UUID"),
    (re.compile(r"[\w-]{22}(?= /127\.0\.0\.1)"), "UUID"),
    (re.compile(r"TopicId: [\w-]{22}"), "TopicId: UUID"),
    (re.compile(r"Cluster ID: [\w-]{22}"), "Cluster ID: UUID"),
    (re.compile(r"(adminclient|console-producer|consumer|producer)-\d+"), r"\1-N"),
    (
        re.compile(r"deadlineMs=\d+, tries=\d+, nextAllowedTryMs=\d+"),
        "deadlineMs=N, tries=N, nextAllowedTryMs=N",
    ),
    (re.compile(r"timed out at \d+ after \d+ attempt"), "timed out at N after N attempt"),
    (re.compile(r"Request\(processor=.*?envelope=None\)"), "Request(…)"),
    (re.compile(r"less than the first timestamp \d+"), "less than the first timestamp N"),
    (re.compile(r"\t(at |\.\.\. \d+ more|<\d+ stack frames>).*(\n|$)"), ""),
    (re.compile(r" --command-config \S*impatient.properties"), ""),
)
USAGE = re.compile(r"^(<usage table omitted>|Option\s+Description|[Uu]sage: ).*\Z", re.MULTILINE | re.DOTALL)
OPTION_SET = re.compile(r"\[\[([\w-]+(?:\], \[[\w-]+)+)\]\]")
WORD_SET = re.compile(r"(Valid (?:states|types) are|of these options): (.+)")
OPERATION_SET = re.compile(r"(?<=only supports operations \[)([\w, ]+)")
NUMBER = re.compile(r"-?\d+([.,]\d+)?")
DATE = re.compile(r"\d{4}-\d\d-\d\d \d\d:\d\d:\d\d:\d{3}")
MORE_LINES = re.compile(r"^<\d+ more lines>\n?", re.MULTILINE)
UNCOMPARED = re.compile(r"$|hint: |The consumer rebalance protocol \(KIP-848\)| at \[Source: ")
JAVA_EXCEPTION = re.compile(r"(Caused by: )?(java|org\.apache\.kafka|com\.fasterxml)\.[\w.$]+(:|$)")
LOG_LINE = re.compile(r"^\[[^]]+\] (ERROR|WARN) .*$", re.MULTILINE)


def normalise(block: Block, printed: Printed, place: Place) -> Printed:
    stdout = _common(printed.stdout, place)
    for view in views(block):
        stdout = view(stdout)
    return Printed(stdout.rstrip("\n"), _common(printed.stderr, place).rstrip("\n"), printed.exit_code)


def _common(text: str, place: Place) -> str:
    for here, golden in (*place.directories.items(), *place.addresses.items()):
        text = text.replace(here, golden)
    for here, golden in place.addresses.items():
        text = re.sub(rf"\b{here.rpartition(':')[2]}\b", golden.rpartition(":")[2], text)
    for pattern, replacement in ALWAYS:
        text = pattern.sub(replacement, text)
    text = OPTION_SET.sub(lambda found: "[[" + "], [".join(sorted(found[1].split("], ["))) + "]]", text)
    text = WORD_SET.sub(lambda found: f"{found[1]}: {', '.join(sorted(found[2].split(', ')))}", text)
    text = OPERATION_SET.sub(_sorted_list, text)
    return USAGE.sub("<usage>", text)


def views(block: Block) -> list[View]:
    """Which further differences the output of this command may have."""
    line = block.line
    chosen: list[View] = []
    if "kafka-topics" in line and "--describe" in line:
        chosen += [sort_configs, sort_topics]
    if "kafka-configs" in line and "--describe" in line:
        chosen.append(sort_entities)
    if "kafka-log-dirs" in line:
        chosen.append(sort_log_dirs)
    if "kafka-get-offsets" in line:
        chosen.append(hide_group_offsets)
    if "-perf-test" in line or "e2e-latency" in line or re.search(r"perf-0/\S+\.(time)?index", line):
        chosen.append(shape)
    if "gb-lat-0" in line or "gb-txn-0" in line:
        chosen.append(hide_append_times)
    if "bootstrap.checkpoint" in line:
        chosen.append(shape)
    if "--show-detailed-stats" in line:
        chosen.append(first_line)
    if "kafka-delete-records" in line:
        chosen += [sort_partitions, one_timeout]
    if re.search(r"--topic con .*--from-beginning", line):
        chosen.append(sort_lines)
    if "kafka-consumer-groups" in line:
        chosen.append(sort_tables)
    if "kafka-acls" in line:
        chosen.append(sort_acls)
    if "kafka-delegation-tokens" in line:
        chosen += [hide_tokens, sort_tables]
    if "kafka-groups" in line:
        chosen.append(sort_lines)
    if "kafka-transactions" in line:
        chosen += [hide_columns, sort_lines]
    if "kafka-verifiable" in line:
        chosen.append(merge_events)
    return chosen


def sort_lines(text: str) -> str:
    return "\n".join(sorted(text.splitlines()))


def sort_tables(text: str) -> str:
    """Tables, and the rows of each: both are in the order of a hash."""
    text = re.sub(r"\(('[^']*'(?:, '[^']*')+)\)", lambda found: f"({_sorted_list(found)})", text)
    tables = ["\n".join(sorted(table.splitlines())) for table in re.split(r"\n{2,}", text.strip("\n"))]
    return "\n\n".join(sorted(tables))


#: Cells of kafka-transactions that differ from run to run.
HIDDEN_COLUMNS = {
    "ProducerId",
    "CurrentTransactionStartTimeMs",
    "TransactionDurationMs",
    "LastTimestamp",
}


def hide_columns(text: str) -> str:
    """Numbers in those columns as N; the table without the padding that follows from their width."""
    rows = [[cell.strip() for cell in line.split("\t")] for line in text.splitlines()]
    names = rows[0] if rows else []
    for row in rows[1:]:
        for position, name in enumerate(names):
            if name in HIDDEN_COLUMNS and position < len(row) and row[position].isdigit():
                row[position] = "N"
    return "\n".join("\t".join(row) for row in rows)


def merge_events(text: str) -> str:
    """Lines of JSON without times; how records without a key are spread, and come in fetches, is chance.

    Records stand in the order of their values, fetches and commits are one each.
    """
    records: list[str] = []
    others: list[str] = []
    count = 0
    for line in text.splitlines():
        event: dict[str, Any] = json.loads(line) if line.startswith("{") else {"name": line}
        for chance in ("timestamp", "avg_throughput", "partition", "offset", "offsets"):
            event.pop(chance, None)
        if event["name"] == "records_consumed":
            count += event["count"]
            continue
        shown = json.dumps(event)
        if event["name"] in ("producer_send_success", "record_data"):
            records.append(shown)
        elif shown not in others:
            others.append(shown)
    return "\n".join([*others, *sorted(records), f"{count} records consumed"])


def sort_acls(text: str) -> str:
    """Each ACL with its resource, in the order of their text: Kafka prints both in the order of a hash."""
    lines, resource = [], ""
    for line in (each.strip() for each in text.splitlines()):
        if "for resource" in line:
            resource = line
        elif line:
            lines.append(f"{resource} {line}" if line.startswith("(") else line)
    return sort_lines("\n".join(lines))


def hide_tokens(text: str) -> str:
    """Ids, keys and times of delegation tokens; the padding that follows from their width."""
    text = re.sub(r"[\w+/-]{86}==|X{86}==", "HMAC", text)
    text = re.sub(r"\d{4}-\d\d-\d\dT\d\d:\d\d", "TIME", text)
    text = re.sub(r"(?<=tokenId : )[\w-]{22}|^[\w-]{22}(?= HMAC)", "TOKEN", text, flags=re.MULTILINE)
    return re.sub(r" +", " ", text)


def first_line(text: str) -> str:
    """The header: how many rows follow depends on the speed of the machine."""
    return text.partition("\n")[0]


def sort_partitions(text: str) -> str:
    lines = text.splitlines()
    return "\n".join(
        [*(line for line in lines if not line.startswith("partition:")), *sorted(_partitions(lines))]
    )


def _partitions(lines: list[str]) -> list[str]:
    return [line for line in lines if line.startswith("partition:")]


def one_timeout(text: str) -> str:
    """Where the Java client's retries stand when time is up decides which of two messages it gives, on Apache
    Kafka too (seen in one run of three)."""
    call = r"Call\(callName=([\w()=]+), deadlineMs=N.*?\) timed out at N after N attempt\(s\)"
    return re.sub(call, r"Timed out waiting for a node assignment. Call: \1", text)


def sort_configs(text: str) -> str:
    def ordered(found: re.Match[str]) -> str:
        return "Configs: " + ",".join(sorted(found[1].split(",")))

    return re.sub(r"Configs: (\S*)", ordered, text)


def sort_topics(text: str) -> str:
    """Whole topics in the order of their names: a header line and its partitions stay together."""
    return _sort_groups(text, lambda line: line.startswith("Topic:"))


def sort_entities(text: str) -> str:
    text = re.sub(r"(?<= are )(\S+=\S+(?:, \S+=\S+)+)$", _sorted_list, text, flags=re.MULTILINE)
    return _sort_groups(text, lambda line: not line.startswith(" "))


def _sorted_list(found: re.Match[str]) -> str:
    return ", ".join(sorted(found[1].split(", ")))


def _sort_groups(text: str, is_header: Callable[[str], bool]) -> str:
    groups: list[list[str]] = []
    for line in text.splitlines():
        if is_header(line) or not groups:
            groups.append([])
        groups[-1].append(line)
    if groups and not is_header(
        groups[0][0]
    ):  # partitions without headers, as --at-min-isr-partitions prints them
        return "\n".join(sorted(text.splitlines()))
    return "\n".join(line for group in sorted(groups) for line in group)


def sort_log_dirs(text: str) -> str:
    lines = text.splitlines()
    for position, line in enumerate(lines):
        if line.startswith("{"):
            description = json.loads(line)
            for broker in description["brokers"]:
                for log_dir in broker["logDirs"]:
                    log_dir["partitions"].sort(key=lambda partition: partition["partition"])
            lines[position] = json.dumps(description, separators=(",", ":"))
    return "\n".join(lines)


def hide_group_offsets(text: str) -> str:
    """Which of the internal partitions hold what depends on the groups that were used before."""
    return "\n".join(line for line in text.splitlines() if not line.startswith("__consumer_offsets:"))


def shape(text: str) -> str:
    """Numbers as N, a run of lines that then are equal as one: the layout of a report, not its figures."""
    text = NUMBER.sub("N", DATE.sub("DATE", MORE_LINES.sub("", text)))
    return "\n".join(line for line, _ in groupby(text.splitlines()))


def hide_append_times(text: str) -> str:
    text = re.sub(r"LogAppendTime: \d+", "LogAppendTime: N", text)
    text = re.sub(r"(isControl: true.*CreateTime: )\d+", r"\1N", text)
    text = re.sub(r"(CreateTime: )\d+(.*endTxnMarker)", r"\1N\2", text)
    text = re.sub(r"producerId: \d+", "producerId: N", text)
    return re.sub(r"crc: \d+", "crc: N", text)


def without_log_lines(text: str) -> str:
    """Standard error without the lines of Java's loggers and exceptions, which a Python tool does not have.

    Nor the Java client's advertisement of its new group protocol, nor the hints that our tools add.
    """
    lines = [line for line in LOG_LINE.sub("", text).splitlines() if not UNCOMPARED.match(line)]
    return "\n".join(line for line in lines if not JAVA_EXCEPTION.match(line))


def without_unadvertised(golden: str, now: str) -> tuple[str, str]:
    """The golden table of API versions, UNSUPPORTED where a broker advertises less, and how much that is."""
    unadvertised = {line.partition(":")[0] for line in now.splitlines() if "UNSUPPORTED" in line}
    lines = []
    for line in golden.splitlines():
        api, _, versions = line.partition(":")
        comma = "," if versions.endswith(",") else ""
        lines.append(f"{api}: UNSUPPORTED{comma}" if api in unadvertised else line)
    apis = [line for line in golden.splitlines() if "usable" in line]
    ours = [line for line in apis if line.partition(":")[0] not in unadvertised]
    return "\n".join(lines), f"advertises {len(ours)} of {len(apis)} APIs, those with the same versions"
