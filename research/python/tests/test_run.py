"""Runs on this machine: tables, files and errors."""

import os
import pathlib
import re
import shutil
import signal
import subprocess
import sys
import threading

import pyarrow as pa
import pyarrow.parquet
import pytest
from conftest import files

import undercurrent


def test_tables_have_a_row_for_each_flow_sample_and_verdict(sweep):
    result = undercurrent.run(sweep(), workers=2)
    assert result.holds
    # 6 points, 2 repetitions, 2 flows; samples at 0, 50, 100, 150 and 200 ms.
    assert result.flows.num_rows == 24
    assert result.samples.num_rows == 24 * 5
    assert result.verdicts.num_rows == 6
    assert result.flows.schema.field("goodput_bps").type == pa.float64()
    assert result.flows.schema.field("delivered_bytes").type == pa.uint64()
    assert result.samples.schema.field("at_delay").type == pa.string()
    # No transfer ended, and this backend's guests run no DCTCP: both are missing numbers.
    assert result.flows["transfer_mean_ms"].null_count == 24
    assert result.samples["guest_alpha_q30"].null_count == 24 * 5
    labels = set(zip(result.flows["at_rate"].to_pylist(), result.flows["at_delay"].to_pylist()))
    assert labels == {(r, d) for r in ("5Mbit", "10Mbit") for d in ("1ms", "2ms", "3ms")}
    assert [row["verdict"] for row in result.verdicts.to_pylist()] == ["holds"] * 6
    assert result.to_dict()["experiment"] == "t/sweep"
    assert repr(result) == "<undercurrent.Result: 6 of 6 verdicts pass>"


def test_parquet_files_have_the_tables_with_their_types(sweep, tmp_path):
    result = undercurrent.run(sweep(), repeat=1)
    paths = result.write_parquet(tmp_path / "a" / "b")
    assert [pathlib.Path(path).name for path in paths] == [
        "flows.parquet",
        "samples.parquet",
        "verdicts.parquet",
    ]
    for path, table in zip(paths, (result.flows, result.samples, result.verdicts)):
        read = pyarrow.parquet.read_table(path)
        assert read.equals(table) and read.schema.equals(table.schema)


def test_flows_that_are_sampled_agree_with_their_totals(sweep):
    result = undercurrent.run(sweep())
    last = result.samples.group_by(["point", "run", "group", "flow"]).aggregate(
        [("delivered_bytes", "max")]
    )
    keys = ["point", "run", "group", "flow"]
    joined = result.flows.join(last, keys)
    for row in joined.to_pylist():
        # What was delivered in the measured part, which began at 100 ms.
        assert 0 < row["delivered_bytes"] <= row["delivered_bytes_max"]


def test_number_of_workers_changes_no_byte(sweep, tmp_path):
    path = sweep()
    one = files(undercurrent.run(path, workers=1), tmp_path / "one")
    many = files(undercurrent.run(path, workers=5), tmp_path / "many")
    assert one == many and "report.html" in one


def test_options_change_the_file_and_choose_cases_and_points(sweep):
    path = sweep()
    result = undercurrent.run(
        path,
        set={"network.queue.mark": "15kB", "sample": "25ms", "repeat": 1},
        case="only",
        point={"rate": "5Mbit", "delay": ["1ms", "3ms"]},
        repeat=3,
        seed=7,
    )
    assert result.flows.num_rows == 2 * 3 * 2
    assert sorted(set(result.flows["seed"].to_pylist())) == [7, 8, 9]
    assert set(result.flows["at_delay"].to_pylist()) == {"1ms", "3ms"}


def test_files_are_those_of_uc_run(sweep, tmp_path):
    bench = os.environ.get("UC_BENCH") or shutil.which("uc-bench")
    if bench is None:
        pytest.skip("no `uc-bench`: UC_BENCH=PATH names one of the same commit")
    path = sweep(repeat=3)
    folder = tmp_path / "bench"
    options = ["--seed", "5", "--set", "network.queue.mark=15kB", "--out", folder]
    subprocess.run([bench, "run", path, "--on", "sim", *options], check=True, stdout=subprocess.DEVNULL)
    (folder / "runs.jsonl").unlink()
    theirs = {path.name: path.read_bytes() for path in folder.iterdir()}
    if f'"commit": "{undercurrent.COMMIT}"' not in theirs["results.json"].decode():
        pytest.skip("`uc-bench` is of another commit")
    ours = undercurrent.run(path, seed=5, set={"network.queue.mark": "15kB"})
    assert files(ours, tmp_path / "ours") == theirs


