"""Clicks with the profile of the user, and with what he searched for within a second."""

from typing import Any

from moldau.streams import Consumed, JoinWindows, Produced, Serdes, StreamsBuilder

builder = StreamsBuilder()
json = Consumed.with_(Serdes.string(), Serdes.json())

views = builder.stream("clicks.pages.views", json)
profiles = builder.table("clicks.user.profile", "profiles", json)
searches = builder.stream("clicks.search", json)


def with_profile(view: dict[str, Any], profile: dict[str, Any] | None) -> dict[str, Any]:
    return {**view, "name": profile["name"] if profile else None}


def with_search(view: dict[str, Any], search: dict[str, Any] | None) -> dict[str, Any]:
    return {**view, "search": search["terms"] if search else ""}


(
    views.left_join(profiles, with_profile)
    .left_join(searches, with_search, JoinWindows.of_time_difference_with_no_grace(1_000))
    .to("clicks.user.activity", Produced.with_(Serdes.string(), Serdes.json()))
)

topology = builder.build()
