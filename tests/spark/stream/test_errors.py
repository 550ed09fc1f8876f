"""One sentence from the stack traces of a JVM and of Python workers."""

from __future__ import annotations

from pathlib import Path

import pytest

from motet.engine.state.format import state_error
from motet.spark.stream.errors import describe_failure

CHECKPOINT = Path("/lake/checkpoint")
FAILED = "[STREAM_FAILED] Query [id = 1] terminated with exception: {} SQLSTATE: XXKST\n=== Streaming Query ===\n"
AGAIN = "  Start it again: it continues from its checkpoint. `motet doctor` checks this machine."
WORKER = """Job aborted due to stage failure: Task 0 in stage 1.0 failed 1 times
\tat org.apache.spark.scheduler.DAGScheduler.abortStage(DAGScheduler.scala:2935)
Caused by: org.apache.spark.api.python.PythonException: Traceback (most recent call last):
  File "/lib/pyspark/worker.py", line 1880, in main
    process()
  File "/lib/motet/spark/stream/view.py", line 20, in records
    raise error
{}

\tat org.apache.spark.api.python.BasePythonRunner$ReaderIterator.handlePythonException(PythonRunner.scala:621)
"""


class FailedError(Exception):
    """Looks like what PySpark raises: the JVM's stack is beside the message."""

    def __init__(self, message: str, stack: str) -> None:
        super().__init__(FAILED.format(message))
        self._stackTrace = stack


def test_an_error_of_motet_is_passed_on() -> None:
    """With its advice, and without a stack trace."""
    own = "motet.model.errors.CorruptLakeError: /lake/segments/7 is cut\n  Bring it back from a backup."
    said = str(describe_failure(FailedError("Job aborted", WORKER.format(own)), CHECKPOINT))
    assert said == "/lake/segments/7 is cut\n  Bring it back from a backup."


def test_another_error_of_a_worker_is_named() -> None:
    """The last line of its traceback is what went wrong."""
    said = str(describe_failure(FailedError("Job aborted", WORKER.format("KeyError: 'door'")), CHECKPOINT))
    assert said == f"the pipeline stopped: KeyError: 'door'\n{AGAIN}"


def test_the_innermost_cause_of_the_jvm_is_named() -> None:
    """If no Python worker reports an error."""
    stack = (
        "org.apache.spark.SparkException: x\n\tat a.b(C.scala:1)\nCaused by: java.net.SocketTimeoutException: Timed out"
    )
    said = str(describe_failure(FailedError("Python worker failed to connect back.", stack), CHECKPOINT))
    assert said == f"the pipeline stopped: SocketTimeoutException: Timed out\n{AGAIN}"


def test_an_error_of_the_gateway_is_named() -> None:
    """Py4J puts the JVM's message after its own."""
    said = "An error occurred while calling o10.start.\n: java.lang.IllegalStateException: it is stopped\n\tat a.b"
    assert str(describe_failure(RuntimeError(said), CHECKPOINT)).startswith(
        "the pipeline stopped: IllegalStateException: it is"
    )


@pytest.mark.parametrize(
    ("stack", "reason"),
    [
        ("Caused by: java.io.EOFException: Unexpected end of ZLIB input stream", "EOFException: Unexpected end"),
        ("Caused by: org.rocksdb.RocksDBException: Bad table magic number", "RocksDBException: Bad table magic"),
        ("Caused by: a.B: cannot parse /lake/checkpoint/metadata", "B: cannot parse /lake/checkpoint/metadata"),
        (
            WORKER.format(f"motet.model.errors.EngineError: {state_error('is damaged')}"),
            "EngineError: the state snapshot is damaged",
        ),
    ],
)
def test_a_damaged_checkpoint_is_refused_with_advice(stack: str, reason: str) -> None:
    """Whether Spark or a processor finds the damage."""
    said = str(describe_failure(FailedError("x", stack), CHECKPOINT))
    assert said.startswith(f"the checkpoint /lake/checkpoint cannot be read: {reason}")
    assert "\n  Nothing is lost" in said


def test_a_full_disk_is_not_taken_for_damage() -> None:
    """Removing the checkpoint would not help."""
    stack = "Caused by: a.B: [CANNOT_LOAD_STATE_STORE.X]\nCaused by: java.io.IOException: No space left on device"
    assert str(describe_failure(FailedError("x", stack), CHECKPOINT)).startswith(
        "the pipeline stopped: IOException: No space left"
    )


def test_a_second_pipeline_on_a_checkpoint_is_refused() -> None:
    """Spark detects that both write the same log."""
    said = str(
        describe_failure(FailedError("[CONCURRENT_STREAM_LOG_UPDATE] Concurrent update to the log.", ""), CHECKPOINT)
    )
    assert said.startswith("another pipeline uses the checkpoint /lake/checkpoint\n")


def test_an_error_without_a_message_is_reported() -> None:
    """The sentence says that Spark gives no reason."""
    assert str(describe_failure(RuntimeError(), CHECKPOINT)) == f"the pipeline stopped: Spark gives no reason\n{AGAIN}"
