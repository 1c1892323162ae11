"""One GPU, many clients: one at a time, in order, and a client that dies gives way."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

pytest.importorskip("fcntl")
torch = pytest.importorskip("torch")

from sglab import gpu
from sglab.classroom import GpuBusyError, GpuQueue, device
from tests.support.scale import PTX

ROOT = Path(__file__).resolve().parents[2]
CLIENT = ROOT / "tests" / "support" / "classroom" / "client.py"
PATIENCE_S = 600


def client(folder: Path, turns: int, *more: str) -> subprocess.Popen[str]:
    command = [sys.executable, str(CLIENT), str(folder / "queue"), str(folder / "log"), str(turns), *more]
    return subprocess.Popen(command, stdout=subprocess.PIPE, text=True, cwd=ROOT, env={"PYTHONPATH": str(ROOT)})


def test_eight_clients_take_turns_in_order(tmp_path: Path) -> None:
    clients = [client(tmp_path, 5) for _ in range(8)]
    assert [one.wait(PATIENCE_S) for one in clients] == [0] * 8, "nobody found somebody else inside"
    rows = [line.split() for line in (tmp_path / "log").read_text().splitlines()]
    places = [int(place) for place, _ in rows]
    assert places == list(range(1, 41)), "first come, first served"
    assert len({pid for _, pid in rows}) == 8
    assert not list((tmp_path / "queue").glob("*.place")), "nothing is left"


LAUNCHES = """
import sys, torch
from pathlib import Path
from sglab import gpu
from sglab.classroom import GpuQueue, device
from tests.support.scale import PTX

folder, wanted, mine = sys.argv[1], sys.argv[2], float(sys.argv[3])
for turn in range(3):
    out = torch.zeros(64, device="cuda" if wanted == "cuda" else "cpu")
    with device(wanted, queue=GpuQueue(Path(folder)), say=print) as found:
        gpu.load(PTX)["times"].launch(found, grid=(2, 1, 1), block=32, args=[out, mine])
        if wanted == "cuda":
            torch.cuda.synchronize()
    assert out.tolist() == [mine * n for n in range(64)], out
"""


@pytest.mark.parametrize("wanted", ["emulator", pytest.param("cuda", marks=pytest.mark.gpu)])
def test_eight_clients_launch_at_once_and_each_has_its_own_results(tmp_path: Path, wanted: str) -> None:
    if wanted == "cuda" and not torch.cuda.is_available():
        pytest.skip("needs an NVIDIA GPU")
    command = [sys.executable, "-c", LAUNCHES, str(tmp_path / "queue"), wanted]
    clients = [subprocess.Popen([*command, str(number + 0.5)], cwd=ROOT) for number in range(8)]
    assert [one.wait(PATIENCE_S) for one in clients] == [0] * 8
    assert GpuQueue(tmp_path / "queue").waiting() == 0


def test_the_turn_of_a_killed_client_is_over(tmp_path: Path) -> None:
    holder = client(tmp_path, 1, "hold")
    assert holder.stdout is not None and holder.stdout.readline() == "in\n"
    queue = GpuQueue(tmp_path / "queue")
    with pytest.raises(GpuBusyError, match="1 before you"), queue.turn(patience=0):
        pass
    waiting = client(tmp_path, 1)
    holder.kill()
    holder.wait()
    assert waiting.wait(PATIENCE_S) == 0
    with queue.turn(patience=PATIENCE_S) as place:
        assert place.before == 0 and queue.waiting() == 1
    assert queue.waiting() == 0


def test_one_that_stops_waiting_lets_the_next_pass(tmp_path: Path) -> None:
    queue = GpuQueue(tmp_path / "queue")
    with queue.turn(), pytest.raises(GpuBusyError), queue.turn(patience=0.05):
        pass
    with queue.turn(patience=0) as place:
        assert place.number == 3


def test_auto_takes_the_emulator_while_the_gpu_is_busy_and_says_so(tmp_path: Path) -> None:
    queue, said = GpuQueue(tmp_path / "queue"), list[str]()
    out = torch.zeros(64)
    with queue.turn(), device("auto", arch="sm_80", queue=queue, say=said.append) as found:
        assert isinstance(found, gpu.EmulatedDevice)
        gpu.load(PTX)["times"].launch(found, grid=(2, 1, 1), block=32, args=[out, 0.5])
    assert out.tolist() == [0.5 * n for n in range(64)]
    assert len(said) == 1 and "1 before you" in said[0] and "emulator (sm_80)" in said[0]
    with queue.turn(), pytest.raises(GpuBusyError), device("cuda", patience=0, queue=queue):
        pass


def test_another_device_is_refused(tmp_path: Path) -> None:
    with pytest.raises(ValueError, match="device: expected auto, cuda or emulator; got 'tpu'"), device("tpu"):  # type: ignore[arg-type]
        pass


@pytest.mark.gpu
def test_auto_takes_a_free_gpu_and_says_so(tmp_path: Path) -> None:
    if not torch.cuda.is_available():
        pytest.skip("needs an NVIDIA GPU")
    queue, said = GpuQueue(tmp_path / "queue"), list[str]()
    out = torch.zeros(64, device="cuda")
    with device("auto", queue=queue, say=said.append) as found:
        assert isinstance(found, gpu.CudaDevice) and queue.waiting() == 1
        gpu.load(PTX)["times"].launch(found, grid=(2, 1, 1), block=32, args=[out, 0.5])
        torch.cuda.synchronize()
    assert out.tolist() == [0.5 * n for n in range(64)]
    assert "in the queue" in said[0] and queue.waiting() == 0
