"""KernelDebugger's Python side: what moves the session, what is answered, what is refused."""

from __future__ import annotations

import gc
import json
import re
import weakref
from itertools import pairwise
from pathlib import Path
from typing import Any

import pytest

from tests.support.launches.session_lines import ATOMIC, LOOP_SYNC, SESSION_PTX, SYNC

torch = pytest.importorskip("torch")

from sglab import gpu
from sglab.compilers.vouched import vouch
from sglab.labs.pipelines import Pipeline
from sglab.widgets import KernelDebugger
from tests.support.launches.debugged import FOLLOW, go, line, make, tensor


def test_the_launch_is_measured_before_anything_runs() -> None:
    widget = make()
    state = widget.look(FOLLOW)
    assert (state["position"], state["complete"], state["sentence"]) == (0, True, "Nothing has run yet.")
    assert state["length"] == go(widget, "end")["position"]
    assert go(widget, "seek", position=0)["sentence"] == "Nothing has run yet."


def test_a_session_that_has_moved_before_says_where_it_is() -> None:
    session = make().session
    session.step(count=9)
    assert re.match(r"Warp \d of CTA 0 executed \S+ \(session.cu:\d+\)\.", KernelDebugger(session).look({})["sentence"])


def test_lines_of_ptx_and_source_come_with_the_instructions_on_them() -> None:
    widget = make()
    code = widget.session.code
    assert widget.code["entry"] == "reduce"
    assert widget.code["files"][0]["name"] == "session.cu"
    assert line(widget, "file0", SYNC) == "__syncthreads();"
    chains, places = tensor(widget, "chain.start"), tensor(widget, "chain.place")
    for pc, instruction in enumerate(code):
        if not instruction.ptx_line:
            continue
        shown = line(widget, "ptx", int(tensor(widget, "code.ptx_line")[pc]))
        assert shown.split() == instruction.text.split()
        chain = int(tensor(widget, "code.chain")[pc])
        found = places[chains[chain] : chains[chain + 1]].tolist()
        paths = [file["path"] for file in widget.code["files"]]
        assert [(paths[file], at) for file, at in found] == [(place.file, place.line) for place in instruction.chain]


@pytest.mark.parametrize("forth", ["step", "warp", "line", "event", "warp_event"])
def test_every_step_is_undone_by_its_opposite(forth: str) -> None:
    widget = make()
    back = {"step": "back"}.get(forth, f"{forth}_back")
    look = {"cta": 0, "warp": 1}
    positions = [go(widget, forth, look)["position"] for _ in range(6)]
    assert positions == sorted(set(positions))
    for expected in reversed(positions[:-1]):
        state = go(widget, back, look)
        # forth is after what the warp executed, back is before what it executes: others may run in between
        assert state["position"] <= positions[positions.index(expected) + 1]
    again = [go(widget, forth, look)["position"] for _ in range(3)]
    assert set(again) <= set(positions) | {again[-1]}


def test_a_line_step_ends_at_another_line_of_the_same_warp() -> None:
    widget = make()
    look = {"cta": 0, "warp": 2}
    lines = []
    for _ in range(8):
        go(widget, "line", look)
        lines.append(widget.session.warp(2, 0).groups[0].at.source)
    assert all(a != b for a, b in pairwise(lines))
    before = widget.session.warp(2, 0).executed
    state = go(widget, "warp", look)
    assert widget.session.warp(2, 0).executed == before + 1
    assert state["sentence"].startswith("Warp 2 of CTA 0 executed")


def test_runs_stop_at_breakpoints_in_both_directions() -> None:
    widget = make()
    file_line = {"file": 0, "line": LOOP_SYNC}  # the barrier of the loop
    state = widget.edit_stops("toggle_line", FOLLOW, **file_line)
    assert state["stops"][0]["label"] == f"session.cu:{LOOP_SYNC}"
    forth = [go(widget, "run") for _ in range(5)]
    assert all(state["stoppedBy"] == 1 for state in forth)
    assert forth[0]["sentence"].startswith(f"Breakpoint 1, session.cu:{LOOP_SYNC}: warp")
    back = [go(widget, "run_back") for _ in range(5)]
    assert [s["position"] for s in back] == [*[s["position"] for s in forth[-2::-1]], 0]
    assert back[0]["next"] == forth[-2]["next"]
    assert widget.edit_stops("toggle_line", FOLLOW, **file_line)["stops"] == []
    assert go(widget, "run")["over"]


