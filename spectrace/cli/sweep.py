"""`spectrace sweep`: tries settings of a server one after another under the same load."""

from __future__ import annotations

import hashlib
import shlex
import sys
from collections.abc import Sequence
from contextlib import closing
from pathlib import Path
from typing import Annotated, Any
from urllib.parse import urlsplit

import msgspec
import typer
from rich.console import Console

from spectrace.analysis.sweep_report import Measured, SettingFigures, SweepReport, figures
from spectrace.analysis.sweep_report import report as report_of
from spectrace.attach import ring_file
from spectrace.attach.ways import Method
from spectrace.cli.output import OutputConsole
from spectrace.cli.page_options import MAX_SIZE, MaxSizeOption, duration_option
from spectrace.cli.progress import progress_on
from spectrace.cli.result_options import ResultJsonOption
from spectrace.cli.stopping import stop_on_signals
from spectrace.cli.sweep_folder import LoadPlan, SweepFolder, SweepPlan, Turn, TurnRecord
from spectrace.cli.sweep_load import API_KEY, CommandLoad, HttpLoad, LoadMaker, LoadResult
from spectrace.cli.sweep_prompts import Prompt, in_order, own_prompts, read_prompts
from spectrace.cli.sweep_settings import PLAIN, Setting, settings_of, value_of
from spectrace.cli.sweep_turn import Means, measure
from spectrace.cli.sweep_words import render, sentences
from spectrace.cli.timing_run import Progress
from spectrace.cli.trace_options import MethodOption, TimingOption, options_of
from spectrace.hidden import command_without_secrets, text_without_secrets
from spectrace.store.extract import Extract

_START_TIMEOUT: Any = "30m"  # Any: typer sends a default through the option's parser as well
_PORT = 30000  # of SGLang, where the command names none
_ANY_HOST = ("0.0.0.0", "::", "")  # noqa: S104 - what a server may listen on is no address of it
_INTERRUPTED = 130
_NOTHING_MEASURED = 1
_INTO = "spectrace-sweep"


def list_option(text: str) -> tuple[int, ...]:
    """Whole numbers on the command line, such as 1,2,3,5.

    Raises:
        BadParameter: They are none.
    """
    parts = [part.strip() for part in text.split(",")]
    if not all(part.isascii() and part.isdigit() for part in parts):
        raise typer.BadParameter(f"{text!r} is no list of numbers: write 1,2,3,5.")
    return tuple(map(int, parts))


def _tried(about: str) -> Any:
    """A list of numbers of which each is tried."""
    return typer.Option(parser=list_option, metavar="LIST", help=about, show_default=False)


def url_of(command: Sequence[str], url: str | None) -> str:
    """Where the server will answer: as its command says, unless an address is given.

    Raises:
        BadParameter: It is no address.
    """
    if url is None:
        host = value_of(command, "--host") or ""
        port = value_of(command, "--port") or str(_PORT)
        host = "127.0.0.1" if host in _ANY_HOST else host
        return f"http://{f'[{host}]' if ':' in host else host}:{port}"
    full = url if "://" in url else f"http://{url}"
    try:
        parts = urlsplit(full)
        is_address = bool(parts.hostname) and parts.port != 0  # a port that is none is an error
    except ValueError:
        is_address = False
    if not is_address:
        raise typer.BadParameter(
            f"{url!r} is no address: write http://127.0.0.1:{_PORT}.", param_hint="--url"
        )
    return full.rstrip("/")


def key_of(command: Sequence[str], key: str | None) -> str:
    """What opens the server: as was given, else as its command says; empty where nothing does.

    Raises:
        BadParameter: It cannot stand in a header; it is not shown.
    """
    found = key or value_of(command, "--api-key") or ""
    if not (found.isascii() and found.isprintable()) or " " in found:
        raise typer.BadParameter(
            "a key has letters, digits and signs alone, without spaces.", param_hint="--api-key"
        )
    return found


def turns_of(settings: Sequence[Setting], rounds: int) -> list[Turn]:
    """All turns in their order: every second round goes backwards, so that a drift falls out."""
    found: list[Turn] = []
    for number in range(1, rounds + 1):
        order = settings if number % 2 else settings[::-1]
        found += [Turn(setting=setting, round=number) for setting in order]
    return found


