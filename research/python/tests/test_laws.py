"""Laws from outside the tree, built by `uc law build` from the sources of docs/write-a-law.md."""

import os
import pickle
import re
import shutil
import subprocess
import sys

import pytest
from conftest import ROOT, files

import undercurrent


def found(variable, name):
    path = os.environ.get(variable) or shutil.which(name)
    if path is None:
        pytest.skip(f"no `{name}`: {variable}=PATH names one of the same commit")
    return path


@pytest.fixture(scope="module")
def uc():
    return found("UC", "uc")


@pytest.fixture(scope="module")
def bench():
    return found("UC_BENCH", "uc-bench")


@pytest.fixture(scope="module")
def page(tmp_path_factory):
    """Returns a folder with the page's law, `abe`, and its experiment."""
    folder = tmp_path_factory.mktemp("page")
    text = (ROOT / "docs" / "write-a-law.md").read_text()
    for name, source in re.findall(r"`([\w./]+)`:\n\n```(?:c|toml)\n(.*?)```", text, re.DOTALL):
        path = folder / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(source)
    return folder


def built(uc, page, name, *changes):
    """Builds the page's law in a folder of this name, with changes, and returns the folder."""
    folder = page / name
    (folder / "more").mkdir(parents=True, exist_ok=True)
    for path in (page / "abe" / "more").iterdir():
        text = path.read_text()
        for old, new in changes:
            text = text.replace(old, new)
        (folder / "more" / path.name).write_text(text)
    subprocess.run([uc, "law", "build", folder], check=True, stdout=subprocess.DEVNULL)
    return folder


@pytest.fixture(scope="module")
def law(uc, page):
    return built(uc, page, "law")


def test_law_of_a_folder_runs_as_by_uc_and_may_be_built_again(uc, bench, page, law, tmp_path):
    path, core = page / "abe.toml", (law / "core.so").read_bytes()
    first = undercurrent.run(path, laws=law, repeat=2)
    ours = files(first, tmp_path / "ours")
    subprocess.run(
        [bench, "run", path, "--on", "sim", "--laws", law, "--repeat", "2", "--out", tmp_path / "bench"],
        stdout=subprocess.DEVNULL,
    )
    (tmp_path / "bench" / "runs.jsonl").unlink()
    theirs = {path.name: path.read_bytes() for path in (tmp_path / "bench").iterdir()}
    if f'"commit": "{undercurrent.COMMIT}"' in theirs["results.json"].decode():
        assert ours == theirs
    # The same name, and another formula: the runs follow it, and those of law `ecn` stay.
    built(uc, page, "law", ("* 85 / 100", "* 60 / 100"))
    second = undercurrent.run(path, laws=law, repeat=2)
    (law / "core.so").write_bytes(core)
    goodputs = [result.flows.select(["case", "goodput_bps"]).to_pylist() for result in (first, second)]
    for before, after in zip(*goodputs):
        assert (before == after) == (before["case"] == "ecn")
    # A result that was made before keeps its bytes.
    assert files(first, tmp_path / "again") == ours


def test_law_without_its_folder_and_another_one_under_its_number_are_refused(uc, page, law):
    path = page / "abe.toml"
    undercurrent.run(path, laws=law, case="ecn")
    with pytest.raises(undercurrent.UndercurrentError, match="case abe: law `abe` is not in the tree"):
        undercurrent.run(path)
    other = built(uc, page, "other", ("abe", "eba"), ("ABE", "EBA"))
    with pytest.raises(undercurrent.UndercurrentError, match="law eba has number 12, which this process already uses for a different law abe") as told:
        undercurrent.run(path, laws=other)
    assert "in a new process" in str(told.value)
    # The refused one has left the first as it was.
    undercurrent.run(path, laws=law, case="ecn", repeat=1)


def test_folder_without_a_law_is_refused_by_name(page, sweep):
    with pytest.raises(undercurrent.UndercurrentError, match="core.so.*`uc law build` makes"):
        undercurrent.run(sweep(), laws=page / "none")
    (page / "torn").mkdir()
    (page / "torn" / "core.so").write_bytes(b"\x7fELF, and no more")
    with pytest.raises(undercurrent.UndercurrentError, match="torn/core.so: .* was not loaded"):
        undercurrent.run(sweep(), laws=page / "torn")


WORKER = """
import pickle, sys
from undercurrent import _native

head, laws = pickle.load(sys.stdin.buffer)
sys.stdout.buffer.write(_native.run_part(head, laws, [(0, "ecn", 0), (0, "abe", 0)]))
"""


def test_another_process_runs_the_law_without_its_folder(page, law):
    sweep = undercurrent._native.Sweep(page / "abe.toml", [], [], [], 1, 1, law)
    head, core = sweep.head(), sweep.laws()
    (law / "core.so").unlink()
    try:
        worker = subprocess.run(
            [sys.executable, "-c", WORKER], input=pickle.dumps((head, core)), stdout=subprocess.PIPE, check=True
        )
    finally:
        (law / "core.so").write_bytes(core)
    assert sweep.add(worker.stdout) == 2 and sweep.judge()
    result = undercurrent.Result(sweep.finish())
    assert result.flows.num_rows == 4 and min(result.flows["marked_packets"].to_pylist()) > 0
    with pytest.raises(undercurrent.UndercurrentError, match="worker on .*: .* expected the library of laws with hash .*, found"):
        undercurrent._native.run_part(head + " ", core[:-1], [(0, "abe", 0)])


@pytest.mark.ray
def test_rays_workers_make_the_same_bytes_under_the_law(page, law, tmp_path):
    ray = pytest.importorskip("ray")
    path = page / "abe.toml"
    local = undercurrent.run(path, laws=law, repeat=2)
    try:
        distributed = undercurrent.run(path, laws=law, repeat=2, executor="ray", workers=2)
        niceness = ray.get(ray.remote(lambda: os.nice(0)).remote())
    finally:
        ray.shutdown()
    assert niceness == os.nice(0), "the workers' priority is that of threads"
    assert files(distributed, tmp_path / "ray") == files(local, tmp_path / "local")
