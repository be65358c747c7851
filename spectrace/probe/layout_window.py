"""The layout of a kernel window's file: what stands at which byte, for the probe and its readers.

The file is one page of header words and of text, then pieces: one for each buffer that CUPTI
handed over, to the end of the file. A piece is a head, the place of each record in the bytes that
follow (32 bits each), and these bytes as CUPTI wrote them, padded to 8. Byte order is little
endian. Any change here is a new VERSION.
"""

import struct

MAGIC = int.from_bytes(b"spectrak", "little")
VERSION = 1
SUFFIX = ".kernels"  # in place of the ring's own

TEXT_OFFSET = 2048
TEXT_BYTES = 1024
DATA_OFFSET = 4096

# Bytes of the whole piece, records, bytes as CUPTI wrote them, CRC-32 of places and bytes.
PIECE = struct.Struct("<IIII")
ALIGNED = 8

MOST_CYCLES = 0xFFFF
LONGEST_NS = 10_000_000_000  # a window that its cycles do not end is closed, after so long at least
FLUSH_EVERY_NS = 100_000_000
FLUSHES = 10  # what the device has not done by then is not waited for


class Place:
    """Places of the header's 64-bit words."""

    MAGIC = 0
    VERSION = 1
    BYTES = 2  # of the file
    GRAPH_CYCLES = 3  # how many of the cycles come first, in which graphs are seen whole
    LONGEST_NS = 4  # after so long it is closed; where that is less than LONGEST_NS, after that

    # Written by the probe.
    STATE = 32
    REFUSAL = 33  # `Refusal`
    STATUS = 34  # CUPTI's own number for it, 0 without
    TEXT_LENGTH = 35  # of what it said
    HEAD = 36  # where the next piece begins
    BUFFERS = 37  # that CUPTI handed over
    RECORDS = 38  # in them
    LOST = 39  # records that found no room
    BROKEN = 40  # buffers that could not be taken
    THREAD = 41  # of the scheduler as POSIX numbers it, low 32 bits
    SYSTEM_THREAD = 42  # and as the kernel does
    BEGAN_CYCLE = 43
    SPLIT_CYCLE = 44  # from here on graphs are seen kernel by kernel
    ENDED_CYCLE = 45  # the first one behind it
    BEGAN_NS = 46  # CLOCK_MONOTONIC; the next two likewise
    SPLIT_NS = 47
    ENDED_NS = 48
    BEGAN_REAL_NS = 49  # CLOCK_REALTIME at BEGAN_NS
    ENDED_REAL_NS = 50
    CUT_SHORT = 51  # 1 where time or a detach ended it
    # What it cost the server, in ns.
    LOADING_NS = 52  # loading CUPTI, on the scheduler's thread
    SWITCHING_NS = 53  # switching it on, over and off, likewise
    FLUSHING_NS = 54  # asking for what is done, likewise
    TAKING_NS = 55  # taking buffers, on whatever thread CUPTI hands them over


class Stage:
    """How far the window is."""

    ASKED = 0
    READY = 1  # CUPTI is loaded, the first cycle is waited for
    GRAPHS = 2
    KERNELS = 3
    FLUSHING = 4
    DONE = 5
    REFUSED = 6


class Refusal:
    """Why there is no window, as a number."""

    NONE = 0
    NO_PACKAGE = 1
    NO_DRIVER = 2
    TAKEN = 3
    NOT_PERMITTED = 4
    TOO_OLD = 5
    UNSUPPORTED = 6
    PROFILER = 7
    LATE = 8
    OTHER = 9


class Activity:
    """Kinds of records that are asked for, by CUPTI's numbers (`CUpti_ActivityKind`)."""

    MEMCPY = 1
    MEMSET = 2
    DRIVER = 4
    RUNTIME = 5
    KERNEL = 10
    PEER_COPY = 22
    GRAPH = 51


# How many bytes of a record are read: all that stands there does so in each version of the record,
# from CUPTI 12.8 to 13.5. CUPTI makes a new version by adding to the end.
RECORD_BYTES = {1: 80, 2: 80, 4: 40, 5: 40, 10: 160, 22: 88, 51: 40}
