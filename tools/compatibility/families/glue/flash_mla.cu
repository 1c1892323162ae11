// FlashMLA's kernels as functions of plain pointers: its own host code takes the tensors of PyTorch's CUDA build.
// One of the macros below says which of them a library holds. All tensors are contiguous, all have one KV head.
#include <cmath>
#include <cstdio>
#include <exception>

#include "params.h"

template <class Call>
long tried(Call call) {
  try {
    call();
  } catch (std::exception const& error) {
    std::fprintf(stderr, "%s\n", error.what());
    return -1;
  }
  return cudaGetLastError();
}

using Bf16 = cutlass::bfloat16_t;
constexpr int kValues = 512;

#if defined(ENDS)  // what all decode kernels start and end with

extern "C" long schedule(void* lengths, void* schedule, void* splits, long b, long s_q, long block, long overhead,
                         long topk, long parts) {
  GetDecodeSchedMetaParams params{};
  params.b = int(b), params.s_q = int(s_q), params.num_sm_parts = int(parts);
  params.block_size_n = int(block), params.fixed_overhead_num_blocks = int(overhead);
  params.topk = int(topk), params.extra_topk = topk < 0 ? -1 : 0;
  (topk < 0 ? params.seqlens_k_ptr : params.topk_length) = static_cast<int*>(lengths);
  params.tile_scheduler_metadata_ptr = static_cast<DecodingSchedMeta*>(schedule);
  params.num_splits_ptr = static_cast<int*>(splits);
  return tried([&] { smxx::decode::run_get_decoding_sched_meta_kernel(params); });
}

extern "C" long combine(void* lse, void* out, void* lse_parts, void* out_parts, void* schedule, void* splits,
                        void* sink, long b, long s_q, long heads, long parts) {
  const int row = int(heads), token = int(heads) * kValues;
  CombineParams params{};
  params.b = int(b), params.s_q = int(s_q), params.h_q = int(heads), params.d_v = kValues;
  params.lse = static_cast<float*>(lse), params.out = out;
  params.stride_lse_b = int(s_q) * row, params.stride_lse_s_q = row;
  params.stride_o_b = int(s_q) * token, params.stride_o_s_q = token, params.stride_o_h_q = kValues;
  params.lse_accum = static_cast<float*>(lse_parts), params.o_accum = static_cast<float*>(out_parts);
  params.stride_lse_accum_split = int(s_q) * row, params.stride_lse_accum_s_q = row;
  params.stride_o_accum_split = int(s_q) * token, params.stride_o_accum_s_q = token;
  params.stride_o_accum_h_q = kValues;
  params.tile_scheduler_metadata_ptr = static_cast<DecodingSchedMeta*>(schedule);
  params.num_splits_ptr = static_cast<int*>(splits), params.num_sm_parts = int(parts);
  params.attn_sink = static_cast<float*>(sink);
  return tried([&] { smxx::decode::run_flash_mla_combine_kernel<Bf16>(params); });
}

#elif defined(DENSE_DECODE)

extern "C" long decode(void* q, void* cache, void* table, void* lengths, void* lse, void* out, void* lse_parts,
                       void* out_parts, void* schedule, void* splits, long b, long s_q, long heads, long width,
                       long blocks, long columns, long parts, long causal, float scale) {
  const int rows = int(s_q * heads), page = 64;
  DenseAttnDecodeParams params{};
  params.b = int(b), params.s_q = int(s_q), params.q_seq_per_hk = rows;
  params.d = int(width), params.d_v = kValues, params.h_q = int(heads), params.h_k = 1;
  params.num_blocks = int(blocks), params.q_head_per_hk = int(heads), params.is_causal = causal && s_q > 1;
  params.scale_softmax = scale, params.scale_softmax_log2 = float(scale * M_LOG2E);
  params.q_ptr = q, params.k_ptr = cache, params.o_ptr = out, params.softmax_lse_ptr = static_cast<float*>(lse);
  params.q_batch_stride = rows * width, params.q_row_stride = width, params.q_head_stride = width;
  params.k_batch_stride = page * width, params.k_row_stride = width, params.k_head_stride = width;
  params.o_batch_stride = rows * kValues, params.o_row_stride = kValues, params.o_head_stride = rows * kValues;
  params.block_table = static_cast<int*>(table), params.block_table_batch_stride = columns;
  params.page_block_size = page, params.seqlens_k_ptr = static_cast<int*>(lengths);
  params.tile_scheduler_metadata_ptr = static_cast<DecodingSchedMeta*>(schedule);
  params.num_splits_ptr = static_cast<int*>(splits), params.num_sm_parts = int(parts);
  params.total_num_splits = int(b + parts);
  params.softmax_lseaccum_ptr = static_cast<float*>(lse_parts);
  params.oaccum_ptr = static_cast<float*>(out_parts);
  return tried([&] { DENSE_DECODE(params); });
}

