"""Attention scores with their LSE on tcgen05, in CuTe DSL: scores = scale · q kᵀ in f16, and per row and tile of 128
keys the natural LSE. A warp loads with TMA and multiplies; all four read tensor memory and reduce.
"""

import cutlass
import cutlass.cute as cute
import cutlass.pipeline as pipeline
import cutlass.utils as utils
import cutlass.utils.blackwell_helpers as sm100
from cutlass.cute.nvgpu import cpasync, tcgen05

ROWS, KEYS, DEPTH = 128, 128, 64
STAGES, THREADS = 2, 128
LOG2E = 1.4426950408889634


@cute.struct
class Shared:
    full: cute.struct.MemRange[cutlass.Int64, 2 * STAGES]
    done: cute.struct.MemRange[cutlass.Int64, 2]
    tmem: cutlass.Int32


@cute.kernel
def _scores_kernel(
    mma: cute.TiledMma,
    q_atom: cute.CopyAtom,
    q: cute.Tensor,
    k_atom: cute.CopyAtom,
    k: cute.Tensor,
    scores: cute.Tensor,
    lse: cute.Tensor,
    scale: cutlass.Float32,
    q_layout: cute.ComposedLayout,
    k_layout: cute.ComposedLayout,
):
    thread, _, _ = cute.arch.thread_idx()
    warp = cute.arch.make_warp_uniform(cute.arch.warp_idx())
    row_tile, key_tile, _ = cute.arch.block_idx()
    tile = (row_tile, key_tile, None)
    smem = utils.SmemAllocator()
    shared = smem.allocate(Shared)
    sQ = smem.allocate_tensor(cutlass.Float16, q_layout.outer, 1024, swizzle=q_layout.inner)
    sK = smem.allocate_tensor(cutlass.Float16, k_layout.outer, 1024, swizzle=k_layout.inner)
    tmem = utils.TmemAllocator(shared.tmem.ptr, barrier_for_retrieve=pipeline.NamedBarrier(1, THREADS))
    tmem.allocate(KEYS)
    one = pipeline.CooperativeGroup(pipeline.Agent.Thread)
    nbytes = cute.size_in_bytes(cutlass.Float16, cute.select(q_layout, mode=[0, 1, 2])) + cute.size_in_bytes(
        cutlass.Float16, cute.select(k_layout, mode=[0, 1, 2])
    )
    loads, loaded = pipeline.PipelineTmaUmma.create(
        num_stages=STAGES,
        producer_group=one,
        consumer_group=one,
        tx_count=nbytes,
        barrier_storage=shared.full.data_ptr(),
    ).make_participants()
    products, produced = pipeline.PipelineUmmaAsync.create(
        num_stages=1,
        producer_group=one,
        consumer_group=pipeline.CooperativeGroup(pipeline.Agent.Thread, THREADS),
        barrier_storage=shared.done.data_ptr(),
    ).make_participants()
    gQ = cute.local_tile(q, (ROWS, KEYS, DEPTH), tile, proj=(1, None, 1))
    gK = cute.local_tile(k, (ROWS, KEYS, DEPTH), tile, proj=(None, 1, 1))
    gS = cute.local_tile(scores, (ROWS, KEYS, DEPTH), tile, proj=(1, 1, None))
    part = mma.get_slice(0)
    tQ, tK, tS = part.partition_A(gQ), part.partition_B(gK), part.partition_C(gS)
    rQ, rK = mma.make_fragment_A(sQ), mma.make_fragment_B(sK)
    acc = mma.make_fragment_C(mma.partition_shape_C((ROWS, KEYS)))
    sQ_tma, gQ_tma = cpasync.tma_partition(
        q_atom, 0, cute.make_layout(1), cute.group_modes(sQ, 0, 3), cute.group_modes(tQ, 0, 3)
    )
    sK_tma, gK_tma = cpasync.tma_partition(
        k_atom, 0, cute.make_layout(1), cute.group_modes(sK, 0, 3), cute.group_modes(tK, 0, 3)
    )
    tmem.wait_for_alloc()
    pointer = tmem.retrieve_ptr(cutlass.Float32)
    acc = cute.make_tensor(pointer, acc.layout)
    half = ((cute.size(acc, mode=[0, 0]), cute.size(acc, mode=[0, 1]) // 2),)
    acc_parts, out_parts = cute.zipped_divide(acc, half), cute.zipped_divide(tS, half)
    copy = tcgen05.make_tmem_copy(
        cute.make_copy_atom(tcgen05.Ld32x32bOp(tcgen05.Repetition.x64), cutlass.Float32), acc_parts[None, 0]
    )
    mine = copy.get_slice(thread)
    from_tmem, to_global = mine.partition_S(acc_parts), mine.partition_D(out_parts)
    values = cute.make_rmem_tensor(to_global[None, None, 0].shape, cutlass.Float32)
    rounded = cute.make_rmem_tensor(to_global[None, None, 0].shape, cutlass.Float16)

    if warp == 0:
        free = products.acquire_and_advance()
        for _step in cutlass.range(cute.size(gQ, mode=[2])):
            empty = loads.acquire_and_advance()
            cute.copy(q_atom, gQ_tma[(None, empty.count)], sQ_tma[(None, empty.index)], tma_bar_ptr=empty.barrier)
            cute.copy(k_atom, gK_tma[(None, empty.count)], sK_tma[(None, empty.index)], tma_bar_ptr=empty.barrier)
            full = loaded.wait_and_advance()
            for block in cutlass.range_constexpr(cute.size(rQ, mode=[2])):
                at = (None, None, block, full.index)
                cute.gemm(mma, acc, rQ[at], rK[at], acc)
                mma.set(tcgen05.Field.ACCUMULATE, True)
            full.release()
        free.commit()
    tmem.relinquish_alloc_permit()
    ready = produced.wait_and_advance()
    largest, total = cutlass.Float32(-float("inf")), cutlass.Float32(0.0)
    for part_index in cutlass.range_constexpr(2):
        cute.copy(copy, from_tmem[None, None, part_index], values)
        scaled = values.load() * scale
        rounded.store(scaled.to(cutlass.Float16))
        cute.autovec_copy(rounded, to_global[None, None, part_index])
        larger = scaled.reduce(cute.ReductionOp.MAX, largest, 0)
        total = total * cute.math.exp2((largest - larger) * LOG2E) + cute.math.exp2((scaled - larger) * LOG2E).reduce(
            cute.ReductionOp.ADD, cutlass.Float32(0.0), 0
        )
        largest = larger
    lse[row_tile * ROWS + thread, key_tile] = largest + cute.math.log(total)
    ready.release()
    pipeline.sync(barrier_id=1)
    tmem.free(pointer)


@cute.jit
def scores_with_lse(q: cute.Tensor, k: cute.Tensor, scores: cute.Tensor, lse: cute.Tensor, scale: cutlass.Float32):
    mma = cute.make_tiled_mma(
        tcgen05.MmaF16BF16Op(
            cutlass.Float16,
            cutlass.Float32,
            (ROWS, KEYS, 16),
            tcgen05.CtaGroup.ONE,
            tcgen05.OperandSource.SMEM,
            tcgen05.OperandMajorMode.K,
            tcgen05.OperandMajorMode.K,
        )
    )
    tiler = (ROWS, KEYS, DEPTH)
    q_layout, k_layout = (
        sm100.make_smem_layout_a(mma, tiler, q.element_type, STAGES),
        sm100.make_smem_layout_b(mma, tiler, k.element_type, STAGES),
    )
    load = cpasync.CopyBulkTensorTileG2SOp(tcgen05.CtaGroup.ONE)
    q_atom, q_map = cute.nvgpu.make_tiled_tma_atom_A(load, q, cute.select(q_layout, mode=[0, 1, 2]), tiler, mma)
    k_atom, k_map = cute.nvgpu.make_tiled_tma_atom_B(load, k, cute.select(k_layout, mode=[0, 1, 2]), tiler, mma)
    grid = (cute.size(scores, mode=[0]) // ROWS, cute.size(scores, mode=[1]) // KEYS, 1)
    _scores_kernel(mma, q_atom, q_map, k_atom, k_map, scores, lse, scale, q_layout, k_layout).launch(
        grid=grid, block=(THREADS, 1, 1)
    )
