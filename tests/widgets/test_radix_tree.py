"""RadixTree: what it sends, replayed, is the tree; it takes engines, recordings and logs."""

from __future__ import annotations

import random
from typing import Any

import pytest

from sglab.engine import PagedTokenToKVPoolAllocator, RadixCache, ReqToTokenPool
from sglab.engine.cache import RadixKey
from sglab.engine.recording import TreeLog
from sglab.serving import Engine
from sglab.widgets import RadixTree
from tests.support.serving.tiny import prompts, tiny_llama
from tests.support.serving.widget_lines import lines


def replayed(shown: RadixTree) -> dict[int, tuple[Any, ...]]:
    """The tree by the lines alone, as the page puts it together."""
    nodes: dict[int, dict[str, Any]] = {}
    for line in lines(shown):
        if line["kind"] in ("start", "reset"):
            nodes.clear()
        for change in line["set"]:
            nodes[change["id"]] = {**nodes.get(change["id"], {}), **change}
        for node in line.get("del", []):
            del nodes[node]
    return {
        node: (
            each["parent"],
            each["text"],
            [page for first, last in each["pages"] for page in range(first, last + 1)],
            each["lock"],
            each["at"],
        )
        for node, each in nodes.items()
    }


def real(cache: RadixCache) -> dict[int, tuple[Any, ...]]:
    size = cache.page_size
    return {
        node.id: (
            -1 if node.parent is None else node.parent.id,
            " ".join(map(str, node.key.token_ids)),
            (node.value[::size] // size).tolist(),
            node.lock_ref,
            node.last_access_time,
        )
        for node in (cache.root_node, *cache.nodes())
    }


@pytest.mark.parametrize("page", [1, 4])
def test_it_follows_an_engine_and_has_its_tree(page: int) -> None:
    made = Engine(tiny_llama(), page_size=page, max_total_tokens=96)
    shown = RadixTree(made)
    draw = random.Random(0)
    for prompt in prompts(10, longest=16, seed=2):
        made.submit([draw.randrange(2)] * 8 + prompt, {"temperature": 0, "max_new_tokens": 6, "min_new_tokens": 6})
        made.step()
    made.run()
    shown.refresh()
    assert replayed(shown) == real(made.tree_cache)
    kinds = {line["kind"] for line in lines(shown)}
    assert kinds >= {"match", "split", "insert", "lock", "unlock", "evict"}
    assert all(sum(line["pool"]) <= shown.pool_size == 96 for line in lines(shown))
    assert shown.requests == list(dict.fromkeys(op.rid for op in shown.tree_log.ops if op.rid))


def test_a_tree_that_is_driven_by_hand() -> None:
    allocator = PagedTokenToKVPoolAllocator(64, 4)
    cache = RadixCache(ReqToTokenPool(4, 64), allocator, 4)
    shown = RadixTree(TreeLog(cache), decode=lambda tokens: "".join(chr(token) for token in tokens))
    assert shown.count == 1
    for text in ("abcdefgh", "abcdxyzw"):
        slots = allocator.alloc(8)
        assert slots is not None
        known = cache.insert(RadixKey([ord(each) for each in text]), slots)
        allocator.free(slots[:known])
    shown.after_cell()
    assert {text for _, text, *_ in replayed(shown).values()} == {"", "abcd", "efgh", "xyzw"}
    assert "3 operations" in shown.header["subject"]


def test_what_is_no_tree_is_refused() -> None:
    with pytest.raises(TypeError, match=r"RadixTree shows an sglab\.Engine.*got int"):
        RadixTree(3)  # type: ignore[arg-type]


def test_the_trail_from_an_operation_to_its_steps_attention() -> None:
    made = Engine(tiny_llama(), max_total_tokens=128, page_size=4)
    shown = RadixTree(made)
    made.generate([[1, 2, 3, 4, 5], [1, 2, 3, 4, 9]], {"temperature": 0, "max_new_tokens": 3})
    shown.refresh()
    step = next(op.step for op in shown.tree_log.ops if op.kind == "insert")
    assert shown.layers == 2
    assert shown.open_attention("PageTable", step, 0)["title"] == f"Page table of step {step}, layer 0"
    assert shown.batch is not None and len(shown.batch.reqs) == len(made.history.steps[step].batch)
    assert RadixTree(TreeLog(made.tree_cache)).layers == 0


def test_one_that_is_switched_off_is_called_so() -> None:
    made = Engine(tiny_llama(), disable_radix_cache=True, max_total_tokens=96)
    shown = RadixTree(made)
    made.generate([1, 2, 3], {"max_new_tokens": 1})
    shown.refresh()
    assert shown.header["subject"].startswith("the radix cache is off: nothing is kept · 1 operation · ")
    assert shown.steps == len(made.history.steps) == 1


def test_a_recording_takes_no_other_decode() -> None:
    with pytest.raises(TypeError, match="decode is of a TreeLog alone"):
        RadixTree(Engine(tiny_llama(), max_total_tokens=96), str)