def load_of(plan: LoadPlan, prompts: Sequence[Prompt], key: str = "") -> LoadMaker:
    """What makes the load that a plan describes, with the key that opens the server."""
    if plan.command is not None:
        command = plan.command
        return lambda url, output: CommandLoad(command, url, output, key=key)
    return lambda url, _: HttpLoad(
        url,
        prompts,
        warm_up=plan.warm_up,
        concurrency=plan.concurrency,
        max_tokens=plan.max_tokens,
        temperature=plan.temperature,
        key=key,
    )


def summed_up(
    folder: SweepFolder, command: Sequence[str], settings: Sequence[Setting], rounds: int
) -> SweepReport:
    """What the folder holds of these settings."""
    found, left = [], 0
    for setting in settings:
        turns = [Turn(setting=setting, round=number + 1) for number in range(rounds)]
        records = [(turn.name, folder.done(turn, command)) for turn in turns]
        left += sum(record is None for _, record in records)
        known = [(name, record) for name, record in records if record is not None]
        if known:
            found.append(_figures(folder, setting, known))
    plain = next((one.name for one in settings if one.name == PLAIN), None)
    report = report_of(found, plain, left)
    best = next((one for one in settings if one.name == report.best), None)
    return msgspec.structs.replace(
        report,
        sentences=sentences(report),
        restart=command_without_secrets(best.command(command)) if best else (),
    )


def _figures(
    folder: SweepFolder, setting: Setting, turns: Sequence[tuple[str, TurnRecord]]
) -> SettingFigures:
    starts = [
        _measured(folder.recording(name), record.load)
        for name, record in turns
        if record.load is not None
    ]
    found = figures(setting.name, command_without_secrets(setting.arguments), starts)
    failed = next((record for _, record in turns if record.failure), None)
    if failed is None:
        return found
    said = map(text_without_secrets, (failed.failure, *failed.last_lines))
    return msgspec.structs.replace(found, failure=next(said), last_lines=tuple(said))


def _measured(file: Path, load: LoadResult) -> Measured:
    with closing(Extract(file)) as extract:
        cycles = extract.served()
    return Measured(cycles, load.begin_ns, load.end_ns, load.tokens_per_s)


