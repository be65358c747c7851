"""On real servers of every shape that a CPU can have: the counts are the server's own.

Each shape is a class of its own: its server is started once, answers the same requests untraced
and traced, and then does what this shape alone can do. `test_real_server.py` has the usual shape
with either scheduler and on two ranks.
"""

from __future__ import annotations

import itertools
import json
import threading
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from types import MappingProxyType

import pytest

from examples.sglang_cpu.load import Answer, abort, ask, prompt
from examples.sglang_cpu.server import MODELS, CpuServer, ServerOptions
from spectrace.attach.discover import again, find_by_pid
from spectrace.attach.ring_file import ring_path
from spectrace.attach.session import TraceSession
from spectrace.model import Cycle, CycleKind, PhaseName
from tests.helpers.cpu_engine import PROGRAM, cpu_engine
from tests.helpers.tracing import (
    Collected,
    assert_phases_touch,
    assert_the_servers_counts,
    requests_of,
    token_ids,
    traced,
)

REQUESTS = 12
TOKENS = 24
LONG_TOKENS = 90
CROWD = 8
TIMEOUT_S = 60.0
TRIES = 5

VERIFY = (
    PhaseName.VERIFY_PREPARE,
    PhaseName.VERIFY_FORWARD,
    PhaseName.VERIFY_SAMPLE,
    PhaseName.VERIFY_COMMIT,
)
BETWEEN = {PhaseName.RESOLVE, PhaseName.SCHEDULE, PhaseName.WAIT, PhaseName.RESULT}

Work = Callable[[str], list[Answer]]
Phases = tuple[PhaseName, ...]


def eagle(draft_steps: int) -> Phases:
    """The worker's phases in a cycle whose draft runs so many forwards of its model."""
    steps = (PhaseName.DRAFT_STEP,) * draft_steps
    return (PhaseName.DRAFT, *steps, PhaseName.DRAFT, *VERIFY, PhaseName.DRAFT_EXTEND)


@dataclass(frozen=True)
class Observed:
    """What a server did, traced.

    Attributes:
        answers: Its answers.
        collected: The cycles.
        session: The session, which has ended.
    """

    answers: list[Answer]
    collected: Collected
    session: TraceSession

    @property
    def verifying(self) -> list[Cycle]:
        """The cycles that verified."""
        return [c for c in self.collected.cycles if c.kind is CycleKind.SPECULATIVE]

    def cycles_of(self, request_id: str) -> list[Cycle]:
        """Those whose batch had this request."""
        return [
            cycle
            for cycle in self.collected.cycles
            if any(row.request_id == request_id for row in cycle.requests or ())
        ]


def observe(
    pid: int,
    work: Callable[[], list[Answer]],
    meanwhile: Callable[[Collected], object] = lambda _: None,
) -> Observed:
    """Traces a server from before its work to after it."""
    with TraceSession(find_by_pid(pid)) as session:
        answers, collected = traced(session, work, meanwhile)
        session.detach()
        collected.add(session.last_cycles)
    return Observed(answers, collected, session)


def phases_of_the_worker(cycle: Cycle) -> Phases:
    """What ran between the scheduler's own phases."""
    return tuple(phase.name for phase in cycle.ranks[0].phases if phase.name not in BETWEEN)


