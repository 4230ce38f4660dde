"""The messages of a topic: the newest, or those from an offset, a time or a group's place on; and one in
full.

Invariant: what a page shows can be asked for again by its address.
"""

import json
from dataclasses import dataclass
from typing import Any

from moldau.base.names import TopicPartition
from moldau.base.times import HOW_TO_WRITE
from moldau.client.admin.descriptions import EARLIEST
from moldau.client.groups.descriptions import CommittedOffset
from moldau.client.transport.cluster import Topic
from moldau.console import downloads
from moldau.console.call import ConsoleCall, WrongInput
from moldau.console.decoding import Decoded, shown
from moldau.console.expression import InvalidExpression, Predicate, compile_expression
from moldau.console.markup.html import (
    Content,
    Markup,
    code,
    link,
    number_cell,
    number_head,
    p,
    query,
    span,
    tag,
)
from moldau.console.markup.layout import badge, card, hidden, labelled, refusal, select, text_input
from moldau.console.markup.words import count, looked_at, moment, size
from moldau.console.pages.topic import found_topic, frame
from moldau.console.records import Found, ShownRecord, ends_of, level_of, newest, one, onwards, search
from moldau.console.typed import digits, time_ms
from moldau.console.workspace import Workspace
from moldau.web.pages import download

PAGE = 50
_PREVIEW = 400
#: A larger number is a time in milliseconds, a smaller one an offset.
_SMALLEST_TIME_MS = 10**11
#: Longer ways to go on would not fit into an address.
_MOST_POSITIONS = 150
#: How long a search without a script may take.
_SEARCH_SECONDS = 8.0


@dataclass(frozen=True, slots=True)
class Asked:
    """What the address says."""

    topic: Topic
    partitions: tuple[TopicPartition, ...]
    place: str
    filter: str
    key: str
    everything: bool
    limit: int
    #: The group whose place is meant, where no other is named.
    unread_by: str

    @property
    def is_search(self) -> bool:
        return bool(self.filter.strip() or self.key)

    def wanted(self) -> Predicate:
        try:
            fits = compile_expression(self.filter)
        except InvalidExpression as error:
            raise WrongInput(f"The filter cannot be understood: {error}.") from None
        if not self.key:
            return fits
        key = self.key
        return lambda record: _text(record["key"]) == key and fits(record)


def _text(value: Any) -> str:
    return shown(value) if value is not None else ""


async def asked(call: ConsoleCall) -> Asked:
    topic = await found_topic(call)
    chosen = call.text("partition") or ""
    indexes = [each.index for each in topic.partitions]
    if chosen:
        index = digits(chosen)
        if index not in indexes:
            raise WrongInput(f"The topic has no partition {chosen[:20]!r}; it has 0 to {len(indexes) - 1}.")
        indexes = [index]
    return Asked(
        topic,
        tuple(TopicPartition(topic.name, index) for index in indexes),
        (call.text("from") or "").strip(),
        call.text("filter") or "",
        call.text("key") or "",
        call.flag("uncommitted"),
        min(max(call.number("limit", PAGE), 1), 500),
        "" if call.text("at") or (call.text("from") or "").strip() else call.text("unread_by") or "",
    )


def positions_text(positions: dict[TopicPartition, int]) -> str:
    return ",".join(f"{each.partition}:{offset}" for each, offset in sorted(positions.items()))


def read_positions(text: str, given: tuple[TopicPartition, ...]) -> dict[TopicPartition, int]:
    """``0:42,1:17`` for the partitions that are asked for."""
    found: dict[TopicPartition, int] = {}
    by_index = {each.partition: each for each in given}
    for part in text.split(","):
        before, _, after = part.partition(":")
        index, offset = digits(before), digits(after)
        if index is None or offset is None:
            raise WrongInput(f"{text[:40]!r} names no places: they are written PARTITION:OFFSET,…")
        if index in by_index:
            found[by_index[index]] = offset
    return found


