"""Start messages of PySpark's workers are removed from standard error, nothing else."""

from __future__ import annotations

import subprocess
import sys

SAID = (
    "one\\n"
    "Starting Streaming TransformWithStateInPandas Python worker.\\n\\n"
    "Streaming TransformWithStateInPandas Python worker received parameters for UDF.\\n\\n"
    "\\ntwo\\n\\nthree\\n"
)
PROGRAM = f"""
import subprocess, sys, threading
from motet.spark.workers import filter_worker_output
with filter_worker_output():
    child = subprocess.Popen([sys.executable, "-c", "import sys; sys.stdin.read(); sys.stderr.write({SAID!r})"],
                             stdin=subprocess.PIPE)
print("own", file=sys.stderr, flush=True)
child.communicate()
[thread.join() for thread in threading.enumerate() if thread is not threading.current_thread()]
"""


def test_only_start_messages_are_removed() -> None:
    """From the output of a process started in the block; output of the program itself is not filtered."""
    done = subprocess.run([sys.executable, "-c", PROGRAM], capture_output=True, text=True, check=True)
    assert done.stderr == "own\none\ntwo\n\nthree\n"