class OfAnyShape:
    """What holds of every server.

    Attributes:
        OPTIONS: How it is started.
    """

    OPTIONS: ServerOptions

    @pytest.fixture(scope="class")
    @classmethod
    def server(cls) -> Iterator[CpuServer]:
        """The server of this shape."""
        with CpuServer(cls.OPTIONS) as server:
            yield server

    @pytest.fixture(scope="class")
    @classmethod
    def started(cls, server: CpuServer) -> tuple[int, Work]:
        """Its process, and how it is given the usual requests under a tag."""

        def work(tag: str) -> list[Answer]:
            return requests_of(server.url, requests=REQUESTS, tag=tag, tokens=TOKENS)()

        return server.pid, work

    @pytest.fixture(scope="class")
    @classmethod
    def baseline(cls, started: tuple[int, Work]) -> list[Answer]:
        """Its answers, never traced."""
        _, work = started
        return work("baseline")

    @pytest.fixture(scope="class")
    @classmethod
    def observed(cls, started: tuple[int, Work], baseline: list[Answer]) -> Observed:
        """The same requests, traced."""
        assert len(baseline) == REQUESTS
        pid, work = started
        return observe(pid, lambda: work("traced"))

    def test_every_request_counts_what_the_server_counted(self, observed: Observed) -> None:
        """Cycles, correct drafts, histogram and tokens of each request equal the server's own."""
        assert len(observed.answers) == REQUESTS
        assert_the_servers_counts(observed.answers, observed.collected)

    def test_the_tokens_are_those_of_the_untraced_server(
        self, observed: Observed, baseline: list[Answer]
    ) -> None:
        """Under the tracer every request gets the very token ids that it got without."""
        assert token_ids(observed.answers) == token_ids(baseline)

    def test_nothing_is_lost_or_unknown(self, observed: Observed) -> None:
        """Numbers are contiguous, no record was lost, and every function was found."""
        numbers = [cycle.number for cycle in observed.collected.cycles]
        assert numbers == list(range(numbers[0], numbers[-1] + 1))
        assert observed.session.lost == 0
        assert observed.session.facts().unhooked == ()
        assert observed.session.facts().errors == ()

    def test_sibling_phases_touch_and_fill_the_cycle(self, observed: Observed) -> None:
        """Phases follow each other without a hole and end where the next cycle starts."""
        compared = assert_phases_touch(observed.collected.cycles)
        assert compared > len(observed.collected.cycles) // 2


class OfOneDraft(OfAnyShape):
    """What holds of a server that drafts the same way in every cycle.

    Attributes:
        SIZE: Steps, branches and draft tokens of the cycles that verify.
        WORKER: The worker's phases in each of them.
    """

    SIZE: tuple[int, int, int]
    WORKER: Phases

    def test_cycles_have_the_draft_that_the_server_was_given(self, observed: Observed) -> None:
        """Every cycle that verifies has the sizes and the phases of its worker."""
        assert len(observed.verifying) >= TOKENS // 6
        found = {(cycle.steps, cycle.topk, cycle.draft_tokens) for cycle in observed.verifying}
        assert found == {self.SIZE}
        for cycle in observed.verifying:
            assert phases_of_the_worker(cycle) == self.WORKER


class TestTree(OfOneDraft):
    """Drafts with four branches a step."""

    OPTIONS = ServerOptions(steps=3, topk=4, draft_tokens=8)
    SIZE = (3, 4, 8)
    WORKER = eagle(2)

    def test_a_grammar_leaves_the_counts_the_servers(self, server: CpuServer) -> None:
        """Where a schema forbids most drafts, what is left of them is counted all the same."""
        schema = json.dumps({"type": "object", "properties": {"a": {"type": "integer"}}})

        def work(tag: str) -> list[Answer]:
            return [
                ask(
                    server.url,
                    request_id=f"{tag}-{index}",
                    text=prompt(index),
                    max_new_tokens=TOKENS,
                    further={"json_schema": schema},
                )
                for index in range(2)
            ]

        untraced = work("free")
        observed = observe(server.pid, lambda: work("grammar"))
        assert all(answer.text.startswith("{") for answer in observed.answers)
        assert token_ids(observed.answers) == token_ids(untraced)
        assert_the_servers_counts(observed.answers, observed.collected)

    def test_what_an_aborted_request_had_is_counted(self, server: CpuServer) -> None:
        """A request that is given up midway has the counts that its answer has."""
        asked: list[str] = []

        def abort_when_it_runs(collected: Collected) -> None:
            if not asked and "aborted" in collected.counts():
                asked.append("aborted")
                abort(server.url, "aborted")

        def work() -> list[Answer]:
            return [ask(server.url, request_id="aborted", text=prompt(0), max_new_tokens=900)]

        observed = observe(server.pid, work, abort_when_it_runs)
        (answer,) = observed.answers
        assert 0 < answer.completion_tokens < 900
        assert_the_servers_counts([answer], observed.collected)