async def starts_of(
    call: ConsoleCall, workspace: Workspace, wanted: Asked
) -> dict[TopicPartition, int] | None:
    """Where to begin: at an offset, a time, the beginning, where a group is; None for the newest."""
    if wanted.unread_by:
        return await _unread(workspace, wanted, wanted.unread_by)
    if call.text("at"):
        return read_positions(call.text("at") or "", wanted.partitions)
    place = wanted.place
    if not place or place == "latest":
        return None
    if place == "earliest":
        return await workspace.offsets(wanted.partitions, EARLIEST)
    number = digits(place)
    if number is not None and number < _SMALLEST_TIME_MS:
        return dict.fromkeys(wanted.partitions, number)
    try:
        moment_ms = time_ms(place.removeprefix("@"), workspace.clock.now_ms())
    except ValueError:
        raise WrongInput(
            f"{place[:40]!r} is no place: it is an offset, 'earliest', 'latest', or {HOW_TO_WRITE}."
        ) from None
    ends = await ends_of(workspace, wanted.partitions, level_of(wanted.everything))
    found = await workspace.offsets(wanted.partitions, moment_ms)
    return {tp: ends.get(tp, 0) if found.get(tp, -1) < 0 else found[tp] for tp in wanted.partitions}


async def _unread(workspace: Workspace, wanted: Asked, group: str) -> dict[TopicPartition, int]:
    """What a group has not read yet: from its committed offsets on."""
    committed = await (await workspace.groups()).committed(group, wanted.partitions)
    begins = await workspace.offsets(wanted.partitions, EARLIEST)
    return {
        each: place.offset
        if isinstance(place := committed.get(each), CommittedOffset)
        else begins.get(each, 0)
        for each in wanted.partitions
    }


async def messages(call: ConsoleCall) -> Any:
    workspace = await call.workspace()
    wanted = await asked(call)
    here = f"{call.here('topics', wanted.topic.name)}/messages"
    try:
        fits = wanted.wanted()
        starts = await starts_of(call, workspace, wanted)
    except WrongInput as error:
        return call.show(
            f"Messages of {wanted.topic.name}",
            *frame(call, wanted.topic, "Messages"),
            refusal(str(error)),
            _toolbar(call, wanted, here),
            active="topics",
            status=400,
        )
    masks = call.console.masks.of(wanted.topic.name)
    level = level_of(wanted.everything)
    note: Content = None
    more: Content = None
    stream: str | None = None
    if wanted.is_search:
        # With a script the page asks for the stream; without one it has what was found in a short time.
        if call.text("noscript"):
            begin = starts if starts is not None else await workspace.offsets(wanted.partitions, EARLIEST)
            found, note, more = await _short_search(call, workspace, wanted, fits, begin)
        else:
            found = Found([], {}, True)
            stream = query(f"{here}/search", **_kept(call, wanted), **_place(call, wanted))
    elif call.flag("live"):
        found = Found([], {}, True)
        stream = query(f"{here}/tail", **_kept(call, wanted))
    elif starts is None:
        ends = await _newest_ends(call, workspace, wanted)
        found = await newest(workspace, masks, ends, wanted.limit, level=level)
        more = _older(call, wanted, found, here)
    else:
        found = await onwards(workspace, masks, starts, wanted.limit, level=level)
        if found.more and len(found.positions) <= _MOST_POSITIONS:
            more = link(query(here, **_kept(call, wanted), at=positions_text(found.positions)), "Next →")
    if not found.complete:
        note = "The cluster was slow: not everything could be read in ten seconds."
    elif found.more and more is None and not wanted.is_search:
        note = "There is more: choose a partition to go on, as there are too many for one address."
    return call.show(
        f"Messages of {wanted.topic.name}",
        *frame(call, wanted.topic, "Messages"),
        _toolbar(call, wanted, here),
        _explain(call, wanted),
        p(note, class_="note") if note else None,
        _status(call, wanted, stream),
        _table(call, found, stream, live=call.flag("live")),
        tag("nav", more, class_="pager") if more else None,
        active="topics",
    )


def _kept(call: ConsoleCall, wanted: Asked) -> dict[str, Any]:
    """The parameters that links of the page carry on."""
    return {
        "partition": call.text("partition"),
        "filter": wanted.filter,
        "key": wanted.key,
        "uncommitted": wanted.everything,
        "limit": wanted.limit if wanted.limit != PAGE else None,
    }


