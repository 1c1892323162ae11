"""Small kernels with one race each: what is to be found in them, and where. Their sources mark the lines."""

from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch

from sglab import gpu

HERE = Path(__file__).parent / "races"


@dataclass(frozen=True)
class Fault:
    """A kernel of {arch}.cu; "{name}_right" is the same without its fault.

    kind: of the findings; "race" covers reads after writes and so on, since which comes first is the schedule's
    """

    name: str
    kind: str
    block: int
    grid: int = 1
    cluster: int = 1
    arch: str = "sm_90a"
    severity: str = "error"

    def launch(self, entry: str, scheduler: str = "fair", seed: int = 0, **options: Any) -> Any:
        options.setdefault("sanitize", {"races"})
        device = gpu.EmulatedDevice(self.arch, sms=4, scheduler=scheduler, seed=seed, **options)
        out, words = torch.zeros(1024, dtype=torch.int32), torch.arange(1024, dtype=torch.int32)
        kernel = gpu.load(HERE / f"{self.arch}.ptx")[entry]
        return kernel.launch(device, grid=self.grid, block=self.block, cluster=self.cluster, args=[out, words])

    def lines(self, party: str) -> list[int]:
        """Of the source, marked "// name: party"."""
        source = (HERE / f"{self.arch}.cu").read_text().splitlines()
        marked = [line.partition(f"// {self.name}: ")[2].split() for line in source]
        return [number for number, parties in enumerate(marked, 1) if party in parties]


SM90 = (
    Fault("shared_without_barrier", "race", 64),
    Fault("exchange_without_second_barrier", "race", 128),
    Fault("lanes_without_warp_sync", "missing_warp_sync", 32),
    Fault("lane_arrives_for_warp", "race", 64),
    Fault("lane_copies_for_warp", "missing_warp_sync", 32),
    Fault("lane_overwrites_for_warp", "missing_warp_sync", 32),
    Fault("lanes_write_one_word", "lanes_collide", 32),
    Fault("lanes_add_without_atomic", "lost_update", 32),
    Fault("warps_add_without_atomic", "lost_update", 64),
    Fault("ctas_write_one_word", "race", 32, grid=2),
    Fault("bulk_load_without_wait", "missing_mbarrier_wait", 64),
    Fault("bulk_load_into_a_buffer_in_use", "race", 64),
    Fault("bulk_store_without_proxy_fence", "missing_proxy_fence", 64),
    Fault("bulk_store_source_overwritten", "missing_bulk_wait", 64),
    Fault("cp_async_without_wait", "missing_cp_async_wait", 64),
    Fault("cp_async_wait_too_short", "missing_cp_async_wait", 64),
    Fault("wgmma_without_proxy_fence", "missing_proxy_fence", 128),
    Fault("wgmma_operand_of_another_warp", "race", 128),
    Fault("wgmma_operand_overwritten", "missing_wgmma_wait", 128),
    Fault("wgmma_fence_missing", "missing_wgmma_fence", 128),
    Fault("wgmma_without_any_fence", "missing_wgmma_fence", 128),
    Fault("wgmma_accumulators_read_early", "missing_wgmma_wait", 128),
    Fault("wgmma_a_registers_overwritten", "missing_wgmma_wait", 128),
    Fault("cluster_barrier_relaxed", "weak_synchronisation", 32, grid=2, cluster=2),
    Fault("cluster_without_barrier", "race", 32, grid=2, cluster=2),
    Fault("peer_may_have_exited", "peer_exited", 32, grid=2, cluster=2),
    Fault("arrival_at_peer_that_may_have_exited", "peer_exited", 32, grid=2, cluster=2),
    Fault("tensor_map_not_acquired", "missing_tensormap_fence", 32),
    Fault("tensor_map_not_released", "missing_tensormap_fence", 32),
    Fault("mbarrier_init_without_fence", "missing_init_fence", 32, grid=2, cluster=2),
    Fault("flag_without_fence", "weak_synchronisation", 32, grid=2),
    Fault("flag_of_cta_scope", "weak_synchronisation", 32, grid=2),
)
SM100 = (
    Fault("tensor_store_without_wait", "missing_tensor_wait", 128, arch="sm_100a"),
    Fault("tensor_load_without_wait", "missing_tensor_wait", 256, arch="sm_100a"),
    Fault("tensor_store_over_load", "unwaited_tensor_load", 128, arch="sm_100a", severity="warning"),
    Fault("tensor_memory_released_over_load", "unwaited_tensor_load", 128, arch="sm_100a", severity="warning"),
    Fault("tensor_fence_before_missing", "missing_tensor_fence", 256, arch="sm_100a"),
    Fault("tensor_fence_after_missing", "missing_tensor_fence", 256, arch="sm_100a"),
    Fault("mma_without_proxy_fence", "missing_proxy_fence", 128, arch="sm_100a"),
    Fault("commit_not_waited_for", "missing_commit_wait", 128, arch="sm_100a"),
    Fault("mma_operand_overwritten", "missing_commit_wait", 128, arch="sm_100a"),
    Fault("pipeline_without_fences", "missing_tensor_fence", 128, arch="sm_100a"),
)
FAULTS = SM90 + SM100
