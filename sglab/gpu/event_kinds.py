"""What instructions are to someone who follows a launch: copies, multiplications, arrivals, waits, …"""

from __future__ import annotations

from functools import cache

KINDS: dict[str, str] = {
    "copy": "issues an asynchronous copy: TMA, bulk, cp.async",
    "prefetch": "issues a prefetch by TMA",
    "mma": "multiplies matrices: mma.sync, wgmma, tcgen05.mma",
    "tmem": "moves or allocates tensor memory",
    "commit": "ends a group of asynchronous operations",
    "wait": "waits for a barrier or for asynchronous operations, or tests for them",
    "arrive": "arrives at a barrier, or changes what it expects",
    "init": "initialises or invalidates an mbarrier",
    "fence": "orders memory accesses or proxies",
}

_PREFIXES = (
    ("arrive", ("cp.async.mbarrier.arrive", "mbarrier.arrive", "mbarrier.expect_tx", "mbarrier.complete_tx")),
    ("arrive", ("bar.arrive", "bar.cta.arrive", "barrier.arrive", "barrier.cta.arrive", "barrier.cluster.arrive")),
    ("init", ("mbarrier.init", "mbarrier.inval")),
    ("wait", ("mbarrier.test_wait", "mbarrier.try_wait", "barrier.cluster.wait", "griddepcontrol.wait")),
    ("wait", ("bar.sync", "bar.cta.sync", "barrier.sync", "barrier.cta.sync", "bar.red", "bar.cta.red")),
    ("wait", ("barrier.red", "barrier.cta.red", "cp.async.wait_", "cp.async.bulk.wait_group", "wgmma.wait_group")),
    ("wait", ("tcgen05.wait",)),
    ("commit", ("cp.async.commit_group", "cp.async.bulk.commit_group", "wgmma.commit_group", "tcgen05.commit")),
    ("prefetch", ("cp.async.bulk.prefetch",)),
    ("copy", ("cp.async", "cp.reduce.async", "st.async")),
    ("mma", ("mma.sync", "wgmma.mma_async", "tcgen05.mma")),
    ("fence", ("fence", "membar", "wgmma.fence", "tcgen05.fence")),
    ("tmem", ("tcgen05.",)),
)


@cache
def event_kind(opcode: str) -> str:
    """The kind of an instruction, by mnemonic: a key of KINDS, or empty for plain computing and memory accesses."""
    return next((kind for kind, prefixes in _PREFIXES if opcode.startswith(prefixes)), "")
