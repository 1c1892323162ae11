"""Races: each fault of the catalogue is found and named under every scheduler; right kernels have none."""

import pytest

torch = pytest.importorskip("torch")

from tests.support.emulator.schedulers import SCHEDULERS
from tests.support.sanitizers.race_catalogue import FAULTS, Fault


def ids(fault: Fault) -> str:
    return fault.name


@pytest.mark.parametrize("scheduler", SCHEDULERS)
@pytest.mark.parametrize("fault", FAULTS, ids=ids)
def test_a_race_is_found_and_named(fault: Fault, scheduler: str) -> None:
    found = fault.launch(fault.name, scheduler).findings
    assert found
    for finding in found:
        kind = "race" if finding.kind.endswith("_race") else finding.kind
        assert (finding.detector, finding.severity, kind) == ("races", fault.severity, fault.kind), str(finding)
        places = [party.source[1] for party in (finding.at, finding.other) if party and party.source]
        if fault.kind == "race":
            assert all(line in fault.lines("at") + fault.lines("other") for line in places), str(finding)
        else:
            assert places[0] in fault.lines("at"), str(finding)
            assert places[1:] == [] or places[1] in fault.lines("other"), str(finding)


@pytest.mark.parametrize("scheduler", SCHEDULERS)
@pytest.mark.parametrize("fault", FAULTS, ids=ids)
def test_without_the_fault_nothing_is_found(fault: Fault, scheduler: str) -> None:
    for seed in range(3):
        found = fault.launch(f"{fault.name}_right", scheduler, seed).findings
        assert found == (), "\n".join(map(str, found))
