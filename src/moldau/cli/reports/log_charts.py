"""What ``moldau log inspect`` shows of partitions: table rows, charts, and JSON.

Pure, but for ``plot``, which writes an image.
"""

from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING, Any

from moldau.base.times import format_time
from moldau.cli.output import size_text

if TYPE_CHECKING:
    from moldau.inspection.contents import PartitionView, Sample, SegmentView, SizesOverTime

PARTITION_COLUMNS = (
    *("Partition", "Offsets", "Records>", "Segments>", "Size>", "Codecs", "Last record"),
    "To look at",
)
SEGMENT_COLUMNS = (
    *("Offsets", "Records>", "Batches>", "Control>", "Size>", "Codecs", "Tombstones>", "First", "Last"),
    "Files",
)
PRODUCER_COLUMNS = (
    *("Producer>", "Epoch>", "Batches>", "Records>", "Last sequence>", "Last offset>", "Last time"),
    "Open transaction since>",
)
HOLE_COLUMNS = ("Offsets", "Count>", "Kind", "In segment>")

_EIGHTHS = " ▏▎▍▌▋▊▉█"
_BAR_WIDTH = 40
_MOST_BARS = 24
_DAY_MS = 86_400_000


def partition_row(view: "PartitionView") -> list[object]:
    remarks = list(view.faults)
    if view.open_transactions:
        remarks.append(f"{len(view.open_transactions)} open transaction(s)")
    if view.leftovers:
        remarks.append(f"{len(view.leftovers)} leftover(s)")
    return [
        view.name,
        f"{view.start_offset}–{view.end_offset}",
        f"{view.records:,}",
        len(view.segments),
        size_text(view.size),
        _codecs(view.codecs, view.sample),
        _time(view.time_range[1]),
        "; ".join(remarks),
    ]


def segment_row(segment: "SegmentView") -> list[object]:
    bad = [*([".log"] if segment.damage else []), *segment.index_faults]
    return [
        f"{segment.base_offset}–{segment.next_offset}{' *' if segment.is_last else ''}",
        f"{segment.records:,}",
        f"{segment.batches:,}",
        segment.control_batches or "",
        size_text(segment.size),
        _codecs(segment.batches_by_codec, segment.sample),
        _share(segment.sample.tombstones, segment.sample.records),
        _time(segment.min_timestamp),
        _time(segment.max_timestamp),
        f"{', '.join(bad)} bad" if bad else "ok",
    ]


def fault_lines(view: "PartitionView", most: int) -> list[str]:
    """What is wrong with the files of segments, one line for each fault."""
    lines: list[str] = []
    for segment in view.segments:
        name = f"{segment.base_offset:020d}"
        lines += (
            f"{name}.log, position {each.position}, offset {each.offset}: {each.reason}"
            for each in segment.damage
        )
        lines += (f"{name}{suffix}: {fault}" for suffix, fault in segment.index_faults.items())
    return lines[:most]


def producer_rows(view: "PartitionView", most: int) -> list[list[object]]:
    """Producers with an open transaction first, then those that wrote last."""
    ordered = sorted(view.producers, key=lambda each: (each.open_transaction < 0, -each.last_offset))
    return [
        [
            each.producer_id,
            each.epoch,
            f"{each.batches:,}",
            f"{each.records:,}",
            each.last_sequence,
            each.last_offset,
            _time(each.last_timestamp),
            each.open_transaction if each.open_transaction >= 0 else "",
        ]
        for each in ordered[:most]
    ]


def hole_rows(view: "PartitionView", most: int) -> list[list[object]]:
    """Missing segments first."""
    ordered = sorted(view.holes, key=lambda pair: (pair[1] != "missing segment", pair[0].first))
    return [
        [f"{hole.first}–{hole.last}", f"{hole.size:,}", kind.value, hole.segment]
        for hole, kind in ordered[:most]
    ]


