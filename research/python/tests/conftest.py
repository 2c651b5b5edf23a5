"""What the tests share: a small sweep, and the folder of the repository."""

import pathlib

import pytest

ROOT = pathlib.Path(__file__).resolve().parents[3]

SWEEP = """\
name = "t/sweep"
title = "Translated guests, for a fifth of a second"
duration = "{duration}"
settle = "100ms"
sample = "50ms"
repeat = {repeat}

[network]
rate = "10Mbit"
delay = "1ms"
queue = {{ kind = "threshold", limit = "200kB", mark = "30kB" }}

[stack.legacy]
congestion_control = "reno"

[[case]]
name = "only"

[[case.guests]]
name = "virtual"
count = 2
stack = "legacy"
law = "ecn"

[[sweep]]
name = "rate"
set = {{ "network.rate" = ["5Mbit", "10Mbit"] }}

[[sweep]]
name = "delay"
set = {{ "network.delay" = [{delays}] }}

[[expect]]
name = "it uses the link"
measure = {{ kind = "utilisation", case = "only" }}
at_least = 0.1
"""


@pytest.fixture
def sweep(tmp_path):
    """Returns a function that writes a sweep with this many points, and returns its path."""

    def write(points=6, duration="200ms", repeat=2):
        delays = ", ".join(f'"{1 + n}ms"' for n in range(points // 2))
        path = tmp_path / "t.toml"
        path.write_text(SWEEP.format(delays=delays, duration=duration, repeat=repeat))
        return path

    return write


@pytest.fixture
def root():
    return ROOT


def files(result, folder):
    """Returns the bytes of each file of the result, by name."""
    result.write(folder)
    return {path.name: path.read_bytes() for path in folder.iterdir()}