def with_code(widget: KernelDebugger) -> set[int]:
    places = [place for one in widget.session.code if one.ptx_line for place in one.chain]
    return {place.line for place in places if place.file.endswith("session.cu")}


def test_a_line_without_instructions_gives_its_breakpoint_to_the_next_that_has_some() -> None:
    widget = make()
    lines = with_code(widget)
    bare = next(at for at in range(min(lines), max(lines)) if at not in lines)
    following = min(at for at in lines if at > bare)
    state = widget.edit_stops("toggle_line", FOLLOW, file=0, line=bare)
    assert [stop["place"] for stop in state["stops"]] == [{"file": 0, "line": following}]
    assert state["note"] == (
        f"Line {bare} has no instruction: breakpoint 1 is set at the next that has one, session.cu:{following}."
    )
    again = widget.edit_stops("toggle_line", FOLLOW, file=0, line=bare)
    assert again["note"].endswith(f"session.cu:{following}, has breakpoint 1 already.")
    assert len(again["stops"]) == 1
    removed = widget.edit_stops("toggle_line", FOLLOW, file=0, line=following)
    assert (removed["stops"], removed["note"]) == ([], f"Breakpoint 1, session.cu:{following}, is removed.")
    first = min(one.ptx_line for one in widget.session.code if one.ptx_line)
    assert widget.edit_stops("toggle_ptx", FOLLOW, line=1)["stops"][0]["place"] == {"ptx": first}


def test_a_run_to_a_line_without_instructions_goes_to_the_next_and_says_so() -> None:
    widget = make()
    lines = with_code(widget)
    bare = next(at for at in range(min(lines), max(lines)) if at not in lines)
    following = min(at for at in lines if at > bare)
    state = go(widget, "to", file=0, line=bare)
    assert state["sentence"].startswith(f"Line {bare} has no instruction; the next that has one is {following}. Warp")
    assert following in {place.line for place in widget.session.code[state["next"][2]].chain}
    assert not go(widget, "step")["sentence"].startswith("Line")


def test_a_stop_is_looked_at_by_the_warp_for_which_it_is() -> None:
    widget = make()
    widget.edit_stops("toggle_ptx", FOLLOW, line=1)  # the first instruction, to which each warp comes when others wait
    stops = [go(widget, "run") for _ in range(3)]
    assert all(state["focus"][:2] == state["next"][:2] for state in stops)
    assert any(state["last"][:2] != state["next"][:2] for state in stops[1:])


def test_a_pinned_focus_yields_to_the_warp_for_which_a_run_stops() -> None:
    widget = make()
    widget.edit_stops("toggle_line", FOLLOW, file=0, line=SYNC)
    widget.edit_stops("limit", FOLLOW, id=1, cta=0, warp=3)
    state = go(widget, "run", {"cta": 0, "warp": 1})
    assert (state["yields"], state["focus"][:2]) == (True, [0, 3])
    state = go(widget, "step", {"cta": 0, "warp": 1})
    assert (state["yields"], state["focus"][:2]) == (False, [0, 1])


def test_a_moment_can_be_asked_for_by_what_is_about_to_happen_there() -> None:
    widget = make()
    state = go(widget, "seek", position=40, ahead=True)
    cta, warp, pc, _ = state["next"]
    words = f"Warp {warp} of CTA {cta} is about to execute {widget.session.code[pc].opcode} ("
    assert state["sentence"].startswith(words)
    assert go(widget, "seek", position=40)["sentence"].startswith(f"Warp {state['last'][1]} of CTA 0 executed")


def test_a_registers_value_is_traced_to_the_instruction_that_writes_it() -> None:
    widget = make()
    look = {"cta": 0, "warp": 0}
    state = go(widget, "seek", look, position=60)
    names = [row[0] for row in state["registers"]["rows"]]
    assert names
    for name in names:
        go(widget, "seek", look, position=60)
        state = go(widget, "write_back", look, register=name)
        assert state["position"] < 60
        assert state["next"][:2] == [0, 0]
        written = widget.session.code[state["next"][2]].text
        assert re.search(rf"^(@!?%\w+\s+)?\S+\s+{re.escape(name)}\b", written), (name, written)