def test_errors_say_file_line_and_column(sweep):
    path = sweep()
    path.write_text(path.read_text().replace("settle =", "setle ="))
    with pytest.raises(undercurrent.ExperimentError, match="unknown key `setle`") as raised:
        undercurrent.run(path)
    assert (raised.value.file, raised.value.line, raised.value.column) == (str(path), 4, 1)
    path.write_text(path.read_text().replace("setle =", "settle =").replace("count = 2", "count = 0"))
    with pytest.raises(undercurrent.UndercurrentError, match="give at least 1") as raised:
        undercurrent.run(path)
    lines = path.read_text().split("\n")
    assert lines[raised.value.line - 1] == "count = 0" and raised.value.column == 9
    with pytest.raises(undercurrent.ExperimentError, match="--set nosuch.key=3: no `nosuch`") as raised:
        undercurrent.run(sweep(), set={"nosuch.key": 3})
    assert raised.value.line is None
    with pytest.raises(undercurrent.ExperimentError, match="name an experiment file"):
        undercurrent.run(path.with_name("none.toml"))


def test_other_backends_and_senseless_arguments_are_refused(sweep):
    path = sweep()
    path.write_text('arms = ["live"]\n' + path.read_text())
    with pytest.raises(undercurrent.UndercurrentError, match="simulator only; use `uc-bench run`"):
        undercurrent.run(path)
    with pytest.raises(ValueError, match='use "local" or "ray"'):
        undercurrent.run(sweep(), executor="dask")
    with pytest.raises(ValueError, match="at least 1"):
        undercurrent.run(sweep(), workers=0)
    with pytest.raises(undercurrent.UndercurrentError, match="no axis `size`"):
        undercurrent.run(sweep(), point={"size": "1"})


def test_ctrl_c_ends_the_runs(sweep):
    path = sweep(duration="100000s")
    threading.Timer(0.5, lambda: os.kill(os.getpid(), signal.SIGINT)).start()
    with pytest.raises(KeyboardInterrupt):
        undercurrent.run(path, set={"sample": "1000s"}, workers=1)


def test_progress_counts_each_run(sweep, capsys):
    pytest.importorskip("tqdm")
    undercurrent.run(sweep(), progress=True)
    assert "12/12" in capsys.readouterr().err


def test_example_runs_from_data_to_figure(root, tmp_path):
    script = root / "examples" / "sweep.py"
    figure = tmp_path / "figure.svg"
    path = tmp_path / "sweep.toml"
    text = (root / "examples" / "sweep.toml").read_text()
    path.write_text(text.replace('"2s"', '"300ms"').replace('"1s"', '"100ms"'))
    done = subprocess.run(
        [sys.executable, script, path, figure], check=True, capture_output=True, text=True
    )
    assert "The slowest run has " in done.stdout
    try:
        import matplotlib  # noqa: F401
    except ImportError:
        assert "dctcp 6 kB: " in done.stdout
    else:
        assert figure.read_text().startswith("<?xml")


@pytest.mark.parametrize("document", ["README.md", "research/python/README.md"])
def test_examples_of_the_documents_run(root, tmp_path, document):
    blocks = re.findall(r"^```python\n(.*?)^```", (root / document).read_text(), re.DOTALL | re.MULTILINE)
    assert blocks
    for block in blocks:
        subprocess.run([sys.executable, "-c", block], cwd=tmp_path, check=True)


def test_package_has_the_experiments_of_the_papers(root):
    def below(folder):
        return {path.relative_to(folder): path.read_bytes() for path in folder.rglob("*.toml")}

    assert below(undercurrent.EXPERIMENTS) == below(root / "experiments")


def test_package_has_types():
    folder = pathlib.Path(undercurrent.__file__).parent
    assert (folder / "py.typed").exists() and (folder / "_native.pyi").exists()
    native = (folder / "_native.pyi").read_text()
    for name in dir(undercurrent._native):
        if not name.startswith("_"):
            assert name in native, f"{name} has no type"
