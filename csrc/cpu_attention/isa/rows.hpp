// What a unit's rows see, where its keys lie, and how a row's result leaves.

#pragma once

#include "cpu_attention/isa/elements.hpp"

namespace sglab::cpu_attention {
namespace {

inline std::int64_t least(std::int64_t a, std::int64_t b) {
  return a < b ? a : b;
}
inline std::int64_t most(std::int64_t a, std::int64_t b) {
  return a > b ? a : b;
}
inline std::int64_t rounded_up(std::int64_t value, std::int64_t step) {
  return (value + step - 1) / step * step;
}
inline std::int64_t length_of(const Source& source, int request) {
  return source.lengths == nullptr ? 0 : source.lengths[request];
}

// Floats of one allocation, 64-byte aligned.
class Arena {
 public:
  explicit Arena(void* start) : start_(static_cast<char*>(start)) {}
  template <typename T>
  T* take(std::int64_t count) {
    T* const taken = reinterpret_cast<T*>(start_ + used_);
    used_ += rounded_up(count * static_cast<std::int64_t>(sizeof(T)), 64);
    return taken;
  }
  std::int64_t used() const { return used_; }

 private:
  char* start_;
  std::int64_t used_ = 0;
};

// Row r of a unit.
struct Row {
  int token;  // of the request
  int head;
};

struct Rows {
  const Call& call;
  const Unit& unit;
  int group;
  int kv_head;  // which of the unit's heads is meant
  std::int64_t cached, keys;
  std::int64_t first_key, end_key;  // what any row sees, within the unit's range
  std::int64_t seen_by_all, seen_by_all_end;
  std::int32_t low[kUnitRows], high[kUnitRows];  // row r sees keys low ... high - 1, the mask aside
  float first_factor[kUnitRows];                 // of a product of q and k: up to the cap, or all there is
  float second_factor[kUnitRows];                // of what the cap returns

  Row row(int r) const {
    const int flat = unit.first_row + r;
    return {flat / group, kv_head * group + flat % group};
  }

  Rows(const Call& c, const Unit& u) : call(c), unit(u), group(c.heads / c.kv_heads), kv_head(u.kv_head) {
    cached = length_of(c.cached, u.request);
    keys = cached + length_of(c.fresh, u.request);
    first_key = seen_by_all_end = keys;
    end_key = seen_by_all = 0;
    const std::int64_t queries = c.q_count[u.request];
    for (int r = 0; r < u.rows; ++r) {
      const std::int64_t p = keys - queries + row(r).token;
      std::int64_t from = most(0, p - c.left), to = least(keys, p + c.right + 1);
      if (c.chunk < (1 << 30)) {
        const std::int64_t chunk = (p >= 0 ? p : p - c.chunk + 1) / c.chunk * c.chunk;
        from = most(from, chunk);
        to = least(to, chunk + c.chunk);
      }
      to = most(to, from);
      low[r] = static_cast<std::int32_t>(from);
      high[r] = static_cast<std::int32_t>(to);
      if (from < to) {
        first_key = least(first_key, from);
        end_key = most(end_key, to);
      }
      seen_by_all = most(seen_by_all, from);
      seen_by_all_end = least(seen_by_all_end, to);
      const float temperature = temperature_at(p);
      first_factor[r] = c.scale * (c.cap > 0 ? 1.0f / c.cap : temperature * kLog2E);
      second_factor[r] = c.cap * temperature * kLog2E;
    }
    first_key = most(first_key, u.first_key);
    end_key = least(end_key, u.end_key);
  }

  float temperature_at(std::int64_t p) const {
    if (call.temperature_from <= 0) return 1.0f;
    if (call.first_position != nullptr) p += call.first_position[unit.request];
    if (p <= call.temperature_from) return 1.0f;
    return static_cast<float>(__builtin_log2(static_cast<double>(p)) /
                              __builtin_log2(static_cast<double>(call.temperature_from)));
  }

  bool all_visible(std::int64_t from, std::int64_t to) const {
    return call.mask == nullptr && from >= seen_by_all && to <= seen_by_all_end;
  }

  // Of key `key` + j for j < count, for row r; null: no mask.
  const std::uint8_t* mask(int r, std::int64_t key) const {
    if (call.mask == nullptr || (call.mask_spares_cached && key < cached)) return nullptr;
    const std::int64_t offset = call.mask_offset == nullptr ? 0 : call.mask_offset[unit.request];
    return call.mask + call.mask_start[unit.request] + row(r).token * (offset + keys) + offset + key;
  }

  const std::uint8_t* query(int r) const {
    const Row at = row(r);
    return call.q + (call.q_start[unit.request] + at.token) * call.q_token + at.head * call.q_head;
  }