#elif defined(SPARSE_DECODE)

extern "C" long decode(void* q, void* cache, void* indices, void* lengths, void* sink, void* lse, void* out,
                       void* lse_parts, void* out_parts, void* schedule, void* splits, long b, long s_q, long heads,
                       long width, long blocks, long page, long block_bytes, long token_bytes, long topk, long parts,
                       float scale) {
  const int row = int(heads), token = int(heads) * kValues;
  SparseAttnDecodeParams params{};
  params.b = int(b), params.s_q = int(s_q), params.h_q = int(heads), params.h_kv = 1;
  params.d_qk = int(width), params.d_v = kValues;
  params.sm_scale = scale, params.sm_scale_div_log2 = float(scale * M_LOG2E);
  params.num_blocks = int(blocks), params.page_block_size = int(page), params.topk = int(topk);
  params.model_type = width == 576 ? ModelType::V32 : ModelType::MODEL1;
  params.q = static_cast<Bf16*>(q), params.kv = static_cast<Bf16*>(cache);
  params.indices = static_cast<int*>(indices), params.topk_length = static_cast<int*>(lengths);
  params.attn_sink = static_cast<float*>(sink);
  params.lse = static_cast<float*>(lse), params.out = static_cast<Bf16*>(out);
  params.stride_q_b = int(s_q * heads * width), params.stride_q_s_q = int(heads * width);
  params.stride_q_h_q = int(width);
  params.stride_kv_block = int(block_bytes), params.stride_kv_row = int(token_bytes);
  params.stride_indices_b = int(s_q * topk), params.stride_indices_s_q = int(topk);
  params.stride_lse_b = int(s_q) * row, params.stride_lse_s_q = row;
  params.stride_o_b = int(s_q) * token, params.stride_o_s_q = token, params.stride_o_h_q = kValues;
  params.lse_accum = static_cast<float*>(lse_parts), params.o_accum = static_cast<float*>(out_parts);
  params.stride_lse_accum_split = int(s_q) * row, params.stride_lse_accum_s_q = row;
  params.stride_o_accum_split = int(s_q) * token, params.stride_o_accum_s_q = token;
  params.stride_o_accum_h_q = kValues;
  params.tile_scheduler_metadata_ptr = static_cast<DecodingSchedMeta*>(schedule);
  params.num_splits_ptr = static_cast<int*>(splits), params.num_sm_parts = int(parts);
  return tried([&] { SPARSE_DECODE(params); });
}

#elif defined(SPARSE_PREFILL)

extern "C" long prefill(void* q, void* kv, void* indices, void* sink, void* lengths, void* out, void* largest,
                        void* lse, long s_q, long s_kv, long heads, long width, long topk, float scale) {
  SparseAttnFwdParams params{};
  params.s_q = int(s_q), params.s_kv = int(s_kv), params.h_q = int(heads), params.h_kv = 1;
  params.d_qk = int(width), params.d_v = kValues, params.topk = int(topk);
  params.sm_scale = scale, params.sm_scale_div_log2 = float(scale * M_LOG2E);
  params.q = static_cast<Bf16*>(q), params.kv = static_cast<Bf16*>(kv), params.indices = static_cast<int*>(indices);
  params.attn_sink = static_cast<float*>(sink), params.topk_length = static_cast<int*>(lengths);
  params.stride_q_s_q = int(heads * width), params.stride_q_h_q = int(width);
  params.stride_kv_s_kv = int(width), params.stride_kv_h_kv = int(width);
  params.stride_indices_s_q = int(topk), params.stride_indices_h_kv = int(topk);
  params.out = static_cast<Bf16*>(out), params.max_logits = static_cast<float*>(largest);
  params.lse = static_cast<float*>(lse), params.num_sm = 148;
  return tried([&] { SPARSE_PREFILL(params); });
}

#endif
