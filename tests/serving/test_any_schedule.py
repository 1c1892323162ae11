"""Greedy tokens of a real model do not depend on scheduling: fp32, so exactly."""

from functools import lru_cache

from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from sglab.serving import Engine
from tests.support.serving.tiny import prompts, tiny_llama

PROMPTS = [*prompts(5, 30), [*prompts(1, 30)[0], 5, 6, 7], [*prompts(1, 30)[0][:7], 9, 9, 9, 9]]
MOST = 24


@lru_cache(maxsize=1)
def alone() -> list[list[int]]:
    """What each request generates by itself, without a cache."""
    outputs = []
    for prompt in PROMPTS:
        engine = Engine(tiny_llama(), disable_radix_cache=True, max_total_tokens=256)
        outputs.append(engine.generate(prompt, {"temperature": 0, "max_new_tokens": MOST}).token_ids)
    return outputs


@st.composite
def histories(draw: st.DrawFn) -> dict:
    page = draw(st.sampled_from([1, 2, 8, 16, 64, 128]))
    least = -(-(max(map(len, PROMPTS)) + MOST + page + 2) // page)
    radix = draw(st.booleans())
    return {
        "requests": draw(
            st.lists(
                st.tuples(st.integers(0, len(PROMPTS) - 1), st.integers(1, MOST), st.integers(0, 10)),
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


@settings(max_examples=30, deadline=None, suppress_health_check=[HealthCheck.too_slow])
@given(histories())
def test_tokens_are_those_of_a_request_alone(history: dict) -> None:
    with Engine(tiny_llama(), check_invariants=True, **history["options"]) as engine:
        handles = {}
        for step in range(11):
            for i, (which, count, arrival) in enumerate(history["requests"]):
                if arrival == step:
                    handles[i] = engine.submit(PROMPTS[which], {"temperature": 0, "max_new_tokens": count})
            engine.step()
        engine.run()
        for i, (which, count, _) in enumerate(history["requests"]):
            output = handles[i].output()
            assert output.token_ids == alone()[which][:count], output
            assert output.finish_reason == "length"
        tree = engine.tree_cache
        assert tree.protected_size() == 0
        assert engine.scheduler.allocator.available_size() + tree.evictable_size() == engine.scheduler.allocator.size
