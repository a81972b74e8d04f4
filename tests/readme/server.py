"""Runs ``vidcap`` many times in copies of one process that has imported what is slow to import.

``python -m tests.readme.server SOCKET`` listens on a socket; the command that :func:`write_command`
makes hands it its words, folder, variables and streams, and ends with the exit code of the copy.
"""

from __future__ import annotations

import json
import os
import signal
import socket
import sys
import traceback
from importlib import import_module
from pathlib import Path

_SLOW = (
    "av",
    "transformers.models.qwen2_5_vl.modeling_qwen2_5_vl",
    "vidcap.cli.app",
    "vidcap.models.loading",
    "vidcap.session",
)

_CLIENT = """#!{python} -SE
import json, os, socket, sys
with socket.socket(socket.AF_UNIX) as server:
    server.connect({socket!r})
    call = json.dumps([sys.argv[1:], os.getcwd(), dict(os.environ)]).encode()
    socket.send_fds(server, [len(call).to_bytes(8, "big")], [0, 1, 2])
    server.sendall(call)
    sys.exit(int(server.recv(16) or b"99"))
"""


def write_command(path: Path, server: Path) -> None:
    """Makes the command."""
    path.write_text(_CLIENT.format(python=sys.executable, socket=str(server)), "utf-8")
    path.chmod(0o755)


def serve(place: str) -> None:
    """Answers calls until it is ended."""
    for name in _SLOW:
        import_module(name)
    with socket.socket(socket.AF_UNIX) as listener:
        listener.bind(place)
        listener.listen()
        sys.stdout.write("ready\n")
        sys.stdout.flush()
        while True:
            connection, _ = listener.accept()
            if os.fork() == 0:
                _answer(connection)
            connection.close()


def _answer(connection: socket.socket) -> None:
    """In the first copy: runs the command in a second one, and reports how that ended."""
    signal.signal(signal.SIGCHLD, signal.SIG_DFL)
    size, streams, _, _ = socket.recv_fds(connection, 8, 3)
    wanted, call = int.from_bytes(size, "big"), b""
    while len(call) < wanted:
        call += connection.recv(1 << 16)
    child = os.fork()
    if child == 0:
        _run(json.loads(call), streams)
    for stream in streams:
        os.close(stream)
    code = os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])
    connection.sendall(str(code if code >= 0 else 128 - code).encode())
    os._exit(0)


def _run(call: tuple[list[str], str, dict[str, str]], streams: list[int]) -> None:
    words, folder, variables = call
    for number, stream in enumerate(streams):
        os.dup2(stream, number)
        os.close(stream)
    # Those of the server know whether its own streams could be sought in.
    sys.stdin = os.fdopen(0, encoding="utf-8", closefd=False)
    sys.stdout = os.fdopen(1, "w", encoding="utf-8", closefd=False)
    sys.stderr = os.fdopen(2, "w", encoding="utf-8", buffering=1, closefd=False)
    os.chdir(folder)
    os.environ.clear()
    os.environ.update(variables)
    sys.argv = ["vidcap", *words]
    code = 99
    try:
        import_module("vidcap.cli").main()
    except SystemExit as end:
        code = end.code if isinstance(end.code, int) else int(end.code is not None)
    except BaseException:
        traceback.print_exc()
    finally:
        os._exit(code)


if __name__ == "__main__":
    signal.signal(signal.SIGCHLD, signal.SIG_IGN)
    serve(sys.argv[1])
