"""The releases of SGLang as data: what each range of them calls its parts, and who drives them.

Read in the sources of the releases 0.4.6 to 0.5.23; `tests/integration/test_release_table.py`
reads them again. A row holds from its first release to the first of the next newer row. What
a release does not show is named in `lacks`, and nothing is put in its place.

A target is `(place, function, enter, leave)`. `place` is a path of attributes whose value's
class has the function: from the worker if it begins with `worker`, else from the scheduler
(empty: the scheduler itself); or `module:NAME` for a function that is looked up in a module,
or `module:NAME:CLASS`. `enter` and `leave` are the phases that begin at its call and at its
return, 0 for none; `TARGET` marks the target model's forward, which within verify is
`verify.forward` and then `verify.sample`, and otherwise `forward`.
"""

from __future__ import annotations

from ..layout import Graph, Ph  # noqa: TID252 - the probe runs under another package name

TARGET = -1

Version = tuple[int, int, int, int]  # the last number is that of a post release
Target = tuple[str, str, int, int]
# Where the correct drafts of each request are found when `process_batch_result` has returned:
# in the result, in what `verify` gave back or in the request, which has the sum of all its
# cycles; under which name, empty for nowhere; and how many tokens of each number were not
# drafted. A tensor on the CPU is as good as a list.
Counts = tuple[str, str, int]

OLDEST: Version = (0, 4, 6, 0)
NEWEST: Version = (0, 5, 23, 0)

# Attributes of the scheduler: the first that is there and not None is the worker. Releases
# before 0.5.3 lack the first.
WORKER_NAMES = ("model_worker", "draft_worker", "tp_worker")

RESULT, VERIFIED, REQUEST = "result", "verify", "request"
VERIFIES = "spec_verify_ct"  # of a request: its verifies
VERIFIED_PLACE = 1  # of the verify output in what `verify` gives back
UNCOUNTED = (RESULT, "", 0)

_SPECULATIVE = "module:sglang.srt.speculative."
_TARGET = ("tp_worker", "forward_batch_generation", TARGET, 0)
_WHOLE = ("worker", "forward_batch_generation", 0, Ph.SCHEDULE)


class Release:
    """What the scheduler of a range of releases looks like.

    Args:
        since: Its first release.
        numbered: Whether a batch carries the number of its cycle, as `forward_iter`.
        counts: Where the correct drafts are.
        counter: Of a request, what sums up its correct drafts; empty where nothing does.
        padded: Path from the scheduler to the batch size of the target's graph.
        ready: Places and functions of which one is called first in `process_batch_result` once
            the results are on the CPU.
    """

    __slots__ = ("counter", "counts", "numbered", "padded", "ready", "since")

    def __init__(  # noqa: PLR0913 - a row has as many columns; a NamedTuple takes 0.2 ms to make
        self,
        since: Version,
        *,
        numbered: bool,
        counts: Counts,
        counter: str,
        padded: str,
        ready: tuple[tuple[str, str], ...],
    ) -> None:
        self.since = since
        self.numbered = numbered
        self.counts = counts
        self.counter = counter
        self.padded = padded
        self.ready = ready


_CORRECT = (RESULT, "num_correct_drafts_per_req_cpu", 0)
_ACCEPTED = (RESULT, "num_accepted_drafts_per_req_cpu", 0)
_ACCEPT_LENGTH = (RESULT, "accept_length_per_req_cpu", 0)
_OF_VERIFY = (VERIFIED, "accept_length_per_req_cpu", 0)
_PROCESSOR = "batch_result_processor"
_NEW_READY = ((_PROCESSOR, "_normalize_decode_outputs"), (_PROCESSOR, "move_logprobs_to_cpu"))
# In decode, and in prefill where a request goes on and where it ends.
_OLD_READY = (
    ("token_to_kv_pool_allocator", "free_group_begin"),
    ("tree_cache", "cache_unfinished_req"),
    ("tree_cache", "cache_finished_req"),
)
_RESOLVE_IDS = (("", "_resolve_spec_overlap_token_ids"), *_OLD_READY)
_RESOLVE = (("", "_resolve_spec_overlap_tokens"), *_OLD_READY)
_RUNNER = "tp_worker.model_runner."

