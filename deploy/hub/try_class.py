"""A class of simulated students at a running hub, all at once: they come in, open, run, step, check and hand in.

python deploy/hub/try_class.py CLASS [--students 20] [--steps 25] [--labs 01 02 05] [--json FILE]

CLASS is the folder that `sglab hub` was started with. Each student logs in through the login page, has a seat
started, runs the
first notebook cell by cell through the kernel's websocket, steps a kernel in the debugger, and does a lab: with the
model
solution, a known wrong idea or the untouched starter. Printed: memory and processor time per seat, and how long each
thing
took. Run it on the hub's machine, as its user; what it measures of memory is in /proc.
"""

from __future__ import annotations

import argparse
import asyncio
import csv
import json
import os
import re
import statistics
import sys
import time
import uuid
from collections import defaultdict
from dataclasses import dataclass, field
from http.cookies import SimpleCookie
from pathlib import Path
from random import Random
from typing import Any
from urllib.parse import quote, urlencode

import psutil
from tornado.httpclient import AsyncHTTPClient, HTTPClientError, HTTPRequest, HTTPResponse
from tornado.websocket import WebSocketClientConnection, WebSocketClosedError, websocket_connect

ROOT = Path(__file__).resolve().parents[2]
sys.path.insert(0, str(ROOT / "labs"))
import selftest  # the instructors' solutions and known wrong ideas

from sglab.classroom.settings import ClassSettings
from sglab.classroom.spawner import running_seats
from sglab.labs.coursework import lab

PATIENCE, START_PATIENCE, SILENCE = 1800.0, 120.0, 40.0
NOTEBOOK = "notebooks/00_start_here.ipynb"
BEGIN_STEPPING = '''
from sglab import gpu
_ptx = """.version 8.7
.target sm_100a
.address_size 64
.visible .entry scale(.param .u64 out, .param .u32 n)
{ .reg .pred %p; .reg .b32 %r<4>; .reg .b64 %d<3>; .reg .f32 %f<3>;
  ld.param.u64 %d1, [out]; ld.param.u32 %r1, [n]; mov.u32 %r2, %tid.x;
  mul.wide.u32 %d2, %r2, 4; add.s64 %d1, %d1, %d2;
LOOP: ld.global.f32 %f1, [%d1]; mul.f32 %f1, %f1, 0f3F800001; st.global.f32 [%d1], %f1;
  sub.u32 %r1, %r1, 1; setp.ne.u32 %p, %r1, 0; @%p bra LOOP; ret; }
"""
import torch
_session = gpu.load(_ptx)["scale"].session(gpu.EmulatedDevice("sm_100a"), grid=(1, 1, 1), block=128,
                                       args=[torch.ones(128), 4000])
'''


@dataclass
class Timings:
    """Seconds by what was done."""

    taken: dict[str, list[float]] = field(default_factory=lambda: defaultdict(list))
    failed: list[str] = field(default_factory=list)
    reconnected: int = 0
    lost: int = 0

    def table(self) -> list[tuple[str, int, float, float, float]]:
        """What, how often, median, 95th percentile and most."""
        rows = []
        for what, times in self.taken.items():
            ordered = sorted(times)
            p95 = ordered[min(len(ordered) - 1, int(0.95 * len(ordered)))]
            rows.append((what, len(ordered), statistics.median(ordered), p95, ordered[-1]))
        return rows


