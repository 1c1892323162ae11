// Runs FlashInfer's planners on the host. A line of input is a case: the planner, its scalars, then each
// array as its length and its entries. The answer: "error", or the plan's vector, the bytes used of both
// workspaces and the int one as hexadecimal digits.
#include <cstdint>
#include <cstring>
#include <flashinfer/attention/scheduler.cuh>
#include <iostream>
#include <memory>
#include <sstream>
#include <stdexcept>
#include <string>
#include <vector>

extern int sm_count, blocks_per_sm;

namespace flashinfer {
// The planner asks how many of these fit on an SM, which is an answer of its case.
template <PosEncodingMode, uint32_t, uint32_t, uint32_t, uint32_t, uint32_t, uint32_t, typename,
          typename Params>
__global__ void BatchDecodeWithPagedKVCacheKernel(const __grid_constant__ Params) {}
}  // namespace flashinfer

namespace {

using namespace flashinfer;

constexpr size_t kBytes = size_t{1} << 26;   // of the int workspace
constexpr size_t kFloats = size_t{1} << 40;  // of the float workspace, which is only counted
constexpr uint32_t kHeadDim = 128;

struct Params {
  using IdType = int32_t;
  using DTypeKV = half;
};
struct Variant {};

struct Workspaces {
  std::unique_ptr<char[]> floats{new char[16]}, ints{new char[kBytes]}, locked{new char[kBytes]};
  size_t float_bytes = 0, int_bytes = 0;
};

struct Case {
  std::istringstream line;
  template <typename T = int64_t>
  T next() {
    T value;
    line >> value;
    return value;
  }
  std::vector<int32_t> array() {
    std::vector<int32_t> values(next<size_t>());
    for (int32_t& value : values) line >> value;
    return values;
  }
};

template <uint32_t GROUP>
auto estimate() {
  return BatchDecodeWithPagedKVCacheWorkEstimationDispatched<GROUP, kHeadDim, PosEncodingMode::kNone, Variant,
                                                             Params>;
}

std::vector<int64_t> decode(Case& c, Workspaces& w) {
  const auto heads = c.next<uint32_t>(), kv_heads = c.next<uint32_t>(), page_size = c.next<uint32_t>();
  sm_count = c.next<int>(), blocks_per_sm = c.next<int>();
  const bool graph = c.next<int>();
  std::vector<int32_t> indptr = c.array();
  DecodePlanInfo info;
  const auto plan = [&](auto work) {
    const uint32_t batch = indptr.size() - 1;
    DecodePlan<kHeadDim, PosEncodingMode::kNone, Variant, Params>(
        w.floats.get(), kFloats, w.ints.get(), w.locked.get(), kBytes, info, indptr.data(), batch, heads,
        page_size, graph, nullptr, work);
    DecodePlanWorkspaceSize<kHeadDim, PosEncodingMode::kNone, Variant, Params>(
        w.float_bytes, w.int_bytes, indptr.data(), batch, heads, page_size, graph, nullptr, work);
  };
  switch (heads / kv_heads) {
    case 1:
      plan(estimate<1>());
      break;
    case 2:
      plan(estimate<2>());
      break;
    case 4:
      plan(estimate<4>());
      break;
    case 8:
      plan(estimate<8>());
      break;
    default:
      throw std::runtime_error("a group of heads that no kernel serves");
  }
  return info.ToVector();
}

std::vector<int64_t> prefill(Case& c, Workspaces& w) {
  const auto heads = c.next<uint32_t>(), kv_heads = c.next<uint32_t>(), page_size = c.next<uint32_t>();
  sm_count = c.next<int>();
  const auto qk = c.next<uint32_t>(), vo = c.next<uint32_t>(), rows = c.next<uint32_t>();
  const bool graph = c.next<int>();
  const auto window = c.next<int32_t>(), fixed = c.next<int32_t>();
  const bool unsplit = c.next<int>();
  const auto colocated = c.next(), uniform = c.next();
  const auto kv_bytes = c.next<uint32_t>();
  std::vector<int32_t> qo = c.array(), kv = c.array();
  const uint32_t batch = qo.size() - 1;
  PrefillPlanInfo info;
  PrefillPlan<int32_t>(w.floats.get(), kFloats, w.ints.get(), w.locked.get(), kBytes, info, qo.data(),
                       kv.data(), rows, batch, heads, kv_heads, qk, vo, page_size, graph, 2, window, fixed,
                       unsplit, colocated, uniform, nullptr, kv_bytes);
  PrefillPlanWorkspaceSize<int32_t>(w.float_bytes, w.int_bytes, qo.data(), kv.data(), rows, batch, heads,
                                    kv_heads, qk, vo, page_size, graph, 2, window, fixed, unsplit, colocated,
                                    uniform, nullptr, kv_bytes);
  return info.ToVector();
}

std::vector<int64_t> prefill_sm90(Case& c, Workspaces& w) {
  const auto heads = c.next<uint32_t>(), kv_heads = c.next<uint32_t>();
  sm_count = c.next<int>();
  const auto vo = c.next<uint32_t>();
  const bool causal = c.next<int>(), graph = c.next<int>();
  std::vector<int32_t> qo = c.array(), kv = c.array(), lens = c.array();
  PrefillPlanSM90Info info;
  PrefillSM90Plan<int32_t>(w.floats.get(), kFloats, w.ints.get(), w.locked.get(), kBytes, info, qo.data(),
                           kv.data(), lens.data(), qo.back(), qo.size() - 1, heads, kv_heads, vo, vo, 1,
                           causal, graph, 2, nullptr);
  w.float_bytes = 0;
  w.int_bytes =
      info.batch_indices_offset + info.qo_indptr_offset;  // all of its lists of works are of one size
  return info.ToVector();
}

std::vector<int64_t> mla(Case& c, Workspaces& w) {
  const auto heads = c.next<uint32_t>();
  sm_count = c.next<int>();
  const bool causal = c.next<int>();
  std::vector<int32_t> qo = c.array(), kv = c.array(), lens = c.array();
  MLAPlanInfo info;
  MLAPlan<int32_t>(w.floats.get(), kFloats, w.ints.get(), w.locked.get(), kBytes, info, w.int_bytes,
                   qo.data(), kv.data(), lens.data(), qo.size() - 1, heads, 512, causal, nullptr);
  return info.ToVector();
}

}  // namespace

int main() {
  Workspaces w;
  for (std::string line; std::getline(std::cin, line);) {
    Case c{std::istringstream(line)};
    const auto name = c.next<std::string>();
    std::memset(w.locked.get(), 0, kBytes);
    try {
      const auto plan = name == "decode"         ? decode(c, w)
                        : name == "prefill"      ? prefill(c, w)
                        : name == "prefill_sm90" ? prefill_sm90(c, w)
                                                 : mla(c, w);
      for (const int64_t value : plan) std::cout << value << ' ';
      std::cout << "| " << w.float_bytes << ' ' << w.int_bytes << " | ";
      for (size_t i = 0; i < w.int_bytes; ++i) {
        const auto byte = static_cast<unsigned char>(w.locked[i]);
        std::cout << "0123456789abcdef"[byte >> 4] << "0123456789abcdef"[byte & 15];
      }
      std::cout << '\n';
    } catch (const std::exception&) {
      std::cout << "error\n";
    }
  }
}
