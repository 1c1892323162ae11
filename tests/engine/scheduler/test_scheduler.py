"""The scheduler's steps against values worked out by hand from SGLang's code."""

import pytest

from sglab.engine import BadArgumentError, FinishAbort, Req, SamplingParams
from sglab.engine.scheduler import AddReqResult, LeakError, NewTokenRatioTracker, PrefillAdder, SchedulePolicy
from sglab.engine.scheduler.new_token_ratio import estimate_new_token_ratio_after_retract
from sglab.engine.scheduler.prefill_adder import PrefillLimits
from sglab.engine.scheduler.retraction import new_tokens_required_next_decode, retraction_order
from tests.support.serving.page_reader import PageReader, alone, request, scheduler


def reqs_with(outputs: list[int], inputs: list[int], max_new: int = 100) -> list[Req]:
    return [
        Req(f"r{i}", [0] * n, [0] * out, sampling_params=SamplingParams(max_new_tokens=max_new))
        for i, (out, n) in enumerate(zip(outputs, inputs, strict=True))
    ]


def test_the_ratio_starts_at_0_7_and_sinks_to_0_098_within_600_steps() -> None:
    tracker = NewTokenRatioTracker.from_conservativeness(1.0)
    assert (tracker.init, tracker.min) == (0.7, pytest.approx(0.098))
    assert tracker.decay == pytest.approx(0.001003333, abs=1e-9)
    for _ in range(700):
        tracker.decay_step()
    assert tracker.current == tracker.min
    assert NewTokenRatioTracker.from_conservativeness(3.0).init == 1.0


def test_the_ratio_after_a_retraction() -> None:
    assert estimate_new_token_ratio_after_retract(reqs_with([10, 30], [1, 1])) == pytest.approx(80 / 201)


def test_the_request_with_fewest_outputs_and_the_longest_prompt_is_retracted_first() -> None:
    assert retraction_order(reqs_with([3, 1, 1], [5, 9, 2])) == [0, 2, 1]


def test_a_decode_step_takes_a_page_of_each_request_on_a_border() -> None:
    reqs = reqs_with([0, 0, 0], [8, 9, 12])
    for req in reqs:
        req.kv_committed_len = len(req.origin_input_ids)
    assert new_tokens_required_next_decode(reqs, 4) == 8
    assert new_tokens_required_next_decode(reqs, 1) == 3


def adder(pages: int = 16, page: int = 4, chunk: int | None = None, prefill: int = 100, mixed: int = 0) -> PrefillAdder:
    owner = scheduler(page=page, pages=pages)
    return PrefillAdder(owner.tree_cache, [], 0.5, PrefillLimits(prefill, chunk), mixed)


def offer(to: PrefillAdder, req: Req) -> AddReqResult:
    req.init_next_round_input(to.tree_cache)
    return to.add_one_req(req)


def test_no_token_when_input_output_and_a_page_do_not_stay_below_what_is_free() -> None:
    taken, refused = adder(), adder()
    offer(taken, request("a", [1] * 30, 29))
    assert len(taken.can_run_list) == 1  # 30 + 29 + 4 = 63 < 64
    assert offer(refused, request("a", [1] * 30, 30)) is AddReqResult.NO_TOKEN
    assert refused.decisions[0].reason == "64 slots wanted, 64 left"


def test_budgets_are_spent_in_whole_pages_and_a_page_more() -> None:
    to = adder()
    offer(to, request("a", [1] * 5, 3))
    assert (to.rem_total_tokens, to.cur_rem_tokens, to.rem_input_tokens) == (64 - 8 - 4 - 3, 64 - 8 - 4, 92)


def test_the_first_request_may_exceed_max_prefill_tokens_alone() -> None:
    to = adder(prefill=8)
    assert offer(to, request("a", [1] * 20, 1)) is AddReqResult.OTHER
    assert to.can_run_list[0].rid == "a"
    second = adder(prefill=16)
    assert offer(second, request("a", [1] * 4, 1)) is AddReqResult.CONTINUE
    assert offer(second, request("b", [1] * 12, 1)) is AddReqResult.OTHER
    assert len(second.can_run_list) == 1