def test_a_breakpoint_limited_to_a_warp_lets_others_pass() -> None:
    widget = make()
    widget.edit_stops("toggle_line", FOLLOW, file=0, line=SYNC)
    widget.edit_stops("limit", FOLLOW, id=1, cta=1, warp=3)
    state = go(widget, "run")
    assert state["next"][:2] == [1, 3]
    widget.edit_stops("enable", FOLLOW, id=1, enabled=False)
    assert go(widget, "run")["over"]


def test_breakpoints_of_cells_are_listed_and_taken_away() -> None:
    widget = make()
    session = widget.session
    moved = widget.moved
    by_line = session.break_at(line=SYNC)
    by_opcode = session.break_at(opcode="atom.", warp=2, cta=1)
    session.watch(widget._parser.tensors["out"])
    assert widget.moved > moved
    line, opcode, watch = widget.look(FOLLOW)["stops"]
    assert (line["kind"], line["place"], line["label"]) == ("line", {"file": 0, "line": SYNC}, f"session.cu:{SYNC}")
    assert (opcode["label"], opcode["cta"], opcode["warp"]) == ("atom.", 1, 2)
    assert opcode["lines"] == [session.code[pc].ptx_line for pc in session.code.find(opcode="atom.")]
    assert (watch["kind"], watch["label"]) == ("watch", "argument 1, 4 bytes, is written")
    state = go(widget, "run")
    assert state["stoppedBy"] == line["id"]
    assert state["sentence"].startswith(f"Breakpoint {line['id']}, session.cu:{SYNC}: warp")
    session.unbreak(by_line)
    assert [row["id"] for row in widget.look(FOLLOW)["stops"]] == [opcode["id"], watch["id"]]
    assert widget.edit_stops("remove", FOLLOW, id=opcode["id"])["stops"] == [watch]
    with pytest.raises(gpu.SessionError, match=f"there is no breakpoint {by_opcode}; there are"):
        session.unbreak(by_opcode)


def test_breakpoints_of_the_page_are_the_sessions() -> None:
    widget = make()
    session = widget.session
    widget.edit_stops("toggle_line", FOLLOW, file=0, line=SYNC)
    widget.edit_stops("add_watch", FOLLOW, expression="out", access="any")
    line, watch = session.breakpoints
    assert (line.kind, line.label, line.source[1], line.warp) == ("code", f"session.cu:{SYNC}", SYNC, None)
    assert all(session.code[pc].ptx_line for pc in line.pcs)
    assert (watch.kind, watch.label) == ("watch", "argument 1, 4 bytes, is accessed")
    widget.edit_stops("enable", FOLLOW, id=1, enabled=False)
    assert session.breakpoints == (watch,)
    widget.edit_stops("limit", FOLLOW, id=1, cta=0, warp=1)
    widget.edit_stops("enable", FOLLOW, id=1, enabled=True)
    assert [(each.number, each.cta, each.warp) for each in session.breakpoints] == [
        (1, 0, 1),
        (watch.number, None, None),
    ]
    session.unbreak(line.number)
    assert [row["kind"] for row in widget.look(FOLLOW)["stops"]] == ["watch"]


def test_a_cells_breakpoint_is_switched_off_and_on_and_toggled_by_its_line() -> None:
    widget = make()
    session = widget.session
    session.break_at(line=SYNC)
    session.break_phase(barrier=0)
    line, phase = widget.look(FOLLOW)["stops"]
    for row in (line, phase):
        assert not widget.edit_stops("enable", FOLLOW, id=row["id"], enabled=False)["stops"][row["id"] - 1]["enabled"]
    assert session.breakpoints == ()
    for row in (line, phase):
        widget.edit_stops("enable", FOLLOW, id=row["id"], enabled=True)
    assert [each.label for each in session.breakpoints] == [line["label"], "a phase of barrier 0 ends"]
    assert go(widget, "run")["stoppedBy"] == line["id"]
    rows = widget.edit_stops("toggle_line", FOLLOW, file=0, line=SYNC)["stops"]
    assert [row["id"] for row in rows] == [phase["id"]]
    assert go(widget, "run")["stoppedBy"] == phase["id"]