def _place(call: ConsoleCall, wanted: Asked) -> dict[str, Any]:
    """The parameters that say where to begin."""
    return {"from_": wanted.place or None, "at": call.text("at"), "unread_by": wanted.unread_by}


def search_on(call: ConsoleCall, wanted: Asked, positions: dict[TopicPartition, int], **more: bool) -> str:
    """Where a search that was ended goes on; "" where there are too many places for an address."""
    if len(positions) > _MOST_POSITIONS:
        return ""
    here = f"{call.here('topics', wanted.topic.name)}/messages"
    return query(here, **_kept(call, wanted), at=positions_text(positions), **more)


def _older(call: ConsoleCall, wanted: Asked, found: Found, here: str) -> Content:
    if not found.more or len(found.positions) > _MOST_POSITIONS:
        return None
    return link(query(here, **_kept(call, wanted), before=positions_text(found.positions)), "← Older")


async def _short_search(
    call: ConsoleCall,
    workspace: Workspace,
    wanted: Asked,
    fits: Predicate,
    begin: dict[TopicPartition, int],
) -> tuple[Found, Content, Content]:
    records: list[ShownRecord] = []
    masks = call.console.masks.of(wanted.topic.name)
    level = level_of(wanted.everything)
    said, positions, whole = "", begin, False
    async for some, progress in search(
        workspace, masks, begin, fits, limit=wanted.limit, seconds=_SEARCH_SECONDS, level=level
    ):
        records += some
        positions, whole = progress.positions, progress.done >= progress.total
        said = f"{looked_at(progress.scanned, len(records))}; {progress.ended}."
    on = "" if whole else search_on(call, wanted, positions, noscript=True)
    return Found(records, {}, True), said, link(on, "Search on →") if on else None


def _toolbar(call: ConsoleCall, wanted: Asked, here: str) -> Markup:
    choices = [
        ("", "all partitions"),
        *((str(each.index), f"partition {each.index}") for each in wanted.topic.partitions[:1000]),
    ]
    place = call.text("at") or call.text("before")
    return tag(
        "form",
        labelled(
            "From",
            text_input(
                "from",
                "" if place else wanted.place,
                placeholder="latest, earliest, 42, 10m ago, 2026-01-31T12:00Z",
                class_="mono",
                size=26,
                list="places",
            ),
        ),
        tag(
            "datalist",
            [tag("option", value=each) for each in ("latest", "earliest", "10m ago", "1h ago", "1d ago")],
            id="places",
        ),
        labelled("Partition", select("partition", choices, call.text("partition") or "")),
        labelled("Key", text_input("key", wanted.key, class_="mono short", placeholder="exactly")),
        tag(
            "label",
            span("Filter"),
            text_input(
                "filter",
                wanted.filter,
                placeholder='value.price > 100 and value.town == "Brno"',
                class_="mono",
                data_search=True,
            ),
            class_="wide",
        ),
        tag(
            "label",
            tag(
                "input", type="checkbox", name="uncommitted", value="true", checked=wanted.everything or None
            ),
            span("also uncommitted"),
            class_="check",
        ),
        hidden("unread_by", wanted.unread_by) if wanted.unread_by else None,
        tag("button", "Show"),
        link(query(here, **_kept(call, wanted), live=True), "Live", class_="button quiet"),
        tag("span", "Download ", _files(call, wanted, here), class_="note"),
        method="get",
        action=here,
        class_="card toolbar",
    )


def _files(call: ConsoleCall, wanted: Asked, here: str) -> Content:
    """Links to the same records as files."""
    keep = _kept(call, wanted) | _place(call, wanted) | {"before": call.text("before")}
    names = {"json": "JSON", "csv": "CSV", "parquet": "Parquet"}
    return [
        [link(query(f"{here}/download", **keep, format=form), names[form]), " "]
        for form in downloads.formats()
    ]


