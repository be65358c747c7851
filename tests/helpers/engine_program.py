"""A program that decodes with `sglang.Engine` in its own process; run where SGLang is, for tests.

Its arguments are those of `sglang.launch_server`. It says `ready`, then reads lines of JSON, each
the keywords of one `Engine.generate`, and writes for each the replies as a line, until its input
ends. Whatever else SGLang prints goes to the standard error.
"""

# mypy: disable-error-code="import-not-found, import-untyped"
from __future__ import annotations

import json
import os
import sys

import sglang
from sglang.srt.server_args import prepare_server_args


def main() -> None:
    """Serves until the input ends."""
    answers = os.fdopen(os.dup(sys.stdout.fileno()), "w", buffering=1)
    os.dup2(sys.stderr.fileno(), sys.stdout.fileno())
    engine = sglang.Engine(server_args=prepare_server_args(sys.argv[1:]))
    print("ready", file=answers)
    for line in sys.stdin:
        print(json.dumps(engine.generate(**json.loads(line))), file=answers)
    engine.shutdown()


if __name__ == "__main__":  # the schedulers, which Python spawns, import this file
    main()
