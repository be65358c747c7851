"""The releases of SGLang as tables: what each range of them calls its parts, and who drives them.

Read in the sources of the releases 0.4.6 to 0.5.23; `tests/integration/test_release_table.py`
reads them again. A row holds from its release to that of the next newer row. What a release
does not show is named in `lacks`, and nothing is put in its place. The tables stay outside the
server, which is given a digest of them: see `sglang_rows.py`.
"""

from __future__ import annotations

import marshal
from functools import cache
from typing import TYPE_CHECKING, Any

from ..layout import Graph, Ph  # noqa: TID252 - as the modules of the probe do
from . import sglang as engine
from .sglang_rows import (
    OLDEST,
    SCHEDULER,
    UNCOUNTED,
    UNKNOWN,
    UNKNOWN_VERIFYING,
    parsed,
    settle,
    spelled,
)

if TYPE_CHECKING:
    from collections.abc import Iterator

    from .sglang_rows import Version

    # Where the correct drafts of each request are found when `process_batch_result` has
    # returned: in the result, in what `verify` gave back or in the request, which has the sum
    # of all its cycles; under which name, empty for nowhere; and how many tokens of each
    # number were not drafted. A tensor on the CPU is as good as a list.
    Counts = tuple[str, str, int]
    Target = tuple[str, int, int]  # path of a function, and the phases at call and return

# The scheduler. `number`: whether a batch carries that of its cycle, as `forward_iter`, or not.
# `counts`: the correct drafts of each request, of the result or of what `verify` gave back.
# `sum`: what sums them up in a request. `graph`: of the target's model runner, what has the
# batch size as `bs`. `ready`: a row of READY.
RELEASES = """
# since     number  counts                                 sum                      graph                     ready
0.5.14      batch   result.num_correct_drafts_per_req_cpu  spec_num_correct_drafts  decode_cuda_graph_runner  processor
0.5.13      batch   result.num_correct_drafts_per_req_cpu  spec_num_correct_drafts  graph_runner              processor
0.5.12      batch   result.num_correct_drafts_per_req_cpu  spec_num_correct_drafts  graph_runner              tokens
0.5.11      -       result.num_accepted_drafts_per_req_cpu spec_accepted_drafts     graph_runner              ids
0.5.7       -       result.accept_length_per_req_cpu       spec_accepted_tokens     graph_runner              ids
0.5.4       -       result.accept_lens-1                   spec_accepted_tokens     graph_runner              ids
0.5.3.post2 -       -                                      spec_accepted_tokens     graph_runner              group
0.5.1       -       verify.accept_length_per_req_cpu       -                        graph_runner              group
0.4.6       -       verify.accept_length_per_req_cpu       -                        cuda_graph_runner         group
"""

# What is called first in `process_batch_result` once the results are on the CPU: in decode, and
# in prefill, where a request goes on and where it ends.
_GROUP = (
    "token_to_kv_pool_allocator.free_group_begin "
    "tree_cache.cache_unfinished_req tree_cache.cache_finished_req"
)
READY = {
    "processor": "batch_result_processor._normalize_decode_outputs "
    "batch_result_processor.move_logprobs_to_cpu",
    "tokens": f"._resolve_spec_overlap_tokens {_GROUP}",
    "ids": f"._resolve_spec_overlap_token_ids {_GROUP}",
    "group": _GROUP,
}

