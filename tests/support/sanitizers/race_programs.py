"""Random programs of accesses and synchronisation as PTX, and which of their rows race, by brute force.

A row is 32 words of shared memory; each lane of a warp accesses its own. Every program is made event by event, in an
order in which it can run, so nothing ever waits for what is not to come. The oracle knows nothing of vector clocks: it
draws every "happens before" edge and closes the relation.
"""

from __future__ import annotations

import random
from dataclasses import dataclass, field

WARPS, ROWS, EVENTS = 3, 4, 24

HEAD = """
.version 8.8
.target sm_90a
.address_size 64
.entry program(.param .u64 out, .param .u64 words) {
  .reg .pred %p<4>; .reg .b32 %r<8>; .reg .b64 %rd<8>;
  .shared .align 128 .b8 rows[512];
  .shared .align 8 .b8 objects[512];
  ld.param.u64 %rd1, [out];
  ld.param.u64 %rd2, [words];
  mov.u32 %r1, %tid.x;
  and.b32 %r2, %r1, 31;
  shr.u32 %r3, %r1, 5;
  setp.eq.u32 %p1, %r2, 0;
  mul.lo.u32 %r4, %r2, 4;
  cvt.u64.u32 %rd3, %r4;
  add.s64 %rd4, %rd2, %rd3;
"""


@dataclass
class Node:
    """Something that a warp, or an asynchronous operation that it has issued, does."""

    row: int = -1
    writes: bool = False
    asynchronous: bool = False  # accesses through the async proxy
    fences_proxy: bool = False
    needs_no_fence: bool = False  # cp.async
    line: int = 0  # of the PTX


