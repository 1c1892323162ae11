"""Whatever a submission does, it costs only itself, and what it answers is data."""

import errno
import json
import os
import subprocess
import sys
import time
from pathlib import Path

import numpy as np
import pytest

from sglab.labs.launches import build, capture
from sglab.labs.sandbox import CALLS, COMPILING, LAUNCHING, Ended, Limits, Sandbox, SandboxError, sandbox
from sglab.labs.sandbox.inside import wire
from sglab.labs.sandbox.sandbox import SOLUTIONS
from tests.support.compilers import has_nvcc

pytestmark = pytest.mark.skipif(not hasattr(sys, "getdlopenflags"), reason="needs a POSIX system")
SHORT = Limits(seconds=20, cpu_seconds=1, memory=1 << 30, output=1 << 20, text=1 << 18, file_bytes=1 << 20)


def run(source: str, limits: Limits = SHORT, **sandbox: object) -> Ended:
    script = [["call", "f", []]]
    payload = {"source": source, "file": "a.py", "script": script, "blocked": ["sglab"]}
    return Sandbox(**sandbox).run(CALLS, payload, limits)


def answer(source: str, **sandbox: object) -> dict:
    ended = run(source, **sandbox)
    assert not ended.failed, ended.failed
    return ended.result["steps"][0] if ended.result["steps"] else {"error": ended.result["error"]}


def in_force(name: str) -> None:
    held = run("def f(): pass").enforced
    if not any(name in each for each in held):
        pytest.skip(f"this system gives no {name}: only {held} are in force")


def test_a_function_is_called_and_its_result_comes_back() -> None:
    step = answer("import numpy\ndef f():\n    print('hello')\n    return numpy.arange(3), {'a': [1.5, None]}")
    assert step["value"][0].tolist() == [0, 1, 2]
    assert step["value"][1] == {"a": [1.5, None]}


def test_what_is_in_force_is_said_before_any_of_its_code_runs() -> None:
    ended = run("import os\nos._exit(0)")
    assert any("rlimits" in each for each in ended.enforced)


def test_an_endless_loop_ends() -> None:
    assert run("def f():\n    while True: pass").failed


GRADER = """
import sys
from tests.labs.test_sandbox import Limits, run
run("import time; def f(): time.sleep(999)".replace("; ", chr(10)), Limits(seconds=900), namespaces=bool(sys.argv[1:]))
"""


def descendants(process: int) -> set[int]:
    parents: dict[int, int] = {}
    for each in Path("/proc").glob("[0-9]*/stat"):
        try:
            parents[int(each.parent.name)] = int(each.read_text().rpartition(")")[2].split()[1])
        except (OSError, IndexError):
            continue  # it has ended
    found, new = set[int](), {process}
    while new := {child for child, parent in parents.items() if parent in new}:
        found |= new
    return found


@pytest.mark.skipif(not Path("/proc/self/stat").exists(), reason="needs /proc")
@pytest.mark.parametrize("namespaces", [(), ("namespaces",)])
def test_a_submission_ends_with_its_grader(namespaces: tuple[str, ...]) -> None:
    """A grader that was killed left those behind that slept."""
    try:
        run("def f(): pass", namespaces=bool(namespaces))
    except SandboxError as refused:
        pytest.skip(str(refused))
    grader = subprocess.Popen([sys.executable, "-c", GRADER, *namespaces], cwd=Path(__file__).parents[2])
    try:
        running: set[int] = set()
        while not running:
            time.sleep(0.1)
            running = descendants(grader.pid)
            assert grader.poll() is None
        time.sleep(2)  # they become more
        running |= descendants(grader.pid)
        assert grader.poll() is None
    finally:
        grader.kill()
        grader.wait()
    deadline = time.monotonic() + 60
    while left := [pid for pid in running if Path(f"/proc/{pid}").exists()]:
        assert time.monotonic() < deadline, left
        time.sleep(0.05)


@pytest.mark.skipif(not Path("/proc/self/schedstat").exists(), reason="needs the scheduler's figures")
def test_whoever_waits_for_a_processor_has_more_time(monkeypatch: pytest.MonkeyPatch) -> None:
    """Twenty checks at once took their submissions' time from each other."""
    short = Limits(seconds=0.6, patience=100)
    monkeypatch.setattr(sandbox, "_waited", lambda process: 60.0)
    assert not run("import time\ndef f(): time.sleep(1.5)", short).failed
    monkeypatch.setattr(sandbox, "_waited", lambda process: 0.0)
    assert "not done after 0.6 s" in run("import time\ndef f(): time.sleep(999)", short).failed
    monkeypatch.setattr(sandbox, "_waited", lambda process: 1e9)
    assert run("import time\ndef f(): time.sleep(999)", Limits(seconds=0.5, patience=2)).failed