class TestTwoSteps(OfOneDraft):
    """Short drafts, and little memory: prompts come in chunks, and requests are put back."""

    OPTIONS = ServerOptions(
        steps=2,
        draft_tokens=3,
        extra_args=(
            *("--max-total-tokens", "256"),
            *("--schedule-conservativeness", "0.01"),  # as if requests were always short
            *("--chunked-prefill-size", "32"),
        ),
    )
    SIZE = (2, 1, 3)
    WORKER = eagle(1)

    def test_a_request_that_was_put_back_goes_on_counting(self, server: CpuServer) -> None:
        """Requests that lost their memory and were prefilled again have the server's counts."""

        def crowded(index: int) -> Answer:
            # Of a request that may end sooner the server hopes that it will.
            return ask(
                server.url,
                request_id=f"crowded-{index}",
                text=prompt(index),
                max_new_tokens=LONG_TOKENS,
                further={"ignore_eos": False},
            )

        def work() -> list[Answer]:
            with ThreadPoolExecutor(CROWD) as pool:
                return list(pool.map(crowded, range(CROWD)))

        for _ in range(TRIES):  # on a busy machine they may not all be there at once
            observed = observe(server.pid, work)
            lengths = [answer.completion_tokens for answer in observed.answers]
            assert lengths == [LONG_TOKENS] * CROWD
            assert_the_servers_counts(observed.answers, observed.collected)
            if "Retract requests" in server.log_path.read_text():
                return
        raise AssertionError("the server put no request back")

    def test_a_prompt_may_come_in_chunks(self, server: CpuServer) -> None:
        """Each chunk is a cycle of kind `extend`, and the last one brings the first token."""

        def work() -> list[Answer]:
            text = prompt(0) * 16
            return [ask(server.url, request_id="long", text=text, max_new_tokens=TOKENS)]

        observed = observe(server.pid, work)
        assert_the_servers_counts(observed.answers, observed.collected)
        kinds = [cycle.kind for cycle in observed.collected.cycles]
        chunks = list(itertools.takewhile(lambda kind: kind is CycleKind.EXTEND, kinds))
        assert len(chunks) > 1
        assert set(kinds[len(chunks) :]) == {CycleKind.SPECULATIVE}


class TestNgram(OfOneDraft):
    """Drafts that are looked up in what was said before."""

    OPTIONS = ServerOptions(
        speculative=False,
        extra_args=(
            *("--speculative-algorithm", "NGRAM"),
            *("--speculative-num-draft-tokens", "8"),
            *("--speculative-ngram-max-bfs-breadth", "4"),
        ),
    )
    SIZE = (2, 4, 8)  # steps as SGLang has them: tokens / branches
    WORKER = (PhaseName.DRAFT, *VERIFY, PhaseName.DRAFT_EXTEND)


class TestStandalone(OfOneDraft):
    """Drafts of a small model of its own."""

    OPTIONS = ServerOptions(
        steps=3,
        draft_tokens=4,
        extra_args=(
            *("--speculative-algorithm", "STANDALONE"),
            *("--speculative-draft-model-path", str(MODELS / "standalone")),
        ),
    )
    SIZE = (3, 1, 4)
    WORKER = eagle(2)


class TestEngine(OfOneDraft):
    """SGLang within a program, without a server."""

    OPTIONS = ServerOptions()
    SIZE = (5, 1, 6)
    WORKER = eagle(4)

    @pytest.fixture(scope="class")
    @classmethod
    def started(cls) -> Iterator[tuple[int, Work]]:
        """The program, and how it is given the usual requests under a tag."""
        with cpu_engine(cls.OPTIONS) as engine:
            yield (
                engine.pid,
                lambda tag: engine.generate(requests=REQUESTS, max_new_tokens=TOKENS, tag=tag),
            )

    def test_the_program_is_found_as_what_it_is(
        self, started: tuple[int, Work], observed: Observed
    ) -> None:
        """By its own process, under its own command; nothing is left behind."""
        pid, _ = started
        run = find_by_pid(pid)
        assert [rank.name for rank in run.ranks] == ["TP0"]
        assert str(PROGRAM) in run.command
        assert again(run) is run
        assert observed.session.run.run_id == run.run_id
        assert not ring_path(run.ranks[0].pid).exists()


