// Host side of FlashInfer's packaged CUTLASS SM100 MLA kernel, with a C interface. FlashInfer's own wrapper
// fixes the scale, the splits and the missing LSE; here they are arguments. As there: cp.async loads,
// persistent scheduler. SGLAB_MLA_ELEMENT: cutlass::half_t or cutlass::bfloat16_t.
#include <cuda_fp8.h>
#include <cutlass/cutlass.h>
#include <cutlass/epilogue/thread/linear_combination.h>
#include <cutlass/gemm/device/gemm_universal_adapter.h>
#include <cutlass/kernel_hardware_info.h>

#include <cute/tensor.hpp>
#include <cutlass/epilogue/collective/collective_builder.hpp>
#include <cutlass/gemm/collective/collective_builder.hpp>
#include <cutlass/util/packed_stride.hpp>
#include <flashinfer/attention/blackwell/device/sm100_mla.hpp>
#include <flashinfer/attention/blackwell/kernel/sm100_mla_tile_scheduler.hpp>

using namespace cute;

using Element = SGLAB_MLA_ELEMENT;
using MlaTile = Shape<_128, _128, Shape<_512, _64>>;
using Kernel = cutlass::fmha::kernel::Sm100FmhaMlaKernelTmaWarpspecialized<
    MlaTile, Element, float, Element, float, cutlass::fmha::kernel::Sm100MlaPersistentTileScheduler, true>;
using Mla = cutlass::fmha::device::MLA<Kernel>;

// Strides in elements. lse may be null where split_kv is 1.
struct MlaCall {
  void *q_nope, *q_pe, *kv_cache, *out;
  float* lse;
  void* workspace;
  int *seq_lens, *page_table;
  std::int64_t nope_stride_head, nope_stride_batch, pe_stride_head, pe_stride_batch;
  std::int64_t kv_stride_row, kv_stride_page;
  int batch, table_width, table_stride, pages, page_size, split_kv, sm_count;
  float scale;
};

static Mla::Arguments arguments_of(const MlaCall& c) {
  cutlass::KernelHardwareInfo hardware;
  hardware.device_id = 0;
  hardware.sm_count = c.sm_count;
  auto* const kv = static_cast<Element*>(c.kv_cache);
  const auto kv_stride = make_tuple(c.kv_stride_row, _1{}, c.kv_stride_page);
  return {
      make_tuple(_128{}, c.page_size * c.table_width, Shape<_512, _64>{}, c.batch),
      {c.scale, static_cast<Element*>(c.q_nope), make_tuple(c.nope_stride_head, _1{}, c.nope_stride_batch),
       static_cast<Element*>(c.q_pe), make_tuple(c.pe_stride_head, _1{}, c.pe_stride_batch), kv, kv_stride,
       kv + 512, kv_stride, c.seq_lens, c.page_table, make_stride(_1{}, c.table_stride), c.pages,
       c.page_size},
      {static_cast<Element*>(c.out), make_tuple(std::int64_t{512}, _1{}, std::int64_t{128 * 512}), c.lse,
       make_tuple(_1{}, 128), 1.0f},
      hardware,
      c.split_kv,
      nullptr,
  };
}

// 0, or which step refused: 1 can_implement, 2 initialize, 3 run.
extern "C" int sglab_flashinfer_mla(const MlaCall* call) {
  const Mla::Arguments arguments = arguments_of(*call);
  Mla mla;
  if (Mla::can_implement(arguments) != cutlass::Status::kSuccess) return 1;
  if (mla.initialize(arguments, call->workspace, nullptr) != cutlass::Status::kSuccess) return 2;
  return mla.run(nullptr) == cutlass::Status::kSuccess ? 0 : 3;
}
