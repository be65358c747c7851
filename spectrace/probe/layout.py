"""The layout of the ring file: what stands at which byte, for the probe and for its readers.

The file is one page of header words, one of text (`info`, JSON that the probe writes),
the probe's code, and then the ring: `units` of 32 bytes. A record fills as many consecutive
units as it needs, going on at the ring's first unit behind its last. Units are counted from 1
without end; the count of a record's first unit is its position, and the unit stands at
position modulo `units`. A record is a head, what its type says, padding, and a seal at the
end of its last unit. Byte order is little endian. Any change here is a new LAYOUT_VERSION; only
a further type of record is none: a reader passes over a type that it does not know, and counts
such records as lost.
"""

import struct

MAGIC = int.from_bytes(b"spectrac", "little")
LAYOUT_VERSION = 5

HEADER_BYTES = 4096
INFO_OFFSET = HEADER_BYTES
INFO_BYTES = 4096
CODE_OFFSET = INFO_OFFSET + INFO_BYTES
PATH_OFFSET = 2048  # within the header: the file's path as the traced process sees it
PATH_BYTES = 512
PAGE_BYTES = 4096

UNIT_BYTES = 32
MAX_RECORD_UNITS = 10
DEFAULT_UNITS = 65536
MIN_UNITS = 64
QUIET_NS = 3_000_000_000  # a reader without a sign of life for so long has gone
ABANDONED_NS = 30_000_000_000  # without a reader's heartbeat the probe leaves by itself


class Word:
    """Places of the header's 64-bit words, counted in words."""

    MAGIC = 0
    LAYOUT_VERSION = 1
    UNITS = 2
    UNITS_OFFSET = 3
    CODE_BYTES = 4
    TARGET_PID = 5  # as spectrace sees it
    TARGET_START_TICKS = 6  # field 22 of /proc/PID/stat: tells a reused PID apart
    LOADER_TEXT_ADDRESS = 7  # memory that the loader frees, 0 if there is none
    LOADER_TEXT_BYTES = 8
    PID_NAMESPACE = 9  # inode of the namespace in which TARGET_PID counts, 0: not known
    ORIGIN = 10  # who made the ring: `Origin`

    # Written by the probe.
    HEAD = 32  # units written so far: the position of the newest record's last unit
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
    RECORDS = 44  # number of the newest record, from 1; may lag behind HEAD by one
    NEWEST_CYCLE = 45  # number of the newest cycle that began
    NO_EVENT = 46  # device boundaries left out: no event was free
    EVENT_LOST = 47  # and those whose event never came
    EVENT_CAPTURING = 48  # and those met while a graph was being captured
    EVENT_OTHER_STREAM = 49  # and those met on another than the forward stream

    # Written by the reader that holds control.
    COMMAND = 64
    MODE = 65  # which timing mode, from which cycle on: `mode_word`
    SAMPLING = 66  # which cycles are recorded in full, from which on: `sampling_word`
    HEARTBEAT_NS = 67  # CLOCK_MONOTONIC of the last sign of life of any reader
    JOINS = 68  # grows when a reader joins: interned request ids are sent again
    CONTROLLER_PID = 69
    LOST_RECORDS = 72  # records that were overwritten before that reader came to them
    CONTROLLER = 70  # KEY of the reader that holds control, 0: nobody
    COMMAND_NS = 71  # CLOCK_MONOTONIC at which COMMAND was written
    KERNELS = 73  # the kernel window asked for: `kernels_word`, 0: none

    # The seats of the readers, `SEATS` of `Seat.WORDS` words each; the probe never looks there.
    SEATS = 128


class Seat:
    """Places of the words of one reader's seat, counted from its first."""

    WORDS = 4
    KEY = 0  # CLOCK_MONOTONIC at which it joined, another one for each; 0: the seat is free
    PID = 1
    PID_NAMESPACE = 2  # inode of the namespace in which PID counts
    HEARTBEAT_NS = 3


SEATS = 16


