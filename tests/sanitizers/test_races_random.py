"""Random programs: the race detector reports a row if and only if a brute-force oracle finds a race on it."""

import pytest

torch = pytest.importorskip("torch")

from sglab import gpu
from tests.support.emulator.schedulers import SCHEDULERS
from tests.support.sanitizers.race_programs import WARPS, Program


def reported_rows(program: Program, scheduler: str) -> set[int]:
    device = gpu.EmulatedDevice(
        "sm_90a", sanitize={"races"}, scheduler=scheduler, seed=program.seed, max_instructions=5_000_000
    )
    kernel = gpu.Module(program.ptx, f"program{program.seed}.ptx")["program"]
    out, words = torch.zeros(8192, dtype=torch.int32), torch.arange(32, dtype=torch.int32)
    findings = kernel.launch(device, grid=1, block=32 * WARPS, args=[out, words]).findings
    rows = set()
    for finding in findings:
        for party in (finding.at, finding.other):
            assert party is not None and party.ptx_line in program.lines, str(finding)
            rows.add(program.nodes[program.lines[party.ptx_line]].row)
    return rows


@pytest.mark.parametrize("block", range(8))
def test_verdicts_are_the_oracles(block: int, request: pytest.FixtureRequest) -> None:
    first = request.config.getoption("--fuzz-seed", 0) * 1000
    for seed in range(first + 15 * block, first + 15 * block + 15):
        program = Program(seed)
        expected = program.racing_rows()
        for scheduler in SCHEDULERS:
            assert reported_rows(program, scheduler) == expected, f"seed {seed}, {scheduler}:\n{program.ptx}"


def test_programs_with_and_without_races_are_drawn() -> None:
    racing = sum(bool(Program(seed).racing_rows()) for seed in range(300))
    assert 60 < racing < 240