# The workers; of a kind that derives from another the rows come first. `shape`: a row of SHAPES.
# `commit`: a row of COMMITS. `step`: whether one forward of the draft is that of its model
# runner or of the model itself. `graphs`: the function that replays draft and draft extend, or
# the draft alone. `tokens`: `early` if the worker itself hands them to the requests, so that
# they have them when `process_batch_result` begins; the result's counts are then cut at the end
# of a request, which the server's own are not: those are the sums. `lacks`: rows of LACKS.
# `tried`: releases on which it ran, and counted what the server counted.
WORKERS = """
# worker                since       shape         commit        step    graphs        tokens  lacks          tried
FrozenKVMTPWorkerV2     0.5.16      v2            common        runner  execute/draft -       -              -
FrozenKVMTPWorkerV2     0.5.14      v2            v2            runner  execute/draft -       -              -
FrozenKVMTPWorker       0.5.12      v1            verify        runner  replay/draft  early   -              -
EAGLEWorkerV2           0.5.16      v2            common        runner  execute       -       -              0.5.23
EAGLEWorkerV2           0.5.14      v2            v2            runner  execute       -       -              -
EAGLEWorkerV2           0.5.6       v2            sample        runner  replay        -       -              -
EAGLEWorkerV2           0.5.4       v2            sample        model   replay        -       -              -
EAGLEWorkerV2           0.5.3.post2 v2-first      sample        model   replay/draft  -       counts         -
EAGLEWorker             0.5.3       v1            verify        runner  replay        early   -              0.5.9,0.5.12
EAGLEWorker             0.4.9.post4 v1-old        verify-utils  runner  replay        early   -              -
EAGLEWorker             0.4.7       v1-old        verify-utils  model   replay        early   -              -
EAGLEWorker             0.4.6       v1-old        verify-utils  model   replay/draft  early   -              -
MultiLayerEagleWorkerV2 0.5.16      v2            common        -       -             -       graphs         -
MultiLayerEagleWorkerV2 0.5.14      v2            layers        -       -             -       graphs         -
MultiLayerEagleWorkerV2 0.5.7       v2            sample        -       -             -       graphs         -
MultiLayerEagleWorker   0.5.7       v1            verify        -       -             early   graphs         -
NGRAMWorker             0.5.14      ngram         ngram         -       -             -       -              0.5.23
NGRAMWorker             0.5.10      ngram         ngram-verify  -       -             early   -              -
NGRAMWorker             0.5.6       ngram-cache   ngram-verify  -       -             early   -              -
NGRAMWorker             0.5.3.post1 ngram-cache   ngram-verify  -       -             early   counts         -
NGRAMWorker             0.5.3       ngram-cache   ngram-utils   -       -             early   counts         -
DFlashWorkerV2          0.5.14      dflash        -             runner  -             -       commit,graphs  -
DFlashWorker            0.5.11      dflash-v1     dflash-verify runner  -             early   extend,graphs  -
TpModelWorkerClient     0.4.6       plain         -             -       -             -       thread         -
TpModelWorker           0.4.6       plain         -             -       -             -       -              0.5.23
"""

# Functions, and the phases that begin at their call and at their return. The path of attributes
# before a function leads to the object whose class has it: from the worker if it begins with
# `worker`, else from the scheduler (empty: the scheduler itself). `module:NAME` is a module that
# looks a function up, `module:NAME:CLASS` a class. `target` is the target model's forward, which
# within verify is `verify.forward` and then `verify.sample`, and otherwise `forward`. At the call
# that has `sizes` behind it the worker says how large its draft is.
_V1 = """
tp_worker.forward_batch_generation        target
worker.forward_draft_extend               draft_extend
worker.draft                              draft
worker.verify                             verify.prepare  -  sizes
"""
_WHOLE = """
worker.forward_batch_generation           -               schedule
"""
_NGRAM = """
tp_worker.forward_batch_generation        target
worker._prepare_draft_tokens              draft           verify.prepare  sizes
"""
_DFLASH_PREPARE = """
module:sglang.srt.speculative.dflash_info:DFlashVerifyInput.prepare_for_verify  verify.prepare
"""
SHAPES = {
    # A worker that verifies, and another one below it that drafts.
    "v2": f"""
tp_worker.forward_batch_generation        target
worker.draft_worker._draft_extend_for_prefill  draft_extend
worker.draft_worker.draft                 draft
worker.verify                             verify.prepare  -  sizes
worker.draft_worker._draft_extend_for_decode   draft_extend
{_WHOLE}""",
    # Its first form: one worker, which extends within verify.
    "v2-first": f"""{_V1}
module:sglang.srt.speculative.eagle_info:EagleDraftInput.prepare_for_extend_to_fill_draft_kvcache  draft_extend
{_WHOLE}""",
    # A worker that does all.
    "v1": f"""{_V1}
worker.forward_draft_extend_after_decode  draft_extend
{_WHOLE}""",
    "v1-old": f"""{_V1}
worker.forward_draft_extend_after_decode  draft_extend
worker.forward_batch_speculative_generation  -            schedule
""",
    # The draft is a look-up; what was accepted goes into its corpus.
    "ngram": f"""{_NGRAM}
worker._update_ngram_corpus               draft_extend
{_WHOLE}""",
    "ngram-cache": f"""{_NGRAM}
worker._update_ngram_cache                draft_extend
{_WHOLE}""",
    # One forward drafts a whole block.
    "dflash": f"""
tp_worker.forward_batch_generation        target
worker._ensure_draft_block_buffers        draft           -  sizes
{_DFLASH_PREPARE}
worker._append_target_hidden_to_draft_kv_by_loc  draft_extend
{_WHOLE}""",
    "dflash-v1": f"""
tp_worker.forward_batch_generation        target
worker._prepare_for_speculative_decoding  draft           -  sizes
{_DFLASH_PREPARE}
{_WHOLE}""",
    # Plain decode.
    "plain": """
worker.forward_batch_generation           forward         schedule
""",
    # Of a worker that no row knows, its whole turn is one phase, and verify where it has one.
    "unknown": """
worker.forward_batch_generation           forward         schedule
""",
    "unknown-verifying": """
worker.forward_batch_generation           forward         schedule
worker.verify                             verify          forward  sizes
""",
}