def test_how_long_a_process_and_those_below_it_waited_is_read_from_the_system() -> None:
    if not Path("/proc/self/schedstat").exists():
        pytest.skip("needs the scheduler's figures")
    spin = "import os, subprocess, sys\nos.sched_setaffinity(0, {min(os.sched_getaffinity(0))})\n"
    spin += "work = 'import time; t = time.process_time()\\nwhile time.process_time() - t < 0.3: pass'\n"
    spin += "two = [subprocess.Popen([sys.executable, '-c', work]) for _ in range(2)]\n"
    spin += "two[0].wait(), two[1].wait(), sys.stdin.read()"
    with subprocess.Popen([sys.executable, "-c", spin], stdin=subprocess.PIPE) as process:
        longest = 0.0
        while process.stdin and longest < 0.1 and process.poll() is None:
            longest = max(longest, sandbox._waited(process.pid))
            time.sleep(0.01)
        process.kill()
    assert longest >= 0.1


def test_an_answer_that_comes_with_the_end_is_read(monkeypatch: pytest.MonkeyPatch) -> None:
    """The grader had looked for an answer, then saw that the process had ended, and looked no more."""

    def ended_meanwhile(process: subprocess.Popen[bytes]) -> int | None:
        return process.wait() if process.stdin is None or process.stdin.closed else None

    monkeypatch.setattr(subprocess.Popen, "poll", ended_meanwhile)
    assert answer("import time\ntime.sleep(0.3)\ndef f(): return 1") == {"value": 1}


def test_sleeping_ends_after_the_time() -> None:
    assert "not done after" in run("import time\ndef f(): time.sleep(999)", Limits(seconds=0.6)).failed


@pytest.mark.parametrize(
    "source",
    [
        "def f(): return bytearray(4 << 30)",
        "def f(): return 'x' * (64 << 20)",
        "def f():\n    while True: print('x' * 100_000)",
        "import ctypes\ndef f(): ctypes.string_at(0)",
        "import os\ndef f(): os._exit(0)",
        "import os\ndef f():\n for n in range(3, 40):\n  try: os.write(n, b'x' * 99)\n  except OSError: pass",
    ],
)
def test_it_fails_alone(source: str) -> None:
    assert run(source).failed


def test_it_cannot_start_processes() -> None:
    in_force("seccomp")
    assert "PermissionError" in answer("import os\ndef f(): return os.fork()")["error"]


def test_it_has_no_network() -> None:
    in_force("seccomp")
    assert "PermissionError" in answer("import socket\ndef f(): socket.socket()")["error"]


def test_it_writes_nowhere_but_in_its_own_folder(tmp_path: Path) -> None:
    in_force("namespaces")
    target = tmp_path / "grades.csv"
    assert "error" in answer(f"def f(): open({str(target)!r}, 'w').write('mallory,100')")
    assert not target.exists()
    assert answer("def f(): return open('mine', 'w').write('x')") == {"value": 1}