def _explain(call: ConsoleCall, wanted: Asked) -> Content:
    group = wanted.unread_by
    if group:
        view = link(query(call.here("groups", "view"), group=group), group)
        return p(
            "What the group ",
            view,
            " has not read yet: everything after its committed offsets.",
            class_="note",
        )
    return None


def _status(call: ConsoleCall, wanted: Asked, stream: str | None) -> Content:
    if stream is None:
        return None
    here = f"{call.here('topics', wanted.topic.name)}/messages"
    plain = query(here, **_kept(call, wanted), **_place(call, wanted), noscript=True)
    return tag(
        "p",
        tag(
            "span",
            "Waiting for new records …" if call.flag("live") else "Searching …",
            id="stream-status",
            role="status",
        ),
        " ",
        None if call.flag("live") else tag("progress", value=0, max=1, id="stream-progress"),
        " ",
        tag("button", "Stop", type="button", id="stream-stop", class_="quiet", disabled=True),
        " ",
        link(here, "Search on →", id="stream-more", hidden=True),
        " ",
        None if call.flag("live") else tag("noscript", link(plain, "Search without a script")),
        class_="note",
    )


def _table(call: ConsoleCall, found: Found, stream: str | None, *, live: bool) -> Markup:
    if not found.records and stream is None:
        words = "No record is here."
        if found.more:
            words = (
                "The newest offsets have no record (compacted, or the ends of transactions). Look further."
            )
        return card("", p(words, class_="empty"))
    head = tag(
        "tr",
        number_head("Partition"),
        number_head("Offset"),
        [tag("th", each, scope="col") for each in ("Time (UTC)", "Key", "Value", "Headers")],
    )
    rows = [record_row(call, each) for each in found.records]
    return card(
        "",
        tag(
            "div",
            tag(
                "table",
                tag("thead", head),
                tag("tbody", rows),
                class_="records",
                data_stream=stream,
                data_order="newest" if live else None,
                data_most=500,
            ),
            class_="scroll",
            tabindex=0,
        ),
    )


def record_row(call: ConsoleCall, record: ShownRecord) -> Markup:
    here = f"{call.here('topics', record.topic)}/messages/one"
    place = query(here, partition=record.partition, offset=str(record.offset))
    names = [badge(_cut(f"{name}: {text}", 40)) for name, text in record.headers[:3]]
    more = len(record.headers) - 3
    return tag(
        "tr",
        number_cell(record.partition),
        number_cell(link(place, str(record.offset))),
        tag("td", moment(record.timestamp), class_="time"),
        tag("td", _preview(record.key), class_="key"),
        tag("td", _preview(record.value), class_="value"),
        tag("td", [[each, " "] for each in names], badge(f"{more} more") if more > 0 else None),
    )


def _preview(decoded: Decoded) -> Content:
    if decoded.form == "null":
        return badge("null")
    text = _cut(shown(decoded.value), _PREVIEW)
    mark = badge(decoded.form) if decoded.form not in ("text", "json") else None
    warn = badge("not decoded", "warn") if decoded.problem else None
    return [tag("span", text, class_="preview"), mark, warn]


def _cut(text: str, most: int) -> str:
    return text if len(text) <= most else f"{text[: most - 1]}…"


async def one_message(call: ConsoleCall) -> Any:
    """One record in full."""
    workspace = await call.workspace()
    topic = await found_topic(call)
    partition = TopicPartition(topic.name, call.number("partition", 0))
    offset = call.number("offset", 0)
    if not 0 <= partition.partition < len(topic.partitions):
        raise WrongInput(f"The topic has no partition {partition.partition}.")
    found = await one(workspace, call.console.masks.of(topic.name), partition, offset)
    here = f"{call.here('topics', topic.name)}/messages"
    beside = [
        link(
            query(f"{here}/one", partition=partition.partition, offset=str(max(0, offset - 1))),
            "← Before",
            class_="button quiet",
        ),
        link(
            query(f"{here}/one", partition=partition.partition, offset=str(offset + 1)),
            "Next →",
            class_="button quiet",
        ),
        link(
            query(here, partition=partition.partition, from_=str(offset)),
            "In the list",
            class_="button quiet",
        ),
    ]
    if found is None:
        words = (
            f"There is no record at offset {offset} of partition {partition.partition}: it was deleted or "
            "compacted, is a marker of a transaction, or is not written yet."
        )
        body: Content = card("", p(words, class_="empty"))
    else:
        body = _record(call, found[0])
    return call.show(
        f"{topic.name} {partition.partition}@{offset}",
        *frame(call, topic, "Messages", *beside),
        body,
        active="topics",
    )


