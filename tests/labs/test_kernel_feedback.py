"""What the labs of kernels tell: who wrote nothing, the line of the submission's own file, and each thing once."""

from pathlib import Path

import numpy as np
import pytest

from sglab.gpu.code import Instruction, SourceLine
from sglab.labs.command import _show
from sglab.labs.coursework import lab
from sglab.labs.coursework.kernel_marks import unwritten
from sglab.labs.exercises import Run
from sglab.labs.lab import Mark, Outcome
from sglab.labs.launches.capture import NO_DRIVER
from sglab.labs.launches.capture import run as capture
from sglab.labs.launches.measures import own_line


def test_who_writes_nothing_is_told_so() -> None:
    run = Run("one", {"x": np.ones(3), "out": np.full(3, np.nan)}, ("out",))
    assert unwritten([run], [{"buffers": {"out": np.full(3, np.nan)}}])
    assert not unwritten([run], [{"buffers": {"out": np.array([np.nan, 1, np.nan])}}])
    assert not unwritten([run], [{"buffers": {}, "failed": "deadlock: no warp can continue"}])


def test_a_finding_names_the_submissions_line_and_not_the_headers() -> None:
    chain = (SourceLine("barrier.cuh", 74, 1), SourceLine("mbarrier.cu", 18, 3))
    instruction = Instruction(0, 1, "mbarrier.try_wait", "", "", "", chain)
    assert own_line(instruction) == 18
    assert own_line(Instruction(0, 1, "ret", "", "", "", ())) == 0


def test_what_explains_several_criteria_is_printed_once(capsys: pytest.CaptureFixture[str]) -> None:
    one = lab("13")
    told = [
        Mark("right", 0.0, "Only two count."),
        Mark("wgmma", 0.0, "Only two count. 2 of 4."),
        Mark("clean", 0.0, "Only two count."),
    ]
    _show(one, {"tile": Outcome(tuple(told))})
    shown = capsys.readouterr().out
    assert shown.count("Only two count.") == 1 and "          2 of 4." in shown


def test_plain_triton_without_a_gpu_gets_advice(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    pytest.importorskip("triton")
    source = "def decode(x):\n    raise RuntimeError('0 active drivers ([]). There should only be one.')\n"
    args = [{"name": "x", "array": np.zeros(1, np.float32)}]
    made = capture({"source": source, "file": "mla_decode.py", "function": "decode", "args": args})
    assert made["error"].endswith(NO_DRIVER)
