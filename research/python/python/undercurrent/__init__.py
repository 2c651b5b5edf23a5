"""Experiments on virtualized congestion control, in Undercurrent's deterministic simulator.

    import undercurrent

    result = undercurrent.run("experiments/vcc/fig11.toml", repeat=3, set={"network.rate": "20Mbit"})
    result.flows.to_pandas()

The same file, options and seed give the same bytes as ``uc run --on sim``, on one machine or many.
Real kernels and virtual machines need ``uc run``.
"""

from ._native import COMMIT, ExperimentError, UndercurrentError
from ._result import Result
from ._run import run

__all__ = ["COMMIT", "ExperimentError", "Result", "UndercurrentError", "run"]