class TestAdaptiveSteps(OfAnyShape):
    """Drafts whose length follows the batch size, down to none at all."""

    STEPS = MappingProxyType({1: 5, 2: 2, 3: 2, 4: 0})  # by batch size

    @pytest.fixture(scope="class")
    @classmethod
    def server(cls, tmp_path_factory: pytest.TempPathFactory) -> Iterator[CpuServer]:
        """A server that has one choice of steps for each batch size."""
        config = tmp_path_factory.mktemp("adaptive") / "steps.json"
        choices = {str(size): {"candidate_steps": [steps]} for size, steps in cls.STEPS.items()}
        config.write_text(json.dumps(choices))
        options = ServerOptions(
            extra_args=(
                *("--speculative-adaptive", "--speculative-adaptive-config", str(config)),
                *("--cuda-graph-backend-decode", "disabled"),  # SGLang would make one for each
            )
        )
        with CpuServer(options) as server:
            yield server

    def test_every_cycle_has_the_steps_of_its_batch_size(self, observed: Observed) -> None:
        """Sizes and phases are those of the very cycle; without steps there is no draft."""
        for cycle in observed.verifying:
            steps = self.STEPS[cycle.batch_size]
            assert (cycle.steps, cycle.topk, cycle.draft_tokens) == (steps, 1, steps + 1)
            worker = eagle(steps - 1) if steps else (*VERIFY, PhaseName.DRAFT_EXTEND)
            assert phases_of_the_worker(cycle) == worker
        found = {cycle.steps for cycle in observed.verifying}
        assert 0 in found
        assert len(found) > 1


class TestPlainDecode(OfAnyShape):
    """No speculation: the baseline of every verdict. Prompts are mixed into decode batches."""

    OPTIONS = ServerOptions(
        speculative=False,
        extra_args=("--chunked-prefill-size", "32", "--enable-mixed-chunk"),
    )

    def test_every_cycle_is_one_forward_without_drafts(self, observed: Observed) -> None:
        """No cycle verifies, none has a size of draft, and no request a count of drafts."""
        for cycle in observed.collected.cycles:
            assert phases_of_the_worker(cycle) == (PhaseName.FORWARD,)
            assert (cycle.steps, cycle.topk, cycle.draft_tokens) == (0, 0, 0)
            assert all(row.correct_drafts is None for row in cycle.requests or ())

    def test_cycles_say_what_their_batch_was(self, observed: Observed) -> None:
        """A request begins in a prefill, its own or one mixed with others' decode, and decodes on.

        Each of its cycles brings one token.
        """
        begins, goes_on = {CycleKind.EXTEND, CycleKind.MIXED}, {CycleKind.DECODE, CycleKind.MIXED}
        for answer in observed.answers:
            first, *others = [cycle.kind for cycle in observed.cycles_of(answer.request_id)]
            assert first in begins
            assert set(others) <= goes_on
            assert len(others) == answer.completion_tokens - 1

    def test_a_prompt_that_joins_others_is_mixed(self, server: CpuServer) -> None:
        """Prefilled together with a decode that runs, its first cycle is of kind `mixed`."""
        decoding = threading.Event()

        def tell(collected: Collected) -> None:
            if any(cycle.kind is CycleKind.DECODE for cycle in collected.cycles):
                decoding.set()

        def late() -> Answer:
            decoding.wait(TIMEOUT_S)
            return ask(server.url, request_id="late", text=prompt(1), max_new_tokens=TOKENS)

        def work() -> list[Answer]:
            with ThreadPoolExecutor(1) as pool:
                second = pool.submit(late)
                first = ask(server.url, request_id="first", text=prompt(0), max_new_tokens=900)
                return [first, second.result()]

        observed = observe(server.pid, work, tell)
        assert observed.cycles_of("late")[0].kind is CycleKind.MIXED
        assert_the_servers_counts(observed.answers, observed.collected)
