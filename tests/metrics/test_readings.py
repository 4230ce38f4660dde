"""Sources by domain and type: each is asked only when it is wanted."""

from collections.abc import Iterable

from moldau.metrics.readings import Reading, Sources, one
from moldau.metrics.table import Metric

ONE, TWO = Metric("a", "One", "X", "x"), Metric("a", "Two", "Y", "y")


def test_only_what_is_wanted_is_asked() -> None:
    asked: list[str] = []

    def source(metric: Metric) -> Iterable[Reading]:
        asked.append(metric.type)
        yield one(metric, 1)

    sources = Sources()
    sources.add("a", "One", lambda: source(ONE))
    sources.add("a", "Two", lambda: source(TWO))
    assert [each.metric for each in sources.read("a", "Two")] == [TWO]
    assert asked == ["Two"]
    assert [each.metric for each in sources] == [ONE, TWO]
    assert sources.kinds() == [("a", "One"), ("a", "Two")]
    assert list(sources.read("b", "One")) == []
