"""The serving engine's parts and the planners: random histories against simple models, one operation a line."""

from __future__ import annotations

import random
from collections.abc import Callable

import numpy as np
import torch

from sglab.engine import (
    BadArgumentError,
    PagedTokenToKVPoolAllocator,
    PoolExhaustedError,
    RadixCache,
    RadixKey,
    ReqToTokenPool,
    TokenToKVPoolAllocator,
)
from sglab.planning import PLANNERS
from sglab.workbench import Batch, decode_batch, extend_batch
from sglab_fuzz.target import Finding

Operations = list[list[str]]


def check(holds: bool, message: str) -> None:
    if not holds:
        raise Finding(message)


def ints(values: list[int]) -> torch.Tensor:
    return torch.tensor(values, dtype=torch.int64)


class Paged:
    """The paged allocator against lists of owned slots."""

    def __init__(self, page: int, pages: int, need_sort: bool) -> None:
        self.page, self.pages = page, pages
        self.allocator = PagedTokenToKVPoolAllocator(page * pages, page, need_sort=need_sort)
        self.requests: list[list[int]] = []

    def need(self, old: int, new: int) -> int:
        return -(-new // self.page) - -(-old // self.page)

    def free(self) -> int:
        return self.pages - sum(self.need(0, len(slots)) for slots in self.requests)

    def extend(self, k: int, more: int) -> None:
        slots = self.requests[k]
        old, new, last = ints([len(slots)]), ints([len(slots) + more]), ints([slots[-1] if slots else -1])
        out = self.allocator.alloc_extend(old, old, new, new, last, more)
        check((out is not None) == (self.need(len(slots), len(slots) + more) <= self.free()), "extend: wrong refusal")
        if out is not None:
            slots += out.tolist()

    def admit(self, tokens: int) -> None:
        self.requests.append([])
        self.extend(len(self.requests) - 1, tokens)
        if not self.requests[-1]:
            self.requests.pop()

    def decode(self) -> None:
        if not self.requests:
            return
        lens = ints([len(slots) + 1 for slots in self.requests])
        out = self.allocator.alloc_decode(lens, lens, ints([slots[-1] for slots in self.requests]))
        need = sum(len(slots) % self.page == 0 for slots in self.requests)
        check((out is not None) == (need <= self.free()), "decode: wrong refusal")
        for slots, slot in zip(self.requests, [] if out is None else out.tolist(), strict=out is not None):
            slots.append(slot)

    def finish(self, k: int) -> None:
        self.allocator.free(ints(self.requests.pop(k)))

    def twice(self, k: int) -> None:
        """Freed pages are refused a second time, and nothing changes."""
        slots = ints(self.requests.pop(k))
        self.allocator.free(slots)
        try:
            self.allocator.free(slots)
        except BadArgumentError:
            return
        raise Finding("free: a page was freed twice")

    def run(self, words: list[str]) -> None:
        name, number = words[0], int(words[1]) if len(words) > 1 else 0
        k = number % len(self.requests) if self.requests else -1
        if name == "admit":
            self.admit(number)
        elif name == "decode":
            self.decode()
        elif k >= 0:
            {"finish": self.finish, "twice": self.twice}.get(name, lambda k: self.extend(k, number % 40))(k)
        free = self.allocator.free_pages.tolist() + self.allocator.release_pages.tolist()
        owned = [page for slots in self.requests for page in sorted({slot // self.page for slot in slots})]
        check(sorted(free + owned) == list(range(1, self.pages + 1)), "pages: lost or owned twice")
        aligned = all(
            slot % self.page == token % self.page for slots in self.requests for token, slot in enumerate(slots)
        )
        check(aligned, "slots: a request is not page-aligned")


class Radix:
    """The radix tree against a dictionary of whole-page prefixes."""

    def __init__(self, page: int, pages: int) -> None:
        self.page, self.pages = page, pages
        size = page * pages
        allocator = TokenToKVPoolAllocator(size) if page == 1 else PagedTokenToKVPoolAllocator(size, page)
        self.tree = RadixCache(ReqToTokenPool(4, size), allocator, page)
        self.allocator = allocator
        self.known: dict[tuple[int, ...], list[int]] = {}
        self.locked: list[tuple[tuple[int, ...], object]] = []

    def longest(self, tokens: list[int]) -> list[int]:
        hits = [prefix for prefix in self.known if tuple(tokens[: len(prefix)]) == prefix]
        return self.known[max(hits, key=len)] if hits else []

    def insert(self, tokens: list[int]) -> None:
        slots = self.allocator.alloc(-(-len(tokens) // self.page) * self.page)
        if slots is None:
            return
        before = self.longest(tokens)
        known = self.tree.insert(RadixKey(tokens), slots[: len(tokens)])
        check(known == len(before), "insert: wrong length of what was known")
        aligned = len(tokens) // self.page * self.page
        merged = before + slots[known:aligned].tolist()
        for end in range(self.page, aligned + 1, self.page):
            self.known[tuple(tokens[:end])] = merged[:end]
        self.allocator.free(slots[:known])
        self.allocator.free(slots[aligned:])

    def evict(self, tokens: int) -> None:
        evictable = self.tree.evictable_size()
        evicted = self.tree.evict(tokens)
        check(min(tokens, evictable) <= evicted <= evictable, "evict: too few or too many")
        left = {slot for node in self.tree.nodes() for slot in node.value.tolist()}
        self.known = {prefix: slots for prefix, slots in self.known.items() if slots[-1] in left}

    def run(self, words: list[str]) -> None:
        name, tokens = words[0], [int(digit) for digit in words[1]] if len(words) > 1 else []
        if name == "insert":
            self.insert(tokens)
        elif name == "match":
            found = self.tree.match_prefix(RadixKey(tokens)).device_indices.tolist()
            check(found == self.longest(tokens), "match: wrong slots")
        elif name == "lock":
            match = self.tree.match_prefix(RadixKey(tokens))
            slots, node = match.device_indices, match.last_device_node
            self.tree.inc_lock_ref(node)
            self.locked.append((tuple(tokens[: len(slots)]), node))
        elif name == "unlock" and self.locked:
            self.tree.dec_lock_ref(self.locked.pop(len(tokens) % len(self.locked))[1])  # type: ignore[arg-type]
        elif name == "evict":
            self.evict(len(tokens))
        for prefix, _ in self.locked:
            check(len(self.longest(list(prefix))) == len(prefix), "evict: a locked prefix is gone")
        cached = [slot // self.page for node in self.tree.nodes() for slot in node.value[:: self.page].tolist()]
        check(
            sorted(cached + self.allocator.free_pages.tolist()) == list(range(1, self.pages + 1)), "tree: lost a page"
        )
        check(self.tree.total_size() == self.tree.evictable_size() + self.tree.protected_size(), "tree: sizes differ")


class Edits:
    """A workbench batch under edits: lengths as asked for, the validator content, refusals change nothing."""

    def __init__(self, page: int, tokens: int, mode: str) -> None:
        shape = {"kind": "mha", "num_heads": 2, "num_kv_heads": 1, "head_dim": 8, "page_size": page, "dtype": "float32"}
        limits = {"pool_tokens": max(tokens // page, 8) * page, "max_context_len": 128, "max_running_requests": 6}
        make = decode_batch if mode == "decode" else extend_batch
        self.batch: Batch = make([5, 9], **shape, **limits)  # type: ignore[arg-type]
        self.lens = [5, 9]

    def run(self, words: list[str]) -> None:
        name, numbers = words[0], [int(word) for word in words[1:]]
        i = numbers[0] % len(self.lens) if self.lens and numbers else 0
        before = (self.batch.free_pages(), list(self.lens))
        try:
            self._edit(name, i, numbers)
        except (BadArgumentError, PoolExhaustedError):
            check((self.batch.free_pages(), self.lens) == before, f"{name}: a refusal changed something")
        batch = self.batch
        check([req.kv_committed_len for req in batch.reqs] == self.lens, f"{name}: wrong lengths")
        if batch.batch_size:
            batch.check()
        owned = {page for k in range(batch.batch_size) for page in batch.pages(k)} | set(batch.cached_pages())
        whole = sorted([*owned, *batch.free_pages()])
        check(whole == list(range(1, batch.runner.token_to_kv_pool.num_pages + 1)), f"{name}: pages lost")

    def _edit(self, name: str, i: int, numbers: list[int]) -> None:
        batch = self.batch
        if name == "allocate":
            batch.allocate(numbers[1])
            self.lens.append(numbers[1])
        elif name == "grow":
            batch.extend_by_token(i)
            self.lens[i] += 1
        elif name == "free":
            batch.free(i, keep_cached=bool(numbers[1] % 2))
            del self.lens[i]
        elif name == "share":
            batch.share_prefix(i, numbers[1], numbers[2])
            self.lens.append(numbers[1] + numbers[2])
        elif name == "evict":
            batch.evict(numbers[1])


def plan(words: list[str]) -> None:
    """A planner's work covers every token of every request once per block of query rows."""
    name, heads, kv_heads, sms, page, graph, *lens = words
    planner = PLANNERS[name]
    lengths = [int(length) for length in lens]
    try:
        made = planner(
            lengths,
            num_heads=int(heads),
            num_kv_heads=int(kv_heads),
            sm_count=int(sms),
            page_size=int(page) or None,
            enable_cuda_graph=graph == "1",
        )
    except ValueError:
        return
    work = made.work
    covered = np.zeros(len(lengths), np.int64)
    np.add.at(covered, work.request, work.token_end - work.token_start)
    blocks = np.zeros(len(lengths), np.int64)
    for request in range(len(lengths)):
        blocks[request] = len(np.unique(work.head_block[work.request == request]))
    check(bool((covered == np.array(lengths) * np.maximum(blocks, 1)).all()), f"{name}: tokens are not covered once")
    check(bool((work.token_end > work.token_start).all() if min(lengths) > 0 else True), f"{name}: empty work")


def _digits(rng: random.Random, most: int) -> str:
    return "".join(rng.choice("01") for _ in range(rng.randrange(most))) or "0"


def _lines(rng: random.Random, kind: str, count: int) -> Operations:
    if kind == "paged":
        names = ["admit", "admit", "extend", "decode", "finish", "twice"]
        return [[rng.choice(names), str(rng.randrange(1, 90))] for _ in range(count)]
    if kind == "radix":
        names = ["insert", "insert", "match", "lock", "unlock", "evict"]
        return [[rng.choice(names), _digits(rng, 24)] for _ in range(count)]
    if kind == "edits":
        names = ["allocate", "grow", "grow", "free", "share", "evict"]
        return [[rng.choice(names), *(str(rng.randrange(0, 40)) for _ in range(3))] for _ in range(count)]
    lines = []
    for _ in range(count):
        lens = [
            rng.choice([0, 1, rng.randrange(1, 300), rng.randrange(1, 20_000)]) for _ in range(rng.randrange(1, 20))
        ]
        kv = rng.choice([1, 1, 2, 8])
        shape = [rng.choice([1, 4, 16]) * kv, kv, rng.choice([1, 8, 78, 132, 148]), rng.choice([0, 0, 1, 16, 64, 128])]
        shape[0] = 128 if rng.random() < 0.5 and kv == 1 else shape[0]
        lines.append([rng.choice(list(PLANNERS)), *map(str, shape), rng.choice("01"), *map(str, lens)])
    return lines


class Engine:
    """A case's first line says what is built; the others are operations on it."""

    name = "engine"
    unit = "operations"

    def make(self, rng: random.Random, number: int) -> str:
        kind = rng.choice(["paged", "paged", "radix", "radix", "edits", "plan"])
        page, pages = rng.choice([1, 2, 4, 16]), rng.randrange(4, 40)
        first = {
            "paged": f"paged {page} {pages} {rng.randrange(2)}",
            "radix": f"radix {rng.choice([1, 2, 3])} {rng.choice([8, 32, 64])} 0",
            "edits": f"edits {page} {rng.randrange(16, 400)} {rng.choice(['decode', 'extend'])}",
            "plan": "plan 0 0 0",
        }[kind]
        count = {"edits": 30, "plan": 12}.get(kind, 120)
        return "".join(f"{line}\n" for line in [first, *(" ".join(words) for words in _lines(rng, kind, count))])

    def run(self, text: str) -> int:
        lines = text.splitlines()
        kind, a, b, c = lines[0].split()
        step: Callable[[list[str]], None]
        if kind == "paged":
            step = Paged(int(a), int(b), c == "1").run
        elif kind == "radix":
            step = Radix(int(a), int(b)).run
        elif kind == "edits":
            step = Edits(int(a), int(b), c).run
        else:
            step = plan
        for line in lines[1:]:
            step(line.split())
        return len(lines) - 1


def target(device: str) -> Engine:
    torch.set_num_threads(1)
    return Engine()
