"""Whatever is drawn, every request generates what it generates alone, and nothing leaks."""

from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from sglab.engine import FinishAbort, FinishLength, FinishMatchedToken
from tests.support.serving.page_reader import PageReader, alone, request, scheduler


@st.composite
def histories(draw: st.DrawFn) -> dict:
    page = draw(st.sampled_from([1, 2, 4, 16, 64, 128]))
    prefix = draw(st.lists(st.integers(0, 3), max_size=20))
    count = draw(st.integers(1, 8))
    prompts = [
        (prefix if draw(st.booleans()) else []) + draw(st.lists(st.integers(0, 3), min_size=1, max_size=40))
        for _ in range(count)
    ]
    lengths = [draw(st.integers(1, 40)) for _ in range(count)]
    longest = max(len(p) + n for p, n in zip(prompts, lengths, strict=True)) + page + 2
    least = -(-longest // page)
    return {
        "prompts": prompts,
        "lengths": lengths,
        "arrivals": [draw(st.integers(0, 12)) for _ in range(count)],
        "ignore_eos": [draw(st.booleans()) for _ in range(count)],
        "engine": {
            "page": page,
            "pages": draw(st.integers(least, least + 6)),
            "rows": draw(st.integers(1, 8)),
            "radix": draw(st.booleans()),
            "enable_overlap": draw(st.booleans()),
            "enable_mixed_chunk": draw(st.booleans()),
            "chunked_prefill_size": draw(st.sampled_from([-1, page, 2 * page, 3 * page + 1])),
            "max_prefill_tokens": draw(st.sampled_from([8, 64, 16384])),
            "schedule_policy": draw(st.sampled_from(["lpm", "dfs-weight", "fcfs", "lof", "random"])),
            "schedule_conservativeness": draw(st.sampled_from([0.1, 1.0, 2.0])),
            "prefill_max_requests": draw(st.sampled_from([None, 1, 2])),
        },
    }


@settings(max_examples=300, deadline=None, suppress_health_check=[HealthCheck.too_slow])
@given(histories())
def test_tokens_do_not_depend_on_scheduling(history: dict) -> None:
    owner = scheduler(**history["engine"])
    reader = PageReader(owner)
    reqs = [
        request(f"r{i}", prompt, count, ignore_eos=ignore)
        for i, (prompt, count, ignore) in enumerate(
            zip(history["prompts"], history["lengths"], history["ignore_eos"], strict=True)
        )
    ]
    for step in range(13):
        for req, arrival in zip(reqs, history["arrivals"], strict=True):
            if arrival == step:
                owner.add_request(req)
        reader.step()
    reader.run()
    for req, prompt, count in zip(reqs, history["prompts"], history["lengths"], strict=True):
        assert req.finished_reason == FinishLength(count), req.rid
        assert req.output_ids == alone(prompt, count), req.rid


@settings(max_examples=100, deadline=None, suppress_health_check=[HealthCheck.too_slow])
@given(histories(), st.data())
def test_stops_and_aborts_at_any_step_leak_nothing(history: dict, data: st.DataObject) -> None:
    owner = scheduler(**history["engine"])
    reader = PageReader(owner)
    reqs, stops = [], []
    for i, (prompt, count) in enumerate(zip(history["prompts"], history["lengths"], strict=True)):
        whole = alone(prompt, count)
        stop = data.draw(st.sampled_from(whole))
        stops.append(whole[: whole.index(stop) + 1])
        reqs.append(request(f"r{i}", prompt, count, stop_token_ids=[stop]))
    aborted = data.draw(st.dictionaries(st.sampled_from(reqs), st.integers(0, 15), max_size=3))
    for step in range(16):
        for req, arrival in zip(reqs, history["arrivals"], strict=True):
            if arrival == step:
                owner.add_request(req)
        for req, when in aborted.items():
            if when == step:
                owner.abort_request(req.rid)
        reader.step()
    reader.run()
    for req, wanted in zip(reqs, stops, strict=True):
        if isinstance(req.finished_reason, FinishAbort):
            assert req in aborted and req.output_ids == wanted[: len(req.output_ids)]
        else:
            assert req.output_ids == wanted
            assert isinstance(req.finished_reason, FinishMatchedToken)
