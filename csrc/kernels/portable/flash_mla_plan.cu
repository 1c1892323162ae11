// FlashMLA's plan of a decode step, made on the device, so that no host waits for lengths.
//
//   get_mla_metadata   deals the requests' blocks of 64 tokens out to parts, as FlashMLA's kernel of this
//   name flash_mla_works    turns that into the works of csrc/kernels/sm90/mla_decode.cu, for one or several
//   query
//                      tokens per request
#include <cstdint>

namespace {

constexpr int kBlock = 64;    // tokens
constexpr int kOverhead = 5;  // what starting a request costs, in blocks
constexpr int kThreads = 128;
constexpr int kFields = 8;  // of a part's row in the metadata; the last one is padding
constexpr int kNone = -1;   // in place of a request or a slot: there is none

__device__ int last_block(int length) {
  return max(length - 1, 0) / kBlock;
}

// One request after the other, each as far as the part's payload reaches. One thread: every step needs the
// one before.
__device__ void deal(const int* lengths, int batch, int parts, int payload, int* metadata, int* num_splits) {
  int request = 0, block = 0, split = 0, splits_before = 0;
  num_splits[0] = 0;
  for (int part = 0; part < parts; ++part) {
    const int begin = request, begin_split = split;
    // Past the last request FlashMLA's kernel reads a word beyond its array; nothing uses the value.
    const int begin_block = request < batch ? block : last_block(lengths[0]);
    bool first_split = block != 0;
    for (int remain = payload; request < batch;) {
      const int left = last_block(lengths[request]) + 1 - block;
      if (remain < left + kOverhead) {
        if (remain > kOverhead) block += remain - kOverhead, ++split;
        break;
      }
      remain -= left + kOverhead;
      splits_before += split + 1;
      num_splits[++request] = splits_before;
      block = split = 0;
    }
    const int end = block > 0 ? request : request - 1;
    const int whole = lengths[end] > 0 ? last_block(lengths[end]) + 1 : 0;
    const int end_block = block > 0 ? block : whole;
    bool last_split = end_block != whole && lengths[end] > 0;
    if (begin == end) first_split = last_split = first_split || last_split;
    int* row = metadata + kFields * part;
    row[0] = begin, row[1] = end, row[2] = begin_block, row[3] = end_block, row[4] = begin_split;
    row[5] = first_split, row[6] = last_split, row[7] = 0;
  }
}

struct Step {
  const int *metadata, *num_splits, *seq_lens;
  int batch;
  int tokens;  // query tokens per request: each becomes a request of its own
  bool causal;

  // What query token i sees: all but the last tokens − 1 − i, if causal.
  __device__ int length(int request, int token) const {
    return max(seq_lens[request] - (causal ? tokens - 1 - token : 0), 0);
  }
  __device__ int splits(int request) const { return num_splits[request + 1] - num_splits[request]; }
  // The first slot of a query token's partial results.
  __device__ int first_slot(int request, int token) const {
    return num_splits[request] * tokens + token * splits(request);
  }
};

// The `turn`-th request of a part: request, first token, end token, slot. Where a range begins after a query
// token's length nothing is left of it, and its partial result is empty.
__device__ int4 work(const Step& s, int part, int turn, int token) {
  const int* row = s.metadata + kFields * part;
  const int request = row[0] + turn;
  if (request > row[1] || request >= s.batch) return {kNone, 0, 0, kNone};
  const int length = s.length(request, token);
  const int begin = turn == 0 ? row[2] * kBlock : 0;
  const int end = request == row[1] ? row[3] * kBlock : s.seq_lens[request];
  const int slot = s.first_slot(request, token) + (turn == 0 ? row[4] : 0);
  return {request * s.tokens + token, min(begin, length), min(end, length),
          s.splits(request) > 1 ? slot : kNone};
}

}  // namespace

// grid 1, 128 threads, 4 · batch bytes of dynamic shared memory
//
// seq_lens    [batch]: tokens; batch at least 1
// metadata    [parts, 8]; num_splits [batch + 1], see planning/flash_mla.py
extern "C" __global__ void __launch_bounds__(kThreads)
    get_mla_metadata(const int* seq_lens, int batch, int parts, int* metadata, int* num_splits) {
  extern __shared__ int lengths[];
  __shared__ int total;
  if (threadIdx.x == 0) total = 0;
  __syncthreads();  // the sum starts at 0
  int own = 0;
  for (int i = threadIdx.x; i < batch; i += kThreads) {
    lengths[i] = max(seq_lens[i], 0);
    own += last_block(lengths[i]) + 1 + kOverhead;
  }
  atomicAdd(&total, own);
  __syncthreads();  // all lengths are here, and their sum
  if (threadIdx.x != 0) return;
  const int payload = (total + parts - 1) / parts + kOverhead;
  deal(lengths, batch, parts, payload, metadata, num_splits);
}

// grid (ceil(batch / 128), parts), 128 threads
//
// works         [batch · tokens, parts]: what each part does; query token i of request r is request r ·
// tokens + i requests      [batch · tokens]: 0, 1, 2, … slot_indptr   [batch · tokens + 1]; partial_count
// [batch · tokens]: see combine.cu
extern "C" __global__ void __launch_bounds__(kThreads)
    flash_mla_works(const int* metadata, const int* num_splits, const int* seq_lens, int batch, int tokens,
                    int causal, int4* works, int* requests, int* slot_indptr, int* partial_count) {
  const int parts = gridDim.y, part = blockIdx.y;
  const int turn = blockIdx.x * kThreads + threadIdx.x;
  if (turn >= batch) return;
  const Step step{metadata, num_splits, seq_lens, batch, tokens, causal != 0};
  for (int token = 0; token < tokens; ++token) {
    const int row = turn * tokens + token;
    works[static_cast<int64_t>(row) * parts + part] = work(step, part, turn, token);
    if (part != 0) continue;
    requests[row] = row;
    slot_indptr[row] = step.first_slot(turn, token);
    partial_count[row] = step.splits(turn) > 1 ? step.splits(turn) : 0;
    if (row == batch * tokens - 1) slot_indptr[row + 1] = num_splits[batch] * tokens;
  }
}
