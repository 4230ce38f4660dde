"""The processors of the vectors: what each does with a record, and at a punctuation.

Invariant: written with what a program has, ``Processor`` and its context.
"""

from typing import Any

from moldau.streams import Processor, ProcessorContext, Record

_KINDS = {"STREAM_TIME": "stream_time", "WALL_CLOCK_TIME": "wall_clock_time"}


class VectorProcessor(Processor[Any, Any]):
    def __init__(self, step: dict[str, Any]) -> None:
        self.step = step

    def init(self, context: ProcessorContext) -> None:
        super().init(context)
        self.store = context.store(self.step["store"]) if "store" in self.step else None
        self.schedules = []
        for number, punctuation in enumerate(self.step.get("punctuate", ())):
            self.schedules.append(
                context.schedule(
                    punctuation["interval_ms"],
                    _KINDS[punctuation["type"]],  # type: ignore[arg-type]
                    lambda time, number=number, each=punctuation: self.punctuate(number, each, time),
                    start_ms=punctuation.get("start_ms"),
                )
            )

    def process(self, record: Record) -> None:
        getattr(self, f"on_{self.step['on_record']}")(record)

    # --- records --------------------------------------------------------------------------------

    def on_forward(self, record: Record) -> None:
        self.context.forward(record)

    def on_drop(self, record: Record) -> None:
        """Nothing."""

    def on_twice(self, record: Record) -> None:
        self.context.forward(record)
        self.context.forward(record)

    def on_context(self, record: Record) -> None:
        metadata = self.context.record_metadata()
        value = {
            "value": record.value,
            "timestamp": record.timestamp,
            "stream_time": self.context.current_stream_time_ms(),
            "topic": metadata.topic,
            "partition": metadata.partition,
            "offset": metadata.offset,
        }
        self.context.forward(record.with_(value=value))

    def _count(self, record: Record) -> int:
        count = (self.store.get(record.key) or 0) + 1
        self.store.put(record.key, count)
        return count

    def on_count_forward(self, record: Record) -> None:
        self.context.forward(record.with_(value=self._count(record)))

    def on_count_store(self, record: Record) -> None:
        self._count(record)

    def on_last_store(self, record: Record) -> None:
        self.store.put(record.key, {"value": record.value, "ts": record.timestamp})

    def on_dedup(self, record: Record) -> None:
        last = self.store.get(record.key)
        if last is None or record.timestamp - last >= self.step["ttl_ms"]:
            self.store.put(record.key, record.timestamp)
            self.context.forward(record)

    def on_delta(self, record: Record) -> None:
        before = self.store.get(record.key)
        self.store.put(record.key, record.value)
        self.context.forward(record.with_(value=0 if before is None else record.value - before))

    def on_fan_out(self, record: Record) -> None:
        self.context.forward(record.with_(key=f"{record.key}1"))
        self.context.forward(record.with_(key=f"{record.key}2", timestamp=record.timestamp + 5))

    def on_shift_time(self, record: Record) -> None:
        self.context.forward(record.with_(timestamp=record.timestamp + self.step["by_ms"]))

    def on_add_header(self, record: Record) -> None:
        header = (self.step.get("name_of_header", "added"), self.step.get("header_value", "1"))
        self.context.forward(record.with_(headers=(*record.headers, header)))

    # --- punctuation ----------------------------------------------------------------------------

    def punctuate(self, number: int, punctuation: dict[str, Any], time: int) -> None:
        match punctuation["action"]:
            case "mark":
                value = {
                    "at": time,
                    "stream_time": self.context.current_stream_time_ms(),
                    "metadata_present": self.context.record_metadata() is not None,
                }
                self.context.forward(Record("punctuate", value, time))
            case "mark_once":
                self.context.forward(Record("once", {"at": time}, time))
                self.schedules[number].cancel()
            case "flush":
                for key, value in self.store.all():
                    self.context.forward(Record(key, value, time))
                    self.store.delete(key)
            case "expire":
                for key, value in self.store.all():
                    if value["ts"] <= time - punctuation["ttl_ms"]:
                        self.store.delete(key)
                        self.context.forward(Record(key, None, time))