RELEASES = (
    Release(
        (0, 5, 14, 0),
        numbered=True,
        counts=_CORRECT,
        counter="spec_num_correct_drafts",
        padded=_RUNNER + "decode_cuda_graph_runner.bs",
        ready=_NEW_READY,
    ),
    Release(
        (0, 5, 13, 0),
        numbered=True,
        counts=_CORRECT,
        counter="spec_num_correct_drafts",
        padded=_RUNNER + "graph_runner.bs",
        ready=_NEW_READY,
    ),
    Release(
        (0, 5, 12, 0),
        numbered=True,
        counts=_CORRECT,
        counter="spec_num_correct_drafts",
        padded=_RUNNER + "graph_runner.bs",
        ready=_RESOLVE,
    ),
    Release(
        (0, 5, 11, 0),
        numbered=False,
        counts=_ACCEPTED,
        counter="spec_accepted_drafts",
        padded=_RUNNER + "graph_runner.bs",
        ready=_RESOLVE_IDS,
    ),
    Release(
        (0, 5, 7, 0),
        numbered=False,
        counts=_ACCEPT_LENGTH,
        counter="spec_accepted_tokens",
        padded=_RUNNER + "graph_runner.bs",
        ready=_RESOLVE_IDS,
    ),
    Release(
        (0, 5, 4, 0),
        numbered=False,
        counts=(RESULT, "accept_lens", 1),
        counter="spec_accepted_tokens",
        padded=_RUNNER + "graph_runner.bs",
        ready=_RESOLVE_IDS,
    ),
    Release(
        (0, 5, 3, 2),
        numbered=False,
        counts=UNCOUNTED,
        counter="spec_accepted_tokens",
        padded=_RUNNER + "graph_runner.bs",
        ready=_OLD_READY,
    ),
    Release(
        (0, 5, 3, 0),
        numbered=False,
        counts=_OF_VERIFY,
        counter="",
        padded=_RUNNER + "graph_runner.bs",
        ready=_OLD_READY,
    ),
    Release(
        (0, 5, 1, 0),
        numbered=False,
        counts=_OF_VERIFY,
        counter="",
        padded=_RUNNER + "graph_runner.bs",
        ready=_OLD_READY,
    ),
    Release(
        OLDEST,
        numbered=False,
        counts=_OF_VERIFY,
        counter="",
        padded=_RUNNER + "cuda_graph_runner.bs",
        ready=_OLD_READY,
    ),
)


class WorkerRow:
    """How the phases of one kind of worker are bounded, in a range of releases.

    Args:
        worker: Name of a class in the worker's MRO.
        since: First release.
        targets: See above.
        sizes: The function of the worker at whose call it says how large a draft is.
        early: Whether the worker itself hands the tokens to the requests, so that they have
            them when `process_batch_result` begins. It also cuts a result's counts at the end of
            a request, which the server's own counts do not: the request has those.
        counts: Where the correct drafts are, if not where the release's row says.
        step: Place and function of one forward of the draft model.
        steps: Place and function that make all of them where no graph runs.
        graphs: Place and function that run a part of the cycle as a graph, and the part. Where
            the server has no graphs there is nothing at the place.
        tried: Releases on which it ran and counted what the server counted.
        lacks: What it does not show.
    """

    __slots__ = (
        "counts",
        "early",
        "graphs",
        "lacks",
        "since",
        "sizes",
        "step",
        "steps",
        "targets",
        "tried",
        "worker",
    )

    def __init__(  # noqa: PLR0913 - a row has as many columns; a NamedTuple takes 0.2 ms to make
        self,
        worker: str,
        since: Version,
        targets: tuple[Target, ...],
        *,
        sizes: str = "",
        early: bool = False,
        counts: Counts | None = None,
        step: tuple[str, str] | None = None,
        steps: tuple[str, str] | None = None,
        graphs: tuple[tuple[str, str, int], ...] = (),
        tried: tuple[Version, ...] = (),
        lacks: tuple[str, ...] = (),
    ) -> None:
        self.worker = worker
        self.since = since
        self.targets = targets
        self.sizes = sizes
        self.early = early
        self.counts = counts
        self.step = step
        self.steps = steps
        self.graphs = graphs
        self.tried = tried
        self.lacks = lacks