def test_steps_and_runs_to_a_line_leave_no_breakpoint_behind() -> None:
    widget = make()
    moved: list[int] = []
    widget.session.on_move(lambda: moved.append(len(widget.session.breakpoints)))
    for action in ("step", "warp", "line", "event", "warp_event", "line_back", "run_back"):
        go(widget, action, {"cta": 0, "warp": 1})
    widget.session.run_to(line=SYNC)
    widget.session.back(2, warp=0)
    assert set(moved) == {0}


def test_breakpoints_set_while_a_move_is_under_way_do_not_end_it(monkeypatch: pytest.MonkeyPatch) -> None:
    from sglab.widgets.kernel_debugger import jobs

    widget = make()
    monkeypatch.setattr(jobs, "BUDGET_S", 0.0)
    widget._jobs._mover.slices.size = 64
    assert widget.go("run", FOLLOW)["job"]
    widget.session.break_at(line=ATOMIC)
    state = widget.go_on(FOLLOW)
    while state["job"]:
        state = widget.go_on(FOLLOW)
    assert state["stoppedBy"] == 1


def test_an_answer_is_small() -> None:
    widget = make()
    state = go(widget, "seek", position=500)
    registers = state.pop("registers")
    assert len(json.dumps(state)) < 8_000
    assert registers["bytes"].nbytes < 32_000


def test_going_first_makes_another_history() -> None:
    widget = make()
    state = go(widget, "force", {"cta": 0, "warp": 3})
    assert state["last"][:2] == [0, 3]
    assert not state["complete"]
    assert widget.measure(FOLLOW)["complete"]


def test_python_moves_and_the_page_follows() -> None:
    widget = make()
    before = widget.moved
    widget.session.step(count=10)
    assert widget.moved == before + 1
    assert widget.look(FOLLOW)["position"] == 10


def test_a_long_move_goes_in_slices_and_stops_on_request(monkeypatch: pytest.MonkeyPatch) -> None:
    from sglab.widgets.kernel_debugger import jobs

    widget = make()
    monkeypatch.setattr(jobs, "BUDGET_S", 0.0)
    widget._jobs._mover.slices.size = 64
    state = widget.go("end", FOLLOW)
    assert state["job"] == {"action": "end", "from": 0}
    state = widget.halt(FOLLOW)
    assert state["job"] is None
    assert state["position"] == widget.session.now < state["length"]


def test_a_search_backwards_that_is_given_up_ends_where_it_began(monkeypatch: pytest.MonkeyPatch) -> None:
    from sglab.widgets.kernel_debugger import jobs

    widget = make()
    go(widget, "seek", position=800)
    moment = widget.session.moment
    monkeypatch.setattr(jobs, "BUDGET_S", 0.0)
    widget._jobs._mover.slices.size = 64
    state = widget.go("run_back", FOLLOW)
    assert state["job"] == {"action": "run_back", "from": 800}
    assert widget.session.moment != moment
    widget.halt(FOLLOW)
    assert widget.session.moment == moment


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda w: w.go("fly", FOLLOW), "there is no action 'fly'; there are step, back"),
        (lambda w: w.edit_stops("toggle_line", FOLLOW, file=0, line=9999), "line 9999 has no instruction, nor has any"),
        (
            lambda w: w.edit_stops("toggle_ptx", FOLLOW, line=9999),
            "PTX line 9999 has no instruction, nor has any",
        ),
        (lambda w: w.go("to", FOLLOW, file=0, line=9999), r"after it; the last that has one is \d+"),
        (lambda w: w.go("write_back", {"cta": 0, "warp": 0}, register="%none"), "no instruction of this kernel writes"),
        (lambda w: w.edit_stops("remove", FOLLOW, id=7), "there is no breakpoint 7; there are none"),
        (lambda w: w.edit_stops("explode", FOLLOW), "edit_stops knows no edit 'explode'"),
    ],
)
def test_what_cannot_be_done_is_refused(call: Any, message: str) -> None:
    widget = make()
    with pytest.raises(ValueError, match=message):
        call(widget)
    assert widget.look(FOLLOW)["stops"] == []


def test_only_a_session_is_taken() -> None:
    with pytest.raises(TypeError, match=r"session must be a Session or a captured launch.*got str"):
        KernelDebugger("session")  # type: ignore[arg-type]
    session = make().session
    with pytest.raises(TypeError, match=r"tensors\['q'\] must be a CPU tensor"):
        KernelDebugger(session, tensors={"q": 3})


