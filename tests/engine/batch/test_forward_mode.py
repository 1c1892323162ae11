"""ForwardMode: members and predicates as SGLang has them, version by version."""

import pytest

from sglab.engine.batch.forward_mode import MEMBERS, PREDICATES, ForwardMode, predicate_table

ORDER = [
    "EXTEND",
    "DECODE",
    "MIXED",
    "IDLE",
    "TARGET_VERIFY",
    "DRAFT_EXTEND",
    "DRAFT_EXTEND_V2",
    "PREBUILT",
    "SPLIT_PREFILL",
    "DLLM_EXTEND",
]

TRUE_FOR = {
    "is_prefill": "EXTEND MIXED DRAFT_EXTEND TARGET_VERIFY SPLIT_PREFILL DLLM_EXTEND",
    "is_extend": "EXTEND MIXED DRAFT_EXTEND TARGET_VERIFY SPLIT_PREFILL DLLM_EXTEND",
    "is_context_parallel_extend": "EXTEND MIXED",
    "is_decode": "DECODE",
    "is_mixed": "MIXED",
    "is_idle": "IDLE",
    "is_decode_or_idle": "DECODE IDLE",
    "is_target_verify": "TARGET_VERIFY",
    "is_draft_extend": "DRAFT_EXTEND",
    "is_draft_extend_v2": "DRAFT_EXTEND_V2",
    "is_extend_or_draft_extend_or_mixed": "EXTEND DRAFT_EXTEND MIXED SPLIT_PREFILL",
    "is_cuda_graph": "DECODE TARGET_VERIFY IDLE DLLM_EXTEND",
    "is_cpu_graph": "DECODE",
    "is_split_prefill": "SPLIT_PREFILL",
    "is_extend_without_speculative": "EXTEND MIXED SPLIT_PREFILL DLLM_EXTEND",
    "is_prebuilt": "PREBUILT",
    "is_dllm_extend": "DLLM_EXTEND",
}


def test_members_are_numbered_from_one_in_sglangs_order() -> None:
    assert [mode.name for mode in ForwardMode] == ORDER
    assert [mode.value for mode in ForwardMode] == list(range(1, 11))


def test_0_5_5_post1_has_neither_dllm_extend_nor_its_predicates() -> None:
    assert [mode.name for mode in MEMBERS["0.5.5.post1"]] == ORDER[:9]
    assert [mode.name for mode in MEMBERS["0.5.9"]] == ORDER
    assert set(PREDICATES["0.5.9"]) - set(PREDICATES["0.5.5.post1"]) == {"is_context_parallel_extend", "is_dllm_extend"}


@pytest.mark.parametrize("version", MEMBERS)
def test_predicates_hold_for_exactly_these_modes(version: str) -> None:
    table = predicate_table(version)
    assert list(table) == [mode.name for mode in MEMBERS[version]]
    for name, row in table.items():
        assert row == {predicate: name in TRUE_FOR[predicate].split() for predicate in PREDICATES[version]}


def test_every_predicate_is_in_the_table() -> None:
    assert set(PREDICATES["0.5.9"]) == set(TRUE_FOR)


def test_draft_extend_v2_is_an_extend_only_when_asked() -> None:
    v2 = ForwardMode.DRAFT_EXTEND_V2
    assert not v2.is_extend() and v2.is_extend(include_draft_extend_v2=True)
    assert not v2.is_draft_extend() and v2.is_draft_extend(include_v2=True)
    assert v2.is_context_parallel_extend(include_draft_extend_v2=True)
    assert v2.is_extend_or_draft_extend_or_mixed(include_draft_extend_v2=True)