class Student:
    """One student's browser, as far as the hub sees it."""

    def __init__(self, hub: str, name: str, password: str, timings: Timings) -> None:
        self._hub, self.name, self._password, self._timings = hub.rstrip("/"), name, password, timings
        self._client = AsyncHTTPClient()
        self._cookies: dict[str, str] = {}
        self._token = self._kernel = ""
        self._session = uuid.uuid4().hex
        self._socket: WebSocketClientConnection

    async def log_in(self) -> None:
        page = await self._page("/hub/login")
        found = re.search(r'name="_xsrf" value="([^"]+)"', page.body.decode())
        xsrf = found.group(1) if found else self._cookies["_xsrf"]
        form = {"username": self.name, "password": self._password, "_xsrf": xsrf}
        answer = await self._page("/hub/login", body=urlencode(form))
        if answer.code != 302:
            raise RuntimeError(f"{self.name} could not log in: {answer.code}")
        answer = await self._page(
            f"/hub/api/users/{quote(self.name)}/tokens",
            body=json.dumps({"note": "try_class", "expires_in": 7200}),
            headers={"X-XSRFToken": self._cookies["_xsrf"], "Content-Type": "application/json"},
        )
        self._token = json.loads(answer.body)["token"]

    async def take_seat(self) -> None:
        user = json.loads((await self._api("GET", f"/hub/api/users/{quote(self.name)}")).body)
        if (user["servers"].get("") or {}).get("ready"):  # of an earlier trial
            return
        answer = await self._api("POST", f"/hub/api/users/{quote(self.name)}/server", body="{}")
        end = time.monotonic() + PATIENCE
        while answer.code not in (200, 201) and time.monotonic() < end:
            user = json.loads((await self._api("GET", f"/hub/api/users/{quote(self.name)}")).body)
            server = user["servers"].get("") or {}
            if server.get("ready"):
                return
            if not server and not user.get("pending"):
                raise RuntimeError(f"{self.name}'s seat did not start")
            await asyncio.sleep(5)  # a browser does not ask at all, it is told

    async def open_notebook(self) -> list[str]:
        notebook = json.loads((await self._seat("GET", f"contents/{NOTEBOOK}")).body)["content"]
        cells = ["".join(cell["source"]) for cell in notebook["cells"] if cell["cell_type"] == "code"]
        body = {"path": NOTEBOOK, "name": "", "type": "notebook", "kernel": {"name": "python3"}}
        session = json.loads((await self._seat("POST", "sessions", json.dumps(body))).body)
        self._kernel = session["kernel"]["id"]
        self._socket = await self._connect()
        return cells

    async def _connect(self) -> WebSocketClientConnection:
        """To the kernel; the server keeps what came meanwhile for the same session, as for a page that lost
        its line."""
        seat = f"{self._hub.replace('http', 'ws', 1)}/user/{quote(self.name)}"
        address = f"{seat}/api/kernels/{self._kernel}/channels?session_id={self._session}"
        request = HTTPRequest(
            address,
            headers={"Authorization": f"token {self._token}"},
            request_timeout=PATIENCE,
            connect_timeout=PATIENCE,
        )
        return await websocket_connect(request, max_message_size=1 << 28)

    async def execute(self, code: str) -> str:
        """Runs a cell; returns what it printed.

        Raises:
            RuntimeError: it raised.
        """
        number = uuid.uuid4().hex
        header = {
            "msg_id": number,
            "msg_type": "execute_request",
            "username": self.name,
            "session": self._session,
            "version": "5.3",
        }
        content = {"code": code, "silent": False, "store_history": True, "user_expressions": {}, "allow_stdin": False}
        message = {"header": header, "parent_header": {}, "metadata": {}, "content": content, "channel": "shell"}
        try:
            await self._socket.write_message(json.dumps(message))
        except WebSocketClosedError:  # a seat without processor time answers no ping; browsers connect again, too
            self._socket = await self._connect()
            self._timings.reconnected += 1
            await self._socket.write_message(json.dumps(message))
        printed, replied, idle = "", False, False
        while not (replied and idle):
            text = await self._next()
            if text == "":
                if await self._is_idle():  # what was sent while the line broke is lost: a reader runs it again
                    self._timings.lost += 1
                    return await self.execute(code)
                continue
            if text is None:
                self._socket = await self._connect()
                self._timings.reconnected += 1
                continue
            if isinstance(text, bytes):  # a widget's buffers
                continue
            got = json.loads(text)
            if got["parent_header"].get("msg_id") != number:
                continue
            kind, inside = got["header"]["msg_type"], got["content"]
            if kind == "stream":
                printed += inside["text"]
            elif kind == "error":
                raise RuntimeError(f"{inside['ename']}: {inside['evalue'][:300]}")
            replied |= kind == "execute_reply"
            idle |= kind == "status" and inside["execution_state"] == "idle"
        return printed

    async def _next(self) -> str | bytes | None:
        """What the kernel says next; None where the line is broken, "" where it has said nothing for a while."""
        reading = asyncio.ensure_future(self._socket.read_message())
        await asyncio.wait({reading}, timeout=SILENCE)
        if reading.done():
            return reading.result()
        reading.cancel()
        return ""

    async def _is_idle(self) -> bool:
        """Whether the kernel computes nothing, and goes on doing so."""
        for _ in range(2):
            kernel = json.loads((await self._seat("GET", f"kernels/{self._kernel}")).body)
            if kernel["execution_state"] != "idle":
                return False
            await asyncio.sleep(SILENCE / 4)
        return True

    async def put(self, path: str, text: str) -> None:
        await self._seat("PUT", f"contents/{path}", json.dumps({"type": "file", "format": "text", "content": text}))

    async def timed(self, what: str, doing: Any) -> Any:
        began = time.monotonic()
        result = await doing
        self._timings.taken[what].append(time.monotonic() - began)
        return result

    async def _seat(self, method: str, path: str, body: str | None = None) -> HTTPResponse:
        return await self._api(method, f"/user/{quote(self.name)}/api/{path}", body)

    async def _api(self, method: str, path: str, body: str | None = None) -> HTTPResponse:
        headers = {"Authorization": f"token {self._token}"}
        request = HTTPRequest(
            f"{self._hub}{path}", method, headers, body, request_timeout=PATIENCE, connect_timeout=PATIENCE
        )
        return await self._client.fetch(request)

    async def _page(self, path: str, body: str | None = None, headers: dict[str, str] | None = None) -> HTTPResponse:
        """With cookies, as a browser."""
        sent = {"Cookie": "; ".join(f"{name}={value}" for name, value in self._cookies.items()), **(headers or {})}
        sent["Sec-Fetch-Mode"] = "navigate" if not headers else "cors"
        request = HTTPRequest(
            f"{self._hub}{path}",
            "GET" if body is None else "POST",
            sent,
            body,
            follow_redirects=False,
            request_timeout=PATIENCE,
            connect_timeout=PATIENCE,
        )
        answer = await self._client.fetch(request, raise_error=False)
        for line in answer.headers.get_list("Set-Cookie"):
            self._cookies.update({name: morsel.value for name, morsel in SimpleCookie(line).items()})
        if answer.code >= 400:
            raise RuntimeError(f"{path}: {answer.code} {answer.body[:200]!r}")
        return answer


