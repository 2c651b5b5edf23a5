"""Measures what Ray costs: one sweep by two threads, and by two of Ray's workers on the same machine.

    python research/python/examples/ray_overhead.py [MINUTES [PAIRS]]

The sweep is examples/sweep.toml, 400 runs that each last so much longer that threads need MINUTES (default 10). Both
make it in turn, PAIRS times (default 1); every second pair begins with Ray. Ray is started before, and has made some runs: its
start is timed apart. Its workers have the priority of threads. The machine should do nothing else. Prints a line for
each pair, with the load before it, and whether both results have the same bytes.
"""

import logging
import math
import os
import pathlib
import sys
import tempfile
import time

import ray

import undercurrent

SWEEP = pathlib.Path(__file__).resolve().parents[3] / "examples" / "sweep.toml"
# Both sides have so many: threads of this process, and processes of Ray.
WORKERS = 2
SIDES = {"threads": {"workers": WORKERS}, "Ray": {"executor": "ray"}}


def timed(side, **options):
    """Returns the seconds that a sweep takes on a side, and the result."""
    began = time.monotonic()
    result = undercurrent.run(SWEEP, progress=False, **SIDES[side], **options)
    return time.monotonic() - began, result


def lasting(seconds):
    """Returns what makes each run last so many seconds of the simulator's time, with 20 samples."""
    return {"duration": f"{seconds}s", "sample": f"{seconds * 50}ms"}


def files(result):
    with tempfile.TemporaryDirectory() as folder:
        result.write(folder)
        return {path.name: path.read_bytes() for path in pathlib.Path(folder).iterdir()}


def main(minutes="10", pairs="1"):
    os.environ["RAY_worker_niceness"] = "0"
    began = time.monotonic()
    ray.init(num_cpus=WORKERS, include_dashboard=False, log_to_driver=False, logging_level=logging.ERROR)
    started = time.monotonic() - began
    first, _ = timed("Ray", repeat=1, point={"delay": "500us"})
    print(f"start of Ray: {started:.1f} s; its first 20 runs: {first:.1f} s", flush=True)
    trial, _ = timed("threads", set=lasting(200))
    seconds = math.ceil(200 * float(minutes) * 60 / trial)
    print(f"400 runs of 200 s by {WORKERS} threads: {trial:.1f} s; so each lasts {seconds} s", flush=True)
    for pair in range(int(pairs)):
        load, took, made = os.getloadavg()[0], {}, {}
        for side in sorted(SIDES, reverse=pair % 2 == 0):
            took[side], result = timed(side, set=lasting(seconds))
            made[side] = files(result)
        same = "the same bytes" if made["threads"] == made["Ray"] else "OTHER BYTES"
        overhead = 100 * (took["Ray"] / took["threads"] - 1)
        print(
            f"pair {pair + 1}, load {load:.2f}: threads {took['threads']:.1f} s, Ray {took['Ray']:.1f} s, "
            f"{overhead:+.1f} %, {same}",
            flush=True,
        )


if __name__ == "__main__":
    main(*sys.argv[1:])
