"""The split tuner: its candidates, its model, and what a measurement changes."""

import pytest

from sglab.planning import set_split_kv, tune_num_kv_splits

SMS = 148


def test_one_long_request_is_split_and_many_are_not() -> None:
    assert tune_num_kv_splits([65_536], SMS).num_kv_splits > 32
    assert tune_num_kv_splits([4096] * 74, SMS).num_kv_splits == 1


def test_candidates_are_those_that_differ_in_tiles_per_split() -> None:
    tuning = tune_num_kv_splits([1280], SMS)
    assert [each.num_kv_splits for each in tuning.costs] == [1, 2, 3, 4, 5, 10]


def test_no_candidate_is_more_than_the_reduction_merges() -> None:
    assert max(each.num_kv_splits for each in tune_num_kv_splits([128 * 400], SMS).costs) == 256


def test_the_heuristic_is_cutlass_own_and_never_better_by_the_model() -> None:
    for lengths in ([8192] * 4, [128, 4096, 30_000], [1000] * 20, [65_536, 1, 1, 1]):
        tuning = tune_num_kv_splits(lengths, SMS)
        width = -(-max(lengths) // 128) * 128
        assert tuning.heuristic == set_split_kv(width, len(lengths), SMS).split_kv
        compared = tune_num_kv_splits(lengths, SMS, candidates=[tuning.num_kv_splits, tuning.heuristic])
        assert compared.cost(tuning.num_kv_splits).modelled <= compared.cost(tuning.heuristic).modelled


def test_a_merge_costs() -> None:
    """37 requests fill 74 pairs at two splits each; of one tile nothing can be split, so the merge decides."""
    tuning = tune_num_kv_splits([128] * 37, SMS, candidates=[1, 2])
    assert tuning.num_kv_splits == 1
    two = tune_num_kv_splits([256] * 74, SMS, candidates=[1, 2])
    assert two.cost(1).modelled < two.cost(2).modelled


def test_measurements_decide_among_the_models_best() -> None:
    asked = []

    def seconds(splits: int) -> float:
        asked.append(splits)
        return abs(splits - 4) * 1e-6 + 1e-5

    tuning = tune_num_kv_splits([8192] * 4, SMS, candidates=range(1, 65), seconds=seconds, most_measured=64)
    assert tuning.num_kv_splits == 4 and asked == [*range(1, 65)]
    assert tuning.cost(4).seconds == 1e-5
    assert "4 splits took 10.0 µs, the least of 64 measured" in tuning.why()


def test_only_the_models_best_and_the_heuristic_are_measured() -> None:
    model = tune_num_kv_splits([8192] * 4, SMS)
    tuning = tune_num_kv_splits([8192] * 4, SMS, seconds=lambda splits: 1e-5, most_measured=2)
    measured = {each.num_kv_splits for each in tuning.costs if each.seconds is not None}
    best = sorted(model.costs, key=lambda each: (each.modelled, each.num_kv_splits))[:2]
    candidates = {each.num_kv_splits for each in model.costs}
    assert measured == {each.num_kv_splits for each in best} | ({model.heuristic} & candidates)


def test_why_names_the_heuristic() -> None:
    tuning = tune_num_kv_splits([8192] * 4, SMS)
    assert f"set_split_kv would take {tuning.heuristic}" in tuning.why()


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"seq_lens": []}, "seq_lens"),
        ({"seq_lens": [0, 0]}, "at least one request with KV"),
        ({"candidates": []}, "candidates"),
        ({"candidates": [1, 257]}, "candidates: expected at least one, of 1 to 256"),
        ({"candidates": [0]}, "candidates"),
        ({"most_measured": 0}, "most_measured"),
        ({"num_heads": 256}, "num_heads"),
        ({"seconds": lambda splits: float("nan")}, "seconds: expected a positive number of seconds"),
    ],
)
def test_bad_arguments_are_named(options: dict, message: str) -> None:
    with pytest.raises(ValueError, match=message):
        tune_num_kv_splits(**{"seq_lens": [1024], "sm_count": SMS, **options})


def test_a_split_that_was_no_candidate_is_refused() -> None:
    with pytest.raises(ValueError, match="a candidate, of 1, 2"):
        tune_num_kv_splits([1024], SMS, candidates=[1, 2]).cost(3)
