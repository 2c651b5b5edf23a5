"""From an experiment to a figure: runs a sweep, and draws the use of the link by threshold.

    python examples/sweep.py examples/sweep.toml figure.svg [ray]

Needs the package `undercurrent`; draws if matplotlib is installed, else prints the table.
"""

import sys

import pyarrow.compute as pc

import undercurrent


def main(path, figure, executor="local"):
    result = undercurrent.run(path, executor=executor, repeat=1)
    print(result)

    # The goodput of all flows of a run, and its mean over the delays.
    columns = ["at_law", "at_delay", "at_mark", "run"]
    runs = result.flows.group_by(columns).aggregate([("goodput_bps", "sum")])
    means = runs.group_by(["at_law", "at_mark"]).aggregate([("goodput_bps_sum", "mean")])
    lines = {}
    for row in means.to_pylist():
        mark_kb = float(row["at_mark"].removesuffix("kB"))
        lines.setdefault(row["at_law"], []).append((mark_kb, row["goodput_bps_sum_mean"] / 1e6))
    slowest = pc.min(runs["goodput_bps_sum"]).as_py() / 1e6
    print(f"The slowest run has {slowest:.1f} Mb/s.")

    try:
        from matplotlib import pyplot
    except ImportError:
        for law, points in sorted(lines.items()):
            print(law, " ".join(f"{mark:g} kB: {mbps:.1f}" for mark, mbps in sorted(points)))
        return
    axes = pyplot.figure(figsize=(6, 4)).subplots()
    for law, points in sorted(lines.items()):
        axes.plot(*zip(*sorted(points)), marker="o", label=law)
    axes.set(xlabel="marking threshold, kB", ylabel="goodput, Mb/s, mean over ten delays")
    axes.legend(title="law")
    axes.figure.savefig(figure)


if __name__ == "__main__":
    main(*sys.argv[1:])
