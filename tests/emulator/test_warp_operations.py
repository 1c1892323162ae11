"""Shuffles, votes, matches, reductions and elections, against plain Python over 32 lanes."""

import numpy as np
import pytest

from tests.support.emulator.launching import launch
from tests.support.emulator.schedulers import SCHEDULERS

LANES = range(32)


def warp(
    body: str,
    *inputs: np.ndarray,
    results: int = 1,
    declare: str = "",
    block: int = 32,
    scheduler: str = "fair",
    warnings: list[tuple] | None = None,
) -> np.ndarray:
    """Runs `body` on %x, %y, … (one 32-bit value per lane each) and returns what it leaves in %d0, %d1, …."""
    letters = "xyz"[: len(inputs)]
    loads = "".join(
        f"ld.param.u64 %at, [p_{x}]; mad.wide.u32 %at, %lane, 4, %at; ld.global.b32 %{x}, [%at];\n" for x in letters
    )
    stores = "".join(
        f"ld.param.u64 %at, [out]; mad.wide.u32 %at, %lane, {4 * results}, %at; st.global.b32 [%at+{4 * k}], %d{k};\n"
        for k in range(results)
    )
    ptx = f"""
.entry warp({"".join(f".param .u64 p_{x}, " for x in letters)}.param .u64 out) {{
  .reg .b32 %lane, {"".join(f"%{x}, " for x in letters)}{", ".join(f"%d{k}" for k in range(results))};
  .reg .b64 %at; .reg .pred %p, %q; {declare}
  mov.u32 %lane, %tid.x;
  {loads}
  {body}
  {stores}
  ret;
}}"""
    out = np.full((block, results), 0xDEAD, np.uint32)
    report = launch(ptx, [*inputs, out], block=(block, 1, 1), scheduler=scheduler)
    if warnings is not None:
        warnings.extend(report.warnings)
    return out


def shuffle(mode: str, value: list[int], b: int, c: int) -> list[tuple[int, bool]]:
    """The ISA's pseudo-code."""
    rows = []
    for lane in LANES:
        clamp, segment, step = c & 31, c >> 8 & 31, b & 31
        most, least = lane & segment | clamp & ~segment, lane & segment
        j = {"up": lane - step, "down": lane + step, "bfly": lane ^ step, "idx": least | step & ~segment & 31}[mode]
        inside = j >= most if mode == "up" else j <= most
        rows.append((value[j if inside else lane], inside))
    return rows


@pytest.mark.parametrize("width", [32, 16, 8, 4])
@pytest.mark.parametrize("mode", ["up", "down", "bfly", "idx"])
def test_shuffle(mode: str, width: int) -> None:
    x = np.random.default_rng(width).integers(0, 1 << 32, 32, np.uint32)
    for step in (0, 1, 3, 7, 16, 31):
        c = ((32 - width) << 8) | (0 if mode == "up" else 31)
        body = f"shfl.sync.{mode}.b32 %d0|%p, %x, {step}, {c}, -1; selp.b32 %d1, 1, 0, %p;"
        out = warp(body, x, results=2)
        assert [tuple(row) for row in out.tolist()] == shuffle(mode, x.tolist(), step, c), step


def test_shuffle_by_lane_dependent_index() -> None:
    x, index = np.random.default_rng(0).integers(0, 1 << 32, (2, 32), np.uint32)
    out = warp("shfl.sync.idx.b32 %d0, %x, %y, 31, 0xffffffff;", x, index)
    assert out[:, 0].tolist() == x[index & 31].tolist()


@pytest.mark.parametrize("bits", [0, 0xFFFFFFFF, 0x80000001, 0x7FFFFFFF, 0x12345678])
def test_votes(bits: int) -> None:
    x = np.array([bits >> lane & 1 for lane in LANES], np.uint32)
    body = """
  setp.ne.u32 %p, %x, 0;
  vote.sync.ballot.b32 %d0, %p, -1;
  vote.sync.all.pred %q, %p, -1; selp.b32 %d1, 1, 0, %q;
  vote.sync.any.pred %q, %p, -1; selp.b32 %d2, 1, 0, %q;
  vote.sync.uni.pred %q, %p, -1; selp.b32 %d3, 1, 0, %q;
  vote.sync.ballot.b32 %d4, !%p, -1;"""
    everyone, anyone = bits == 0xFFFFFFFF, bits != 0
    expected = [bits, everyone, anyone, everyone or not anyone, bits ^ 0xFFFFFFFF]
    assert warp(body, x, results=5).tolist() == [expected] * 32


