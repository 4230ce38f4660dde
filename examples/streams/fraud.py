"""Cards that pay in two countries within a minute."""

from typing import Any

from moldau.streams import Consumed, JoinWindows, Produced, Serdes, StreamsBuilder

builder = StreamsBuilder()
payments = builder.stream("payments", Consumed.with_(Serdes.string(), Serdes.json()))


def pair(card: str, one: dict[str, Any], other: dict[str, Any]) -> dict[str, Any]:
    return {"card": card, "countries": sorted({one["country"], other["country"]})}


(
    payments.join(payments, pair, JoinWindows.of_time_difference_with_no_grace(60_000))
    .filter(lambda alarm: len(alarm["countries"]) == 2)
    .to("alarms", Produced.with_(Serdes.string(), Serdes.json()))
)

topology = builder.build()
