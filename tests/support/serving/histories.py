"""Any schedule: what is drawn of arrivals, lengths, pools and options, and how an engine runs it."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from hypothesis import strategies as st

from sglab.serving import Engine, Output
from tests.support.serving.tiny import prompts

PROMPTS = [*prompts(5, 30), [*prompts(1, 30)[0], 5, 6, 7], [*prompts(1, 30)[0][:7], 9, 9, 9, 9]]
"""The last two share prefixes with the first."""
MOST = 24
LAST_ARRIVAL = 10


@st.composite
def histories(draw: st.DrawFn) -> dict[str, Any]:
    """ "requests": (which of PROMPTS, tokens, the step before which it comes); "options": an engine's."""
    page = draw(st.sampled_from([1, 2, 8, 16, 64, 128]))
    least = -(-(max(map(len, PROMPTS)) + MOST + page + 2) // page)
    radix = draw(st.booleans())
    return {
        "requests": draw(
            st.lists(
                st.tuples(st.integers(0, len(PROMPTS) - 1), st.integers(1, MOST), st.integers(0, LAST_ARRIVAL)),
                min_size=1,
                max_size=7,
            )
        ),
        "options": {
            "page_size": page,
            "max_total_tokens": page * draw(st.integers(least, least + 4)),
            "max_running_requests": draw(st.integers(1, 6)),
            "disable_radix_cache": not radix,
            "enable_hierarchical_cache": radix and draw(st.booleans()),
            "hicache_write_policy": draw(st.sampled_from(["write_through", "write_through_selective", "write_back"])),
            "disable_overlap_schedule": draw(st.booleans()),
            "enable_mixed_chunk": draw(st.booleans()),
            "chunked_prefill_size": draw(st.sampled_from([-1, page, 2 * page + 1])),
            "schedule_policy": draw(st.sampled_from(["lpm", "dfs-weight", "fcfs", "lof", "random"])),
            "schedule_conservativeness": draw(st.sampled_from([0.1, 1.0])),
            "cuda_graph": draw(st.booleans()),
            "cuda_graph_bs": (1, 3),
            "enable_piecewise_cuda_graph": draw(st.booleans()),
            "piecewise_cuda_graph_tokens": (4, 32),
        },
    }


def run(engine: Engine, requests: Sequence[tuple[int, int, int]]) -> list[Output]:
    """Submit the requests as they arrive, greedily, and step to the end."""
    handles = {}
    for step in range(LAST_ARRIVAL + 1):
        for i, (which, count, arrival) in enumerate(requests):
            if arrival == step:
                handles[i] = engine.submit(PROMPTS[which], {"temperature": 0, "max_new_tokens": count})
        engine.step()
    engine.run()
    return [handles[i].output() for i in range(len(requests))]


def assert_no_slot_is_lost(engine: Engine) -> None:
    """Nothing runs any more: every slot is free or evictable."""
    tree = engine.tree_cache
    assert tree.protected_size() == 0
    assert engine.scheduler.allocator.available_size() + tree.evictable_size() == engine.scheduler.allocator.size
