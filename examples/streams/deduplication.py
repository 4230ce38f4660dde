"""Lets an event pass once within ten minutes, by its id; a punctuation forgets ids that are older."""

from moldau.streams import (
    Consumed,
    Processor,
    ProcessorContext,
    Produced,
    Record,
    Serdes,
    Stores,
    StreamsBuilder,
)

KEPT_MS = 10 * 60 * 1000


class Deduplicate(Processor[str, str]):
    def init(self, context: ProcessorContext) -> None:
        super().init(context)
        self.seen = context.store("seen")
        context.schedule(60_000, "stream_time", self.forget)

    def process(self, record: Record) -> None:
        last = self.seen.get(record.key)
        if last is None or record.timestamp - last >= KEPT_MS:
            self.seen.put(record.key, record.timestamp)
            self.context.forward(record)

    def forget(self, time: int) -> None:
        for event_id, last in self.seen.all():
            if last <= time - KEPT_MS:
                self.seen.delete(event_id)


builder = StreamsBuilder()

(
    builder.stream("events", Consumed.with_(Serdes.string(), Serdes.string()))
    .process_values(Deduplicate, stores=[Stores.key_value("seen", key_serde=Serdes.string())])
    .to("events-once", Produced.with_(Serdes.string(), Serdes.string()))
)

topology = builder.build()
