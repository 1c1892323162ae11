"""A trace file in modelled time."""

import json
from collections import defaultdict
from pathlib import Path

import numpy as np
import pytest

pytest.importorskip("torch")

import itertools

from sglab.events.perfetto import save_perfetto
from tests.support.launches.timed import mla


def test_a_trace_in_modelled_time_says_so_and_its_slices_do_not_overlap(tmp_path: Path) -> None:
    log, timed = mla("sm_100")
    save_perfetto(timed, tmp_path / "trace.json")
    document = json.loads((tmp_path / "trace.json").read_text())
    assert document["otherData"]["clock"].startswith("modelled time on B200, not measured")
    slices = defaultdict(list)
    for event in document["traceEvents"]:
        if event["ph"] == "X":
            slices[event["pid"], event["tid"]].append((event["ts"], event["ts"] + event["dur"]))
    assert len(slices) == len(np.unique(log.cta.astype(int) * 64 + log.warp))
    for own in slices.values():
        assert all(end <= begin + 1e-9 for (_, end), (begin, _) in itertools.pairwise(own))
        assert own[-1][1] * 1000 <= timed.total_ns
    begins = [event for event in document["traceEvents"] if event["ph"] == "b" and event["cat"] == "MMA"]
    np.testing.assert_allclose([event["ts"] for event in begins], timed.mmas.start / 1000)