def test_a_chunk_ends_on_a_page() -> None:
    to = adder(chunk=10)
    offer(to, request("a", [1] * 20, 1))
    assert to.new_chunked_req is not None and to.new_chunked_req.extend_input_len == 8
    assert offer(adder(chunk=3), request("a", [1] * 20, 1)) is AddReqResult.OTHER


def test_mixed_decode_tokens_are_taken_off_every_budget() -> None:
    to = adder(chunk=32, mixed=5)
    assert (to.rem_input_tokens, to.rem_chunk_tokens, to.rem_total_tokens) == (95, 27, 59)


def test_running_requests_are_expected_to_generate_a_share_of_what_they_may() -> None:
    owner = scheduler(page=1, pages=100)
    running = reqs_with([2, 0], [1, 1], max_new=12)
    assert PrefillAdder(owner.tree_cache, running, 0.5, PrefillLimits(100, None)).rem_total_tokens == 100 - 5 - 6


def order(policy: str, prompts: dict[str, list[int]], cached: list[list[int]] = (), counts: tuple = ()) -> list[str]:
    owner = scheduler(page=1, pages=1000, rows=8, context=500)
    for tokens in cached:
        owner.add_request(request(f"cached {tokens}", tokens, 1))
    PageReader(owner).run()
    queue = [request(rid, tokens, *counts[i : i + 1]) for i, (rid, tokens) in enumerate(prompts.items())]
    SchedulePolicy(policy, owner.tree_cache).calc_priority(queue)
    return [req.rid for req in queue]


def test_lpm_takes_the_longest_cached_prefix_first() -> None:
    prompts = {"none": [9, 9], "two": [1, 2, 8], "four": [1, 2, 3, 4, 8]}
    assert order("lpm", prompts, [[1, 2, 3, 4, 5]]) == ["four", "two", "none"]
    assert order("fcfs", prompts, [[1, 2, 3, 4, 5]]) == ["none", "two", "four"]


def test_lpm_is_fcfs_on_a_queue_of_more_than_128() -> None:
    policy = SchedulePolicy("lpm", scheduler().tree_cache)
    assert policy.active_policy(128) == "lpm" and policy.active_policy(129) == "fcfs"
    assert SchedulePolicy("lpm", scheduler(radix=False).tree_cache).active_policy(1) == "fcfs"


def test_of_requests_with_a_common_prefix_that_is_not_cached_the_others_wait() -> None:
    shared = list(range(40))
    prompts = {"a": [*shared, 1], "b": [*shared, 2], "c": [77]}
    assert order("lpm", prompts) == ["a", "c", "b"]
    assert order("lpm", {"a": [*shared[:31], 1], "b": [*shared[:31], 2], "c": [77]}) == ["a", "b", "c"]


def test_dfs_weight_goes_through_the_heaviest_subtree_first() -> None:
    prompts = {"x": [5, 6, 0], "a": [1, 2, 3, 0], "y": [8], "b": [1, 2, 4, 0], "c": [1, 2, 4, 1]}
    assert order("dfs-weight", prompts, [[1, 2, 3, 9], [1, 2, 4, 9], [5, 6, 9]]) == ["b", "c", "a", "x", "y"]


def test_lof_takes_the_longest_output_first() -> None:
    assert order("lof", {"a": [1], "b": [2], "c": [3]}, counts=(2, 9, 5)) == ["b", "c", "a"]