async def attend_class(student: Student, steps: int, labs: list[str], random: Random, timings: Timings) -> None:
    """What one student does in the hour."""
    try:
        await student.timed("log in", student.log_in())
        await student.timed("seat starts", student.take_seat())
        cells = await student.timed("notebook opens", student.open_notebook())
        for cell in cells:
            await student.timed("notebook cell", student.execute(cell))
        await student.execute(BEGIN_STEPPING)
        for _ in range(steps):
            await student.timed("debugger step", student.execute("_session.step()"))
        one = lab(random.choice(labs))
        printed = await student.execute(f"!sglab labs start {one.id}")
        if "copied" not in printed:
            raise RuntimeError(f"start said: {printed[-300:]}")
        for attempt in range(2):
            for name, text in _files(one, student.name, random, attempt).items():
                await student.put(f"my_labs/{one.folder}/{name}", text)
            printed = await student.timed("lab check", student.execute(f"!sglab labs check {one.id}"))
            if "points" not in printed:
                raise RuntimeError(f"check said: {printed[-300:]}")
        printed = await student.timed("lab hand-in", student.execute(f"!sglab labs submit {one.id}"))
        if "handed in" not in printed:
            raise RuntimeError(f"submit said: {printed[-300:]}")
    except Exception as error:  # one student's trouble is a figure, not the end of the trial
        timings.failed.append(f"{student.name}: {type(error).__name__}: {error}")


def _files(one: Any, name: str, random: Random, attempt: int) -> dict[str, str]:
    """First mostly a wrong idea, then mostly the solution."""
    right = selftest.solution(one, name)
    if random.random() < (0.75, 0.25)[attempt]:
        _, _, files = random.choice(list(selftest.wrongs(one)))
        return {**files, "answers.py": right.get("answers.py", "")}
    return right


def measure(settings: ClassSettings) -> dict[str, tuple[int, float]]:
    """Of each running seat: bytes of memory (each page shared by n processes counts 1/n) and seconds of
    processor time."""
    found = {}
    for name, seat in running_seats(settings.place).items():
        try:
            first = psutil.Process(seat["pid"])
            processes = [first, *first.children(recursive=True)]
        except psutil.NoSuchProcess:
            continue
        size = sum(_pss(one.pid) for one in processes)
        seconds = 0.0
        for one in processes:
            try:
                times = one.cpu_times()
                seconds += times.user + times.system + times.children_user + times.children_system
            except psutil.NoSuchProcess:
                continue
        found[name] = size, seconds
    return found


def _pss(pid: int) -> int:
    try:
        text = Path(f"/proc/{pid}/smaps_rollup").read_text()
    except OSError:
        return 0
    return int(text.split("\nPss:")[1].split()[0]) * 1024