def facts(view: "PartitionView") -> list[str]:
    """Lines with what does not fit in a table."""
    sample = view.sample
    lines = [f"topic id {_id(view)}, log start {view.start_offset}, log end {view.end_offset}"]
    checkpoint = {"recovery point": view.recovery_point, "high watermark": view.high_watermark}
    known = [f"{name} {offset}" for name, offset in checkpoint.items() if offset is not None]
    if known:
        lines.append(f"checkpoints: {', '.join(known)}")
    if view.leader_epochs:
        shown = ", ".join(f"{epoch} from {offset}" for epoch, offset in view.leader_epochs[-5:])
        lines.append(f"leader epochs: {'… ' if len(view.leader_epochs) > 5 else ''}{shown}")
    if view.commits or view.aborts:
        lines.append(
            f"transactions: {view.commits:,} committed, {view.aborts:,} aborted, "
            f"{len(view.open_transactions)} open"
        )
    if sample.records:
        lines.append(
            f"in {sample.records:,} records of {sample.batches:,} sampled batches: "
            f"{_share(sample.tombstones, sample.records)} tombstones, "
            f"{_share(sample.without_key, sample.records)} without a key"
        )
    if sample.unreadable_batches:
        lines.append(f"{sample.unreadable_batches:,} of the sampled batches cannot be read")
    if view.thinned_batches:
        lines.append(f"compaction has taken records out of {view.thinned_batches:,} batches")
    if view.leftovers:
        more = f" and {len(view.leftovers) - 3} more" if len(view.leftovers) > 3 else ""
        lines.append(f"out of use: {', '.join(view.leftovers[:3])}{more}")
    return lines


def bars(sizes: "SizesOverTime", most: int = _MOST_BARS) -> list[str]:
    """A bar chart of bytes by the time of their records, as lines of text."""
    rows = sizes.rows(most)
    largest = max((size for _, size in rows), default=0)
    if not largest:
        return []
    return [
        f"{_moment(begin, sizes.width_ms)}  {_bar(size / largest)}  {size_text(size)}" for begin, size in rows
    ]


def _bar(share: float) -> str:
    eighths = round(share * _BAR_WIDTH * 8)
    if share and not eighths:
        eighths = 1  # a small value is still visible
    whole, rest = divmod(eighths, 8)
    return ("█" * whole + (_EIGHTHS[rest] if rest else "")).ljust(_BAR_WIDTH)


def _moment(begin_ms: int, width_ms: int) -> str:
    text = format_time(begin_ms)
    if width_ms >= _DAY_MS:
        return text[:10]
    return text[:16].replace("T", " ") if width_ms >= 60_000 else text[:19].replace("T", " ")


def _codecs(counted: Any, sample: "Sample") -> str:
    names = ", ".join(name for name, _ in counted.most_common())
    return names if sample.ratio is None else f"{names} ({sample.ratio:.1f}×)"


def _share(part: int, whole: int) -> str:
    return "" if not whole else f"{100 * part / whole:.0f} %" if part else "0 %"


def _time(timestamp_ms: int) -> str:
    return format_time(timestamp_ms)[:16].replace("T", " ")


def _id(view: "PartitionView") -> str:
    from moldau.base.names import format_uuid

    return "unknown" if view.topic_id is None else format_uuid(view.topic_id)


# JSON ----------------------------------------------------------------------------------------------------


def partition_json(view: "PartitionView") -> dict[str, Any]:
    first, last = view.time_range
    return {
        "name": view.name,
        "path": view.path,
        "topic_id": _id(view),
        "start_offset": view.start_offset,
        "end_offset": view.end_offset,
        "recovery_point": view.recovery_point,
        "high_watermark": view.high_watermark,
        "size": view.size,
        "records": view.records,
        "batches": view.batches,
        "control_batches": view.control_batches,
        "min_timestamp": first,
        "max_timestamp": last,
        "transactions": {
            "committed": view.commits,
            "aborted": view.aborts,
            "open": len(view.open_transactions),
        },
        "thinned_batches": view.thinned_batches,
        "leader_epochs": [{"epoch": epoch, "start_offset": offset} for epoch, offset in view.leader_epochs],
        "segments": [_segment_json(segment) for segment in view.segments],
        "producers": [each._asdict() for each in view.producers],
        "holes": [
            {"first": hole.first, "last": hole.last, "segment": hole.segment, "kind": kind.value}
            for hole, kind in view.holes
        ],
        "sizes_over_time": [
            {"from_ms": begin, "width_ms": view.sizes.width_ms, "bytes": size}
            for begin, size in view.sizes.rows(_MOST_BARS * 10)
        ],
        "leftovers": view.leftovers,
    }