class Origin:
    """Who made a ring, and with it how the probe comes into the process."""

    INJECTED = 0  # spectrace, which put the probe's code into it
    LOOP = 1  # a `spectrace.loop.Tracer`, in its own process
    PLUGIN = 2  # the plugin in a scheduler's process


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
    DRAFT_STEP = 13  # one forward of the draft model, where they run one by one


PHASE_MASK = 31
LAG_SHIFT = 5  # of_cycle = number - (mark >> LAG_SHIFT)
MAX_LAG = 7

# Phases whose work runs on the forward stream. In a DEVICE record any other mark, also 0,
# ends the one before it, and what follows is a gap.
DEVICE_PHASES = frozenset(
    {
        Ph.FORWARD,
        Ph.DRAFT,
        Ph.VERIFY,
        Ph.VERIFY_PREPARE,
        Ph.VERIFY_FORWARD,
        Ph.VERIFY_SAMPLE,
        Ph.VERIFY_COMMIT,
        Ph.DRAFT_EXTEND,
        Ph.DRAFT_STEP,
    }
)


class RecordType:
    """What a record holds."""

    CYCLE = 1
    ROWS = 2  # results of a cycle, one row per request
    REQUEST = 3  # text: the request id behind an interned number
    ERROR = 4  # text: what went wrong inside the probe
    DEVICE = 5  # the device's boundaries of a cycle
    SKIPPED = 6  # sums of the cycles that sampling left out
    SPAN = 7  # text: the server's own span of the request behind an interned number


class CycleFlag:
    """Bits of a cycle record."""

    MARKS_DROPPED = 1
    ENDED_IDLE = 2
    RAISED = 4  # the server's own code raised within the cycle
    LATE_SWITCH = 8  # mode or sampling changed here or just before, later than asked for
    SAMPLED = 16  # sampling leaves out the cycles around it


class DeviceFlag:
    """Bits of a device record."""

    LOST = 1  # boundaries are missing: no event was free, or one never came
    NO_CLOCK = 2  # the device's clock was not yet mapped to the host's: start_ns says nothing


class RowFlag:
    """Bits of a row."""

    OVERSHOOT = 1
    HEALTH_CHECK = 2


class Graph:
    """Whether a part of a cycle ran as a CUDA graph, two bits each in a cycle record."""

    UNKNOWN = 0
    EAGER = 1
    GRAPH = 2

    # By how many bits the parts are shifted.
    DRAFT = 0
    VERIFY = 2
    DRAFT_EXTEND = 4


MAX_MARKS = 60

# Of a sampling word, of which the other 36 bits are the number of a cycle.
EVERY_BITS = 14
EVERY_MASK = (1 << EVERY_BITS) - 1
MAX_EVERY = 10_000

# Every record begins so: position, number of the record (both from 1), type, its units.
HEAD = struct.Struct("<QIBB")
# And its last 8 bytes: CRC-32 of all that stands before them, low half of the position.
SEAL = struct.Struct("<II")
POSITION = struct.Struct("<Q")
LOW_HALF = 0xFFFFFFFF

# CYCLE: kind, mode taken + 16 * mode asked for, flags, number, start_ns (CLOCK_MONOTONIC),
# length, probe_ns, batch size, padded batch (0: not known), steps, topk, draft tokens, graph
# bits, count of marks, shift; then the marks. A mark is the phase's byte and 24 bits of
# distance from the start in units of 2**shift ns. The length is in units of
# 2**length_shift(shift) ns: single ns below 4.29 s.
CYCLE = struct.Struct("<BBHQQIIHHBBHBBB")
# DEVICE: number, start_ns on the host's CLOCK_MONOTONIC, error of it in ns, flags, count of
# marks, shift; then the marks as in CYCLE.
DEVICE = struct.Struct("<QQIBBB")
MARK_BYTES = 4
MARK_DISTANCE_BITS = 24

