"""Any bytes in place of frames, segments and marks: only documented errors, bounded time."""

from __future__ import annotations

import os
import struct

import google_crc32c
import hypothesis.strategies as st
import pytest
from hypothesis import HealthCheck, given, settings

from s0d.journal import GAP, Record, dump, frame, layout, verify
from s0d.journal.disk import opened, opened_directory
from s0d.journal.mark import decode_slot
from s0d.journal.reader import Item, SegmentReader
from s0d.journal.record import decode_record, encode_record
from tests.journal.disks import SimDisk
from tests.journal.tools import contents, control, create, output, reopen

LONG = int(os.environ.get("S0D_FUZZ_EXAMPLES", "20000"))
PATH = "/journal"
NAME = layout.segment_name(1)
quick = settings(deadline=None, max_examples=60, suppress_health_check=list(HealthCheck))
long = settings(quick, max_examples=LONG)

values = st.recursive(
    st.none() | st.booleans() | st.integers(-(2**63), 2**64 - 1) | st.floats(allow_nan=False)
    | st.text() | st.binary(),
    lambda inner: st.lists(inner) | st.dictionaries(st.text(), inner),
    max_leaves=8,
)  # fmt: skip
records = st.builds(
    Record,
    st.integers(1, 2**53 - 1),
    st.integers(-(2**63), 2**63 - 1),
    st.integers(0, 2**31),
    st.none() | st.text(),
    st.text(),
    st.dictionaries(st.text(), values),
)


def sealed_segment() -> bytes:
    disk = SimDisk()
    journal = create(PATH, disk)
    for n in range(12):
        journal.append([control(n), output(300, n), output(3, n)])
    journal.close()
    return disk.files(PATH)[NAME]


SEGMENT = sealed_segment()


@given(records, st.sampled_from([0, frame.BULK]))
@quick
def test_a_record_comes_back_as_it_was(record: Record, flags: int) -> None:
    payload = encode_record(record)
    parsed = frame.parse(b"pad" + frame.encode_head(payload, flags) + payload, 3)
    assert (parsed.flags, decode_record(parsed.payload)) == (flags, record)


@given(st.binary(max_size=300), st.integers(0, 310))
@quick
def test_any_bytes_as_a_frame(data: bytes, offset: int) -> None:
    try:
        parsed = frame.parse(data, offset)
    except frame.BadFrame:
        return
    except frame.Incomplete as error:
        needed, parsed = error.needed, None
    if parsed is None:
        assert needed > len(data) - offset
        return
    assert offset + 8 < parsed.end <= len(data)
    assert frame.claimed_size(data, offset) == parsed.end - offset


@given(st.binary(max_size=200))
@quick
def test_any_bytes_in_a_whole_frame(payload: bytes) -> None:
    """Whoever can write the file can make the checksum right, too."""
    for decode in (decode_record, lambda p: layout.decode_footer(whole(p, frame.FOOTER), 10**6)):
        try:
            decode(payload)
        except ValueError:
            continue


def whole(payload: bytes, flags: int = 0) -> bytes:
    return frame.encode_head(payload, flags) + payload if payload else b""


@given(st.binary(max_size=200), st.binary(min_size=8, max_size=8))
@quick
def test_any_bytes_as_header_trailer_and_slot(data: bytes, nonce: bytes) -> None:
    with pytest.raises(layout.BadLayout):
        layout.decode_header(data)
    with pytest.raises(layout.BadLayout):
        layout.decode_trailer(data[-layout.TRAILER_SIZE :], len(data), nonce)
    assert decode_slot(data) is None


@st.composite
def mutated(draw: st.DrawFn) -> bytes:
    """A real segment with cuts, flips, copies, zeros, and some checksums made right again."""
    data = bytearray(SEGMENT)
    for _ in range(draw(st.integers(1, 5))):
        place = draw(st.integers(0, max(0, len(data) - 1)))
        length = draw(st.integers(1, 400))
        match draw(st.sampled_from(["flip", "cut", "drop", "copy", "zero", "random", "fix"])):
            case "flip" if data:
                data[place] ^= 1 << draw(st.integers(0, 7))
            case "cut":
                del data[place:]
            case "drop":
                del data[place : place + length]
            case "copy":
                source = draw(st.integers(0, max(0, len(data) - 1)))
                data[place:place] = data[source : source + length]
            case "zero":
                data[place : place + length] = bytes(len(data[place : place + length]))
            case "random":
                data[place : place + length] = draw(st.binary(max_size=length))
            case _ if len(data) > place + 8:
                word = struct.unpack_from("<I", data, place)[0]
                payload = bytes(data[place + 8 : place + 8 + (word & frame.MAX_PAYLOAD)])
                crc = google_crc32c.value(bytes(data[place : place + 4]) + payload)
                struct.pack_into("<I", data, place + 4, crc)
    return bytes(data)


def scan(data: bytes) -> None:
    disk = SimDisk()
    disk.put(PATH, {NAME: data})
    with opened_directory(disk, PATH) as directory, opened(disk, directory, NAME) as fd:
        reader = SegmentReader(disk, fd, end=len(data), expected=1)
        expected, steps = 1, 0
        while (item := reader.next()) is not None:
            steps += 1
            assert steps <= 2 * (len(data) // 9 + 2)
            if isinstance(item, Item):
                assert item.record.seq >= expected
                expected = item.record.seq + 1
            elif item.last is not None:
                assert item.first <= item.last


async def open_and_read(data: bytes) -> None:
    disk = SimDisk()
    disk.put(PATH, {NAME: data})
    list(dump(PATH, disk))
    verify(PATH, disk)
    journal = reopen(PATH, disk)
    position = journal.earliest - 1
    for record in await contents(journal):
        first = record.fields["first"] if record.type == GAP else record.seq
        assert first <= position + 1 <= record.seq
        position = record.seq
    assert position == journal.latest
    list(journal.replay(0))
    journal.append([control()])
    journal.close()
    assert disk.descriptors == 0


@given(st.binary(max_size=3000))
@quick
def test_scanning_any_bytes(data: bytes) -> None:
    scan(data)
    scan(SEGMENT[: layout.HEADER_SIZE] + data)


@given(mutated())
@quick
def test_scanning_a_mutated_segment(data: bytes) -> None:
    scan(data)


@given(mutated())
@quick
async def test_opening_a_mutated_segment(data: bytes) -> None:
    await open_and_read(data)


@pytest.mark.long
@given(mutated())
@long
async def test_opening_mutated_segments_for_long(data: bytes) -> None:
    scan(data)
    await open_and_read(data)