_DRAFT = "worker.draft_worker"
_DRAFT_GRAPH = "cuda_graph_runner"
_EXTEND_GRAPH = "cuda_graph_runner_for_draft_extend"
_NO_GRAPHS = "whether draft and draft extend ran as graphs"

# The V2 workers: a worker that verifies, and another one below it that drafts.
_V2 = (
    _TARGET,
    (_DRAFT, "_draft_extend_for_prefill", Ph.DRAFT_EXTEND, 0),
    (_DRAFT, "draft", Ph.DRAFT, 0),
    ("worker", "verify", Ph.VERIFY_PREPARE, 0),
    (_DRAFT, "_draft_extend_for_decode", Ph.DRAFT_EXTEND, 0),
    _WHOLE,
)
_SAMPLE = ("eagle_sample", 0, Ph.VERIFY_COMMIT)
_SAMPLE_METHOD = (_SPECULATIVE + "eagle_info:EagleVerifyInput", "sample", 0, Ph.VERIFY_COMMIT)
_IN_COMMON = (*_V2, (_SPECULATIVE + "eagle_worker_common", *_SAMPLE))
_IN_V2 = (*_V2, (_SPECULATIVE + "eagle_worker_v2", *_SAMPLE))
_IN_MULTI_LAYER = (*_V2, (_SPECULATIVE + "multi_layer_eagle_worker_v2", *_SAMPLE))
_IN_INPUT = (*_V2, _SAMPLE_METHOD)
_V2_STEP = (_DRAFT + ".draft_runner", "forward")
_V2_STEPS = (_DRAFT, "draft_forward")
_V2_EXECUTE = (
    (f"{_DRAFT}.{_DRAFT_GRAPH}", "execute", Graph.DRAFT),
    (f"{_DRAFT}.{_EXTEND_GRAPH}", "execute", Graph.DRAFT_EXTEND),
)
_V2_REPLAY = (
    (f"{_DRAFT}.{_DRAFT_GRAPH}", "replay", Graph.DRAFT),
    (f"{_DRAFT}.{_EXTEND_GRAPH}", "replay", Graph.DRAFT_EXTEND),
)

# The V1 workers: one that does all, and hands out the tokens while it verifies.
_V1 = (
    _TARGET,
    ("worker", "forward_draft_extend", Ph.DRAFT_EXTEND, 0),
    ("worker", "draft", Ph.DRAFT, 0),
    ("worker", "verify", Ph.VERIFY_PREPARE, 0),
    ("worker", "forward_draft_extend_after_decode", Ph.DRAFT_EXTEND, 0),
)
_V1_INFO = (
    *_V1,
    _WHOLE,
    (_SPECULATIVE + "eagle_info:EagleVerifyInput", "verify", 0, Ph.VERIFY_COMMIT),
)
_V1_UTILS = (
    *_V1,
    ("worker", "forward_batch_speculative_generation", 0, Ph.SCHEDULE),
    (_SPECULATIVE + "eagle_utils:EagleVerifyInput", "verify", 0, Ph.VERIFY_COMMIT),
)
_V1_STEP = ("worker.draft_model_runner", "forward")
_V1_MODEL_STEP = ("worker.draft_model_runner.model", "forward")
_V1_STEPS = ("worker", "draft_forward")
_V1_DRAFT_GRAPH = (f"worker.{_DRAFT_GRAPH}", "replay", Graph.DRAFT)
_V1_GRAPHS = (_V1_DRAFT_GRAPH, (f"worker.{_EXTEND_GRAPH}", "replay", Graph.DRAFT_EXTEND))

_NGRAM = (
    _TARGET,
    ("worker", "_prepare_draft_tokens", Ph.DRAFT, Ph.VERIFY_PREPARE),
    _WHOLE,
)
_NGRAM_EXTEND = ("worker", "_update_ngram_corpus", Ph.DRAFT_EXTEND, 0)
_NGRAM_INFO = (_SPECULATIVE + "ngram_info:NgramVerifyInput", "verify", 0, Ph.VERIFY_COMMIT)
_NGRAM_UTILS = (_SPECULATIVE + "ngram_utils:NgramVerifyInput", "verify", 0, Ph.VERIFY_COMMIT)
_UNCOUNTED = ("how many drafts of each request were correct",)

