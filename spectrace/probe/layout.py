"""The layout of the ring file: what stands at which byte, for the probe and for its readers.

The file is one page of header words, one of text (`info`, JSON that the probe writes),
the probe's code, and then `slots` of 128 bytes. A record fills one slot; what does not fit
goes on in the next. Byte order is little endian. Any change here is a new LAYOUT_VERSION.
"""

import struct

MAGIC = int.from_bytes(b"spectrac", "little")
LAYOUT_VERSION = 1

HEADER_BYTES = 4096
INFO_OFFSET = HEADER_BYTES
INFO_BYTES = 4096
CODE_OFFSET = INFO_OFFSET + INFO_BYTES
PATH_OFFSET = 2048  # within the header: the file's path as the traced process sees it
PATH_BYTES = 512
PAGE_BYTES = 4096

SLOT_BYTES = 128
DEFAULT_SLOTS = 16384
QUIET_NS = 3_000_000_000  # a reader without a sign of life for so long has gone
ABANDONED_NS = 30_000_000_000  # without a reader's heartbeat the probe leaves by itself


class Word:
    """Places of the header's 64-bit words, counted in words."""

    MAGIC = 0
    LAYOUT_VERSION = 1
    SLOTS = 2
    SLOTS_OFFSET = 3
    CODE_BYTES = 4
    TARGET_PID = 5  # as spectrace sees it
    TARGET_START_TICKS = 6  # field 22 of /proc/PID/stat: tells a reused PID apart
    LOADER_TEXT_ADDRESS = 7  # memory that the loader frees, 0 if there is none
    LOADER_TEXT_BYTES = 8

    # Written by the probe.
    HEAD = 32  # sequence number of the newest whole record; the first is 1
    STATE = 33
    INFO_LENGTH = 34
    CYCLES = 35
    PROBE_NS = 36  # the probe's own time since it was put in
    IDLE_CALLS = 37
    MODE_ACTIVE = 38
    LOADER_ENTERED_NS = 39  # CLOCK_MONOTONIC at the loader's first line
    LOAD_NS = 40  # from there until the probe's code stood
    ARM_NS = 41  # hooking the scheduler
    INSTALL_NS = 42  # hooking the worker, at the next cycle
    FOREIGN = 43  # functions that somebody wrapped after us

    # Written by the reader that holds control.
    COMMAND = 64
    MODE = 65
    MODE_FROM_CYCLE = 66
    HEARTBEAT_NS = 67  # CLOCK_MONOTONIC of the last sign of life of a reader
    JOINS = 68  # grows when a reader joins: interned request ids are sent again
    CONTROLLER_PID = 69


class State:
    """What the probe is doing."""

    EMPTY = 0  # the file was made, nothing runs yet
    LOADED = 1
    ARMED = 2  # the scheduler is hooked; the worker will be at the next cycle
    TRACING = 3
    DETACHED = 4
    FAILED = 5  # the probe met an error of its own and took itself out


class Command:
    """What the controlling reader asks for."""

    NONE = 0
    DETACH = 1


class Mode:
    """Timing modes as numbers."""

    OFF = 0
    HOST = 1
    DEVICE = 2
    SYNC = 3


class Kind:
    """Kinds of cycles as numbers."""

    OTHER = 0
    SPECULATIVE = 1
    DECODE = 2
    EXTEND = 3
    MIXED = 4
    IDLE = 5


class Ph:
    """Phases as numbers, at most 31. A mark is the number plus 32 times the lag."""

    RESOLVE = 1
    FORWARD = 2
    DRAFT = 3
    VERIFY = 4  # where a release does not show the parts of verify
    VERIFY_PREPARE = 5
    VERIFY_FORWARD = 6
    VERIFY_SAMPLE = 7
    VERIFY_COMMIT = 8
    DRAFT_EXTEND = 9
    WAIT = 10
    RESULT = 11
    SCHEDULE = 12


PHASE_MASK = 31
LAG_SHIFT = 5  # of_cycle = number - (mark >> LAG_SHIFT)
MAX_LAG = 7


class RecordType:
    """What a slot holds."""

    CYCLE = 1
    ROWS = 2  # results of a cycle, one row per request
    REQUEST = 3  # text: the request id behind an interned number
    ERROR = 4  # text: what went wrong inside the probe


class CycleFlag:
    """Bits of a cycle record."""

    MARKS_DROPPED = 1
    ENDED_IDLE = 2
    RAISED = 4  # the server's own code raised within the cycle


class RowFlag:
    """Bits of a row."""

    OVERSHOOT = 1
    HEALTH_CHECK = 2


MAX_MARKS = 14

# A cycle record: sequence, type, kind, mode, flags, number, start_ns (CLOCK_MONOTONIC),
# length, probe_ns, batch size, steps, topk, draft tokens, count of marks, shift, the marks,
# their distances from start. Length and distances are in units of 2**shift ns, with shift 0
# below 4.29 s.
CYCLE = struct.Struct("<QBBBBQQIIHBBHBB14s14I")

# sequence, type, part, parts, rows in this part, cycle number, batch size
ROWS_HEAD = struct.Struct("<QBBBBQH")
# interned request number, correct drafts or UNKNOWN, output tokens, flags
ROW = struct.Struct("<IHHB")
ROWS_PER_RECORD = 10
UNKNOWN = 0xFFFF

# sequence, type, part, parts, unused, interned number (0 for errors), length of this part, text
TEXT_BYTES = 100
TEXT = struct.Struct("<QBBBBIH100s")

# The last 8 bytes of every slot: CRC-32 of what stands before them, low half of the sequence.
SEAL = struct.Struct("<II")
SEAL_OFFSET = SLOT_BYTES - SEAL.size
SEQUENCE = struct.Struct("<Q")


def slots_offset(code_bytes: int) -> int:
    """Where the first slot stands in a file whose code takes `code_bytes` bytes."""
    end = CODE_OFFSET + code_bytes
    return -(-end // PAGE_BYTES) * PAGE_BYTES
