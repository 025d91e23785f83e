"""Python processes without the start of Python: forks of one that has imported what most programs of the tests need.

    python -m tests.zygote DESCRIPTOR

`run` and `Process` are `subprocess.run` and `subprocess.Popen` for a command `[sys.executable, ...]` with `-W error`,
`-m`, `-c` or a file, and half a second cheaper each. The zygote is a process of its own, as the test's has threads; one
is started for each process of pytest. It forks twice, and the process that asked takes the orphan as its child (as a
subreaper, and only for that moment: others that lose their parent stay what they are). So pid, signals, exit status and
descriptors are those of an ordinary child. The program runs in the zygote's own main program, so it ends as any other
does, until the last of `atexit`: an interpreter takes longer to take apart what it never used than most programs run.

Python and its libraries decide some things when they start, so the zygote decides these: options but `-W error`,
encodings, a terminal's width. A test of them, of closed streams, or of the start or the end itself uses `subprocess`;
all do so where there is no Linux.
"""

from __future__ import annotations

import atexit
import ctypes
import gc
import json
import os
import runpy
import socket
import subprocess
import sys
import threading
import time
import warnings
from collections.abc import Sequence
from functools import cache
from importlib import import_module
from pathlib import Path
from typing import TYPE_CHECKING, Any

ROOT = Path(__file__).parent.parent
IMPORTED = """
anyio._backends._asyncio asyncio cryptography.x509 logging.config rich.console rich.table
tolliver._cli.commands tolliver.anyio.opening tolliver.anyio.streams_opening tolliver.blocking.opening
tolliver.blocking.streams_opening tolliver.certs tolliver.twisted.endpoint
"""
_SUBREAPER = 36  # PR_SET_CHILD_SUBREAPER
_REQUEST = 200_000  # bytes: arguments and environment


class _Zygote:
    """The process, from outside."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._socket, its = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        with its:
            command = [sys.executable, "-m", __name__, str(its.fileno())]
            self._process = subprocess.Popen(command, cwd=ROOT, stdin=subprocess.DEVNULL, pass_fds=[its.fileno()])
        self._prctl = ctypes.CDLL(None, use_errno=True).prctl
        atexit.register(self._end)

    def fork(self, wanted: Sequence[object], fds: Sequence[int]) -> int:
        """Run arguments in a directory with an environment, in a session of their own or not, with this standard
        input, output and error; returns the pid of a child of this process."""
        request = json.dumps(wanted, default=os.fspath)
        with self._lock:
            self._prctl(_SUBREAPER, 1, 0, 0, 0)
            try:
                socket.send_fds(self._socket, [request.encode()], fds)
                pid = int(self._socket.recv(20))
                self._socket.recv(20)  # the process between has ended
            finally:
                self._prctl(_SUBREAPER, 0, 0, 0, 0)
        return pid

    def _end(self) -> None:
        self._socket.close()
        self._process.wait()


_zygote = cache(_Zygote)

__all__ = ["Process", "run"]

if TYPE_CHECKING or sys.platform != "linux":
    from subprocess import Popen as Process
    from subprocess import run
else:

    class Process(subprocess.Popen):
        """A child that the zygote forked."""

        def _execute_child(self, args: Any, executable: Any, preexec_fn: Any, *rest: Any) -> None:
            _, pass_fds, cwd, env, _, _, shell, *pipes, _, _, _, _, _, new_session, _ = rest
            assert args[0] == sys.executable
            assert (executable, preexec_fn, pass_fds, shell) == (None, None, (), False), "a process for `subprocess`"
            fds = [ours if fd < 0 else fd for ours, fd in enumerate((pipes[0], pipes[3], pipes[5]))]
            try:
                self.pid = _zygote().fork(
                    [args[1:], cwd or os.getcwd(), dict(os.environ if env is None else env), new_session], fds
                )
            finally:
                self._close_pipe_fds(*pipes)  # as the method in its place does
            self._child_created = True

    def run(command: Any, *, input: Any = None, timeout: float | None = None, check: bool = False, **how: Any) -> Any:
        """As that of `subprocess`."""
        if input is not None:
            how["stdin"] = subprocess.PIPE
        if how.pop("capture_output", False):
            how |= {"stdout": subprocess.PIPE, "stderr": subprocess.PIPE}
        with Process(command, **how) as process:
            try:
                stdout, stderr = process.communicate(input, timeout)
            except BaseException:
                process.kill()
                raise
        done = subprocess.CompletedProcess(process.args, process.returncode, stdout, stderr)
        if check:
            done.check_returncode()
        return done


def _next_request(there: socket.socket) -> tuple[list[str], str, dict[str, str], bool]:
    """Serve, as the zygote, and return in each process that it forks, with standard streams and a parent."""
    while True:
        request, fds, _, _ = socket.recv_fds(there, _REQUEST, 3)
        if not request:
            os._exit(0)
        if between := os.fork():
            os.waitpid(between, 0)
            there.send(b"adopted")
            for fd in fds:
                os.close(fd)
            continue
        between = os.getpid()
        if pid := os.fork():
            there.send(str(pid).encode())
            os._exit(0)
        break
    while os.getppid() == between:  # until it is adopted
        os.sched_yield()
    for number, fd in enumerate(fds):
        os.dup2(fd, number)
        os.close(fd)
    there.close()
    # As Python does when it starts, and looks at what the descriptors are.
    sys.stdin = open(0, closefd=False)  # noqa: SIM115
    sys.stdout = open(1, "w", newline="\n", closefd=False)  # noqa: SIM115
    sys.stderr = open(2, "w", buffering=1, errors="backslashreplace", newline="\n", closefd=False)  # noqa: SIM115
    sys.__stdin__, sys.__stdout__, sys.__stderr__ = sys.stdin, sys.stdout, sys.stderr  # type: ignore[misc]
    arguments, cwd, environment, new_session = json.loads(request)
    return arguments, cwd, environment, new_session


def _become(arguments: list[str], cwd: str, environment: dict[str, str], new_session: bool) -> None:
    """Run the program in this process."""
    if new_session:
        os.setsid()
    os.chdir(cwd)
    os.environ.clear()
    os.environ.update(environment)
    time.tzset()
    while arguments[0] == "-W":
        sys.warnoptions.append(arguments[1])
        warnings.filterwarnings(arguments[1])  # type: ignore[arg-type]  # an action alone
        del arguments[:2]
    if arguments[0] == "-m":
        sys.path[0] = cwd
        sys.argv = arguments[1:]
        runpy.run_module(arguments[1], run_name="__main__", alter_sys=True)
    elif arguments[0] == "-c":
        sys.path[0] = ""
        sys.argv = ["-c", *arguments[2:]]
        exec(compile(arguments[1], "<string>", "exec"), sys.modules["__main__"].__dict__)
    else:
        sys.path[0] = str(Path(arguments[0]).parent)
        sys.argv = arguments
        runpy.run_path(arguments[0], run_name="__main__")


def _leave() -> None:
    """The last of `atexit`."""
    if status is not None:
        for stream in (sys.stdout, sys.stderr):
            stream.flush()
        os._exit(status)


if __name__ == "__main__":
    for module in IMPORTED.split():
        import_module(module)
    gc.collect()
    gc.freeze()
    request = _next_request(socket.socket(fileno=int(sys.argv[1])))
    status: int | None = None
    atexit.register(_leave)
    try:
        _become(*request)
        status = 0
    except SystemExit as ended:
        status = ended.code if isinstance(ended.code, int) else int(ended.code is not None)
        raise
