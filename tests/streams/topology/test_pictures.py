"""Pictures of topologies."""

from xml.etree import ElementTree

from moldau.streams import JoinWindows, StreamsBuilder
from moldau.streams.topology.pictures import svg_picture, text_picture
from moldau.streams.topology.topology import Topology


def joined() -> Topology:
    builder = StreamsBuilder()
    left, right = builder.stream("l"), builder.stream("<r>")
    window = JoinWindows.of_time_difference_with_no_grace(10)
    left.join(right, lambda one, other: one, window).group_by(lambda value: value).count("c").to_stream().to(
        "o"
    )
    return builder.build()


def test_the_terminal_shows_every_operator_once() -> None:
    lines = text_picture(joined())
    assert lines[0] == "Sub-topology 0"
    assert lines[1] == "  ▶ l"
    assert "Sub-topology 1" in lines
    assert sum("KSTREAM-MERGE-0000000006" in line for line in lines) == 2
    assert sum("↑ KSTREAM-MERGE-0000000006" in line for line in lines) == 1
    assert lines[-1].endswith("■ o")


def test_svg_is_well_formed_and_has_a_box_for_every_operator() -> None:
    topology = joined()
    root = ElementTree.fromstring(svg_picture(topology))
    boxes = [each for each in root.iter() if each.tag.endswith("rect")]
    assert len(boxes) == len(topology.nodes)
    assert any(each.text == "<r>" for each in root.iter())