@dataclass
class Program:
    """Draw one with Program(seed); `ptx` is its text, `racing_rows()` the oracle's verdict."""

    seed: int
    nodes: list[Node] = field(default_factory=list)
    edges: list[tuple[int, int]] = field(default_factory=list)  # from, to

    def __post_init__(self) -> None:
        self._random = random.Random(self.seed)
        self._code: list[list[tuple[str, int]]] = [[] for _ in range(WARPS)]  # line, node that accesses or -1
        self._last = [-1] * WARPS
        self._fence: list[int] = [-1] * WARPS  # the last fence node
        self._found: list[list[int]] = [[] for _ in range(WARPS)]  # what a fence would acquire
        self._copies: list[list[list[int]]] = [[[]] for _ in range(WARPS)]  # cp.async nodes, by group
        self._stores: list[list[list[int]]] = [[[]] for _ in range(WARPS)]  # bulk stores, by group
        self._loads: list[tuple[int, int, int]] = []  # object, issuing node, copy node
        self._objects: list[int] = []  # mbarriers' arrival counts; 0: a flag
        # Some programs have no asynchronous copies, and some hardly anything but synchronisation.
        events = self._THREADS + self._random.choice([(), self._COPIES])
        accesses = (Program._access,) * self._random.choice([2, 5, 9])
        for _ in range(EVENTS):
            self._random.choice(accesses + events)(self, self._random.randrange(WARPS))
        self.ptx, self.lines = self._assemble()

    # Pieces.

    def _node(self, warp: int, **what: object) -> int:
        """The next thing that a warp does."""
        self.nodes.append(Node(**what))  # type: ignore[arg-type]
        number = len(self.nodes) - 1
        if self._last[warp] >= 0:
            self.edges.append((self._last[warp], number))
        self._last[warp] = number
        return number

    def _issue(self, warp: int, **what: object) -> tuple[int, int]:
        """An operation that runs on its own from here on: the nodes of its issue and of its accesses."""
        issue = self._node(warp)
        self.nodes.append(Node(**what))  # type: ignore[arg-type]
        self.edges.append((issue, len(self.nodes) - 1))
        return issue, len(self.nodes) - 1

    def _emit(self, warp: int, *lines: str, node: int = -1) -> None:
        self._code[warp] += [(line, node) for line in lines]

    def _object(self, count: int) -> int:
        self._objects.append(count)
        return len(self._objects) - 1

    def _other(self, warp: int) -> int:
        return self._random.choice([other for other in range(WARPS) if other != warp])

    # Events.

    def _access(self, warp: int) -> None:
        row, writes = self._random.randrange(ROWS), self._random.random() < 0.35
        node = self._node(warp, row=row, writes=writes)
        place = f"[%r5+{128 * row}]"
        text = f"st.shared.u32 {place}, {1000 + node};" if writes else f"ld.shared.u32 %r6, {place};"
        self._emit(warp, "mov.u32 %r5, rows;", "add.u32 %r5, %r5, %r4;")
        self._emit(warp, text, node=node)

    def _barrier(self, warp: int) -> None:
        members = sorted({warp, self._other(warp), self._random.randrange(WARPS)})
        number = 1 + sum(1 << member for member in members)  # the same for the same warps, or they could mix
        arrivals = [self._node(member) for member in members]
        for member in members:
            self._emit(member, f"bar.sync {number}, {32 * len(members)};")
            departure = self._node(member)
            self.edges += [(arrival, departure) for arrival in arrivals]

    def _fence_event(self, warp: int) -> None:
        node = self._node(warp)
        self._emit(warp, f"fence.acq_rel.{self._random.choice(['cta', 'cluster', 'gpu'])};")
        self.edges += [(left, node) for left in self._found[warp]]
        self._found[warp] = []
        self._fence[warp] = node

    def _proxy_fence(self, warp: int) -> None:
        self._node(warp, fences_proxy=True)
        self._emit(warp, f"fence.proxy.async{self._random.choice(['', '.shared::cta'])};")

    def _handed(self, giver: int, gives: int, strong_giver: bool, taker: int, takes: int, strong_taker: bool) -> None:
        """Edges of a hand-over: relaxed ends lean on fences."""
        source = gives if strong_giver else self._fence[giver]
        if source < 0:
            return
        if strong_taker:
            self.edges.append((source, takes))
        else:
            self._found[taker].append(source)

    def _mbarrier(self, warp: int) -> None:
        """All lanes of one warp arrive, another warp waits."""
        taker, place = self._other(warp), self._object(32)
        strong = [self._random.random() < 0.7 for _ in range(2)]
        arrive = "" if strong[0] else ".relaxed.cta"
        wait = "" if strong[1] else ".relaxed.cta"
        gives = self._node(warp)
        self._emit(warp, f"mbarrier.arrive{arrive}.shared.b64 _, [objects+{8 * place}];")
        takes = self._node(taker)
        self._wait(taker, place, wait)
        self._handed(warp, gives, strong[0], taker, takes, strong[1])

    def _wait(self, warp: int, place: int, form: str = "") -> None:
        label = f"W{len(self.nodes)}"
        self._emit(warp, f"{label}: mbarrier.test_wait.parity{form}.shared.b64 %p2, [objects+{8 * place}], 0;")
        self._emit(warp, f"@!%p2 bra {label};")

    def _flag(self, warp: int) -> None:
        """One lane sets a flag, one lane of another warp sees it."""
        taker, place = self._other(warp), self._object(0)
        strong = [self._random.random() < 0.7 for _ in range(2)]
        scope = self._random.choice(["cta", "cluster", "gpu"])
        gives, takes = self._node(warp), self._node(taker)
        store = f"st.{'release' if strong[0] else 'relaxed'}.{scope}.shared.u32 [objects+{8 * place}], 1;"
        self._emit(warp, "bar.warp.sync -1;", f"@%p1 {store}", "bar.warp.sync -1;")
        label = f"F{len(self.nodes)}"
        load = f"ld.{'acquire' if strong[1] else 'relaxed'}.{scope}.shared.u32 %r6, [objects+{8 * place}];"
        self._emit(
            taker, "bar.warp.sync -1;", f"@!%p1 bra {label}_seen;", f"{label}: {load}", "setp.eq.u32 %p2, %r6, 0;"
        )
        self._emit(taker, f"@%p2 bra {label};", f"{label}_seen:", "bar.warp.sync -1;")
        self._handed(warp, gives, strong[0], taker, takes, strong[1])

    def _cp_async(self, warp: int) -> None:
        row = self._random.randrange(ROWS)
        _, copy = self._issue(warp, row=row, writes=True, needs_no_fence=True)
        self._emit(warp, "mov.u32 %r5, rows;", "add.u32 %r5, %r5, %r4;")
        self._emit(warp, f"cp.async.ca.shared.global [%r5+{128 * row}], [%rd4], 4;", node=copy)
        self._copies[warp][-1].append(copy)
        if self._random.random() < 0.7:
            self._emit(warp, "cp.async.commit_group;")
            self._copies[warp].append([])

    def _cp_async_wait(self, warp: int) -> None:
        pending = self._random.randrange(2)
        node = self._node(warp)
        self._emit(warp, f"cp.async.wait_group {pending};")
        committed = self._copies[warp][:-1]
        done = committed[: len(committed) - pending] if pending else committed
        self.edges += [(copy, node) for group in done for copy in group]

    def _bulk_load(self, warp: int) -> None:
        row, place = self._random.randrange(ROWS), self._object(1)
        issue, copy = self._issue(warp, row=row, writes=True, asynchronous=True)
        self._emit(
            warp, "bar.warp.sync -1;", f"@%p1 mbarrier.arrive.expect_tx.shared.b64 _, [objects+{8 * place}], 128;"
        )
        text = "@%p1 cp.async.bulk.shared::cluster.global.mbarrier::complete_tx::bytes"
        self._emit(warp, "mov.u32 %r5, rows;", f"add.u32 %r5, %r5, {128 * row};", "mov.u32 %r7, objects;")
        self._emit(warp, f"{text} [%r5], [%rd2], 128, [%r7+{8 * place}];", node=copy)
        self._emit(warp, "bar.warp.sync -1;")
        self._loads.append((place, issue, copy))

    def _bulk_load_wait(self, warp: int) -> None:
        if not self._loads:
            return
        place, issue, copy = self._random.choice(self._loads)
        node = self._node(warp)
        self._wait(warp, place)
        self.edges += [(issue, node), (copy, node)]

    def _bulk_store(self, warp: int) -> None:
        row = self._random.randrange(ROWS)
        _, copy = self._issue(warp, row=row, asynchronous=True)
        self._emit(warp, "bar.warp.sync -1;", "mov.u32 %r5, rows;", f"add.u32 %r5, %r5, {128 * row};")
        target = f"[%rd1+{128 * len(self.nodes)}]"
        self._emit(warp, f"@%p1 cp.async.bulk.global.shared::cta.bulk_group {target}, [%r5], 128;", node=copy)
        self._emit(warp, "@%p1 cp.async.bulk.commit_group;", "bar.warp.sync -1;")
        self._stores[warp].append([copy])

    def _bulk_store_wait(self, warp: int) -> None:
        pending = self._random.randrange(2)
        node = self._node(warp)
        self._emit(warp, f"@%p1 cp.async.bulk.wait_group.read {pending};", "bar.warp.sync -1;")
        groups = self._stores[warp][1:]
        done = groups[: len(groups) - pending] if pending else groups
        self.edges += [(copy, node) for group in done for copy in group]

    _THREADS = (*(_barrier, _mbarrier, _flag) * 3, _fence_event, _fence_event)
    _COPIES = (
        *(_proxy_fence,) * 3,
        *(_cp_async, _cp_async_wait, _bulk_load, _bulk_load_wait, _bulk_load_wait, _bulk_store, _bulk_store_wait),
    )

    def _assemble(self) -> tuple[str, dict[int, int]]:
        """The text, and the nodes that its lines access memory for."""
        text, nodes = HEAD.split("\n"), {}
        for place, count in enumerate(self._objects):
            if count:
                text.append(f"  @%p1 mbarrier.init.shared.b64 [objects+{8 * place}], {count};")
        start = next((i for i, line in enumerate(text) if "mbarrier.init" in line), len(text))
        # One thread of the CTA initialises.
        text[start:start] = ["  setp.ne.u32 %p3, %r1, 0;", "  @%p3 bra READY;"]
        text += ["READY:", "  bar.sync 0;"]
        for warp in range(WARPS):
            text += [f"  setp.eq.u32 %p3, %r3, {warp};", f"  @%p3 bra WARP{warp};"]
        text.append("  ret;")
        for warp, code in enumerate(self._code):
            text.append(f"WARP{warp}:")
            for line, node in code:
                text.append("  " + line)
                if node >= 0:
                    nodes[len(text)] = node
            text.append("  ret;")
        return "\n".join([*text, "}"]), nodes

    # The oracle.

    def racing_rows(self) -> set[int]:
        """Rows of which two accesses clash."""
        after = self._closure()
        fences = [number for number, node in enumerate(self.nodes) if node.fences_proxy]
        accesses = [number for number, node in enumerate(self.nodes) if node.row >= 0]
        rows = set()
        for i in accesses:
            for j in accesses:
                a, b = self.nodes[i], self.nodes[j]
                if i == j or a.row != b.row or not (a.writes or b.writes):
                    continue
                ordered = after[i] >> j & 1
                if not ordered and not after[j] >> i & 1:
                    rows.add(a.row)
                crosses = a.writes and b.asynchronous and not a.asynchronous and not a.needs_no_fence
                if ordered and crosses and not any(after[i] >> f & 1 and after[f] >> j & 1 for f in fences):
                    rows.add(a.row)
        return rows

    def _closure(self) -> list[int]:
        """By node, a mask of the nodes that come after it."""
        after = [0] * len(self.nodes)
        for source, target in self.edges:
            after[source] |= 1 << target
        for middle in range(len(self.nodes)):
            for source in range(len(self.nodes)):
                if after[source] >> middle & 1:
                    after[source] |= after[middle]
        return after