def sweep(  # noqa: PLR0913, PLR0917 - the options of the command
    command: Annotated[
        list[str],
        typer.Argument(help="What starts the server, after `--`.", show_default=False),
    ],
    output: Annotated[
        Path,
        typer.Option(
            "--output",
            "-o",
            metavar="DIR",
            help="The folder for recordings and results; the same command goes on in it.",
        ),
    ] = Path(_INTO),
    steps: Annotated[
        Any,
        _tried("Numbers of draft steps to try, such as 1,2,3,5; 0 is plain decode."),
    ] = None,
    topk: Annotated[
        Any,
        _tried("Branches of a step; as in the command if not given."),
    ] = None,
    draft_tokens: Annotated[
        Any,
        _tried("Tokens to verify, where a step has branches; else they are steps and one."),
    ] = None,
    setting: Annotated[
        list[str] | None,
        typer.Option(
            metavar="NAME=ARGS",
            help="Any other setting: options of the server that are put in or replaced. May be "
            "given several times.",
            show_default=False,
        ),
    ] = None,
    no_plain: Annotated[
        bool, typer.Option("--no-plain", help="Leave out the server without speculation.")
    ] = False,
    rounds: Annotated[
        int,
        typer.Option(min=1, help="So often each setting is started; 3 measures what differs then."),
    ] = 1,
    load: Annotated[
        str | None,
        typer.Option(
            metavar="COMMAND",
            help="What sends the load until it ends; {url} in it is the server's address.",
            show_default=False,
        ),
    ] = None,
    requests: Annotated[
        int, typer.Option(min=1, help="Requests that count, of the load over HTTP.")
    ] = 64,
    warm_up: Annotated[
        int | None,
        typer.Option(
            min=0,
            help="Requests before them that do not; twice --concurrency if not given.",
            show_default=False,
        ),
    ] = None,
    concurrency: Annotated[int, typer.Option(min=1, max=1024, help="Requests at a time.")] = 4,
    max_tokens: Annotated[int, typer.Option(min=1, help="Tokens of an answer.")] = 256,
    temperature: Annotated[float, typer.Option(min=0, help="Of sampling; 0 is greedy.")] = 0.0,
    prompts: Annotated[
        Path | None,
        typer.Option(
            metavar="FILE",
            help='Prompts, one a line: text, or JSON such as {"text": "…", "max_tokens": 128}. '
            "What a draft accepts depends on them.",
            show_default=False,
        ),
    ] = None,
    seed: Annotated[int, typer.Option(min=0, help="Of the order of the prompts.")] = 0,
    url: Annotated[
        str | None,
        typer.Option(
            help="Where the server answers, if its command does not say.", show_default=False
        ),
    ] = None,
    api_key: Annotated[
        str | None,
        typer.Option(
            envvar=API_KEY,
            metavar="KEY",
            help="What opens the server, if its command does not say (--api-key there). Others "
            "see a command line: the variable is safer.",
            show_default=False,
        ),
    ] = None,
    start_timeout: Annotated[
        float,
        typer.Option(
            parser=duration_option,
            metavar="TIME",
            help=f"How long a server has to come up; {_START_TIMEOUT} if not given.",
            show_default=False,
        ),
    ] = _START_TIMEOUT,
    timing: TimingOption = None,
    method: MethodOption = Method.AUTO,
    max_size: MaxSizeOption = MAX_SIZE,
    json: ResultJsonOption = False,
) -> None:
    """Start a server with one setting after another, load each alike, and say which is fastest."""
    settings = settings_of(
        command,
        steps=steps or (),
        topks=topk or (),
        draft_tokens=draft_tokens or (),
        others=setting or (),
        with_plain=not no_plain,
    )
    warms = 2 * concurrency if warm_up is None else warm_up
    sent: list[Prompt] = []
    plan = LoadPlan(command=load)
    if load is None:
        known = own_prompts() if prompts is None else read_prompts(prompts)
        sent = in_order(known, warms + requests, seed)
        plan = LoadPlan(
            prompts=None if prompts is None else str(prompts),
            digest=hashlib.sha256(msgspec.json.encode(sent)).hexdigest(),
            requests=requests,
            warm_up=warms,
            concurrency=concurrency,
            max_tokens=max_tokens,
            temperature=temperature,
            seed=seed,
        )
    elif not _words(load):
        raise typer.BadParameter(f"{load!r} is no command.", param_hint="--load")
    means = Means(
        command=tuple(command),
        url=url_of(command, url),
        load=load_of(plan, sent, key_of(command, api_key)),
        options=options_of(timing, 1, None, method),
        start_timeout_s=start_timeout,
        max_bytes=max_size,
    )
    console = Console(stderr=True) if json else OutputConsole()
    progress = progress_on(console)
    with closing(SweepFolder(output)) as folder:
        folder.agree(
            SweepPlan(command=tuple(command), load=plan, timing=timing.value if timing else "")
        )
        try:
            stopped = _run(folder, turns_of(settings, rounds), means, progress)
        finally:
            progress.close()
        found = summed_up(folder, command, settings, rounds)
    if json:
        sys.stdout.write(msgspec.json.encode(found).decode() + "\n")
    else:
        console.print()
        console.print(render(found), highlight=False)
    if stopped:
        raise typer.Exit(_INTERRUPTED)
    raise typer.Exit(0 if found.fastest else _NOTHING_MEASURED)


def _words(command: str) -> list[str]:
    try:
        return shlex.split(command)
    except ValueError:  # a quote without its twin
        return []


def _run(folder: SweepFolder, turns: Sequence[Turn], means: Means, progress: Progress) -> bool:
    """Runs what is not done yet; gives whether somebody stopped it."""
    for turn in turns:
        folder.done(turn, means.command)  # which refuses another setting of that name, at once
    ring_file.sweep()  # what a killed spectrace and then a killed server left behind
    with stop_on_signals() as stop:
        left = folder.clean()
        if left:
            which = " and ".join(map(str, left))
            progress.note(f"Ended what a sweep that was killed here left running ({which}).")
        for place, turn in enumerate(turns, 1):
            before = folder.done(turn, means.command)
            head = f"{turn.name} ({place} of {len(turns)})"
            if before is not None and not before.failure:
                progress.note(f"{head}: is there already.")
                continue
            progress.note(f"{head}: its output goes to {folder.server_log(turn.name)}.")
            record = measure(turn, means, folder, progress, stop)
            if record is None:
                progress.note("Stopped; the same command goes on from here.")
                return True
            progress.note(f"{head}: {_outcome(record)}")
            if stop.requested and place < len(turns):
                return True
    return False


def _outcome(record: TurnRecord) -> str:
    if record.load is None:
        return " ".join(["failed.", record.failure, *record.last_lines[-1:]])
    if record.load.tokens_per_s is None:
        return "done."
    return f"{record.load.tokens_per_s:,.1f} tok/s, as the load measured it."
