"""The picture of a run is an SVG that names faults and writers."""

import xml.etree.ElementTree as ElementTree

from tests.cluster_faults.real_faults import Fault
from tests.cluster_faults.timeline import draw, longest_silence


def test_a_picture() -> None:
    faults = [Fault(11.0, 12.0, 13.0, "kill, broker 1"), Fault(14.0, 14.5, 15.0, "kill, broker <2>")]
    svg = draw("seed 1", 10.0, 20.0, faults, {"writer0": [10.5, 11.0, 13.5, 19.0]})
    root = ElementTree.fromstring(svg)
    texts = [element.text for element in root.iter() if element.tag.endswith("text")]
    assert texts.count("kill") == 1
    assert "writer0" in texts
    assert "longest silence 5.5 s" in texts
    titles = [element.text for element in root.iter() if element.tag.endswith("title")]
    assert titles == [
        "kill, broker 1: 1.0 s, well again after 1.0 s",
        "kill, broker <2>: 0.5 s, well again after 0.5 s",
    ]


def test_silence() -> None:
    assert longest_silence(0.0, 10.0, [1.0, 2.0, 9.0]) == 7.0
    assert longest_silence(0.0, 10.0, []) == 10.0
