"""Draws the report of a run as one HTML file that needs nothing else."""

from __future__ import annotations

from collections.abc import Iterator
from html import escape
from pathlib import Path

from spectrace.analysis.run_report import RunReport
from spectrace.analysis.verify_cost import Shape
from spectrace.cli import numbers, svg, timing_page
from spectrace.cli.run_sections import Section, definitions, facts, sections
from spectrace.cli.run_words import known_from, main_stratum, percent, phases_of, setting, value
from spectrace.cli.timing_words import label
from spectrace.model import Lane, PhaseName

_STYLES = (Path(timing_page.__file__).with_suffix(".css"), Path(__file__).with_suffix(".css"))
_NAMED_FROM = 0.09  # of a bar: narrower phases have no room for their name
_SHOWN_BATCHES = 3


def page(found: RunReport, raw: bytes) -> str:
    """The page.

    Args:
        found: The report, with its sentences.
        raw: The same as JSON, which the page carries for programs.
    """
    style = "".join(path.read_text("utf-8") for path in _STYLES)
    first, *others = found.sentences
    return "".join(
        (
            '<!doctype html>\n<html lang="en"><head><meta charset="utf-8">',
            '<meta name="viewport" content="width=device-width,initial-scale=1">',
            f"<title>Speculation report · spectrace</title><style>{style}</style></head>",
            "<body><main><header><h1>spectrace · does speculation pay</h1>",
            f'<span class="quiet">{escape(_server(found))}</span></header>',
            f'<p class="lead">{escape(first)}</p>',
            "".join(f'<p class="rest">{escape(text)}</p>' for text in others),
            *_lengths(found),
            *_bars(found),
            *_positions(found),
            *_time(found),
            *_verify(found),
            *_what_if(found),
            *map(_table, sections(found)),
            *_basis(found),
            "</main>",
            f'<script type="application/json" id="result">{timing_page.harmless(raw)}</script>',
            "</body></html>\n",
        )
    )


def _server(found: RunReport) -> str:
    run = found.run
    parts = (run.engine, f"process {run.server_pid} on {run.host}", f"{found.duration_s:,.0f} s")
    return " · ".join(part for part in parts if part)


def _figure(title: str, caption: str, picture: str) -> Iterator[str]:
    if picture:
        yield (
            f"<section><figure><h2>{escape(title)}</h2><figcaption>{escape(caption)}</figcaption>"
            f"{picture}</figure></section>"
        )


def _lengths(found: RunReport) -> Iterator[str]:
    """Tokens per cycle against break-even, by batch size."""
    shown = [one for one in found.verdict.by_batch if one.break_even is not None]
    if not shown:
        return
    main = shown[0].setting
    of_main = sorted((one for one in shown if one.setting == main), key=lambda one: one.batch)
    dots = [
        svg.Dot(one.batch, one.tokens_per_cycle, True, f"{value(one.tokens_per_cycle)} tokens")
        for one in of_main
    ]
    level = tuple((float(one.batch), one.break_even.value) for one in of_main if one.break_even)
    if len(level) == 1:
        level = tuple((level[0][0] + side, level[0][1]) for side in (-0.4, 0.4))
    yield from _figure(
        "Tokens per cycle, and what would break even",
        f"{setting(main).capitalize()}. Above the dashed line speculation pays.",
        svg.draw(
            svg.Chart(
                "Tokens per cycle by batch size, against break-even",
                "batch size",
                "tokens per cycle",
                dots,
                [svg.Line(level, "break-even", dashed=True)],
            )
        ),
    )


def _bars(found: RunReport) -> Iterator[str]:
    """The phases of a cycle on both lanes, on one axis."""
    main = main_stratum(found)
    if main is None or main.cycle is None:
        return
    rows = []
    for lane in (Lane.DEVICE, Lane.HOST):
        phases = [(one.name, one.share.value) for one in phases_of(main, lane)]
        if phases:
            whole = max(1.0, sum(share for _, share in phases))
            parts = "".join(_part(name, share / whole) for name, share in phases if share > 0)
            rows.append(
                f'<div class="row"><span class="name"><b>{lane.value}</b></span>'
                f'<div class="plot"><div class="stack {lane.value}" style="width:100%">{parts}'
                f'<i class="rest-of" style="flex:{max(0.0, 1 - sum(s for _, s in phases)):.5f}">'
                "</i></div></div></div>"
            )
    yield from _figure(
        "Where a cycle goes",
        f"Batch size {main.batch}, {setting(main.setting)}: "
        f"{numbers.milliseconds(main.cycle.p50_ms.value)} at the median. Filled is the device, "
        "outlined the host; what is left white is no phase.",
        "".join(rows),
    )


