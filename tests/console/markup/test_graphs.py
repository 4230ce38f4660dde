"""Graphs as boxes and arrows."""

from dataclasses import dataclass
from xml.etree import ElementTree

from moldau.console.markup.graphs import graph, layers


@dataclass(frozen=True)
class Node:
    id: str
    after: tuple[str, ...] = ()
    kind: str = "processor"
    detail: str = ""

    @property
    def label(self) -> str:
        return self.id


def test_a_node_stands_below_all_that_leads_to_it() -> None:
    nodes = [Node("a", ("b", "d")), Node("b", ("c",)), Node("c", ("d",)), Node("d"), Node("e", ("d",))]
    assert layers(nodes) == [["a", "e"], ["b"], ["c"], ["d"]]


def test_children_stand_below_their_parents() -> None:
    nodes = [Node("a", ("x",)), Node("b", ("y",)), Node("y"), Node("x")]
    assert layers(nodes)[1] == ["x", "y"]


def test_circles_and_arrows_to_nowhere_are_drawn_too() -> None:
    nodes = [Node("a", ("b",)), Node("b", ("a", "nobody")), Node("c", ("c",))]
    assert sorted(id_ for row in layers(nodes) for id_ in row) == ["a", "b", "c"]
    assert layers([]) == []
    assert "<svg" in graph([], "nothing")


def test_what_others_wrote_is_text_and_links_lead_to_topics() -> None:
    nodes = [Node("<script>", ("t",), "source"), Node("t", (), "sink", "a store")]
    drawn = graph(nodes, "a <b>", lambda id_: "/c/x/topics/t" if id_ == "t" else None)
    root = ElementTree.fromstring(drawn)
    assert len([each for each in root.iter() if each.tag == "rect"]) == 2
    assert [each.get("href") for each in root.iter("a")] == ["/c/x/topics/t"]
    assert "<script" not in drawn
    assert "style=" not in drawn


def test_long_names_keep_their_ends() -> None:
    drawn = graph([Node("KSTREAM-AGGREGATE-STATE-STORE-0000000003-repartition")], "one")
    assert "KSTREAM-AGGREG…03-repartition</text>" in drawn