def test_match() -> None:
    x = np.random.default_rng(3).integers(0, 5, 32, np.uint32)
    out = warp("match.any.sync.b32 %d0, %x, -1; match.all.sync.b32 %d1|%p, %x, -1;", x, results=2)
    for lane in LANES:
        assert out[lane, 0] == sum(1 << k for k in LANES if x[k] == x[lane])
    assert not out[:, 1].any()
    same = warp("match.all.sync.b32 %d0|%p, %x, -1; selp.b32 %d1, 1, 0, %p;", np.full(32, 9, np.uint32), results=2)
    assert same.tolist() == [[0xFFFFFFFF, 1]] * 32


@pytest.mark.parametrize("members", [0xFFFFFFFF, 0x0000FF0F])
def test_reductions_over_members(members: int) -> None:
    x = np.random.default_rng(4).integers(0, 1 << 32, 32, np.uint32)
    inside = np.array([members >> lane & 1 for lane in LANES], bool)
    forms = {
        "add.u32": lambda v: v.sum(dtype=np.uint64) % (1 << 32),
        "min.u32": np.min,
        "max.u32": np.max,
        "min.s32": lambda v: int(v.view(np.int32).min()) % (1 << 32),
        "max.s32": lambda v: int(v.view(np.int32).max()) % (1 << 32),
        "and.b32": np.bitwise_and.reduce,
        "or.b32": np.bitwise_or.reduce,
        "xor.b32": np.bitwise_xor.reduce,
    }
    body = f"mov.b32 m, {members}; shr.u32 t, m, %lane; and.b32 t, t, 1; setp.ne.u32 %p, t, 0;"
    for k, form in enumerate(forms):
        body += f" mov.b32 %d{k}, 0xdead; @%p redux.sync.{form} %d{k}, %x, m;"
    out = warp(body, x, results=len(forms), declare=".reg .b32 m, t;")
    for k, function in enumerate(forms.values()):
        assert (out[inside, k] == int(function(x[inside]))).all(), list(forms)[k]
    assert (out[~inside] == 0xDEAD).all()


def test_float_reductions_ignore_or_propagate_nan() -> None:
    x = np.random.default_rng(5).standard_normal(32).astype(np.float32)
    body = """redux.sync.min.f32 %d0, %x, -1; redux.sync.max.f32 %d1, %x, -1;
  redux.sync.max.abs.f32 %d2, %x, -1; redux.sync.min.NaN.f32 %d3, %x, -1;"""
    out = warp(body, x.view(np.uint32), results=4)[0].view(np.float32)
    np.testing.assert_array_equal(out, [x.min(), x.max(), np.abs(x).max(), x.min()])
    x[7] = np.nan
    out = warp(body, x.view(np.uint32), results=4)[0].view(np.float32)
    np.testing.assert_array_equal(out, [np.nanmin(x), np.nanmax(x), np.nanmax(np.abs(x)), np.nan])


def test_one_lane_is_elected() -> None:
    out = warp("elect.sync %d0|%p, -1; selp.b32 %d1, 1, 0, %p;", results=2)
    assert out[:, 1].sum() == 1
    assert (out[:, 0] == out[:, 1].argmax()).all()


def test_sync_collects_lanes_that_come_on_different_ways() -> None:
    body = """
  setp.lt.u32 %p, %lane, 10;
  @%p bra FEW;
  mov.u32 i, 0;
LOOP: add.u32 i, i, 1; setp.lt.u32 %q, i, %lane; @%q bra LOOP;
  mov.u32 v, 100;
  bra MEET;
FEW: mov.u32 v, 200;
MEET: add.u32 v, v, %lane;
  shfl.sync.idx.b32 %d0, v, 3, 31, -1;
  activemask.b32 %d1;"""
    out = warp(body, results=2, declare=".reg .b32 i, v;")
    assert (out[:, 0] == 203).all()
    assert (out[:, 1] == 0xFFFFFFFF).all()


def test_sync_waits_for_lanes_on_another_side_of_a_branch() -> None:
    """Both sides name all lanes: each side's instruction waits for the other's at the same place only."""
    body = """
  setp.lt.u32 %p, %lane, 16;
  mov.u32 v, %lane;
  @%p add.u32 v, v, 1000;
  @%p bra NEXT;
  nanosleep.u32 10;
NEXT: bar.warp.sync -1;
  shfl.sync.bfly.b32 %d0, v, 16, 31, -1;"""
    out = warp(body, declare=".reg .b32 v;")
    assert out[:, 0].tolist() == [lane + 16 if lane < 16 else lane - 16 + 1000 for lane in LANES]


