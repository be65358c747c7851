"""The few hundred bytes of Python that are put into the server.

They fetch the probe from the ring, or have it leave where no cycle comes.
"""

from __future__ import annotations

from spectrace.probe import layout
from spectrace.probe.layout import Word

# What both are: one statement that swallows its own errors.
#
# What a signal handler of the server raises while this runs (KeyboardInterrupt, SystemExit) is
# the server's: PyRun_SimpleString would swallow it. So it is raised again by a pending call of
# its own, which comes right after this one, at the same place in the server's code:
# PyObject_IsTrue is a function of one pointer that can run Python, and hands an exception on as
# it is.
_KEPT_IN = """\
try:
{body}
except Exception:pass
except BaseException as e:
 import ctypes as c
 def r(s,e=e):raise e
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
  import os,mmap,marshal,time
  t=time.monotonic_ns()
  f=os.open({path!r},os.O_RDWR|os.O_CLOEXEC|os.O_NOFOLLOW)
  try:
   if os.fstat(f).st_uid!=os.geteuid():raise OSError
   m=mmap.mmap(f,0)
  finally:os.close(f)
  w=lambda i:int.from_bytes(m[i*8:i*8+8],'little')
  if w({text_word})!={address} or w({state_word}):m.close();raise OSError
  m[{entered}:{entered}+8]=t.to_bytes(8,'little')
  p=marshal.loads(memoryview(m)[{code}:{code}+w({bytes_word})])
 except Exception:
  if {address}:
   import ctypes as c
   c.CDLL(None).munmap(c.c_void_p({address}),c.c_size_t({size}))
 else:
  exec(p[0][1],{{'ring':m,'modules':p,'entered_ns':t}})"""

# The probe leaves only if the ring says so: a text that runs late does no harm. It stands two
# frames below `tracer.leave`, which counts on that.
_LEAVER = """\
 try:
  import sys
  m=sys.modules.get('_spectrace_probe.tracer')
  if m:m.leave()
 finally:
  if {address}:
   import ctypes as c
   c.CDLL(None).munmap(c.c_void_p({address}),c.c_size_t({size}))"""

TEXT_BYTES = 4096  # one page holds it, whatever the path


def text(path: str, address: int) -> bytes:
    """The loader as one statement that leaves nothing in the module it runs in.

    Args:
        path: The ring file as the server sees it.
        address: Where in the server this very text will stand until it has run; 0 where
            someone else frees it.

    Returns:
        C string for PyRun_SimpleString.

    Raises:
        ValueError: The path is too long.
    """
    body = _LOADER.format(
        path=path,
        address=address,
        size=TEXT_BYTES,
        text_word=Word.LOADER_TEXT_ADDRESS,
        state_word=Word.STATE,
        bytes_word=Word.CODE_BYTES,
        entered=Word.LOADER_ENTERED_NS * 8,
        code=layout.CODE_OFFSET,
    )
    statement = _statement(body)
    if len(statement) > TEXT_BYTES:
        raise ValueError(f"the path of the ring is too long: {path}")
    return statement


def leaving_text(address: int) -> bytes:
    """The same for the text that has the probe leave; `address` as in `text`."""
    return _statement(_LEAVER.format(address=address, size=TEXT_BYTES))


def _statement(body: str) -> bytes:
    return f"exec({_KEPT_IN.format(body=body)!r},{{}})\n".encode() + b"\0"
