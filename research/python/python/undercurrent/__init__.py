"""Experiments on virtualized congestion control, in Undercurrent's deterministic simulator.

    import undercurrent

    path = undercurrent.EXPERIMENTS / "vcc/fig11.toml"
    result = undercurrent.run(path, repeat=3, set={"network.rate": "20Mbit"})
    result.flows.to_pandas()

The same file, options and seed give the same bytes as ``uc-bench run --on sim``, on one machine or many.
Real kernels and virtual machines need ``uc-bench run``.
"""

import pathlib

from ._native import COMMIT, ExperimentError, UndercurrentError
from ._result import Result
from ._run import run

__all__ = ["COMMIT", "EXPERIMENTS", "ExperimentError", "Result", "UndercurrentError", "run"]

EXPERIMENTS = pathlib.Path(__file__).parent / "experiments"
"""Folder with the experiments of the papers, such as ``vcc/fig11.toml``."""