# The function of `sglang.srt.speculative` at whose return `verify.commit` begins.
COMMITS = {
    "common": "eagle_worker_common.eagle_sample",
    "v2": "eagle_worker_v2.eagle_sample",
    "layers": "multi_layer_eagle_worker_v2.eagle_sample",
    "ngram": "ngram_worker.eagle_sample",
    "sample": "eagle_info:EagleVerifyInput.sample",
    "verify": "eagle_info:EagleVerifyInput.verify",
    "verify-utils": "eagle_utils:EagleVerifyInput.verify",
    "ngram-verify": "ngram_info:NgramVerifyInput.verify",
    "ngram-utils": "ngram_utils:NgramVerifyInput.verify",
    "dflash-verify": "dflash_info:DFlashVerifyInput.verify",
}

LACKS = {
    "counts": "how many drafts of each request were correct",
    "graphs": "whether draft and draft extend ran as graphs",
    "commit": "verify.commit apart from verify.sample",
    "extend": "draft_extend apart from verify.commit",
    "thread": "the forward itself, which another thread runs",
}

PHASES = {
    "-": 0,
    "target": engine.TARGET,
    "forward": Ph.FORWARD,
    "draft": Ph.DRAFT,
    "verify": Ph.VERIFY,
    "verify.prepare": Ph.VERIFY_PREPARE,
    "draft_extend": Ph.DRAFT_EXTEND,
    "schedule": Ph.SCHEDULE,
}


MARSHAL_VERSION = 2  # plain values only: every Python reads it


class Release:
    """What the scheduler of a range of releases looks like.

    Args:
        columns: A row of RELEASES.

    Attributes:
        release: The first release.
        numbered: Whether a batch carries the number of its cycle.
        counts: Where the correct drafts are.
        counter: Of a request, what sums up its correct drafts; empty where nothing does.
        padded: Path from the scheduler to the batch size of the target's graph.
        ready: Paths of functions of which one is called first once the results are there.
    """

    def __init__(self, columns: list[str]) -> None:
        since, number, counts, counter, graph, ready = columns
        self.release = parsed(since) or OLDEST
        self.numbered = number == "batch"
        where, _, name = counts.partition(".")
        name, _, surplus = name.partition("-")
        self.counts: Counts = (where, name, int(surplus or 0)) if name else UNCOUNTED
        self.counter = counter.strip("-")
        self.padded = f"tp_worker.model_runner.{graph}.bs"
        self.ready = READY[ready].split()


