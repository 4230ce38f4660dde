"""Damaged and hostile bytes: every reader returns a message or raises ``MalformedMessage``, nothing else.

The usual run is short and always the same. ``MOLDAU_FUZZ_SECONDS=600 pytest tests/protocol/test_fuzz.py -s``
goes on for that long with seeds of its own; the seed of a failure is in its message. One test is guided by
what it reaches: an input that runs a new line of a generated reader (a field, a length, a branch) is kept and
damaged further.
"""

import contextlib
import os
import random
import sys
import time
import tracemalloc
from collections.abc import Iterator
from pathlib import Path
from types import FrameType
from typing import Any

import pytest

import moldau.protocol.messages
from moldau.protocol import codec
from moldau.protocol.api_keys import ApiKey
from moldau.protocol.consumer_protocol import ConsumerProtocolAssignment, ConsumerProtocolSubscription
from moldau.protocol.framing import skip_header_tags
from moldau.protocol.messages import load
from moldau.protocol.primitives import MalformedMessage
from moldau.protocol.schema import declaration

pytestmark = pytest.mark.slow

_SECONDS = float(os.environ.get("MOLDAU_FUZZ_SECONDS", "0"))
_FILES = {path.stem for path in Path(moldau.protocol.messages.__file__).parent.glob("*.py")}
_APIS = [api_key for api_key in ApiKey if api_key.name.lower() in _FILES]
_CLASSES = [
    *(cls for api_key in _APIS for cls in load(api_key)),
    ConsumerProtocolSubscription,
    ConsumerProtocolAssignment,
]
#: What a hostile client writes where a length is expected, in the old and in the compact notation.
_HOSTILE = [
    bytes.fromhex(text)
    for text in (
        "ff ff ff ff",
        "7f ff ff ff",
        "80 00 00 00",
        "00 ff ff ff",
        "7f ff",
        "80 00",
        "ff ff ff ff 0f",
        "ff ff ff ff 07",
        "ff ff ff ff ff ff ff ff 7f",
        "80 80 80 80 00",
        "ff 7f",
        "00",
    )
]


def _versions(cls: type) -> range:
    return range(declaration(cls).versions.first, declaration(cls).versions.last + 1)


def _read(cls: type, version: int, frame: bytes) -> Any:
    """The message, or None if it is malformed. Another exception or a position past the end is a failure."""
    try:
        message, position = codec.reader(cls, version)(memoryview(frame), 0)
    except MalformedMessage:
        return None
    assert 0 <= position <= len(frame)
    return message


def _survives(cls: type, version: int, frame: bytes) -> None:
    message = _read(cls, version, frame)
    if message is not None:  # it is a message: then it can be written, and read again as the same
        written = codec.encode(message, version)
        assert codec.encode(_read(cls, version, written), version) == written


def _damaged(frame: bytes, chance: random.Random) -> Iterator[bytes]:
    """A few variants of a frame."""
    flipped = bytearray(frame)
    for _ in range(chance.randint(1, 6)):
        if flipped:
            flipped[chance.randrange(len(flipped))] = chance.choice(
                (0, 1, 0x7F, 0x80, 0xFF, chance.randrange(256))
            )
    yield bytes(flipped)
    position, hostile = chance.randrange(len(frame) + 1), chance.choice(_HOSTILE)
    yield frame[:position] + hostile + frame[position + len(hostile) :]
    yield frame[:position] + hostile + frame[position:]
    yield frame[:position] + frame[position + chance.randrange(20) :]
    yield chance.randbytes(chance.randrange(200))


@pytest.mark.parametrize("cls", _CLASSES)
def test_a_message_that_is_cut_anywhere_is_malformed(cls: type, random_messages: Any) -> None:
    for version in _versions(cls):
        frames = [codec.encode(random_messages(seed).message(cls, version), version) for seed in range(6)]
        frame = max(frames, key=lambda frame: len(frame) if len(frame) < 600 else -len(frame))
        assert _read(cls, version, frame) is not None
        for size in range(len(frame)):
            assert _read(cls, version, frame[:size]) is None, (version, size)


@pytest.mark.parametrize("cls", _CLASSES)
def test_damaged_messages(cls: type, random_messages: Any) -> None:
    for version in _versions(cls):
        for seed in range(10):
            frame = codec.encode(random_messages(seed).message(cls, version), version)
            for damaged in _damaged(frame, random.Random(seed)):
                _survives(cls, version, damaged)


@pytest.mark.parametrize("cls", _CLASSES)
def test_hostile_lengths_everywhere(cls: type, random_messages: Any) -> None:
    for version in {declaration(cls).versions.first, declaration(cls).versions.last}:
        frame = codec.encode(random_messages(1).message(cls, version), version)[:150]
        for position in range(len(frame)):
            for hostile in _HOSTILE:
                _survives(cls, version, frame[:position] + hostile + frame[position + len(hostile) :])


