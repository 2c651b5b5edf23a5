"""The result of an experiment as Arrow tables."""

from __future__ import annotations

import io
import json
import os
from functools import cached_property
from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pyarrow.csv
import pyarrow.parquet

if TYPE_CHECKING:
    from ._native import Finished

_COUNT = pa.uint64()
_FLOWS = {
    "point": pa.uint32(),
    "case": pa.string(),
    "run": pa.uint32(),
    "seed": _COUNT,
    "group": pa.string(),
    "flow": pa.uint32(),
    "goodput_bps": pa.float64(),
    "delivered_bytes": _COUNT,
    "sent_bytes": _COUNT,
    "resent_bytes": _COUNT,
    "resent_segments": _COUNT,
    "send_window_segments": pa.float64(),
    "srtt_us": pa.float64(),
    "dropped_packets": _COUNT,
    "marked_packets": _COUNT,
    "timeouts": pa.uint32(),
    "longest_ack_gap_ms": _COUNT,
    "negotiated_ecn": pa.bool_(),
    "transfers": _COUNT,
    "transfers_finished": _COUNT,
    "transfer_mean_ms": pa.float64(),
    "transfer_p99_ms": pa.float64(),
    "transfer_max_ms": pa.float64(),
}
_VERDICTS = {
    "name": pa.string(),
    "along": pa.string(),
    "paper": pa.float64(),
    "ours": pa.float64(),
    "standard_error": pa.float64(),
    "interval_low": pa.float64(),
    "interval_high": pa.float64(),
    "least": pa.float64(),
    "most": pa.float64(),
    "runs": _COUNT,
    "expect": pa.string(),
    "holds": pa.bool_(),
    "why": pa.string(),
    "basis": pa.string(),
    "verdict": pa.string(),
    "differs": pa.string(),
    "reproduced": pa.string(),
}
_SAMPLES = {
    "point": pa.uint32(),
    "case": pa.string(),
    "run": pa.uint32(),
    "group": pa.string(),
    "flow": pa.uint32(),
    "at_ns": _COUNT,
    "delivered_bytes": _COUNT,
    "cwnd_segments": pa.uint32(),
    "snd_wnd_bytes": pa.uint32(),
    "srtt_us": pa.uint32(),
    "unacked_segments": pa.uint32(),
    "bytes_sent": _COUNT,
    "bytes_retransmitted": _COUNT,
    "total_retransmits": pa.uint32(),
    "mss_bytes": pa.uint32(),
    "shadow_window_bytes": pa.uint32(),
    "shadow_alpha_q30": pa.uint32(),
    "exact_alpha_q30": pa.uint32(),
    "guest_alpha_q30": pa.uint32(),
    "rto_us": pa.uint32(),
}


class Result:
    """The result of an experiment. Tables are made when they are first asked for."""

    def __init__(self, finished: Finished) -> None:
        self._finished = finished
        self._at = {f"at_{axis}": pa.string() for axis in finished.axes()}

    @cached_property
    def flows(self) -> pa.Table:
        """A row for every flow of every run: the columns of flows.csv."""
        return self._table(self._finished.flows(), _FLOWS)

    @cached_property
    def samples(self) -> pa.Table:
        """A row for every sample of every flow of every run: windows, round-trip times, counters."""
        return self._table(self._finished.samples(), _SAMPLES)

    @cached_property
    def verdicts(self) -> pa.Table:
        """A row for every verdict on an expectation: the columns of verdicts.csv."""
        return self._table(self._finished.verdicts(), _VERDICTS)

    @property
    def holds(self) -> bool:
        """Whether every expectation holds, or differs from the paper for a reason that the file gives."""
        return self._finished.holds()

    def to_dict(self) -> dict[str, Any]:
        """Returns the object of results.json."""
        results: dict[str, Any] = json.loads(self._finished.json())
        return results

    def write(self, folder: str | os.PathLike[str]) -> str:
        """Writes the files of ``uc-bench run`` into a folder, byte for byte; returns the page's path."""
        return os.fspath(self._finished.write(folder))

    def write_parquet(self, folder: str | os.PathLike[str]) -> list[str]:
        """Writes flows, samples and verdicts as Parquet files into a folder; returns their paths."""
        os.makedirs(folder, exist_ok=True)
        paths = []
        for name in ("flows", "samples", "verdicts"):
            paths.append(os.path.join(folder, f"{name}.parquet"))
            pyarrow.parquet.write_table(getattr(self, name), paths[-1])
        return paths

    def __str__(self) -> str:
        return self._finished.table()

    def __repr__(self) -> str:
        verdicts = self.to_dict()["results"]
        held = sum(verdict["verdict"] in ("holds", "differs") for verdict in verdicts)
        return f"<undercurrent.Result: {held} of {len(verdicts)} verdicts pass>"

    def _table(self, text: bytes, columns: dict[str, pa.DataType]) -> pa.Table:
        convert = pyarrow.csv.ConvertOptions(
            column_types={**self._at, **columns}, strings_can_be_null=True, null_values=[""]
        )
        parse = pyarrow.csv.ParseOptions(newlines_in_values=True)
        return pyarrow.csv.read_csv(io.BytesIO(text), parse_options=parse, convert_options=convert)
