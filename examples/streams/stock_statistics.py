"""Statistics of trades for each ticker: windows of five seconds, a new one every second."""

from dataclasses import dataclass

from moldau.streams import Consumed, Produced, Serdes, StreamsBuilder, TimeWindows


@dataclass(frozen=True)
class Trade:
    ticker: str
    price: float
    size: int


@dataclass(frozen=True)
class Statistics:
    count: int = 0
    total: float = 0.0
    lowest: float | None = None

    def with_trade(self, trade: Trade) -> "Statistics":
        lowest = trade.price if self.lowest is None else min(self.lowest, trade.price)
        return Statistics(self.count + 1, self.total + trade.price, lowest)

    @property
    def average(self) -> float:
        return self.total / self.count


builder = StreamsBuilder()

(
    builder.stream("stocks", Consumed.with_(Serdes.string(), Serdes.json(Trade)))
    .group_by_key()
    .windowed_by(TimeWindows.of_size_with_no_grace(5_000).advance_by(1_000))
    .aggregate(Statistics, lambda ticker, trade, so_far: so_far.with_trade(trade), "trade-statistics")
    .map_values(lambda statistics: {"lowest": statistics.lowest, "average": statistics.average})
    .to_stream()
    .to("stock-statistics", Produced.with_(Serdes.time_windowed(Serdes.string(), 5_000), Serdes.json()))
)

topology = builder.build()
