"""What instructions are to someone who follows a launch: copies, multiplications, arrivals, waits, …

Which instruction is what, the rows of the instruction table say; see Code.events.
"""

from __future__ import annotations

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