class WorkerRow:
    """How the phases of one kind of worker are bounded, in a range of releases.

    Args:
        columns: A row of WORKERS.

    Attributes:
        worker: Name of a class in the worker's MRO; empty for any.
        since: The first release.
        targets: Functions, and the phases that begin at their call and at their return.
        sizes: The function of the worker at whose call it says how large its draft is.
        early: Whether the worker itself hands out the tokens.
        counted: Whether it tells how many drafts were correct.
        step: Path of one forward of the draft model; empty where it has none to be seen.
        steps: Path of what makes all of them where no graph runs; empty where nothing does.
        graphs: Path of the functions that run a part of the cycle as a graph, and the part.
            Where the server has no graphs there is nothing at the path.
        tried: Releases on which it ran.
        lacks: What it does not show.
    """

    def __init__(self, columns: list[str]) -> None:
        worker, since, shape, commit, step, graphs, tokens, lacks, tried = columns
        self.worker = worker.strip("-")
        self.since = parsed(since) or OLDEST
        self.early = tokens == "early"
        self.counted = "counts" not in lacks
        self.lacks = [LACKS[lack] for lack in lacks.split(",") if lack != "-"]
        self.tried = [parsed(release) for release in tried.split(",")]
        self._find_targets(shape, commit)
        self._find_draft(shape, step, graphs)

    def _find_targets(self, shape: str, commit: str) -> None:
        """The functions that bound phases."""
        self.sizes = ""
        self.targets: list[Target] = []
        for path, enter, *more in rows(SHAPES[shape]):
            self.targets.append((path, PHASES[enter], PHASES[more[0]] if more else 0))
            if "sizes" in more:
                self.sizes = path
        if commit != "-":
            path = f"module:sglang.srt.speculative.{COMMITS[commit]}"
            self.targets.append((path, 0, Ph.VERIFY_COMMIT))

    def _find_draft(self, shape: str, step: str, graphs: str) -> None:
        """Where the draft model runs, step by step or as a graph."""
        below = shape == "v2"
        drafter = "worker.draft_worker" if below else "worker"
        runner = "draft_runner" if below else "draft_model_runner"
        forward = {"runner": ".forward", "model": ".model.forward"}.get(step)
        self.step = f"{drafter}.{runner}{forward}" if forward else ""
        self.steps = f"{drafter}.draft_forward" if forward and "dflash" not in shape else ""
        self.graphs: list[tuple[str, int]] = []
        function, _, alone = graphs.partition("/")
        if function != "-":
            runner = f"{drafter}.cuda_graph_runner"
            self.graphs.append((f"{runner}.{function}", Graph.DRAFT))
            if not alone:
                self.graphs.append((f"{runner}_for_draft_extend.{function}", Graph.DRAFT_EXTEND))


class Chosen(Release, WorkerRow):
    """A row of RELEASES and one of WORKERS: where the probe finds what in one server.

    Args:
        release: The columns of the one.
        worker: The columns of the other.

    Attributes:
        name: Which rows these are, for people.
        untried: Why they may not fit, a sentence; empty where they were seen to.
    """

    name: str
    untried: str

    def __init__(self, release: list[str], worker: list[str]) -> None:
        Release.__init__(self, release)
        WorkerRow.__init__(self, worker)
        settle(self)


@cache
def digest() -> dict[str, bytes]:
    """All rows as `sglang_rows.DIGEST` has them."""
    kinds: dict[str, list[tuple[Version, bytes]]] = {}
    for row in rows(WORKERS):
        worker = WorkerRow(row)
        kinds.setdefault(worker.worker, []).append((worker.since, _dumps(vars(worker))))
    for shape in (UNKNOWN, UNKNOWN_VERIFYING):
        worker = WorkerRow(["-", spelled(OLDEST), shape, *"------"])
        kinds[shape] = [(OLDEST, _dumps(vars(worker)))]
    releases = map(Release, rows(RELEASES))
    kinds[SCHEDULER] = [(release.release, _dumps(vars(release))) for release in releases]
    return {kind: _dumps(of_kind) for kind, of_kind in kinds.items()}


def _dumps(value: Any) -> bytes:
    return marshal.dumps(value, MARSHAL_VERSION)


def rows(table: str) -> Iterator[list[str]]:
    """The rows of a table without its heading, word by word."""
    for line in table.splitlines():
        if line and not line.startswith("#"):
            yield line.split()
