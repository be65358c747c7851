"""The one table of what spectrace writes into spans: names, attributes, their meaning and unit.

A cycle is one trace::

    decode_cycle                 the cycle, with everything that its ranks share
      rank TP0                   one rank, from its `run_batch` to the next one
        host                     the rank's phases as the CPU did them
          resolve
          draft
          verify                 drawn around its parts, carries nothing of its own
            verify.prepare
            verify.forward
          …
        device                   the same for the accelerator, where it was timed
          draft
          …

A name never holds anything but these few words and a rank's name. What says where a span
comes from (run, rank, lane) stands once in the resource, not in every span.
"""

from __future__ import annotations

SCOPE = "spectrace"
"""Name of the instrumentation scope: a span is ours if it stands in this scope."""

ROOT_SPAN = "decode_cycle"
RANK_SPAN_PREFIX = "rank "

# Resources. The root's describes the run, a rank's the process that the span was timed in.
SERVICE_NAME = "service.name"
"""Text: `<service>-host` or `<service>-device`, because Jaeger colours by service alone."""
SERVICE_INSTANCE_ID = "service.instance.id"
"""Text: host/run of the root's resource, host/run/rank of a rank's."""
HOST_NAME = "host.name"
"""Text: name of the machine."""
PROCESS_PID = "process.pid"
"""Integer: the server's root process in the root's resource, the rank's process in a rank's."""
PROCESS_COMMAND_ARGS = "process.command_args"
"""Array of text, root's resource: the server's command line."""
RUN_ID = "spectrace.run.id"
"""Text of 32 lower-case hexadecimal digits: the run, the same for all its ranks and machines."""
ENGINE = "spectrace.engine"
"""Text, root's resource: such as `sglang 0.5.23`, empty until the probe has reported."""
ANCHOR_UNIX_NS = "spectrace.anchor.unix_ns"
"""Integer, ns, root's resource: UNIX time at the moment of `spectrace.anchor.monotonic_ns`."""
ANCHOR_MONOTONIC_NS = "spectrace.anchor.monotonic_ns"
"""Integer, ns, root's resource: CLOCK_MONOTONIC of the server's machine at that moment."""
RUN_RANKS = "spectrace.run.ranks"
"""Array of text, root's resource: names of the run's ranks."""
RUN_RANK_PIDS = "spectrace.run.rank_pids"
"""Array of integers, root's resource: their process ids, in the same order."""
RUN_RANK_HOSTS = "spectrace.run.rank_hosts"
"""Array of text, root's resource: their machines, empty for `host.name`. Absent where all are."""
RANK = "spectrace.rank"
"""Text, a rank's resource: name of the rank, such as `TP0`."""
LANE = "spectrace.lane"
"""Text, a rank's resource: `host` or `device`."""

# Attributes of the root span.
GROUP = "spectrace.group"
"""Text: the ranks that step together, empty where the server has one group."""
NUMBER = "spectrace.cycle.number"
"""Integer: the scheduler's own count of the cycle."""
KIND = "spectrace.cycle.kind"
"""Text: `speculative`, `decode`, `extend`, `mixed`, `idle` or `other`."""
BATCH_SIZE = "spectrace.batch_size"
"""Integer: requests in the batch."""
STEPS = "spectrace.steps"
"""Integer: draft steps, 0 where nothing was drafted."""
TOPK = "spectrace.topk"
"""Integer: branches per draft step, 0 where nothing was drafted."""
DRAFT_TOKENS = "spectrace.draft_tokens"
"""Integer: tokens that verify looked at per request, 0 where nothing was verified."""
PADDED_BATCH = "spectrace.padded_batch"
"""Integer: batch size that the target's graph was made for. Absent where none ran."""
CONTEXT_TOKENS_SUM = "spectrace.context_tokens.sum"
"""Integer: tokens of all requests before the cycle. Absent until its results are known."""
CONTEXT_TOKENS_MAX = "spectrace.context_tokens.max"
"""Integer: the most tokens of one request. Absent likewise."""
QUEUED = "spectrace.queued"
"""Integer: requests that waited when the results were processed. Absent likewise."""
RUNNING = "spectrace.running"
"""Integer: requests that ran then. Absent likewise."""
RANKS = "spectrace.ranks"
"""Array of text: the ranks whose spans belong to this cycle, the first rank first."""
ACCEPTED_TOKENS = "spectrace.accepted_tokens"
"""Integer: correct drafts of all requests that count; for people, nothing reads it back."""
REQUEST_IDS = "spectrace.requests.ids"
"""Array of text, one per request; absent until the server has processed the results."""
CORRECT_DRAFTS = "spectrace.requests.correct_drafts"
"""Array of integers, one per request: correct drafts, -1 where nothing was verified."""
OUTPUT_TOKENS = "spectrace.requests.output_tokens"
"""Array of integers, one per request: tokens added to its output."""
OVERSHOOT = "spectrace.requests.overshoot"
"""Array of booleans, one per request: it was already finished. Absent where none was."""
HEALTH_CHECK = "spectrace.requests.health_check"
"""Array of booleans, one per request: the server's own probe. Absent where none was."""

# Attribute of a link from the root span to the server's own span of a request.
LINKED_REQUEST = "spectrace.request.id"
"""Text: the request whose span it is. There are links only where the server traces requests
itself (`--enable-trace`), and at most 128."""

# Attributes of a rank's span.
TIMING_MODE = "spectrace.timing_mode"
"""Text: `device`, `host`, `sync` or `off`."""
PROBE_NS = "spectrace.probe_ns"
"""Integer, ns: time that the probe itself took within the cycle."""
PHASES = "spectrace.phases"
"""Integer: phases of the rank, all lanes; a receiver knows by it when it has them all."""
ENDED_IDLE = "spectrace.ended_idle"
"""Boolean: the scheduler went idle after the cycle. Absent where it did not."""
INCOMPLETE = "spectrace.incomplete"
"""Boolean: boundaries are missing. Absent where none are."""
ASKED_MODE = "spectrace.asked_timing_mode"
"""Text: the timing mode that was asked for. Absent where it is the one that was taken."""
LATE_SWITCH = "spectrace.late_switch"
"""Boolean: mode or sampling changed with this cycle or just before it, later than asked for.
Absent where it did not."""
CLOCK_ERROR_NS = "spectrace.clock_error_ns"
"""Integer, ns: by how much the device lane may be shifted. Absent where there is none."""
DEVICE_INCOMPLETE = "spectrace.device_incomplete"
"""Boolean: boundaries of the device lane are missing. Absent where none are."""

# Attributes of a phase's span.
GRAPH = "spectrace.graph"
"""Boolean: its forward ran as a CUDA graph. Absent where that is not known."""
OF_CYCLE = "spectrace.of_cycle"
"""Integer: number of the cycle whose batch was worked on. Absent where it is this cycle."""