def test_partial_warp_and_exited_lanes_do_not_hold_up_the_rest() -> None:
    body = """
  setp.eq.u32 %p, %lane, 5;
  mov.u32 %d0, 1;
  @%p exit;
  redux.sync.add.u32 %d0, %d0, -1;"""
    out = warp(body, block=20)
    assert [v for lane, v in enumerate(out[:, 0].tolist()) if lane != 5] == [19] * 19
    assert out[5, 0] == 0xDEAD


SETS = {
    "halves": [0xFFFF if lane < 16 else 0xFFFF0000 for lane in LANES],
    "quads": [0xF << lane // 4 * 4 for lane in LANES],
    "every third": [sum(1 << k for k in LANES if k % 3 == lane % 3) for lane in LANES],
    "alone": [1 << lane for lane in LANES],
}


def of_set(members: list[int], values: list[int], lane: int) -> list[int]:
    return [values[k] for k in LANES if members[lane] >> k & 1]


@pytest.mark.parametrize("scheduler", SCHEDULERS)
@pytest.mark.parametrize("name", SETS)
def test_lanes_that_name_different_members_exchange_set_by_set(name: str, scheduler: str) -> None:
    members = SETS[name]
    x = np.random.default_rng(6).integers(0, 4, 32, np.uint32)
    body = """
  redux.sync.add.u32 %d0, %x, %y;
  setp.ge.u32 %p, %x, 2;
  vote.sync.ballot.b32 %d1, %p, %y;
  vote.sync.all.pred %q, %p, %y; selp.b32 %d2, 1, 0, %q;
  match.any.sync.b32 %d3, %x, %y;
  match.all.sync.b32 %d4|%q, %x, %y;
  elect.sync %d5|%q, %y; selp.b32 %d6, 1, 0, %q;
  shfl.sync.bfly.b32 %d7, %x, 0, 31, %y;
  bar.warp.sync %y;
  redux.sync.max.u32 %d8, %x, %y;
  activemask.b32 %d9;"""
    out = warp(body, x, np.array(members, np.uint32), results=10, scheduler=scheduler)
    for lane in LANES:
        own = of_set(members, x.tolist(), lane)
        lanes = [k for k in LANES if members[lane] >> k & 1]
        same = sum(1 << k for k in lanes if x[k] == x[lane])
        expected = [
            sum(own),
            sum(1 << k for k in lanes if x[k] >= 2),
            all(value >= 2 for value in own),
            same,
            members[lane] if len(set(own)) == 1 else 0,
            lanes[0],
            lane == lanes[0],
            x[lane],
            max(own),
            0xFFFFFFFF,
        ]
        assert out[lane].tolist() == expected, lane


@pytest.mark.parametrize("scheduler", SCHEDULERS)
def test_members_that_come_on_different_ways_meet_the_rest_of_their_set(scheduler: str) -> None:
    """Quads whose lanes 0 and 1 come by one way, 2 and 3 by another; odd quads lose a lane on the way."""
    body = """
  mov.u32 v, %lane;
  and.b32 t, %lane, 2;
  setp.eq.u32 %p, t, 0;
  @%p bra MEET;
  mov.u32 i, 0;
LOOP: add.u32 i, i, 1; setp.lt.u32 %q, i, %lane; @%q bra LOOP;
  and.b32 t, %lane, 7;
  setp.eq.u32 %q, t, 7;
  @%q exit;
  add.u32 v, v, 100;
MEET: redux.sync.add.u32 %d0, v, %x;"""
    members = SETS["quads"]
    out = warp(body, np.array(members, np.uint32), declare=".reg .b32 i, t, v;", scheduler=scheduler)
    value = [lane + 100 if lane & 2 else lane for lane in LANES]
    for lane in LANES:
        own = [value[k] for k in LANES if members[lane] >> k & 1 and k % 8 != 7]
        assert out[lane, 0] == (0xDEAD if lane % 8 == 7 else sum(own)), lane


@pytest.mark.parametrize(
    ("members", "kind"),
    [
        ([0xFFFF] * 32, "lane_outside_its_member_mask"),
        ([0xFF if lane < 16 else 0xFFFFFFFF for lane in LANES], "member_masks_disagree"),
    ],
)
def test_a_member_mask_that_cannot_be_is_a_warning(members: list[int], kind: str) -> None:
    x, y = np.arange(32, dtype=np.uint32), np.array(members, np.uint32)
    given: list[tuple] = []
    warp("redux.sync.add.u32 %d0, %x, %y;", x, y, warnings=given)
    assert kind in {row[1] for row in given}