async def watch(settings: ClassSettings, seen: dict[str, tuple[int, float]]) -> None:
    """Keeps the most that each seat has used."""
    while True:
        await asyncio.sleep(5)
        for name, (size, seconds) in (await asyncio.to_thread(measure, settings)).items():
            before = seen.get(name, (0, 0.0))
            seen[name] = max(size, before[0]), max(seconds, before[1])


async def answers(hub: str) -> None:
    """Waits for a hub that has just been started."""
    end = time.monotonic() + START_PATIENCE
    while True:
        try:
            await AsyncHTTPClient().fetch(f"{hub.rstrip('/')}/hub/api")
            return
        except (OSError, HTTPClientError) as error:
            if time.monotonic() > end:
                raise SystemExit(f"no hub answers at {hub} ({error}): start it first, with the same folder") from None
            await asyncio.sleep(1)


async def run(options: argparse.Namespace) -> dict[str, Any]:
    AsyncHTTPClient.configure("tornado.simple_httpclient.SimpleAsyncHTTPClient", max_clients=500)
    settings = ClassSettings.read(options.folder)
    await answers(settings.bind)
    with open(settings.place.passwords, newline="") as file:
        passwords = {row["name"]: row["password"] for row in csv.DictReader(file)}
    names = settings.students[: options.students]
    if len(names) < options.students:
        raise SystemExit(f"--students: the roster has {len(names)}, not {options.students}")
    timings, seen = Timings(), dict[str, tuple[int, float]]()
    watching = asyncio.create_task(watch(settings, seen))
    students = [Student(settings.bind, name, passwords[name], timings) for name in names]
    began, load = time.monotonic(), os.getloadavg()
    at_once = (
        attend_class(student, options.steps, options.labs, Random(f"{options.seed} {student.name}"), timings)
        for student in students
    )
    await asyncio.gather(*at_once)
    seconds = time.monotonic() - began
    at_rest = await asyncio.to_thread(measure, settings)
    watching.cancel()
    return {
        "students": len(names),
        "processors": os.cpu_count(),
        "load_before": load[0],
        "load_after": os.getloadavg()[0],
        "seconds": seconds,
        "failed": timings.failed,
        "reconnected": timings.reconnected,
        "lost": timings.lost,
        "seat_memory_mib": {"median": _mib(seen, statistics.median), "most": _mib(seen, max)},
        "seat_memory_at_rest_mib": {"median": _mib(at_rest, statistics.median), "most": _mib(at_rest, max)},
        "seat_processor_seconds": {"median": statistics.median([one[1] for one in seen.values()] or [0])},
        "timings": [
            dict(zip(("what", "n", "median_s", "p95_s", "most_s"), row, strict=True)) for row in timings.table()
        ],
    }


def _mib(seats: dict[str, tuple[int, float]], of: Any) -> int:
    return round(of([size for size, _ in seats.values()] or [0]) / 2**20)


def show(found: dict[str, Any]) -> None:
    print(f"{found['students']} students at once, {found['processors']} processors, {found['seconds']:.0f} s; ", end="")
    print(f"load of the machine {found['load_before']:.1f} before, {found['load_after']:.1f} after")
    print(
        f"connections that were lost and made again: {found['reconnected']}; messages that were lost with them: "
        f"{found['lost']}; failed: {len(found['failed'])}",
        *found["failed"],
        sep="\n  ",
    )
    most, rest = found["seat_memory_mib"], found["seat_memory_at_rest_mib"]
    print(f"memory of a seat: at most {most['median']} MiB (median), {most['most']} MiB (largest); ", end="")
    print(f"afterwards {rest['median']} and {rest['most']} MiB")
    print(f"processor time of a seat: {found['seat_processor_seconds']['median']:.0f} s")
    print(f"{'':16} {'n':>5} {'median':>9} {'p95':>9} {'most':>9}")
    for row in found["timings"]:
        times = "".join(f" {row[name]:8.3f}s" for name in ("median_s", "p95_s", "most_s"))
        print(f"{row['what']:16} {row['n']:5}{times}")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("folder", type=Path)
    parser.add_argument("--students", type=int, default=20)
    parser.add_argument("--steps", type=int, default=25, help="of the debugger; default: %(default)s")
    parser.add_argument("--labs", nargs="+", default=["01", "02", "05"], help="those that need neither nvcc nor Triton")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--json", type=Path)
    options = parser.parse_args()
    found = asyncio.run(run(options))
    show(found)
    if options.json:
        options.json.write_text(json.dumps(found, indent=1) + "\n")
    sys.exit(bool(found["failed"]))


if __name__ == "__main__":
    main()
