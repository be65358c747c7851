"""The few hundred bytes of Python that are put into the server.

They fetch the probe from the ring, or have it leave where no cycle comes.
"""

from __future__ import annotations

import os
from textwrap import indent

from spectrace.probe import layout
from spectrace.probe.layout import Word

# What both are: one statement that swallows its own errors. The server's main thread compiles it
# and stands still meanwhile, so what is hardly ever needed is text that `exec` compiles then; and
# the clock, `t`, starts before.
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
 gc.disable()
 try:
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

# Anybody may make files in shared memory: only one of the server's own user is opened.
# A text that runs late, because the server was blocked, must not touch a ring that was made
# since: it goes on only when the ring names its own address, and else frees itself.
_LOADER = """\
 try:
  import os,mmap,marshal
  f=os.open({path!r},{flags})
  try:
   if os.fstat(f).st_uid!=os.geteuid():raise OSError
   m=mmap.mmap(f,0)
  finally:os.close(f)
  v=memoryview(m)
  w=v.cast('Q')
  if w[{text_word}]!={address} or w[{state_word}]:raise OSError
  w[{entered_word}]=t
  p=marshal.loads(v[{code}:{code}+w[{bytes_word}]])
  w=v=0
 except Exception:exec({free!r})
 else:exec(p[0][1],{{'ring':m,'modules':p,'entered_ns':t}})"""
_FREE = """\
if {address}:
 import ctypes as c
 c.pythonapi['munmap'](c.c_void_p({address}),c.c_size_t({size}))
"""
_FLAGS = os.O_RDWR | os.O_CLOEXEC | os.O_NOFOLLOW

# The probe leaves only if the ring says so: a text that runs late does no harm. It stands two
# frames below `tracer.leave`, which counts on that.
_LEAVER = """\
 try:
  import sys
  m=sys.modules.get('_spectrace_probe.tracer')
  if m:m.leave()
 finally:exec({free!r})"""

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

TEXT_BYTES = 4096  # one page holds it, whatever the path


def text(path: str, address: int) -> bytes:
    """The loader as a C string for PyRun_SimpleString.

    Args:
        path: The ring file as the server sees it.
        address: Where in the server this very text will stand until it has run; 0 where
            someone else frees it.

    Raises:
        ValueError: The path is too long.
    """
    made = _c_string(_loader(path, address, TEXT_BYTES, _RAISE))
    if len(made) > TEXT_BYTES:
        raise ValueError(f"the path of the ring is too long: {path}")
    return made


def leaving_text(address: int) -> bytes:
    """The same for the text that has the probe leave; `address` as in `text`."""
    body = _LEAVER.format(free=_FREE.format(address=address, size=TEXT_BYTES))
    return _c_string(_statement(body, _RAISE))


def script(path: str, number: int, own_path: str) -> str:
    """The loader as a file that removes itself when it runs.

    Args:
        path: The ring file as the server sees it.
        number: What stands in the ring in place of an address, so that no other ring will do.
        own_path: The script as the server sees it.
    """
    return vain_script(own_path) + _loader(path, number, 0, _RAISE_LATER)


def vain_script(own_path: str) -> str:
    """A script that does nothing but remove itself.

    Args:
        own_path: As in `script`.
    """
    return f"exec({_REMOVE.format(path=own_path)!r},{{}})\n"


def _loader(path: str, address: int, size: int, function: str) -> str:
    body = _LOADER.format(
        path=path,
        flags=_FLAGS,
        address=address,
        free=_FREE.format(address=address, size=size),
        text_word=Word.LOADER_TEXT_ADDRESS,
        state_word=Word.STATE,
        bytes_word=Word.CODE_BYTES,
        entered_word=Word.LOADER_ENTERED_NS,
        code=layout.CODE_OFFSET,
    )
    return _statement(body, function)


def _statement(body: str, function: str) -> str:
    """One statement that leaves nothing in the module it runs in."""
    raiser = _RAISER.format(function=function)
    source = _KEPT_IN.format(body=indent(body, " "), raiser=raiser)
    return f"exec({source!r},{{'t':__import__('time').monotonic_ns()}})\n"


def _c_string(statement: str) -> bytes:
    return statement.encode() + b"\0"
