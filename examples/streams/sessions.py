"""Visits: the pages of a user with no pause longer than half an hour, sent once, when the visit is over."""

from datetime import timedelta

from moldau.streams import (
    Consumed,
    Produced,
    Serdes,
    SessionWindows,
    StreamsBuilder,
    Suppressed,
)

builder = StreamsBuilder()
pause = timedelta(minutes=30)

(
    builder.stream("page-views", Consumed.with_(Serdes.string(), Serdes.string()))
    .group_by_key()
    .windowed_by(SessionWindows.of_inactivity_gap_and_grace(pause, timedelta(minutes=1)))
    .aggregate(
        list,
        lambda user, page, pages: [*pages, page],
        "visits",
        merger=lambda user, earlier, later: [*earlier, *later],
    )
    .suppress(Suppressed.until_window_closes())
    .to_stream(lambda visit, pages: visit.key)
    .to("visits-over", Produced.with_(Serdes.string(), Serdes.json()))
)

topology = builder.build()