def test_prefill_comes_before_decode_and_a_prompt_is_cut_into_chunks() -> None:
    owner = scheduler(page=4, pages=32, chunked_prefill_size=8)
    reader = PageReader(owner)
    owner.add_request(request("a", [1, 2, 3], 6))
    reader.step()
    owner.add_request(request("b", list(range(20)), 2))
    reader.run()
    shape = [(step.mode, [(e.rid, e.phase, e.start, e.new_tokens) for e in step.batch]) for step in owner.history.steps]
    assert shape[:6] == [
        ("EXTEND", [("a", "prefill", 0, 3)]),
        ("EXTEND", [("b", "chunk", 0, 8)]),
        ("EXTEND", [("b", "chunk", 8, 8)]),
        ("EXTEND", [("b", "prefill", 16, 4)]),
        ("DECODE", [("a", "decode", 3, 1), ("b", "decode", 20, 1)]),
        ("DECODE", [("a", "decode", 4, 1)]),
    ]


def test_mixed_chunks_let_running_requests_decode_in_the_same_pass() -> None:
    owner = scheduler(page=4, pages=32, chunked_prefill_size=9, enable_mixed_chunk=True)
    reader = PageReader(owner)
    owner.add_request(request("a", [1, 2, 3], 6))
    reader.step()
    owner.add_request(request("b", list(range(20)), 2))
    reader.run()
    modes = [(step.mode, [(e.rid, e.phase, e.new_tokens) for e in step.batch]) for step in owner.history.steps[1:4]]
    assert modes == [
        ("MIXED", [("b", phase, n), ("a", "decode", 1)]) for phase, n in [("chunk", 8), ("chunk", 8), ("prefill", 4)]
    ]


def test_a_full_pool_retracts_and_the_request_comes_back() -> None:
    owner = scheduler(page=1, pages=40, schedule_conservativeness=0.01)
    reader = PageReader(owner)
    prompts = {"a": [1, 2, 3], "b": [4, 5, 6, 7, 8], "c": [9]}
    reqs = [request(rid, prompt, 20) for rid, prompt in prompts.items()]
    for req in reqs:
        owner.add_request(req)
        reader.step()
    reader.run()
    retracted = [rid for step in owner.history.steps for rid in step.retracted]
    assert retracted[0] == "b", "equal outputs, the longest prompt"
    assert [req.output_ids for req in reqs] == [alone(prompt, 20) for prompt in prompts.values()]
    step = next(step for step in owner.history.steps if step.retracted)
    assert step.new_token_ratio > owner.new_token_ratio_tracker.min
    prefills = [share for step in owner.history.steps for share in step.batch if share.phase == "prefill"]
    assert [share.cached_tokens for share in prefills] == [share.start for share in prefills]
    assert any(share.start for share in prefills), "what the tree kept of a retracted request"


def test_a_cached_prefix_is_not_computed_again() -> None:
    owner = scheduler(page=4, pages=32)
    reader = PageReader(owner)
    owner.add_request(request("first", list(range(10)), 2))
    reader.run()
    second = request("second", [*range(10), 50], 2)
    owner.add_request(second)
    reader.run()
    assert second.cached_tokens == 8
    assert owner.history.of("second")[0].batch[0].new_tokens == 3


def test_overlap_plans_a_step_before_the_last_result_is_known() -> None:
    owner = scheduler(page=4, pages=32, enable_overlap=True)
    owner.add_request(request("a", [1, 2, 3], 3))
    first = owner.get_next_batch_to_run()
    second = owner.get_next_batch_to_run()
    assert first is not None and second is not None
    assert second.worker_batch.input_ids.tolist() == [-1 - second.worker_batch.req_pool_indices.item()]
    assert second.worker_batch.seq_lens.tolist() == [4] and first.worker_batch.seq_lens.tolist() == [3]


@pytest.mark.parametrize(
    ("prompt", "message"),
    [
        ([], "prompt: expected at least one token"),
        ([1] * 59, r"prompt: expected fewer than 59 tokens \(context 200, KV pool of 64 slots\), got input length 59"),
    ],
)
def test_a_prompt_that_cannot_run_is_refused_by_name(prompt: list[int], message: str) -> None:
    owner = scheduler(page=4, pages=16)
    with pytest.raises(BadArgumentError, match=message):
        owner.add_request(request("a", prompt))
    assert not owner.has_work()


