"""The few hundred bytes of Python that are put into the server.

They fetch the probe from the ring, or have it leave where no cycle comes.
"""

from __future__ import annotations

import os
from textwrap import indent

from spectrace.probe import layout
from spectrace.probe.layout import Word

# What both are: one statement that swallows its own errors. The server's main thread stands still
# while it is compiled, so what is hardly ever needed is text that `exec` compiles then.
#
# What a signal handler of the server raises while this runs (KeyboardInterrupt, SystemExit) is
# the server's: PyRun_SimpleString would swallow it. So it is raised again by a pending call of
# its own, which comes right after this one, at the same place in the server's code:
# PyObject_IsTrue is a function of one pointer that can run Python, and hands an exception on as
# it is.
#
# Python's collector of garbage is held off meanwhile: our new objects would set it going over
# all that the server has.
_KEPT_IN = """\
try:
 import gc
 g=gc.isenabled()
 try:
  gc.disable()
{body}
 finally:
  if g:gc.enable()
except Exception:pass
except BaseException as e:exec({raiser!r})
"""
_RAISER = """\
import ctypes as c
{function}
o=c.py_object(type('',(),{{'__bool__':r}})())
a=c.pythonapi
a.Py_IncRef(o)
a.Py_AddPendingCall(a.PyObject_IsTrue,o)
"""
_FREE = """\
if address:
 import ctypes as c
 c.pythonapi['munmap'](c.c_void_p(address),c.c_size_t(size))
"""

# Anybody may make files in shared memory: only one of the server's own user is opened.
# A text that runs late, because the server was blocked, must not touch a ring that was made
# since: it goes on only when the ring names its own address, and else frees itself.
_LOADER = f"""\
 try:
  import os,mmap,marshal
  f=os.open(path,{os.O_RDWR | os.O_CLOEXEC | os.O_NOFOLLOW})
  try:
   if os.fstat(f).st_uid!=os.geteuid():raise OSError
   m=mmap.mmap(f,0)
  finally:os.close(f)
  v=memoryview(m)
  w=v.cast('Q')
  if w[{Word.LOADER_TEXT_ADDRESS}]!=address or w[{Word.STATE}]:raise OSError
  w[{Word.LOADER_ENTERED_NS}]=t
  e={layout.CODE_OFFSET}+w[{Word.CODE_BYTES}]
  p=marshal.loads(v[{layout.CODE_OFFSET}:e])
  w=v=0
 except Exception:exec({_FREE!r})
 else:exec(p[0][1],{{'ring':m,'modules':p,'end':e,'entered_ns':t}})"""

# The probe leaves only if the ring says so: a text that runs late does no harm. It stands two
# frames below `tracer.leave`, which counts on that.
_LEAVER = f"""\
 try:
  import sys
  m=sys.modules.get('_spectrace_probe.tracer')
  if m:m.leave()
 finally:exec({_FREE!r})"""

_RAISE = "def r(s,e=e):raise e"
# While a script of sys.remote_exec runs, pending calls run too, and what they raise there is
# printed and lost: so the call comes again until the script's frame is gone.
_RAISE_LATER = """\
import sys
def r(s,e=e,k=sys._getframe(2)):
 f=sys._getframe(1)
 while f:
  if f is k:a.Py_AddPendingCall(a.PyObject_IsTrue,o);return False
  f=f.f_back
 raise e"""
_REMOVE = "import os\ntry:\n os.unlink({path!r})\nexcept OSError:pass\n"

TEXT_BYTES = 8192  # two pages hold it, whatever the path
_HIGHEST_ADDRESS = (1 << 64) - 1
_NOW = "__import__('time').monotonic_ns()"


def source() -> str:
    """What loads the probe, to be compiled for `Text` by the server's own interpreter.

    It finds `path`, `address` and `size` of its text among its names, and CLOCK_MONOTONIC of
    its beginning in ns as `t`.
    """
    return _statements(_LOADER, _RAISE)


class Text:
    """The loader as a C string for PyRun_SimpleString, made as far as it can be beforehand.

    Args:
        path: The ring file as the server sees it.
        compiled: `marshal.dumps` of `source` compiled; empty where that could not be, and the
            server compiles it, its main thread waiting.

    Raises:
        ValueError: The path is too long.
    """

    def __init__(self, path: str, compiled: bytes = b"") -> None:
        what = f"__import__('marshal').loads({compiled!r})" if compiled else repr(source())
        self._begin = (
            f"(lambda t:exec({what},{{'t':t,'path':{path!r},'size':{TEXT_BYTES},'address':"
        )
        self._end = f"}}))({_NOW})\n"  # the clock starts before anything else
        if len(self.at(_HIGHEST_ADDRESS)) > TEXT_BYTES:
            raise ValueError(f"the path of the ring is too long: {path}")

    def at(self, address: int) -> bytes:
        """The text that stands at this address until it has run; 0 where someone else frees it."""
        return f"{self._begin}{address}{self._end}\0".encode()


class LeavingText(Text):
    """The same for what has the probe leave."""

    def __init__(self) -> None:
        what = _statements(_LEAVER, _RAISE)
        self._begin = f"exec({what!r},{{'size':{TEXT_BYTES},'address':"
        self._end = "})\n"


def script(path: str, number: int, own_path: str) -> str:
    """The loader as a file that removes itself when it runs.

    Args:
        path: The ring file as the server sees it.
        number: What stands in the ring in place of an address, so that no other ring will do;
            of no memory, so there is nothing to free.
        own_path: The script as the server sees it.
    """
    names = f"{{'t':{_NOW},'path':{path!r},'address':{number},'size':0}}"
    return f"{vain_script(own_path)}exec({_statements(_LOADER, _RAISE_LATER)!r},{names})\n"


def vain_script(own_path: str) -> str:
    """A script that does nothing but remove itself.

    Args:
        own_path: As in `script`.
    """
    return f"exec({_REMOVE.format(path=own_path)!r},{{}})\n"


def _statements(body: str, function: str) -> str:
    """Statements that leave nothing in the module they are run in, by `exec` with own names."""
    raiser = _RAISER.format(function=function)
    return _KEPT_IN.format(body=indent(body, " "), raiser=raiser)
