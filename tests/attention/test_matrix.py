"""Every backend, asked for everything: what it declares agrees with float64, the rest is refused before it runs."""

import pytest

from sglab.attention import ATTENTION_BACKENDS
from tests.support.attention import every_backend
from tests.support.attention_matrix import CASES, check

SLOW_KERNELS = ("triton", "wave", "cutlass_mla", "flashmla")
"""Their own kernels run on the emulator here, which tests of their own do."""


@pytest.mark.parametrize(("name", "kind"), every_backend())
def test_a_backend_serves_what_it_declares_and_refuses_the_rest(name: str, kind: str) -> None:
    implementation = "reference" if name in SLOW_KERNELS else "auto"
    answers = {case: check(name, kind, case, seed=0, implementation=implementation) for case in CASES}
    assert answers["decode"] == answers["extend"] == "served"
    assert set(answers.values()) <= {"served", "refused", ""}


def test_every_name_has_a_row() -> None:
    assert {name for name, _ in every_backend()} == set(ATTENTION_BACKENDS)