def test_folders_of_the_graders_imports_are_none_of_its_business(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """They may be closed to the user that a submission runs as, which must not stop it."""
    closed = tmp_path / "closed"
    closed.mkdir(mode=0o700)
    (closed / "secret_of_the_grader.py").write_text("KEY = 1")
    monkeypatch.syspath_prepend(closed)
    assert str(closed) not in answer("import sys\ndef f(): return sys.path")["value"]


def test_hidden_folders_are_empty(tmp_path: Path) -> None:
    in_force("namespaces")
    (tmp_path / "ada").mkdir()
    secret = tmp_path / "ada" / "solution.py"
    secret.write_text("secret")
    assert "error" in answer(f"def f(): return open({str(secret)!r}).read()", hidden=[tmp_path])
    hidden = Path(__file__).parent
    assert answer(f"import os\ndef f(): return os.listdir({str(hidden)!r})", hidden=[hidden]) == {"value": []}


def test_no_submission_sees_the_solutions() -> None:
    in_force("namespaces")
    solution = Path(__file__).parents[2] / "labs" / "05_online_softmax" / "online_softmax.py"
    assert solution.exists()
    assert "FileNotFoundError" in answer(f"def f(): return open({str(solution)!r}).read()")["error"]
    source = f'#include "{solution.parents[1]}/08_moe_align/moe_align.cu"\n'
    payload = {"source": source, "file": "a.cu", "arch": "sm_90a", "options": []}
    if has_nvcc():
        assert "No such file" in Sandbox().run(build.PROGRAM, payload, COMPILING).result["error"]


def test_it_sees_no_process_but_its_own() -> None:
    in_force("namespaces")
    step = answer("import os\ndef f(): return [n for n in os.listdir('/proc') if n.isdigit()], list(os.environ)")
    assert len(step["value"][0]) <= 2
    assert "SGLAB_CACHE" in step["value"][1] and "USER" not in step["value"][1]


def test_it_is_solved_without_sglab() -> None:
    assert "without it" in answer("def f():\n    import sglab.planning")["error"]


def test_objects_with_code_do_not_come_back() -> None:
    source = "class E:\n    def __reduce__(self): return print, ('pwned',)\ndef f(): return E()"
    assert "no plain data" in answer(source)["error"]


def test_rlimits_alone_hold_where_there_are_no_namespaces() -> None:
    try:
        ended = run("def f():\n    while True: pass", namespaces=False)
    except SandboxError as error:  # rlimits alone do not hold root, who must be able to become another user
        assert os.geteuid() == 0 and "ordinary user" in str(error)
        return
    assert ended.failed
    assert not any("namespaces" in each for each in ended.enforced)


def test_root_is_another_user_inside_who_sees_no_disk_and_no_settings_of_the_kernel() -> None:
    in_force("own /dev")
    source = """
import os
def tried(path, mode):
    try:
        return open(path, mode) and "opened"
    except OSError as error:
        return type(error).__name__
def f():
    paths = ("/etc/shadow", "rb"), ("/proc/1/mem", "r+b"), ("/proc/sys/kernel/hostname", "r+b")
    return os.getuid(), sorted(os.listdir("/dev")), [tried(*path) for path in paths]
"""
    user, devices, tried_ = answer(source)["value"]
    assert user == os.geteuid() != 0 or user >= 61_000
    assert set(devices) <= {"null", "zero", "full", "random", "urandom", "shm", "fd", "stdin", "stdout", "stderr"}
    assert tried_[0] == "PermissionError" and tried_[1] in ("PermissionError", "FileNotFoundError")
    assert tried_[2] in ("OSError", "PermissionError")


def test_what_runs_at_the_same_time_runs_as_different_users() -> None:
    in_force("own user")
    users = {answer("import os\ndef f(): return os.getuid()")["value"] for _ in range(2)}
    assert len(users) == 2


def test_memory_counts_of_all_processes_together() -> None:
    in_force("own /proc")
    source = """
import os, time
def f():
    for _ in range(3):
        if not os.fork():
            break
    kept = bytearray(150 << 20)
    kept[:: 4096] = b"x" * len(kept[:: 4096])
    time.sleep(20)
"""
    few = Limits(seconds=15, processes=8, memory=1 << 30, resident=400 << 20)
    assert run(source, few).failed == "it used more memory than the limit"


@pytest.mark.parametrize("call", ["shmget(0, 1 << 26, 0o1600)", "memfd_create(b'x', 0)", "msgget(0, 0o1600)"])
def test_no_memory_that_no_limit_counts(call: str) -> None:
    in_force("seccomp")
    source = f"import ctypes\nlibc = ctypes.CDLL(None, use_errno=True)\ndef f(): return libc.{call}, ctypes.get_errno()"
    assert answer(source)["value"] == [-1, errno.EPERM]


def test_hidden_files_are_empty_and_so_is_the_history_that_holds_the_solutions() -> None:
    in_force("namespaces")
    hidden = Path(__file__)
    source = f"import os\ndef f(): return len(open({str(hidden)!r}).read())"
    assert answer(source, hidden=[hidden]).get("value", 0) == 0
    assert any(".git" in path.parts for path in SOLUTIONS)
    folders = [str(path) for path in SOLUTIONS if path.is_dir()]
    assert answer(f"import os\ndef f(): return [n for p in {folders} if os.path.isdir(p) for n in os.listdir(p)]") == {
        "value": []
    }


def test_a_submission_that_launches_kernels_finds_no_ready_made_ones() -> None:
    pytest.importorskip("torch")
    in_force("namespaces")
    payload = {"source": "import sglab.kernels.cutlass_mla.triton", "file": "a.py", "function": "decode", "args": []}
    assert "No module named" in Sandbox().run(capture.PROGRAM, payload, LAUNCHING).result["error"]


@pytest.mark.parametrize("dtype", wire.DTYPES)
def test_arrays_cross_the_wire(dtype: str) -> None:
    array = np.arange(6).reshape(2, 3).astype(dtype)
    back = wire.decode(wire.encode({"x": [array, array[:0]]}))["x"]
    assert back[0].dtype == array.dtype and np.array_equal(back[0], array)
    assert back[1].shape == (0, 3)


@pytest.mark.parametrize(
    "message",
    [
        b"",
        b"\xff\xff\xff\xff",
        b"\x02\x00\x00\x00{]",
        b'\x17\x00\x00\x00{"$bytes":[0,1000000]}  ',
        b'\x22\x00\x00\x00{"$array":["object",[1],[0,0]]}    ',
        b'\x22\x00\x00\x00{"$array":["int8",[1099511627776],[0,0]]}',
        (50_000).to_bytes(4, "little") + b"[" * 50_000,
    ],
)
def test_a_forged_message_is_refused(message: bytes) -> None:
    with pytest.raises(wire.WireError):
        wire.decode(message)


def forged(header: object, blobs: bytes = b"") -> bytes:
    text = json.dumps(header).encode()
    return len(text).to_bytes(4, "little") + text + blobs


@pytest.mark.parametrize(
    "message",
    [
        forged([{"$array": ["int8", [64], [0, 64]]}] * 2, b"x" * 64),
        forged([{"$bytes": [0, 64]}] * 2, b"x" * 64),
        forged({"$array": ["int8", [1 << 30, 0], [0, 0]]}),
        forged({"$bytes": [0, int("9" * 400)]}),
        forged("x" * wire.MOST_HEADER),
    ],
)
def test_a_small_message_does_not_become_much(message: bytes) -> None:
    """Many arrays of the same bytes, and empty ones with billions of rows, filled the grader's memory."""
    with pytest.raises(wire.WireError):
        wire.decode(message)