def test_a_saved_page_leaves_the_session_as_it_was(tmp_path: Path) -> None:
    widget = make()
    go(widget, "seek", position=300)
    widget.watch("out", FOLLOW)
    moment, moved = widget.session.moment, widget.moved
    page = widget.save(tmp_path / "page.html")
    assert (widget.session.moment, widget.moved) == (moment, moved)
    assert page.stat().st_size < 5_000_000


def test_source_files_are_shown_of_what_was_compiled_here(tmp_path: Path) -> None:
    private = tmp_path / "keys.txt"
    private.write_text("the-secret-of-this-machine")
    text = f"""
.version 8.0
.target sm_90
.address_size 64
.file 1 "{private}"
.visible .entry k() {{
.loc 1 1 0
ret;
}}
"""
    session = gpu.load(text)["k"].session(gpu.EmulatedDevice(), grid=1, block=32)
    assert [source.text for source in KernelDebugger(session)._tables.sources] == [None]
    vouch(text)  # as a compiler run of this process does
    assert [source.text for source in KernelDebugger(session)._tables.sources] == ["the-secret-of-this-machine"]


def test_the_session_does_not_keep_the_widget_alive() -> None:
    widget = make()
    session, gone = widget.session, weakref.ref(widget)
    widget.close()
    del widget
    gc.collect()
    assert gone() is None
    session.step()


def test_a_captured_triton_launch_is_stepped_by_the_lines_of_its_author(tmp_path: Path) -> None:
    triton = pytest.importorskip("triton")
    tl = triton.language
    from sglab.triton import triton_kernel

    @triton_kernel
    def largest(x_ptr, y_ptr, BLOCK: tl.constexpr):  # type: ignore[no-untyped-def]
        x = tl.load(x_ptr + tl.arange(0, BLOCK))
        top = tl.max(x, 0)
        tl.store(y_ptr, top)

    x, y = torch.arange(128.0), torch.zeros(1)
    widget = KernelDebugger(gpu.capture(lambda: largest[(1,)](x, y, BLOCK=128, num_warps=1)), tensors={"y": y})
    files = widget.code["files"]
    assert (files[0]["name"], files[0]["language"]) == (Path(__file__).name, "python")
    assert [file["library"] for file in files] == [False, *[True] * (len(files) - 1)]
    look = {"cta": 0, "warp": 0}
    stops = []
    while not (state := go(widget, "line", look))["over"]:
        assert Path(__file__).name in state["sentence"]
        stops.append(widget._tables.line_of(widget.session.warp(0, 0).groups[0].at.pc))
    assert {path for path, _ in stops} == {__file__}  # tl.max's own lines count as the one that calls it
    assert len({line for _, line in stops}) >= 3
    assert go(widget, "end")["over"]
    assert y.item() == 127


def test_without_lines_a_line_is_an_instruction() -> None:
    module = gpu.Module(re.sub(r"^\s*\.loc.*$", "", SESSION_PTX.read_text(), flags=re.MULTILINE))
    session = module["collatz"].session(
        gpu.EmulatedDevice("sm_90a"), grid=1, block=64, args=[torch.ones(128).int(), torch.zeros(128).int()]
    )
    widget = KernelDebugger(session)
    look = {"cta": 0, "warp": 1}
    assert widget.code["files"] == []
    for executed in (1, 2, 3):
        go(widget, "line", look)
        assert session.warp(1).executed == executed
    go(widget, "line_back", look)
    assert session.warp(1).executed == 2


def test_roles_come_once_the_launch_is_known(monkeypatch: pytest.MonkeyPatch) -> None:
    """A busy machine does not get to the end within the time that the widget looks ahead."""
    monkeypatch.setattr("sglab.widgets.kernel_debugger.widget.LOOK_AHEAD_S", 0.0)

    def roles(state: dict[str, Any]) -> set[str]:
        return {warp["role"] for warp in state["warps"]} - {None}

    run, recorded = (KernelDebugger(Pipeline().session()) for _ in range(2))
    state = run.look(FOLLOW)
    assert not state["complete"] and not roles(state)
    go(run, "end")
    assert roles(go(run, "back"))
    assert recorded.session.log.kernel
    assert roles(recorded.look(FOLLOW)), "another widget has recorded it meanwhile"