# ROWS: part, parts, rows in this part, cycle number, batch size, context lengths (sum and
# greatest), requests queued and running; then the rows.
ROWS = struct.Struct("<BBBQHIIHH")
# Interned request number, correct drafts or UNKNOWN, output tokens, flags.
ROW = struct.Struct("<IHHB")
ROWS_PER_RECORD = 30
UNKNOWN = 0xFFFF  # of 16 bits
UNKNOWN_LENGTH = 0xFFFFFFFF  # of 32 bits

# TEXT: part, parts, interned number (0 for errors), length of this part; then the text.
TEXT = struct.Struct("<BBIH")
TEXT_BYTES = 256

# SKIPPED: cycles, number of the first and of the last, their time in ns, verifies, correct
# drafts, output tokens. Results that come behind their cycle's record are in the next one.
SKIPPED = struct.Struct("<IQQQIII")


def units_of(payload_bytes: int) -> int:
    """Units that a record with so many bytes between head and seal fills."""
    return -(-(HEAD.size + payload_bytes + SEAL.size) // UNIT_BYTES)


def mark_shift(length_ns: int) -> int:
    """The coarsest unit that marks up to `length_ns` need, as a power of 2."""
    return max(0, length_ns.bit_length() - MARK_DISTANCE_BITS)


def length_shift(shift: int) -> int:
    """The unit of a cycle's length, as a power of 2, where its marks have `shift`."""
    return max(0, shift - (32 - MARK_DISTANCE_BITS))


def mode_word(mode: int, from_cycle: int = 0) -> int:
    """The control word "`mode`, from cycle `from_cycle` on"; 0 is at once."""
    return mode | from_cycle << 8


def split_mode(word: int) -> tuple[int, int]:
    """Mode and cycle of a control word."""
    return word & 0xFF, word >> 8


def sampling_word(every: int, from_cycle: int = 0, before: int = 0) -> int:
    """The control word "every `every`th cycle in full, from cycle `from_cycle` on".

    What holds until then stands in it too, so that every rank decides by the cycle's number and
    this word alone, also one that has come just now.

    Args:
        every: Cycles whose number it divides are recorded in full, at most `MAX_EVERY`; 0 and 1
            for all.
        from_cycle: The first cycle for which that holds; 0 is at once.
        before: As `every`, for the cycles before it.
    """
    return every | before << EVERY_BITS | from_cycle << 2 * EVERY_BITS


def split_sampling(word: int) -> tuple[int, int, int]:
    """What `sampling_word` was made of: `every`, `from_cycle`, `before`."""
    return word & EVERY_MASK, word >> 2 * EVERY_BITS, word >> EVERY_BITS & EVERY_MASK


def every_at(word: int, number: int) -> int:
    """Of how many cycles one is recorded in full by a sampling word, at the cycle `number`."""
    every, from_cycle, before = split_sampling(word)
    return every if number >= from_cycle else before


def kernels_word(first: int, cycles: int, turn: int) -> int:
    """The control word "kernels, from cycle `first` on, `cycles` cycles"; from 0 is at once.

    Args:
        first: The first cycle, of which 32 bits count.
        cycles: How many, 16 bits.
        turn: Anything, of which 16 bits count: the same wish again must be another word.
    """
    return cycles | (first & LOW_HALF) << 16 | (turn & 0xFFFF) << 48


def split_kernels(word: int) -> tuple[int, int]:
    """First cycle and cycles of a control word."""
    return word >> 16 & LOW_HALF, word & 0xFFFF


def units_offset(code_bytes: int) -> int:
    """Where the first unit stands in a file whose code takes `code_bytes` bytes."""
    end = CODE_OFFSET + code_bytes
    return -(-end // PAGE_BYTES) * PAGE_BYTES


# How an NVTX tool shows in a process that it started. NVTX itself reads the first alone; Nsight
# Systems and Nsight Compute set the others, and may hand themselves to NVTX in other ways.
TOOL_VARIABLES = (
    "NVTX_INJECTION64_PATH",
    "NSYS_PROFILING_SESSION_ID",
    "NV_NSIGHT_INJECTION_TRANSPORT_TYPE",
)
NO_TOOL = (
    "NVTX off: the server was started without a tool that listens, and none can be attached later"
)