@pytest.mark.parametrize("cls", _CLASSES)
def test_in_steps_is_the_same(cls: type, random_messages: Any) -> None:
    for version in _versions(cls):
        message = random_messages(5).message(cls, version)
        frame = codec.encode(message, version)
        out = bytearray()
        for _ in codec.stepped_writer(cls, version)(message, out, []):
            pass
        assert out == frame
        assert _in_steps(codec.stepped_reader(cls, version)(memoryview(frame), 0, 1 << 20)) == (
            codec.reader(cls, version)(memoryview(frame), 0)
        )


def _in_steps(steps: Any) -> Any:
    while True:
        try:
            next(steps)
        except StopIteration as end:
            return end.value


def test_memory_is_bounded_by_the_frame() -> None:
    """A kilobyte can announce two thousand million elements; what a reader holds must stay in proportion."""
    frames = [bytes([byte]) * 1024 for byte in (0, 1, 2, 0x7F, 0x80, 0xFF)]
    frames += [(hostile * 1024)[:1024] for hostile in _HOSTILE]
    frames += [hostile + bytes([filler]) * 1020 for hostile in _HOSTILE for filler in (0, 1)]
    frames += [random.Random(seed).randbytes(1024) for seed in range(5)]
    tracemalloc.start()
    try:
        for cls in _CLASSES:
            for version in _versions(cls):
                _read(cls, version, b"")  # the reader itself is made here
                peak = max(_peak(cls, version, frame) for frame in frames)
                assert peak < 1 << 20, (cls.__name__, version, peak)
    finally:
        tracemalloc.stop()


def _peak(cls: type, version: int, frame: bytes) -> int:
    tracemalloc.reset_peak()
    before, _ = tracemalloc.get_traced_memory()
    _read(cls, version, frame)
    return tracemalloc.get_traced_memory()[1] - before


def test_tags_of_request_headers() -> None:
    for seed in range(2000):
        chance = random.Random(seed)
        frame = bytes.fromhex("00120004000001020005") + b"rdkaf" + bytes.fromhex("02 00 01 aa 05 00")
        for damaged in _damaged(frame, chance):
            with contextlib.suppress(MalformedMessage):
                assert 15 <= skip_header_tags(damaged, 15) <= len(damaged)


@pytest.mark.skipif(not _SECONDS, reason="MOLDAU_FUZZ_SECONDS is not set")
@pytest.mark.timeout(_SECONDS + 60)
def test_for_as_long_as_asked(random_messages: Any) -> None:
    start, frames = time.monotonic(), 0
    while time.monotonic() - start < _SECONDS:
        seed = random.randrange(2**32)
        chance = random.Random(seed)
        cls = chance.choice(_CLASSES)
        version = chance.choice(_versions(cls))
        frame = codec.encode(random_messages(seed).message(cls, version), version)
        for damaged in _damaged(frame, chance):
            try:
                _survives(cls, version, damaged)
            except Exception as error:
                raise AssertionError(f"{cls.__name__} v{version}, seed {seed}: {damaged.hex()}") from error
            frames += 1
    print(f"{frames} damaged frames")


# --- guided by coverage -----------------------------------------------------------------------------

_GUIDED_SECONDS = _SECONDS or 1.0
_SEED = int(os.environ.get("MOLDAU_SOAK_SEED", random.randrange(1 << 32)))
#: Inputs of one reader that are kept; more would only be damaged less often.
_KEPT_MOST = 40


class _Reached:
    """Notes the lines of generated readers that run."""

    def __init__(self) -> None:
        self.lines: set[tuple[str, int]] = set()
        self.found_new = False

    def __call__(self, frame: FrameType, event: str, arg: Any) -> Any:
        name = frame.f_code.co_filename
        if not name.startswith("<reader of"):
            return None
        place = (name, frame.f_lineno)
        if place not in self.lines:
            self.lines.add(place)
            self.found_new = True
        return self


def _targets() -> Iterator[tuple[type, int]]:
    for cls in _CLASSES:
        for version in _versions(cls):
            yield cls, version


@pytest.mark.timeout(_GUIDED_SECONDS + 120)
def test_inputs_that_lead_deeper(random_messages: Any) -> None:
    dice, reached = random.Random(_SEED), _Reached()
    corpus: dict[tuple[type, int], list[bytes]] = {}
    for cls, version in _targets():
        corpus[cls, version] = [codec.encode(random_messages(_SEED).message(cls, version), version), b""]
    targets = list(corpus)
    executions, deadline = 0, time.monotonic() + _GUIDED_SECONDS
    while time.monotonic() < deadline:
        cls, version = target = dice.choice(targets)
        inputs = corpus[target]
        for damaged in _damaged(dice.choice(inputs), dice):
            reached.found_new = False
            sys.settrace(reached)
            try:
                _survives(cls, version, damaged)
            except Exception as error:
                name = cls.__name__
                raise AssertionError(f"seed {_SEED}, {name} v{version}: {damaged.hex()}") from error
            finally:
                sys.settrace(None)
            executions += 1
            if reached.found_new and len(inputs) < _KEPT_MOST and len(damaged) < 1 << 16:
                inputs.append(damaged)
    kept = sum(map(len, corpus.values()))
    print(
        f"\nseed {_SEED}: {executions:,} executions over {len(targets)} readers reached "
        f"{len(reached.lines):,} lines; {kept:,} inputs kept; no failure"
    )
    assert executions