def test_max_new_tokens_is_cut_to_what_the_pool_holds() -> None:
    owner = scheduler(page=4, pages=16)
    req = request("a", [1] * 50, 1000)
    owner.add_request(req)
    PageReader(owner).run()
    assert len(req.output_ids) == 9 and req.output_ids == alone([1] * 50, 9)


def test_a_name_is_used_once_at_a_time() -> None:
    owner = scheduler()
    owner.add_request(request("a", [1]))
    with pytest.raises(BadArgumentError, match="rid"):
        owner.add_request(request("a", [2]))


def test_a_chunk_smaller_than_a_page_is_refused() -> None:
    with pytest.raises(BadArgumentError, match="chunked_prefill_size: expected at least page_size 4"):
        scheduler(page=4, chunked_prefill_size=3)


@pytest.mark.parametrize("chunk", [-1, 4])
def test_an_aborted_request_gives_back_what_it_holds(chunk: int) -> None:
    owner = scheduler(page=4, pages=16, chunked_prefill_size=chunk)
    reader = PageReader(owner)
    req, other = request("a", list(range(20)), 9), request("b", [1, 2], 5)
    owner.add_request(req)
    owner.add_request(other)
    reader.step()
    assert owner.abort_request("a") and not owner.abort_request("unknown")
    reader.run()
    assert isinstance(req.finished_reason, FinishAbort)
    assert other.output_ids == alone([1, 2], 5)


@pytest.mark.parametrize("overlap", [False, True])
def test_the_history_knows_when_aborted_requests_ended(overlap: bool) -> None:
    owner = scheduler(page=4, pages=16, enable_overlap=overlap)
    reader = PageReader(owner)
    for name in "abc":
        owner.add_request(request(name, [1, 2], 9))
    reader.step()
    owner.add_request(request("late", [3, 4], 9))
    assert owner.abort_request("a") and owner.abort_request("late")
    reader.run()
    ends = [(rid, kind) for step in owner.history.steps for rid, kind in step.finished.items()]
    assert sorted(ends) == [("a", "abort"), ("b", "length"), ("c", "length"), ("late", "abort")]
    assert owner.history.of("late")


def test_a_lost_page_is_reported() -> None:
    owner = scheduler()
    owner.allocator.alloc(4)
    with pytest.raises(LeakError, match="total=64, available=60"):
        owner.check_invariants()


def test_the_history_is_plain_data() -> None:
    owner = scheduler()
    owner.add_request(request("a", [1, 2], 2))
    PageReader(owner).run()
    first = owner.history.as_dict()["steps"][0]
    assert first["batch"] == [
        {"rid": "a", "phase": "prefill", "start": 0, "new_tokens": 2, "cached_tokens": 0},
    ]
    budgets = {"rem_total": 64, "cur_rem": 64, "rem_input": 16384, "rem_chunk": None}
    assert first["decisions"] == [{"rid": "a", "result": "CONTINUE", "reason": "2 new tokens", "left": budgets}]
    assert first["tokens"] == {"a": alone([1, 2], 1)}
    assert owner.history.steps[1].finished == {"a": "length"}


def test_what_the_history_drops_it_drops_with_the_requests_that_ended_there() -> None:
    owner = scheduler()
    owner.history.limit = 10
    for number in range(30):
        owner.add_request(request(f"r{number}", [1, 2, 3], 2))
        PageReader(owner).run()
    history = owner.history
    assert len(history) <= 10
    ended = {rid for step in history.steps for rid in step.finished}
    assert set(history.arrivals) == set(history.prompts) and ended <= set(history.arrivals)
    assert len(history.arrivals) <= 10 and history.new_name("r0") == "r0"
