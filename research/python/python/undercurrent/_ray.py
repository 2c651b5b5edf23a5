"""Runs as tasks of Ray. Ray is imported only when they are asked for."""

from __future__ import annotations

import logging
import os
from typing import TYPE_CHECKING, Any, Callable

from . import _native

if TYPE_CHECKING:
    from ._native import Sweep

# How often Ray makes a task again whose worker or machine died.
RETRIES = 5
# The greatest number of tasks of a round; of more runs, several are one task.
TASKS = 2000


class Cluster:
    """Ray, and an experiment of which its workers make runs. They need only this package: laws from
    outside the tree go to them with the experiment."""

    def __init__(self, sweep: Sweep, workers: int | None) -> None:
        try:
            import ray
        except ImportError as error:
            raise ImportError("executor='ray' needs Ray: pip install 'undercurrent[ray]'") from error
        self._ray = ray
        # How many tasks may be under way; None: Ray starts as many as its processors allow.
        self._most = workers
        if not ray.is_initialized():
            options: dict[str, Any] = {"log_to_driver": False, "logging_level": logging.ERROR}
            if "RAY_ADDRESS" not in os.environ:
                # A Ray of this machine's, with as many processors as are asked for, and with the priority of
                # threads: Ray's own niceness of 15 leaves its workers little of a busy machine.
                os.environ.setdefault("RAY_worker_niceness", "0")
                options.update(include_dashboard=False, num_cpus=workers)
                self._most = None
            ray.init(**options)
        self._head = ray.put(sweep.head())
        self._laws = ray.put(sweep.laws())
        # An error of a run would come again; the end of a worker need not.
        remote = ray.remote(num_cpus=1, max_retries=RETRIES, retry_exceptions=False)
        self._task = remote(_make)

    def make(self, sweep: Sweep, ended: Callable[[int], object]) -> None:
        """Makes the runs that the sweep lacks, and adds each as soon as it is there."""
        parts = _parts(sweep.lacking())
        most = self._most or len(parts)
        pending: list[Any] = []
        try:
            while parts or pending:
                while parts and len(pending) < most:
                    pending.append(self._task.remote(self._head, self._laws, parts.pop(0)))
                done, pending = self._ray.wait(pending, num_returns=1)
                for each in done:
                    ended(sweep.add(self._result(each)))
        except BaseException:
            for each in pending:
                self._ray.cancel(each, force=True)
            raise

    def _result(self, done: Any) -> bytes:
        try:
            lines: bytes = self._ray.get(done)
            return lines
        except self._ray.exceptions.RayTaskError as error:
            # The worker's own exception, without Ray's wrapping, as the local executor raises it.
            cause = error.cause
            if isinstance(cause, _native.UndercurrentError):
                raise cause from None
            raise


def _parts(keys: list[tuple[int, str, int]]) -> list[list[tuple[int, str, int]]]:
    size = max(1, -(-len(keys) // TASKS))
    return [keys[start : start + size] for start in range(0, len(keys), size)]


def _make(head: str, laws: bytes | None, keys: list[tuple[int, str, int]]) -> bytes:
    """Makes runs; in a worker of Ray."""
    return _native.run_part(head, laws, keys)
