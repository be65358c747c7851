"""What the sources of a release say, without running them: classes, functions, names."""

from __future__ import annotations

import ast
import re
import warnings
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

Arguments = tuple[str, ...]

# Where the parts stand that a table may name; the other modules are of no interest.
PLACES = (
    *("managers/schedule*.py", "managers/tp_worker*.py", "managers/utils.py"),
    "managers/scheduler_components/batch_result_processor.py",
    *(
        "mem_cache/radix_cache.py",
        "mem_cache/common.py",
        "mem_cache/*alloc*.py",
        "mem_cache/allocator/*.py",
    ),
    *("mem_cache/memory_pool.py", "model_executor/model_runner.py"),
    *("model_executor/cuda_graph_runner.py", "model_executor/runner/*cuda_graph*.py"),
    *("speculative/*.py", "speculative/*/*worker*.py"),
    *("server_args.py", "arg_groups/fields/spec.py"),
)
CALL = re.compile(r"(?<!def )\b(\w+)\(")
ASSIGNED = re.compile(r"\.(\w+)(?:: [^=\n]+)? \+?= ")
OF_ITSELF = re.compile(r"\bself\.(\w+)(?:: [^=\n]+)? (?:\+?=) ")


@dataclass
class Found:
    """A class, with its bases by name and its methods' positional arguments."""

    bases: tuple[str, ...]
    methods: dict[str, Arguments]
    attributes: set[str]


@dataclass
class Sources:
    """The classes of a release and, by module, what it defines and what it calls.

    Attributes:
        classes: By name; of two of one name the first that was read.
        names: By module (dotted, below `sglang.srt`), what stands in it after its import.
        module_calls: Names of the functions that a module calls, as attributes or by name.
        calls: Those of all modules.
        assigned: Names of all attributes that are assigned.
    """

    classes: dict[str, Found] = field(default_factory=dict)
    names: dict[str, set[str]] = field(default_factory=dict)
    module_calls: dict[str, set[str]] = field(default_factory=dict)
    calls: set[str] = field(default_factory=set)
    assigned: set[str] = field(default_factory=set)

    def mro(self, name: str) -> Iterator[Found]:
        """A class and what it derives from, as far as it is of this release."""
        found = self.classes.get(name)
        if found is not None:
            yield found
            for base in found.bases:
                yield from self.mro(base)

    def method(self, kind: str, name: str) -> Arguments | None:
        """The arguments of a method, inherited or not; None if there is none."""
        return next((f.methods[name] for f in self.mro(kind) if name in f.methods), None)

    def has_attribute(self, kind: str, name: str) -> bool:
        """Whether objects of a class are given the attribute, or have a property of it."""
        return any(name in f.attributes or name in f.methods for f in self.mro(kind))


def read(folder: Path) -> Sources:
    """Reads what matters of `folder`, the `sglang/srt` of a release."""
    sources = Sources()
    for pattern in PLACES:
        for path in sorted(folder.glob(pattern)):
            module = ".".join(path.relative_to(folder).with_suffix("").parts)
            _read_module(sources, module, path.read_text("utf-8"))
    return sources


def _read_module(sources: Sources, module: str, text: str) -> None:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # of escape sequences, which are not our business
        tree = ast.parse(text)
    lines = text.splitlines()
    names = sources.names[module] = set()
    for node in tree.body:
        if isinstance(node, ast.ImportFrom | ast.Import):
            names.update((alias.asname or alias.name) for alias in node.names)
        elif isinstance(node, ast.FunctionDef):
            names.add(node.name)
        elif isinstance(node, ast.ClassDef):
            names.add(node.name)
            body = "\n".join(lines[node.lineno : node.end_lineno])
            sources.classes.setdefault(node.name, _class(node, body))
    calls = sources.module_calls[module] = set(CALL.findall(text))
    sources.calls |= calls
    sources.assigned.update(ASSIGNED.findall(text))


def _class(node: ast.ClassDef, body: str) -> Found:
    methods = {
        part.name: tuple(a.arg for a in (*part.args.posonlyargs, *part.args.args))
        for part in node.body
        if isinstance(part, ast.FunctionDef)
    }
    fields = {
        part.target.id
        for part in node.body
        if isinstance(part, ast.AnnAssign) and isinstance(part.target, ast.Name)
    }
    bases = tuple(_last_name(base) for base in node.bases)
    return Found(bases, methods, fields | set(OF_ITSELF.findall(body)))


def _last_name(node: ast.expr) -> str:
    if isinstance(node, ast.Name):
        return node.id
    if isinstance(node, ast.Attribute):
        return node.attr
    return _last_name(node.value) if isinstance(node, ast.Subscript) else ""
