#include "cpu_attention/attend.hpp"

#include <algorithm>
#include <cmath>
#include <cstdlib>
#include <limits>
#include <memory>
#include <new>
#include <stdexcept>

#include "cpu/features.hpp"
#include "cpu_attention/kernels.hpp"
#include "cpu_attention/workers.hpp"

namespace sglab::cpu_attention {
namespace {

// Keys of a split where a request has few queries: a rule of the request alone, so that its bits do not
// depend on its batch.
constexpr std::int64_t kSplitKeys = 512;
// Bytes of a token's keys that a unit of few rows reads in a row, about.
constexpr std::int64_t kRowBytes = 4096;

std::vector<const Kernels*> available() {
  std::vector<const Kernels*> found;
#if defined(__x86_64__)
  const cpu::Isa isa = cpu::active_isa();
  if (isa >= cpu::Isa::kAvx512) {
    if (cpu::has_amx_bf16()) found.push_back(&kAmx);
    if (cpu::has_avx512_bf16()) found.push_back(&kAvx512Bf16);
  }
  if (isa >= cpu::Isa::kAvx512) found.push_back(&kAvx512);
  if (isa >= cpu::Isa::kAvx2) found.push_back(&kAvx2);
#endif
  found.push_back(&kBaseline);
  found.push_back(&kAmxModel);
  return found;
}

const std::vector<const Kernels*>& all_kernels() {
  static const std::vector<const Kernels*> all = available();
  return all;
}

const Kernels& kernels_named(const std::string& name) {
  if (name.empty()) return *all_kernels().front();
  for (const Kernels* each : all_kernels()) {
    if (name == each->name) return *each;
  }
  std::string known;
  for (const Kernels* each : all_kernels()) known += (known.empty() ? "" : ", ") + std::string(each->name);
  throw std::invalid_argument("isa must be one of " + known + " on this machine; got '" + name + "'");
}

struct FreeAligned {
  void operator()(void* memory) const { ::operator delete(memory, std::align_val_t{64}); }
};

// Scratch memory of this thread, kept from call to call.
void* scratch_of_thread(std::size_t bytes) {
  thread_local std::unique_ptr<void, FreeAligned> memory;
  thread_local std::size_t size = 0;
  if (size < bytes) {
    memory.reset();
    size = 0;
    memory.reset(::operator new(bytes, std::align_val_t{64}));
    size = bytes;
  }
  return memory.get();
}

std::int64_t keys_of(const Call& call, int request) {
  const auto length = [&](const Source& source) {
    return source.lengths == nullptr ? 0 : std::int64_t{source.lengths[request]};
  };
  return length(call.cached) + length(call.fresh);
}

// A request whose result is merged from splits.
struct Merging {
  int request, splits;
  std::int64_t partial_row;
};

struct Plan {
  std::vector<Unit> units;
  std::vector<Merging> merges;
  int most_splits = 1;
  std::int64_t partial_rows = 0;
};

std::int64_t split_keys(const Call& call, int request) {
  if (call.keys_per_split != nullptr) return std::max<std::int64_t>(call.keys_per_split[request], 1);
  const std::int64_t rows = std::int64_t{call.q_count[request]} * (call.heads / call.kv_heads);
  return rows <= kUnitRows ? kSplitKeys : std::numeric_limits<std::int64_t>::max();
}

int heads_together(const Call& call) {
  const std::int64_t bytes = std::int64_t{call.qk_dim} * element_size(call.cached.element);
  if (call.cached.k_head != bytes) return 1;  // they do not lie side by side
  return static_cast<int>(std::clamp<std::int64_t>(kRowBytes / bytes, 1, kMostHeads));
}

// A request's units of the heads that `unit` names.
void add_units(Plan& plan, Unit unit, int rows, int splits, std::int64_t per_split, bool merged) {
  const std::int64_t keys = unit.end_key;
  // The last rows see most under a causal mask: they go first, and no thread waits for them in the end.
  for (int first = (std::max(rows, 1) - 1) / kUnitRows * kUnitRows; first >= 0 && rows > 0;
       first -= kUnitRows) {
    unit.first_row = first;
    unit.rows = std::min(rows - first, kUnitRows);
    for (int split = 0; split < splits; ++split) {
      if (merged) {
        unit.split = split;
        unit.first_key = split * per_split;
        unit.end_key = std::min(keys, unit.first_key + per_split);
      }
      plan.units.push_back(unit);
    }
  }
}

Plan plan_of(const Call& call) {
  Plan plan;
  for (int request = 0; request < call.batch; ++request) {
    const std::int64_t keys = keys_of(call, request), per_split = split_keys(call, request);
    int splits = static_cast<int>(keys == 0 ? 0 : (keys - 1) / per_split + 1);
    const bool merged = splits > 1 || call.partial != nullptr;
    if (!merged) splits = 1;
    Unit unit{request, 0,    1,
              0,       0,    -1,
              0,       keys, call.partial == nullptr ? plan.partial_rows : call.q_start[request]};
    if (merged) {
      plan.merges.push_back({request, splits, unit.partial_row});
      plan.partial_rows += call.q_count[request];
      plan.most_splits = std::max(plan.most_splits, splits);
    }
    const int rows = call.q_count[request] * (call.heads / call.kv_heads);
    const int together = rows <= kFewRows ? heads_together(call) : 1;
    for (; unit.kv_head < call.kv_heads; unit.kv_head += together) {
      unit.kv_heads = std::min(together, call.kv_heads - unit.kv_head);
      add_units(plan, unit, rows, splits, per_split, merged);
    }
  }
  return plan;
}

// One row's result from its splits, in their order.
void merge(const Call& call, const Kernels& kernels, const Merging& from, int token, int head) {
  const std::int64_t row = from.partial_row + token, target = call.q_start[from.request] + token;
  const float* const lse = call.partial_lse + row * call.partial_lse_token + head * call.partial_lse_head;
  const float* const parts = call.partial + row * call.partial_token + head * call.partial_head;
  const float none = -std::numeric_limits<float>::infinity();
  float top = none;
  for (int s = 0; s < from.splits; ++s) top = std::max(top, lse[s * call.partial_lse_split]);
  std::vector<float> sum(static_cast<std::size_t>(call.v_dim), 0.0f);
  float total = 0;
  for (int s = 0; s < from.splits; ++s) {
    const float at = lse[s * call.partial_lse_split];
    if (at == none) continue;
    const float weight = std::exp(at - top);
    const float* const part = parts + s * call.partial_split;
    for (std::size_t d = 0; d < sum.size(); ++d) sum[d] += weight * part[d];
    total += weight;
  }
  float denominator = total;
  if (call.sinks != nullptr && top != none) denominator += std::exp(call.sinks[head] - top);
  float factor = call.out_scale == nullptr ? 1.0f : call.out_scale[head / (call.heads / call.kv_heads)];
  factor = total == 0 ? 0.0f : factor / denominator;
  for (float& value : sum) value *= factor;
  kernels.narrow(call.out_element, sum.data(), call.out + target * call.out_token + head * call.out_head,
                 call.v_dim);
  if (call.lse != nullptr) {
    call.lse[target * call.lse_token + head * call.lse_head] = total == 0 ? none : top + std::log(total);
  }
}

}  // namespace

std::vector<std::string> available_kernels() {
  std::vector<std::string> names;
  for (const Kernels* each : all_kernels()) names.emplace_back(each->name);
  return names;
}

void attend(const Call& given, const std::string& isa) {
  const Kernels& kernels = kernels_named(isa);
  Call call = given;
  const Plan plan = plan_of(call);
  std::vector<float> partial, partial_lse;
  if (call.partial == nullptr && !plan.merges.empty()) {
    call.partial_lse_split = 1, call.partial_lse_head = plan.most_splits;
    call.partial_lse_token = call.partial_lse_head * call.heads;
    call.partial_split = call.v_dim, call.partial_head = call.partial_split * plan.most_splits;
    call.partial_token = call.partial_head * call.heads;
    partial.resize(static_cast<std::size_t>(plan.partial_rows * call.partial_token));
    partial_lse.resize(static_cast<std::size_t>(plan.partial_rows * call.partial_lse_token));
    call.partial = partial.data();
    call.partial_lse = partial_lse.data();
  }
  const std::size_t bytes = kernels.scratch(call);
  share_out(static_cast<int>(plan.units.size()), call.threads, [&](int i) {
    kernels.run(call, plan.units[static_cast<std::size_t>(i)], scratch_of_thread(bytes));
  });
  share_out(static_cast<int>(plan.merges.size()), call.threads, [&](int i) {
    const Merging& from = plan.merges[static_cast<std::size_t>(i)];
    for (int t = 0; t < call.q_count[from.request]; ++t) {
      for (int head = 0; head < call.heads; ++head) merge(call, kernels, from, t, head);
    }
  });
}

}  // namespace sglab::cpu_attention
