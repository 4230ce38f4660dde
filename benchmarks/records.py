"""What the handling of record batches costs, piece by piece, beside the figure that each piece must keep.

Run it alone on a quiet machine: ``python -m benchmarks.records``. Each figure is the best of many rounds, in
microseconds. The first table is the path of every produced batch; records are decoded only off that path.
"""

import random
from collections.abc import Callable
from timeit import repeat

from moldau.protocol.compression import Compression, compress, decompress
from moldau.protocol.record_checks import check_records
from moldau.protocol.records import (
    HEADER_SIZE,
    BatchBuilder,
    Record,
    assign,
    crc_matches,
    decode_records,
    encode_batch,
    has_null_key,
    read_header,
)

RECORDS = 1000
NOW_MS = 1_767_225_600_000


def best(function: Callable[[], object], calls: int) -> float:
    """Microseconds of one call in the best of many rounds."""
    return min(repeat(function, number=calls, repeat=40)) / calls * 1e6


def batch_of(sizes: list[int]) -> bytearray:
    return encode_batch(
        [
            Record(index, NOW_MS + index // 50, b"key-%d" % index, bytes(size))
            for index, size in enumerate(sizes)
        ]
    )


def show(what: str, microseconds: float, target: float | None = None) -> None:
    verdict = "" if target is None else f"   target {target:g}{'' if microseconds <= target else '   MISSED'}"
    print(f"  {what:<58}{microseconds:9.3f}{verdict}")


def append_path() -> None:
    generator = random.Random(1)
    kinds = {
        "records of 100 bytes": batch_of([100] * RECORDS),
        "records of 10 to 300 bytes": batch_of([generator.randint(10, 300) for _ in range(RECORDS)]),
        "records of 2 to 40 bytes": batch_of([generator.randint(2, 40) for _ in range(RECORDS)]),
        "records of 1 to 20 kB": batch_of([generator.randint(1000, 20_000) for _ in range(RECORDS)]),
    }
    batch = kinds["records of 100 bytes"]
    frame = memoryview(bytearray(40) + batch)
    print("every produced batch, µs")
    show("read_header", best(lambda: read_header(frame, 40), 20_000), 0.6)
    show("assign", best(lambda: assign(frame, 40, 1, 1), 20_000), 0.3)
    show(f"crc_matches, {len(batch):,} bytes", best(lambda: crc_matches(frame, 40, len(batch)), 500))
    print("check_records, µs a record")
    highest = (RECORDS - 1) // 50
    for name, kind in kinds.items():
        payload = memoryview(kind)[HEADER_SIZE:]
        assert check_records(payload, RECORDS, highest)[1] == highest
        cost = (
            best(lambda payload=payload, highest=highest: check_records(payload, RECORDS, highest), 20)
            / RECORDS
        )
        show(name, cost, 0.1 if name == "records of 100 bytes" else 0.7)
    one = memoryview(batch_of([100]))[HEADER_SIZE:]
    show("a batch of one record", best(lambda: check_records(one, 1), 20_000))


def records() -> None:
    batch = batch_of([100] * RECORDS)
    header = read_header(batch)
    payload = memoryview(batch)[HEADER_SIZE:]
    decoded = decode_records(batch, 0, header, limit=1 << 20)
    value = bytes(100)

    def build() -> None:
        builder = BatchBuilder()
        for index in range(RECORDS):
            builder.append(b"key", value, (), NOW_MS + index // 50)
        builder.build()

    print("where records must be looked at, µs a record")
    show("has_null_key", best(lambda: has_null_key(payload, RECORDS), 20) / RECORDS)
    show("decode_records", best(lambda: decode_records(batch, 0, header, limit=1 << 20), 10) / RECORDS)
    show("encode_batch", best(lambda: encode_batch(decoded), 10) / RECORDS)
    show("BatchBuilder.append", best(build, 10) / RECORDS)


def codecs() -> None:
    generator = random.Random(2)
    text = b"".join(
        b'{"id":%d,"user":"u-%d","amount":%d}'
        % (index, generator.randrange(1000), generator.randrange(10**6))
        for index in range(25_000)
    )
    for size in (1_000, 16_000, 1_000_000):
        plain = text[:size]
        print(f"codecs, {size:,} bytes of JSON, µs" + " " * 32 + "compress   decompress   ratio")
        for codec in list(Compression)[1:]:
            packed = compress(codec, plain)
            calls = max(1, 200_000 // size)
            there = best(lambda codec=codec, plain=plain: compress(codec, plain), calls)
            back = best(lambda codec=codec, packed=packed: decompress(codec, packed, 1 << 24), calls)
            print(f"  {codec.label:<58}{there:9.1f}{back:13.1f}{len(plain) / len(packed):8.1f}")


if __name__ == "__main__":
    append_path()
    records()
    codecs()