def _part(name: PhaseName, share: float) -> str:
    warm = ' class="warm"' if name in {PhaseName.DRAFT, PhaseName.DRAFT_EXTEND} else ""
    text = f"{label(name)} {numbers.share(share)}" if share >= _NAMED_FROM else ""
    return (
        f'<i{warm} title="{label(name)}: {numbers.share(share)}" '
        f'style="--c:var(--{name.value});flex:{share:.5f}"><span>{text}</span></i>'
    )


def _positions(found: RunReport) -> Iterator[str]:
    for one in found.acceptance[:1]:
        dots = [
            svg.Dot(
                position.place,
                position.conditional,
                True,
                f"position {position.place}: {percent(position.conditional)} of "
                f"{numbers.count(position.reached)}",
            )
            for position in one.positions
        ]
        yield from _figure(
            "Acceptance at each position",
            f"{setting(one.setting).capitalize()}. How often a draft is correct where all before "
            "it were.",
            svg.draw(svg.Chart("Conditional acceptance by position", "position", "share", dots)),
        )


def _time(found: RunReport) -> Iterator[str]:
    for one in found.acceptance[:1]:
        if len(one.by_time) > 1:
            dots = [
                svg.Dot(
                    (part.low + part.high) / 2,
                    part.accept_length,
                    True,
                    f"cycles {part.low} to {part.high}: {value(part.accept_length)}",
                )
                for part in one.by_time
            ]
            yield from _figure(
                "Accept length over the run",
                f"{setting(one.setting).capitalize()}.",
                svg.draw(
                    svg.Chart(
                        "Accept length by cycle number",
                        "cycle",
                        "accept length",
                        dots,
                        whole=False,
                    )
                ),
            )


def _verify(found: RunReport) -> Iterator[str]:
    for one in found.verify[:_SHOWN_BATCHES]:
        if len(one.points) < 2:  # noqa: PLR2004 - one point shows nothing
            continue
        dots = [
            svg.Dot(p.tokens, p.verify_ms, True, f"{p.tokens} tokens: {value(p.verify_ms)} ms")
            for p in one.points
        ]
        lines = []
        plain = None if found.baseline is None else found.baseline.at(one.batch)
        if plain is not None:
            dots.append(svg.Dot(1, plain[0], False, f"plain decode: {value(plain[0])} ms"))
        if one.shape is Shape.LINE and one.fixed_ms and one.per_token_ms:
            most = one.points[-1].tokens
            ends = (1, most)
            line = tuple((n, one.fixed_ms.value + n * one.per_token_ms.value) for n in ends)
            lines.append(svg.Line(line, "fixed + per token", dashed=True))
        yield from _figure(
            f"What verify costs at batch size {one.batch}",
            "Median against tokens per request. The ring at 1 is plain decode, which is no point "
            "of the line.",
            svg.draw(
                svg.Chart("Verify by number of tokens", "tokens per request", "ms", dots, lines)
            ),
        )


def _what_if(found: RunReport) -> Iterator[str]:
    batches = list(dict.fromkeys(one.batch for one in found.verdict.by_batch))[:_SHOWN_BATCHES]
    for batch in batches:
        points = [p for p in found.what_if.points if p.batch == batch and p.setting.topk < 2]  # noqa: PLR2004 - no trees
        if len(points) < 2:  # noqa: PLR2004 - one point shows nothing
            continue
        dots = [
            svg.Dot(
                point.setting.steps,
                point.tokens_per_s,
                point.measured,
                f"{setting(point.setting)}: {value(point.tokens_per_s, 1)} tokens/s, "
                f"{known_from(point)}",
            )
            for point in points
        ]
        path = tuple((point.setting.steps, point.tokens_per_s.value) for point in points)
        yield from _figure(
            f"Other numbers of draft steps at batch size {batch}",
            "Filled points are measured, rings predicted; 0 is plain decode.",
            svg.draw(
                svg.Chart(
                    "Throughput by draft steps", "draft steps", "tokens/s", dots, [svg.Line(path)]
                )
            ),
        )


def _table(section: Section) -> str:
    heads = "".join(f'<th scope="col">{escape(head)}</th>' for head in section.heads)
    rows = "".join(
        f'<tr><th scope="row">{escape(row[0])}</th>'
        + "".join(f"<td>{escape(cell)}</td>" for cell in row[1:])
        + "</tr>"
        for row in section.rows
    )
    note = f"<figcaption>{escape(section.note)}</figcaption>" if section.note else ""
    return (
        f"<section><h2>{escape(section.title)}</h2>{note}"
        f'<div class="scrolls"><table><thead><tr>{heads}</tr></thead><tbody>{rows}</tbody></table>'
        "</div></section>"
    )


def _basis(found: RunReport) -> Iterator[str]:
    for title, pairs in (("What this rests on", facts(found)), ("Words", definitions())):
        entries = "".join(f"<dt>{escape(name)}</dt><dd>{escape(what)}</dd>" for name, what in pairs)
        yield f'<section class="basis"><h2>{title}</h2><dl>{entries}</dl></section>'