def _segment_json(segment: "SegmentView") -> dict[str, Any]:
    sample = segment.sample
    return {
        "base_offset": segment.base_offset,
        "next_offset": segment.next_offset,
        "size": segment.size,
        "active": segment.is_last,
        "records": segment.records,
        "batches": segment.batches,
        "control_batches": segment.control_batches,
        "transactional_batches": segment.transactional_batches,
        "min_timestamp": segment.min_timestamp,
        "max_timestamp": segment.max_timestamp,
        "codecs": {
            name: {"batches": count, "bytes": segment.bytes_by_codec[name]}
            for name, count in segment.batches_by_codec.items()
        },
        "sample": {
            "batches": sample.batches,
            "records": sample.records,
            "tombstones": sample.tombstones,
            "without_key": sample.without_key,
            "unreadable_batches": sample.unreadable_batches,
            "ratio": sample.ratio,
        },
        "index_faults": segment.index_faults,
        "damage": [
            {"position": each.position, "size": each.size, "offset": each.offset, "reason": each.reason}
            for each in segment.damage
        ],
    }


def plot(views: Sequence["PartitionView"], path: str, most_partitions: int = 12) -> None:
    """Writes a chart of sizes over time, the largest partitions by name; ImportError without matplotlib."""
    from importlib import import_module

    from moldau.inspection.contents import SizesOverTime

    matplotlib_figure: Any = import_module("matplotlib.figure")  # an optional library without types

    ordered = sorted(views, key=lambda view: -view.size)
    named = {view.name: view.sizes for view in ordered[:most_partitions] if view.size}
    rest = SizesOverTime()
    for view in ordered[most_partitions:]:
        rest.merge(view.sizes)
    if rest.bytes_by_bucket:
        named["others"] = rest
    width_ms, buckets = _common_buckets(named.values())
    figure = matplotlib_figure.Figure(figsize=(10, 5), layout="constrained")
    axes = figure.subplots()
    bottom = [0.0] * len(buckets)
    for name, sizes in named.items():
        found = dict(sizes.rows(len(buckets) + 1))
        heights = [found.get(bucket, 0) / (1 << 20) for bucket in buckets]
        axes.bar(range(len(buckets)), heights, bottom=bottom, width=0.9, label=name)
        bottom = [low + height for low, height in zip(bottom, heights, strict=True)]
    step = max(1, len(buckets) // 8)
    axes.set_xticks(range(0, len(buckets), step), [_moment(each, width_ms) for each in buckets[::step]])
    axes.tick_params(axis="x", rotation=30)
    axes.set_ylabel("MiB")
    axes.set_title("Bytes in the log by the time of their records")
    if named:
        axes.legend(fontsize="small")
    figure.savefig(path, dpi=120)


def _common_buckets(all_sizes: "Iterable[SizesOverTime]") -> tuple[int, list[int]]:
    """Widens all to the same bucket width; returns it and the begin of every bucket."""
    listed = list(all_sizes)
    width_ms = max((sizes.width_ms for sizes in listed), default=1000)
    while True:
        for sizes in listed:
            while sizes.width_ms < width_ms:
                sizes.widen()
        begins = [bucket * sizes.width_ms for sizes in listed for bucket in sizes.bytes_by_bucket]
        if not begins:
            return width_ms, []
        if (max(begins) - min(begins)) // width_ms < 120:
            return width_ms, list(range(min(begins), max(begins) + 1, width_ms))
        listed[0].widen()
        width_ms = listed[0].width_ms
