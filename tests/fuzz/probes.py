"""The check of parquet files without starting Python anew for each: one process that forks for every file.

It has imported polars and used none of it, so no thread of polars is lost in the fork. What a fork does is
what `parquet_probe.py` does.
"""

from __future__ import annotations

import atexit
import functools
import os
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path

from leakscope.disk import parquet_probe

SERVER = """
import os, runpy, sys
import polars
probe = runpy.run_path(sys.argv[1])
for line in sys.stdin:
    path, most_bytes, said = line.rstrip("\\n").split("\\t")
    child = os.fork()
    if not child:
        for name, number in (("out", 1), ("err", 2)):
            os.dup2(os.open(os.path.join(said, name), os.O_WRONLY | os.O_CREAT | os.O_TRUNC), number)
        sys.argv = ["", path, most_bytes]
        probe["main"]()
        os._exit(0)
    print(os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]), flush=True)
"""


@functools.cache
def _server() -> tuple[subprocess.Popen[str], Path]:
    command = [sys.executable, "-P", "-c", SERVER, parquet_probe.__file__]
    pipes = {"stdin": subprocess.PIPE, "stdout": subprocess.PIPE}
    started = subprocess.Popen(command, text=True, errors="surrogateescape", **pipes)
    atexit.register(started.communicate)  # closes its standard input, at which it ends
    said = Path(tempfile.mkdtemp(prefix="leakscope-fuzz-probe-"))
    atexit.register(shutil.rmtree, said, ignore_errors=True)
    return started, said


def probed(path: Path, most_bytes: int, seconds: float) -> subprocess.CompletedProcess[bytes]:
    """In place of `leakscope.disk.parquet._probed`; a hang is left to the fuzzer's own limit."""
    server, said = _server()
    assert server.stdin is not None
    assert server.stdout is not None
    server.stdin.write(f"{os.fspath(path)}\t{most_bytes}\t{said}\n")
    server.stdin.flush()
    code = int(server.stdout.readline())
    return subprocess.CompletedProcess([], code, *((said / name).read_bytes() for name in ("out", "err")))