_DFLASH_PREPARE = (
    _SPECULATIVE + "dflash_info:DFlashVerifyInput",
    "prepare_for_verify",
    Ph.VERIFY_PREPARE,
    0,
)

# Of each kind of worker the newest row first; of kinds that derive from another, theirs first.
WORKERS = (
    WorkerRow(
        "FrozenKVMTPWorkerV2",
        (0, 5, 16, 0),
        _IN_COMMON,
        sizes="verify",
        step=_V2_STEP,
        steps=_V2_STEPS,
        graphs=_V2_EXECUTE[:1],
    ),
    WorkerRow(
        "FrozenKVMTPWorkerV2",
        (0, 5, 14, 0),
        _IN_V2,
        sizes="verify",
        step=_V2_STEP,
        steps=_V2_STEPS,
        graphs=_V2_EXECUTE[:1],
    ),
    WorkerRow(
        "FrozenKVMTPWorker",
        (0, 5, 12, 0),
        _V1_INFO,
        sizes="verify",
        early=True,
        step=_V1_STEP,
        steps=_V1_STEPS,
        graphs=(_V1_DRAFT_GRAPH,),
    ),
    WorkerRow(
        "EAGLEWorkerV2",
        (0, 5, 16, 0),
        _IN_COMMON,
        sizes="verify",
        step=_V2_STEP,
        steps=_V2_STEPS,
        graphs=_V2_EXECUTE,
        tried=((0, 5, 23, 0),),
    ),
    WorkerRow(
        "EAGLEWorkerV2",
        (0, 5, 14, 0),
        _IN_V2,
        sizes="verify",
        step=_V2_STEP,
        steps=_V2_STEPS,
        graphs=_V2_EXECUTE,
    ),
    WorkerRow(
        "EAGLEWorkerV2",
        (0, 5, 6, 0),
        _IN_INPUT,
        sizes="verify",
        step=_V2_STEP,
        steps=_V2_STEPS,
        graphs=_V2_REPLAY,
    ),
    WorkerRow(
        "EAGLEWorkerV2",
        (0, 5, 4, 0),
        _IN_INPUT,
        sizes="verify",
        step=(_DRAFT + ".draft_runner.model", "forward"),
        steps=_V2_STEPS,
        graphs=_V2_REPLAY,
    ),
    # Its first form, in post releases of 0.5.3: one worker, which extends within verify.
    WorkerRow(
        "EAGLEWorkerV2",
        (0, 5, 3, 2),
        (
            _TARGET,
            ("worker", "forward_draft_extend", Ph.DRAFT_EXTEND, 0),
            ("worker", "draft", Ph.DRAFT, 0),
            ("worker", "verify", Ph.VERIFY_PREPARE, 0),
            _WHOLE,
            _SAMPLE_METHOD,
            (
                _SPECULATIVE + "eagle_info:EagleDraftInput",
                "prepare_for_extend_to_fill_draft_kvcache",
                Ph.DRAFT_EXTEND,
                0,
            ),
        ),
        sizes="verify",
        counts=UNCOUNTED,
        step=("worker.draft_model_runner.model", "forward"),
        steps=_V1_STEPS,
        graphs=(_V1_DRAFT_GRAPH,),
        lacks=_UNCOUNTED,
    ),
    WorkerRow(
        "EAGLEWorker",
        (0, 5, 3, 0),
        _V1_INFO,
        sizes="verify",
        early=True,
        step=_V1_STEP,
        steps=_V1_STEPS,
        graphs=_V1_GRAPHS,
        tried=((0, 5, 9, 0), (0, 5, 12, 0)),
    ),
    WorkerRow(
        "EAGLEWorker",
        (0, 4, 9, 4),
        _V1_UTILS,
        sizes="verify",
        early=True,
        step=_V1_STEP,
        steps=_V1_STEPS,
        graphs=_V1_GRAPHS,
    ),
    WorkerRow(
        "EAGLEWorker",
        (0, 4, 7, 0),
        _V1_UTILS,
        sizes="verify",
        early=True,
        step=_V1_MODEL_STEP,
        steps=_V1_STEPS,
        graphs=_V1_GRAPHS,
    ),
    WorkerRow(
        "EAGLEWorker",
        OLDEST,
        _V1_UTILS,
        sizes="verify",
        early=True,
        step=_V1_MODEL_STEP,
        steps=_V1_STEPS,
        graphs=(_V1_DRAFT_GRAPH,),
    ),
    WorkerRow(
        "MultiLayerEagleWorkerV2",
        (0, 5, 16, 0),
        _IN_COMMON,
        sizes="verify",
        lacks=(_NO_GRAPHS,),
    ),
    WorkerRow(
        "MultiLayerEagleWorkerV2",
        (0, 5, 14, 0),
        _IN_MULTI_LAYER,
        sizes="verify",
        lacks=(_NO_GRAPHS,),
    ),
    WorkerRow(
        "MultiLayerEagleWorkerV2",
        (0, 5, 7, 0),
        _IN_INPUT,
        sizes="verify",
        lacks=(_NO_GRAPHS,),
    ),
    WorkerRow(
        "MultiLayerEagleWorker",
        (0, 5, 7, 0),
        _V1_INFO,
        sizes="verify",
        early=True,
        lacks=(_NO_GRAPHS,),
    ),
    # The draft is a look-up; what was accepted goes into its corpus.
    WorkerRow(
        "NGRAMWorker",
        (0, 5, 14, 0),
        (*_NGRAM, _NGRAM_EXTEND, (_SPECULATIVE + "ngram_worker", *_SAMPLE)),
        sizes="_prepare_draft_tokens",
    ),
    WorkerRow(
        "NGRAMWorker",
        (0, 5, 10, 0),
        (*_NGRAM, _NGRAM_EXTEND, _NGRAM_INFO),
        sizes="_prepare_draft_tokens",
        early=True,
    ),
    WorkerRow(
        "NGRAMWorker",
        (0, 5, 6, 0),
        (*_NGRAM, ("worker", "_update_ngram_cache", Ph.DRAFT_EXTEND, 0), _NGRAM_INFO),
        sizes="_prepare_draft_tokens",
        early=True,
    ),
    WorkerRow(
        "NGRAMWorker",
        (0, 5, 3, 1),
        (*_NGRAM, ("worker", "_update_ngram_cache", Ph.DRAFT_EXTEND, 0), _NGRAM_INFO),
        sizes="_prepare_draft_tokens",
        early=True,
        counts=UNCOUNTED,
        lacks=_UNCOUNTED,
    ),
    WorkerRow(
        "NGRAMWorker",
        (0, 5, 3, 0),
        (*_NGRAM, ("worker", "_update_ngram_cache", Ph.DRAFT_EXTEND, 0), _NGRAM_UTILS),
        sizes="_prepare_draft_tokens",
        early=True,
        counts=UNCOUNTED,
        lacks=_UNCOUNTED,
    ),
    # One forward drafts a whole block.
    WorkerRow(
        "DFlashWorkerV2",
        (0, 5, 14, 0),
        (
            _TARGET,
            ("worker", "_ensure_draft_block_buffers", Ph.DRAFT, 0),
            _DFLASH_PREPARE,
            ("worker", "_append_target_hidden_to_draft_kv_by_loc", Ph.DRAFT_EXTEND, 0),
            _WHOLE,
        ),
        sizes="_ensure_draft_block_buffers",
        step=("worker.draft_model_runner", "forward"),
        lacks=("verify.commit apart from verify.sample", _NO_GRAPHS),
    ),
    WorkerRow(
        "DFlashWorker",
        (0, 5, 11, 0),
        (
            _TARGET,
            ("worker", "_prepare_for_speculative_decoding", Ph.DRAFT, 0),
            _DFLASH_PREPARE,
            (_SPECULATIVE + "dflash_info:DFlashVerifyInput", "verify", 0, Ph.VERIFY_COMMIT),
            _WHOLE,
        ),
        sizes="_prepare_for_speculative_decoding",
        early=True,
        step=("worker.draft_model_runner", "forward"),
        lacks=("draft_extend apart from verify.commit", _NO_GRAPHS),
    ),
    # Plain decode. Up to 0.5.3 the overlap scheduler runs the model in a thread of its own.
    WorkerRow(
        "TpModelWorkerClient",
        OLDEST,
        (("worker", "forward_batch_generation", Ph.FORWARD, Ph.SCHEDULE),),
        lacks=("the forward itself, which another thread runs",),
    ),
    WorkerRow(
        "TpModelWorker",
        OLDEST,
        (("worker", "forward_batch_generation", Ph.FORWARD, Ph.SCHEDULE),),
        tried=((0, 5, 23, 0),),
    ),
)