def _record(call: ConsoleCall, record: ShownRecord) -> Content:
    facts: list[tuple[str, Content]] = [
        ("Partition", record.partition),
        ("Offset", count(record.offset)),
        ("Time", f"{moment(record.timestamp)} UTC"),
        ("Size", size(record.size)),
        ("Key as", record.key.form + (f", schema {record.key.schema}" if record.key.schema else "")),
        ("Value as", record.value.form + (f", schema {record.value.schema}" if record.value.schema else "")),
    ]
    again = None
    if not call.read_only:
        again = card(
            "Send it again",
            tag(
                "form",
                call.token(),
                hidden("partition", record.partition),
                hidden("offset", record.offset),
                labelled("To topic", text_input("to", record.topic)),
                tag("button", "Send it again", class_="quiet"),
                method="post",
                action=f"{call.here('topics', record.topic)}/messages/again",
                class_="inline",
            ),
            p("The same key, value and headers, byte by byte, at the end of the topic.", class_="note"),
        )
    return [
        card("", tag("dl", [[tag("dt", name), tag("dd", value)] for name, value in facts])),
        card("Key", _full(record.key)),
        card("Value", _full(record.value)),
        card(
            "Headers",
            tag("dl", [[tag("dt", code(name)), tag("dd", text)] for name, text in record.headers])
            if record.headers
            else p("None.", class_="empty"),
        ),
        again,
    ]


def _full(decoded: Decoded) -> Content:
    if decoded.form == "null":
        return p("null", class_="empty")
    warning = (
        p(f"Not decoded by its schema: {decoded.problem}", class_="message bad") if decoded.problem else None
    )
    if isinstance(decoded.value, str):
        return [warning, tag("pre", decoded.value)]
    return [warning, tag("pre", json.dumps(decoded.value, indent=2, ensure_ascii=False, default=str))]


async def download_messages(call: ConsoleCall) -> Any:
    workspace = await call.workspace()
    wanted = await asked(call)
    form = call.choice("format", downloads.formats())
    masks = call.console.masks.of(wanted.topic.name)
    level = level_of(wanted.everything)
    starts = await starts_of(call, workspace, wanted)
    ends: dict[TopicPartition, int] | None = None
    if starts is None:
        starts = await workspace.offsets(wanted.partitions, EARLIEST)
        if not wanted.is_search:
            ends = await _newest_ends(call, workspace, wanted)
            each = max(1, downloads.MAX_RECORDS // len(wanted.partitions))
            starts = {tp: max(begin, ends[tp] - each) for tp, begin in starts.items() if tp in ends}
    async with call.console.downloads:
        records: list[ShownRecord] = []
        whole = False
        async for some, progress in search(
            workspace,
            masks,
            starts,
            wanted.wanted(),
            limit=downloads.MAX_RECORDS,
            seconds=30.0,
            level=level,
            ends=ends,
        ):
            records += some
            whole = progress.done >= progress.total
        call.note("download", f"{wanted.topic.name}: {len(records)} records as {form}")
        data = await workspace.blocking(lambda: downloads.made(form, records))
    name = f"{wanted.topic.name}{'' if whole else '-part'}.{'jsonl' if form == 'json' else form}"
    return download(data, downloads.media_type(form), name)


async def _newest_ends(call: ConsoleCall, workspace: Workspace, wanted: Asked) -> dict[TopicPartition, int]:
    """Before which offsets the newest records stand: those of the page, which may be an older one."""
    before = call.text("before")
    if before:
        return read_positions(before, wanted.partitions)
    return await ends_of(workspace, wanted.partitions, level_of(wanted.everything))