  // Write row r: `sum` of exponentials 2^(score - top), and `values` [v_dim], not normalised yet.
  void finish(int r, float top, float sum, float* values) const {
    const Row at = row(r);
    const std::int64_t token = call.q_start[unit.request] + at.token;
    const bool final = unit.split < 0;
    float total = sum;
    if (final && call.sinks != nullptr && top != -kInfinity) {
      total += exp2(call.sinks[at.head] * kLog2E - top);
    }
    float share = sum == 0.0f ? 0.0f : 1.0f / total;
    if (final && call.out_scale != nullptr) share *= call.out_scale[kv_head];
    const float lse = sum == 0.0f ? -kInfinity : top * kLn2 + __builtin_logf(sum);
    for (int d = 0; d < call.v_dim; ++d) values[d] = sum == 0.0f ? 0.0f : values[d] * share;
    if (!final) {
      const std::int64_t place = unit.partial_row + at.token;
      float* const target = call.partial + place * call.partial_token + at.head * call.partial_head +
                            unit.split * call.partial_split;
      std::memcpy(target, values, call.v_dim * 4);
      call.partial_lse[place * call.partial_lse_token + at.head * call.partial_lse_head +
                       unit.split * call.partial_lse_split] = lse;
      return;
    }
    narrow(call.out_element, values, call.out + token * call.out_token + at.head * call.out_head, call.v_dim);
    if (call.lse != nullptr) call.lse[token * call.lse_token + at.head * call.lse_head] = lse;
  }
};

// What a KV head's products (the queries' factor included) and its values are multiplied by.
struct Factors {
  float k, v;

  Factors(const Rows& rows, const Source& source) {
    const int request = rows.unit.request;
    const std::int64_t scale = request * source.scale_stride + rows.kv_head;
    k = source.k_scale == nullptr ? 1.0f : source.k_scale[scale];
    if (rows.call.q_scale != nullptr) k *= rows.call.q_scale[request * rows.call.kv_heads + rows.kv_head];
    v = source.v_scale == nullptr ? 1.0f : source.v_scale[scale];
  }
};

// Up to kBlockKeys keys in a row that lie in one source.
struct Block {
  std::int64_t first = 0;
  int count = 0;
  const Source* source = nullptr;
  bool values_in_keys = false;  // a value is the front of its key, as in MLA
  // The last ones are repeated, so that products may take a few more.
  const std::uint8_t* k[kBlockKeys + 8];
  const std::uint8_t* v[kBlockKeys + 8];

  void locate(const Rows& rows, std::int64_t key, int limit = kBlockKeys) {
    const Call& call = rows.call;
    const int request = rows.unit.request;
    const bool in_cache = key < rows.cached;
    source = in_cache ? &call.cached : &call.fresh;
    first = key;
    count =
        static_cast<int>(least(limit, (in_cache ? least(rows.cached, rows.end_key) : rows.end_key) - key));
    values_in_keys = source->k == source->v && source->k_row == source->v_row &&
                     source->k_page == source->v_page && source->k_head == source->v_head &&
                     call.v_dim <= call.qk_dim;
    const std::uint8_t* const k_head = source->k + rows.kv_head * source->k_head;
    const std::uint8_t* const v_head = source->v + rows.kv_head * source->v_head;
    std::int64_t n = key - (in_cache ? 0 : rows.cached);
    if (source->first != nullptr) n += source->first[request];
    if (source->table == nullptr) {
      for (int j = 0; j < count; ++j, ++n) {
        k[j] = k_head + n * source->k_row;
        v[j] = v_head + n * source->v_row;
      }
    } else {
      const std::int64_t row = source->table_rows == nullptr ? request : source->table_rows[request];
      std::int64_t entry =
          source->table_start == nullptr ? row * source->table_stride : source->table_start[request];
      entry += n / source->page_size;
      std::int64_t offset = n % source->page_size;
      for (int j = 0; j < count; ++j) {
        const std::int64_t page = source->wide_table ? static_cast<const std::int64_t*>(source->table)[entry]
                                                     : static_cast<const std::int32_t*>(source->table)[entry];
        k[j] = k_head + page * source->k_page + offset * source->k_row;
        v[j] = v_head + page * source->v_page + offset * source->v_row;
        if (++offset == source->page_size) offset = 0, ++entry;
      }
    }
    for (int j = count; j < count + 8; ++j) k[j] = k[count - 1], v[j] = v[count - 1];
  }

  // Make the rows point to floats: `keys` [kBlockKeys][qk_dim] and `values` [kBlockKeys][v_dim] have room.
  void widen_rows(const Call& call, float* keys, float* values) {
    if (source->element == Element::kF32) return;
    for (int j = 0; j < count; ++j) {
      float* const k_to = keys + j * call.qk_dim;
      float* const v_to = values_in_keys ? k_to : values + j * call.v_dim;
      widen(source->element, k[j], k_to, call.qk_dim);
      if (!values_in_keys) widen(source->element, v[j], v_to, call.v_dim);
      k[j] = reinterpret_cast<const std::uint8_t*>(k_to);
      v[j] = reinterpret_cast<const std::uint8_t*>(v_to);
    }
    for (int j = count; j < count + 8; ++j) k[j] = k[count - 1], v[j] = v[count - 1];
  }
};

// exp2's argument from products of q and k: factors, and the cap if there is one.
inline Vec scored(Vec product, Vec first, Vec second, bool capped) {
  return capped ? tanh(product * first) * second : product * first;
}

inline bool all_bf16(const Call& call) {
  const auto fits = [](const Source& source) {
    return source.lengths == nullptr || source.element == Element::kBf16;
  };
  return call.q_element == Element::kBf16 && fits(call.cached) && fits(call.fresh) && call.qk_dim % 2 == 0;
}

}  // namespace
}  // namespace sglab::cpu_attention