# Of a worker that no row knows, its whole turn is one phase, and verify where it has one.
_TURN = ("worker", "forward_batch_generation", Ph.FORWARD, Ph.SCHEDULE)
UNKNOWN = WorkerRow("", OLDEST, (_TURN,))
UNKNOWN_VERIFYING = WorkerRow(
    "", OLDEST, (_TURN, ("worker", "verify", Ph.VERIFY, Ph.FORWARD)), sizes="verify"
)


class Chosen:
    """The rows for one server.

    Attributes:
        release: Of its scheduler.
        worker: Of its worker.
        known: Whether the worker is.
        counts: Where the correct drafts are.
        name: Which rows these are, for people.
        untried: Why they may not fit, a sentence; empty where they were seen to.
    """

    __slots__ = ("counts", "known", "name", "release", "untried", "worker")

    def __init__(self, release: Release, worker: WorkerRow, untried: str) -> None:
        self.release = release
        self.worker = worker
        self.known = bool(worker.worker)
        self.untried = untried
        since = max(release.since, worker.since)
        self.counts = self._counts()
        self.name = f"{worker.worker or 'unknown worker'} since {spelled(since)}"

    def _counts(self) -> Counts:
        if self.worker.counts is not None:
            return self.worker.counts
        if self.worker.early and self.release.counter:
            return REQUEST, self.release.counter, 0
        return self.release.counts


