"""Traces a decode loop of your own: a few lines in it, and `spectrace attach` shows it.

```python
from spectrace.loop import Tracer

tracer = Tracer("my loop")
while batch:
    with tracer.cycle("speculative", [r.id for r in batch], steps=3, topk=1, draft_tokens=4) as c:
        with tracer.phase("draft"):
            ...
        with tracer.phase("verify"):
            ...
        c.accepted({r.id: r.correct_drafts for r in batch})
```

Until somebody attaches a cycle costs less than 2 µs. Needs the standard library alone.
"""

from spectrace.loop._tracer import Cycle, Tracer

__all__ = ["Cycle", "Tracer"]