def test_a_source_is_named_without_detours() -> None:
    ptx = SESSION_PTX.read_text()
    name = re.search(r'\.file\s+1\s+"([^"]+)"', ptx)
    assert name is not None
    moved = ptx.replace(f'"{name[1]}"', '"/nowhere/build/../csrc/session.cu"')
    kernel = gpu.Module(moved, "session.ptx")["collatz"]
    arguments = [torch.arange(1, 129, dtype=torch.int32), torch.zeros(128, dtype=torch.int32)]
    session = kernel.session(gpu.EmulatedDevice("sm_90a"), grid=2, block=64, args=arguments)
    assert KernelDebugger(session).code["files"][0]["path"] == "/nowhere/csrc/session.cu"


@pytest.mark.parametrize("action", ["line_back", "warp_back", "warp_event_back"])
def test_behind_the_end_the_way_back_is_the_last_warps(action: str) -> None:
    """No warp is in focus there, and steps are those of one warp unless the reader chooses others."""
    widget = make()
    ended = go(widget, "end")
    assert ended["over"] and ended["focus"] is None
    last = widget.session.last
    state = go(widget, action)
    assert state["position"] < ended["position"]
    assert last is not None and state["focus"][:2] == [last.cta, last.warp]


def test_a_breakpoint_has_one_number_in_the_page_and_in_cells() -> None:
    widget = make()
    session = widget.session
    session.run_to(line=SYNC)
    session.next_event()  # what moves need for themselves is not counted
    other = KernelDebugger(session)
    first, second = sorted({each.ptx_line for each in session.code if each.ptx_line})[2:4]
    state = widget.edit_stops("toggle_ptx", FOLLOW, line=first)
    assert state["note"].startswith("Breakpoint 1 is set")
    assert session.break_at(ptx_line=second) == 2

    def numbers(of: KernelDebugger) -> list[tuple[int, int | None, str]]:
        return [(row["id"], row["number"], row["when"]) for row in of.look(FOLLOW)["stops"]]

    widget.edit_stops("condition", FOLLOW, id=1, when="lane < 4")
    widget.edit_stops("limit", FOLLOW, id=2, cta=0, warp=1)
    assert numbers(widget) == numbers(other) == [(1, 1, "lane < 4"), (2, 2, "")]
    assert [(each.number, each.when) for each in session.breakpoints] == [(1, "lane < 4"), (2, "")]
    widget.edit_stops("enable", FOLLOW, id=1, enabled=False)
    assert [each.number for each in session.breakpoints] == [2]
    assert session.break_at(ptx_line=second + 1) == 3
    widget.edit_stops("enable", FOLLOW, id=1, enabled=True)
    session.restart()
    assert [each.number for each in session.breakpoints] == [1, 2, 3]
    stop = session.run()
    assert stop.breakpoint == 1
    session.unbreak(1)
    assert [id for id, _, _ in numbers(widget)] == [2, 3]


def test_breakpoints_are_put_back_as_they_were() -> None:
    """What Ctrl+Z does; one that a cell has set since stays."""
    widget = make()
    session = widget.session
    first, second, third = sorted({each.ptx_line for each in session.code if each.ptx_line})[2:5]
    for ptx_line in (first, second):
        widget.edit_stops("toggle_ptx", FOLLOW, line=ptx_line)
    state = widget.edit_stops("limit", FOLLOW, id=1, cta=0, warp=1)
    before = [{name: row[name] for name in ("id", "cta", "warp", "when", "enabled")} for row in state["stops"]]
    assert widget.edit_stops("clear", FOLLOW)["stops"] == []
    own = session.break_at(ptx_line=third)
    again = widget.edit_stops("put_back", FOLLOW, points=before, instead=[])["stops"]
    assert [(row["id"], row["cta"], row["warp"]) for row in again] == [(1, 0, 1), (2, None, None), (3, None, None)]
    assert {row["number"] for row in again} == {each.number for each in session.breakpoints}
    redone = widget.edit_stops("put_back", FOLLOW, points=[], instead=[1, 2])["stops"]
    assert [(row["id"], row["number"]) for row in redone] == [(3, own)]
    assert widget.edit_stops("put_back", FOLLOW, points=[{**before[0], "id": 99}], instead=[])["note"]
