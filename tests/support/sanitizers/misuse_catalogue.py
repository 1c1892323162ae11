"""Small kernels with one fault each that is not a race: what is to be found in them, and where. Their sources mark the
lines."""

from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch

from sglab import gpu
from tests.support.emulator.schedulers import SCHEDULERS

HERE = Path(__file__).parent / "misuse"
DETECTORS = {"memory", "tensor", "barriers"}


@dataclass(frozen=True)
class Fault:
    """A kernel of {arch}.cu; "{name}_right" is the same without its fault.

    warps: who does it, and who is the other party; None: any warp, or no such party
    fails: it ends the launch, so that the finding comes with the error
    schedulers: under which the fault comes about
    """

    name: str
    kind: str
    warps: tuple[int | None, int | None] = (0, None)
    block: int = 64
    grid: int = 1
    cluster: int = 1
    arch: str = "sm_90a"
    fails: bool = False
    schedulers: tuple[str, ...] = SCHEDULERS

    def launch(self, entry: str, scheduler: str = "fair", seed: int = 0) -> Any:
        """The launch's findings, and the error that ended it."""
        device = gpu.EmulatedDevice(self.arch, sms=4, scheduler=scheduler, seed=seed, sanitize=DETECTORS)
        out, words = torch.zeros(1024, dtype=torch.int32), torch.arange(1024, dtype=torch.int32)
        kernel = gpu.load(HERE / f"{self.arch}.ptx")[entry]
        try:
            report = kernel.launch(device, grid=self.grid, block=self.block, cluster=self.cluster, args=[out, words])
        except gpu.KernelError as error:
            return error.findings, error
        return report.findings, None

    def lines(self, party: str) -> list[int]:
        """Of the source, marked "// name: party"."""
        source = (HERE / f"{self.arch}.cu").read_text().splitlines()
        marked = [line.partition(f"// {self.name}: ")[2].split() for line in source]
        return [number for number, parties in enumerate(marked, 1) if party in parties]


MEMORY = (
    Fault("shared_never_written", "uninitialised_read", (1, 1)),
    Fault("shared_never_written_decides", "uninitialised_read", (1, 1)),
    Fault("local_never_written", "uninitialised_read", (0, 0), block=32),
    Fault("register_never_written", "uninitialised_register", block=32),
    Fault("bulk_store_of_nothing", "uninitialised_read"),
    Fault("global_out_of_bounds", "out_of_bounds", block=32, fails=True),
)
BARRIERS = (
    Fault("mbarrier_never_initialised", "mbarrier_uninitialised", block=32, fails=True),
    Fault("mbarrier_used_after_inval", "mbarrier_uninitialised", (0, 0), block=32, fails=True),
    Fault("mbarrier_arrived_too_often", "mbarrier_arrival_underflow", (1, 0), fails=True),
    Fault("mbarrier_initialised_again", "mbarrier_reinitialised", (0, 1)),
    Fault("mbarrier_invalidated_too_early", "mbarrier_invalidated_in_use", (0, 0), block=32),
    Fault("mbarrier_not_published", "mbarrier_unpublished", (1, 0), schedulers=("fair", "in_order")),
    Fault("bytes_not_expected", "mbarrier_tx_count", (0, 0)),
    Fault("bytes_that_never_come", "mbarrier_tx_count", (0, 0)),
    Fault("bytes_announced_in_vain", "mbarrier_tx_count", (0, 0)),
    Fault("barrier_counts_differ", "barrier_count", (None, None), fails=True),
    Fault("barrier_arrived_twice", "barrier_arrived_twice", (0, 0), block=96),
    Fault("barrier_in_half_a_warp", "barrier_diverged"),
    Fault("barrier_gone_past", "barrier_diverged", (1, 1)),
    Fault("cluster_barrier_gone_past", "barrier_diverged", (0, 0), 32, 2, 2),
    Fault("lanes_exited_before_mma", "lanes_exited", (0, 0), block=32),
    Fault("lanes_exited_before_ldmatrix", "lanes_exited", (0, 0), block=32),
    Fault("barrier_in_one_warp", "barrier_mismatched", (None, None)),
    Fault("crossed_waits", "deadlock", (None, None), fails=True),
    Fault("nobody_left", "deadlock", (0, None), fails=True),
    Fault("wrong_parity", "deadlock", (0, None), block=32, fails=True),
    Fault("peer_exits_too_early", "peer_exited", (0, 0), 32, 2, 2, schedulers=("fair", "in_order")),
    Fault("load_unfinished_at_exit", "exit_in_flight", (0, 0), block=32),
)
TENSOR = (
    Fault("tmem_not_allocated", "tmem_unallocated", block=32, arch="sm_100a", fails=True),
    Fault("tmem_used_after_dealloc", "tmem_after_dealloc", (0, 0), 32, arch="sm_100a", fails=True),
    Fault("tmem_not_released", "tmem_leak", block=32, arch="sm_100a", fails=True),
    Fault("tmem_lanes_of_another_warp", "tmem_wrong_lanes", (1, None), arch="sm_100a"),
    Fault("tmem_allocated_after_giving_up", "tmem_alloc_refused", (0, 0), 32, arch="sm_100a", fails=True),
    Fault("tmem_never_written", "uninitialised_read", (0, 0), 32, arch="sm_100a"),
    Fault("tmem_store_not_waited_for", "tmem_store_unfinished", (0, 0), 32, arch="sm_100a"),
    Fault("tmem_group_sizes_mixed", "cta_group_mixed", (0, 0), 32, arch="sm_100a"),
    Fault("mma_adds_to_nothing", "uninitialised_read", (0, 0), 32, arch="sm_100a"),
    Fault("mma_adds_to_column_of_nothing", "uninitialised_read", (0, 0), 32, arch="sm_100a"),
    Fault("mma_column_of_nothing", "uninitialised_read", (0, 0), 32, arch="sm_100a"),
    Fault("mma_column_of_transposed_nothing", "uninitialised_read", (0, 0), 32, arch="sm_100a"),
    Fault("mma_row_of_nothing", "uninitialised_read", (0, 0), 32, arch="sm_100a"),
    Fault("mma_descriptor_without_version", "bad_descriptor", block=32, arch="sm_100a", fails=True),
    Fault("mma_in_flight_at_dealloc", "tmem_dealloc_in_flight", (0, 0), 32, arch="sm_100a"),
)
FAULTS = MEMORY + BARRIERS + TENSOR
