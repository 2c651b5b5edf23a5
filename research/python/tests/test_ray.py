"""Runs as tasks of Ray, two of whose workers are killed."""

import os
import random
import signal
import threading
import time

import pytest
from conftest import files

import undercurrent

ray = pytest.importorskip("ray")
pytestmark = pytest.mark.ray


@pytest.fixture(scope="module")
def cluster():
    ray.init(num_cpus=2, include_dashboard=False, log_to_driver=False)
    yield
    ray.shutdown()


def workers():
    """Returns the processes that make runs now."""
    found = []
    for name in filter(str.isdigit, os.listdir("/proc")):
        try:
            with open(f"/proc/{name}/cmdline", "rb") as file:
                title = file.read()
            with open(f"/proc/{name}/stat") as file:
                parent = int(file.read().rsplit(")", 1)[1].split()[1])
        except OSError:
            continue
        # Ray names a busy worker after its task. Another Ray of this machine has other parents.
        if title.startswith(b"ray::_make") and is_ours(parent):
            found.append(int(name))
    return found


def is_ours(pid):
    """Returns whether a process descends from this one."""
    while pid > 1:
        if pid == os.getpid():
            return True
        try:
            with open(f"/proc/{pid}/stat") as file:
                pid = int(file.read().rsplit(")", 1)[1].split()[1])
        except OSError:
            return False
    return False


def test_200_points_have_the_bytes_of_a_local_run_though_two_workers_are_killed(
    sweep, tmp_path, cluster
):
    seed = int(os.environ.get("UC_SEED") or random.randrange(2**32))
    print(f"UC_SEED={seed}")
    draw = random.Random(seed)
    path = sweep(points=200, duration="2s", repeat=1)
    began = time.monotonic()
    local = undercurrent.run(path, workers=2)
    took = time.monotonic() - began
    killed = []

    def kill():
        for _ in range(2):
            time.sleep(draw.uniform(0.1, 0.4) * took)
            for _ in range(1000):
                busy = [pid for pid in workers() if pid not in killed]
                if busy:
                    killed.append(draw.choice(busy))
                    os.kill(killed[-1], signal.SIGKILL)
                    break
                time.sleep(0.01)

    killer = threading.Thread(target=kill)
    killer.start()
    distributed = undercurrent.run(path, executor="ray", workers=2)
    killer.join()
    assert len(killed) == 2
    assert distributed.flows.num_rows == 400
    assert files(distributed, tmp_path / "ray") == files(local, tmp_path / "local")


def test_errors_in_workers_are_those_of_a_local_run(sweep, cluster):
    with pytest.raises(undercurrent.ExperimentError, match="name an experiment file"):
        undercurrent.run("none.toml", executor="ray")


def test_worker_of_another_program_is_refused(sweep, cluster):
    head = undercurrent._native.Sweep(sweep(), [], [], [], None, 1, None).head()
    other = head.replace(undercurrent.COMMIT, "other")
    with pytest.raises(undercurrent.UndercurrentError, match="install the same wheel"):
        undercurrent._native.run_part(other, None, [(0, "only", 0)])
