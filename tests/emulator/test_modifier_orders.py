"""Qualifiers come in any order that ptxas takes: a generated list of mnemonics, each of which the table knows."""

import lzma

import pytest

from sglab import _core
from tests.emulator.golden.make_modifier_orders import GOLDEN


def test_every_order_that_ptxas_takes_is_known() -> None:
    mnemonics = lzma.decompress(GOLDEN.read_bytes()).decode().split()
    assert len(mnemonics) > 10_000
    unknown = [each for each in mnemonics if _core.instruction_effects(each) is None]
    assert unknown == []


@pytest.mark.parametrize(
    ("written", "usual"),
    [
        ("atom.global.gpu.acq_rel.add.u32", "atom.acq_rel.gpu.global.add.u32"),
        ("ld.global.gpu.acquire.b32", "ld.acquire.gpu.global.b32"),
        ("st.global.release.gpu.b32", "st.release.gpu.global.b32"),
        ("mbarrier.complete_tx.shared::cluster.relaxed.cluster.b64",
         "mbarrier.complete_tx.relaxed.cluster.shared::cluster.b64"),
        ("min.s32.relu", "min.relu.s32"),
        ("stmatrix.sync.aligned.m8n8.x4.shared.b16.trans", "stmatrix.sync.aligned.m8n8.x4.trans.shared.b16"),
        ("cvt.f16.rn.f32", "cvt.rn.f16.f32"),
    ],
)  # fmt: skip
def test_another_order_does_the_same(written: str, usual: str) -> None:
    one, other = _core.instruction_effects(written), _core.instruction_effects(usual)
    assert one is not None and other is not None
    for name in ("act", "event", "space", "source", "order", "scope", "reads", "writes", "atomic", "nbytes", "cost"):
        assert getattr(one, name) == getattr(other, name), name


UNKNOWN = ["mad.s32.lo", "mbarrier.b64.init", "add.s32.f32", "atom.add.add.u32", "mul.u32.u32.wide"]


@pytest.mark.parametrize("mnemonic", UNKNOWN)
def test_what_ptxas_does_not_know_stays_unknown(mnemonic: str) -> None:
    assert _core.instruction_effects(mnemonic) is None
