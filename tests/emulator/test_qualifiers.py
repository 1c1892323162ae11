"""What ptxas takes beside the table's qualifiers: a generated list, each of which the table knows or the docs name."""

import lzma
import re

import pytest

from sglab import _core
from tests.emulator.golden.make_qualifiers import GOLDEN

# The rows of docs/compatibility.md, "Qualifiers that ptxas takes and the emulator refuses".
TWICE = re.compile(r"(?:.*\.)?(\w[\w:]*)\.(?:.*\.)?\1(?:\..*)?")
MEANINGLESS = re.compile(r".*\.(pred|any|all|row|col)(\..*)?")
NAMED = (
    re.compile(r"fma\.(rm|rp|rz)\..*b?f16(x2)?(\..*)?"),
    re.compile(r"fma\.rn(?=.*\.sat)(?=.*\.oob).*"),
    re.compile(r"fma\.(rz|rp|rm)(\..*)?\.bf16x2(\..*)?"),
    re.compile(r"cvt(?=.*\.bf16)(?=.*\.f32)(?=.*\.(rn|rz|rm|rp|ftz)).*"),
    re.compile(r"cvt\.rna(?=.*\.satfinite)(?=.*\.tf32).*"),
    re.compile(r"rcp(?=.*\.ftz)(?=.*\.f64)(?=.*\.r[nzmp]).*"),
    re.compile(r"set\.\w+\.[us]32\.b?f16x2"),
    re.compile(r"(tcgen05\.(ld|st)\.sync|wgmma\.wait_group\.sync)(?!\.aligned).*"),
    re.compile(r"st\.async\..*|mbarrier\.try_wait\.expect_tx.*"),
    re.compile(r"cp\.async\.bulk\..*\.(cta|cluster|gpu|sys)"),
)


def listed(mnemonic: str) -> bool:
    return any(rule.fullmatch(mnemonic) for rule in (TWICE, MEANINGLESS, *NAMED))


def mnemonics() -> list[str]:
    return lzma.decompress(GOLDEN.read_bytes()).decode().split()


def test_what_ptxas_takes_is_known_or_listed() -> None:
    assert len(mnemonics()) > 1_000
    assert [one for one in mnemonics() if _core.instruction_effects(one) is None and not listed(one)] == []


@pytest.mark.parametrize("rule", NAMED, ids=lambda rule: rule.pattern)
def test_what_is_listed_is_refused(rule: re.Pattern[str]) -> None:
    own = [one for one in mnemonics() if rule.fullmatch(one)]
    assert own and all(_core.instruction_effects(one) is None for one in own)