def choose(text: str, worker: type, *, speculates: bool) -> Chosen:
    """The rows for a release and a kind of worker.

    Args:
        text: The release as `sglang.__version__` spells it.
        worker: The worker's class.
        speculates: Whether the server does; a worker that derives from the plain one is then
            not taken for it.
    """
    found = parsed(text)
    version = min(max(found or NEWEST, OLDEST), NEWEST)
    release = next(row for row in RELEASES if row.since <= version)
    ancestors = [kind.__name__ for kind in worker.__mro__]
    unknown = UNKNOWN_VERIFYING if hasattr(worker, "verify") else UNKNOWN
    for row in WORKERS:
        if row.worker not in ancestors or row.since > version:
            continue
        if row.sizes or not speculates or row.worker == worker.__name__:
            break
    else:
        row = unknown
    return Chosen(release, row, _doubt(text, found, version, row))


def _doubt(text: str, found: Version | None, version: Version, row: WorkerRow) -> str:
    """Why the row may not fit, a sentence, or nothing."""
    if found != version:
        return (
            f"SGLang {text or 'of unknown release'} is none of the releases {spelled(OLDEST)} to "
            f"{spelled(NEWEST)} that spectrace knows: traced as {spelled(version)}, untried."
        )
    if row.worker and version not in row.tried:
        return (
            f"Untried: {row.worker} of SGLang {text} was checked against its sources, "
            "but never traced while it ran."
        )
    return ""


def spelled(version: Version) -> str:
    """A release as SGLang names it."""
    *numbers, post = version
    return ".".join(map(str, numbers)) + (f".post{post}" if post else "")


def parsed(text: str) -> Version | None:
    """The numbers of a release; None if there are none.

    A release candidate and a development version count as the release that they lead to.
    """
    numbers = []
    post = 0
    for part in text.partition("+")[0].split("."):
        if part.startswith("post"):
            post = _leading(part[4:])
        elif part[:1].isdigit():
            numbers.append(_leading(part))
    if len(numbers) < 3 or not any(numbers):  # noqa: PLR2004 - major, minor, patch
        return None
    return numbers[0], numbers[1], numbers[2], post


def _leading(text: str) -> int:
    digits = text[: len(text) - len(text.lstrip("0123456789"))]
    return int(digits or 0)
