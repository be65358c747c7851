"""The options that commands share: durations, sizes, files, and how the page is kept."""

from __future__ import annotations

import re
from decimal import Decimal
from pathlib import Path
from typing import Annotated, Any

import typer

from spectrace.cli import numbers
from spectrace.probe.layout import MAX_EVERY
from spectrace.server.address import DEFAULT_PORT

# Any: typer sends a default through the option's parser as well.
RETAIN: Any = "10m"
MAX_SIZE: Any = "1GB"

_LEAST_BYTES = 1_000_000  # some minutes of a slow server, in a few of the store's files
_LEAST_S = 1.0
_MOST_S = 1e9  # thirty years
_SIZE = re.compile(r"(\d+(?:\.\d+)?)\s*([kKMGT]?)(i?)B?")
_POWERS = {"": 0, "k": 1, "K": 1, "M": 2, "G": 3, "T": 4}


def duration_option(text: str) -> float:
    """Seconds of a duration on the command line.

    Raises:
        BadParameter: It is no duration.
    """
    try:
        return numbers.parse_duration(text)
    except ValueError as error:
        raise typer.BadParameter(str(error)) from None


def retain_option(text: str) -> float:
    """Seconds for which cycles are kept, at least one.

    Raises:
        BadParameter: It is no duration, or too short.
    """
    seconds = duration_option(text)
    if seconds < _LEAST_S:
        raise typer.BadParameter(f"{text!r} keeps nothing: write 1s or more, such as 2m or 1h.")
    return min(seconds, _MOST_S)


def size_option(text: str) -> int:
    """Bytes of a size on the command line, such as 500MB, 1GB or 1GiB.

    Raises:
        BadParameter: It is no size, or too little for a store.
    """
    match = _SIZE.fullmatch(text.strip())
    if match is None:
        raise typer.BadParameter(f"{text!r} is no size: write 500MB, 1GB or 1GiB.")
    number, prefix, binary = match.groups()
    size = int(Decimal(number) * (1024 if binary else 1000) ** _POWERS[prefix])
    if size < _LEAST_BYTES:
        raise typer.BadParameter(
            f"{text!r} leaves no room: write 1MB or more, such as 500MB, 1GB or 1GiB."
        )
    return size


ForceOption = Annotated[
    bool, typer.Option("--force", "-f", help="Replace what is there.", show_default=False)
]
RecordingArgument = Annotated[
    Path,
    typer.Argument(
        help="What `spectrace record` or `import` wrote, or the directory of a store.",
        show_default=False,
    ),
]
RingSizeOption = Annotated[
    int | None,
    typer.Option(
        parser=size_option,
        metavar="SIZE",
        help="Size of the ring in each rank's memory; a cycle takes about 200 bytes of it and "
        "is read within a second. 2MiB if not given.",
        show_default=False,
    ),
]
SampleEveryOption = Annotated[
    int,
    typer.Option(
        min=1,
        max=MAX_EVERY,
        metavar="N",
        help="Record every Nth cycle, by its number, and of the others only sums.",
        show_default=False,
    ),
]
PortOption = Annotated[
    int | None,
    typer.Option(
        min=0,
        max=65535,
        help=f"Port of the page; the next free one from {DEFAULT_PORT} on if not given.",
        show_default=False,
    ),
]
RetainOption = Annotated[
    float,
    typer.Option(
        parser=retain_option,
        metavar="TIME",
        help=f"Keep cycles for so long; {RETAIN} if not given.",
        show_default=False,
    ),
]
MaxSizeOption = Annotated[
    int,
    typer.Option(
        parser=size_option,
        metavar="SIZE",
        help=f"Keep no more than so much; {MAX_SIZE} if not given.",
        show_default=False,
    ),
]
StoreOption = Annotated[
    Path | None,
    typer.Option(
        metavar="DIR",
        help="Keep the cycles here beyond the end of this command.",
        show_default=False,
    ),
]
