"""``run``: an experiment from file to result."""

from __future__ import annotations

import json
import os
import sys
from typing import Any, Callable, Iterable, Mapping

from . import _native, _ray
from ._result import Result


def run(
    path: str | os.PathLike[str],
    *,
    set: Mapping[str, Any] | None = None,
    case: str | Iterable[str] | None = None,
    point: Mapping[str, str | Iterable[str]] | None = None,
    repeat: int | None = None,
    seed: int = 1,
    laws: str | os.PathLike[str] | None = None,
    executor: str = "local",
    workers: int | None = None,
    progress: bool | None = None,
) -> Result:
    """Runs an experiment in the simulator and judges its expectations.

    Args:
        path: The experiment's TOML file.
        set: Keys of the file to change, such as ``{"network.rate": "20Mbit", "repeat": 3}``. A text is
            taken as ``uc-bench run --set`` takes it; numbers, booleans and lists as TOML.
        case: Run only this case, or these. Expectations that need others are left out.
        point: Run only these points of the sweep, such as ``{"ecn": ["5", "9"]}``.
        repeat: Repetitions of every case, instead of the file's. Without it, undecided expectations
            lead to more runs, up to the file's ``repeat_max``.
        seed: Seed of the first repetition; the others count up from it.
        laws: The file may name laws that ``uc law build`` built in this folder (native code, which also
            Ray's workers run). They may be built again between two calls; laws of other names, machines,
            cuts or traits need another process.
        executor: ``"local"``: threads of this process. ``"ray"``: tasks of Ray, on the cluster to which
            this process is connected, or that ``RAY_ADDRESS`` names, or else on this machine.
        workers: Number of concurrent runs. Default: one for each processor that this process may use,
            or that Ray has.
        progress: Whether a bar is shown (by tqdm). Default: if tqdm is installed, on a terminal.

    Returns:
        The result, whose bytes depend on neither executor nor workers.

    Raises:
        ExperimentError: The file or an override is wrong; ``file``, ``line`` and ``column`` say where.
        UndercurrentError: A run can't be made, for example because the simulator lacks what it needs.
    """
    if executor not in ("local", "ray"):
        raise ValueError(f'executor {executor!r} is unknown; use "local" or "ray"')
    if workers is not None and workers < 1:
        raise ValueError(f"workers is {workers}; give at least 1, or None for all processors")
    sweep = _native.Sweep(
        path,
        [f"{key}={_toml(value)}" for key, value in (set or {}).items()],
        _listed(case),
        [f"{axis}={label}" for axis, labels in (point or {}).items() for label in _listed(labels)],
        repeat,
        seed,
        laws,
    )
    with _Bar(os.fspath(path), progress) as bar:
        if executor == "local":
            jobs = workers or _processors()
            make: Callable[[], None] = lambda: sweep.run(jobs, bar.ended)
        else:
            cluster = _ray.Cluster(sweep, workers)
            make = lambda: cluster.make(sweep, bar.ended)
        while True:
            bar.expect(len(sweep.lacking()))
            make()
            if sweep.judge():
                return Result(sweep.finish())


def _listed(value: str | Iterable[str] | None) -> list[str]:
    if value is None:
        return []
    return [value] if isinstance(value, str) else [str(each) for each in value]


def _toml(value: Any) -> str:
    """Returns a value as TOML; a text as it is, so that ``5ms`` needs no quotes."""
    return value if isinstance(value, str) else json.dumps(value)


def _processors() -> int:
    if hasattr(os, "sched_getaffinity"):
        return len(os.sched_getaffinity(0))
    return os.cpu_count() or 1


class _Bar:
    """A progress bar of runs, or none."""

    def __init__(self, name: str, wanted: bool | None) -> None:
        self._bar: Any = None
        if wanted is False or (wanted is None and not sys.stderr.isatty()):
            return
        try:
            from tqdm import tqdm
        except ImportError:
            if wanted:
                raise
            return
        self._bar = tqdm(desc=name, unit="run", total=0)

    def __enter__(self) -> _Bar:
        return self

    def __exit__(self, *_error: object) -> None:
        if self._bar is not None:
            self._bar.close()

    def expect(self, runs: int) -> None:
        """Adds runs that are to be made."""
        if self._bar is not None:
            self._bar.total += runs
            self._bar.refresh()

    def ended(self, runs: int) -> None:
        """Counts runs that have ended."""
        if self._bar is not None:
            self._bar.update(runs)
