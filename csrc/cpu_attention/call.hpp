#pragma once

#include <cstdint>

namespace sglab::cpu_attention {

enum class Element : int { kF32, kF16, kBf16, kE4m3, kE5m2 };

inline int element_size(Element element) {
  return element == Element::kF32 ? 4 : element == Element::kF16 || element == Element::kBf16 ? 2 : 1;
}

// Keys and values of every request in one place: a pool that is addressed through a table, or rows after one
// another. Key j of request i is number n = j + first[i]; with a table it lies in row n % page_size of page
// table[...][n / page_size], else in row n of page 0. Strides are in bytes.
struct Source {
  const std::uint8_t* k = nullptr;
  const std::uint8_t* v = nullptr;
  std::int64_t k_page = 0, k_row = 0, k_head = 0;
  std::int64_t v_page = 0, v_row = 0, v_head = 0;
  Element element = Element::kF32;
  const std::int32_t* lengths = nullptr;  // keys of each request; null: none has any here
  const std::int32_t* first = nullptr;    // null: 0
  const void* table = nullptr;
  bool wide_table = false;                    // int64 entries, else int32
  std::int64_t table_stride = 0;              // entries between the rows of two requests
  const std::int64_t* table_rows = nullptr;   // which row is request i's; null: i
  const std::int32_t* table_start = nullptr;  // flat tables: where request i's entries start; null: rows
  std::int64_t page_size = 1;
  // Factors [request][kv head] (a request stride of 0 serves all alike) of scores and of values; null: 1.
  const float* k_scale = nullptr;
  const float* v_scale = nullptr;
  std::int64_t scale_stride = 0;
};

// Attention of a ragged batch. Request i's queries are rows q_start[i] ... + q_count[i]; its keys are those
// of `cached` and, after them, of `fresh`. Query t of n stands at position p = keys - n + t and sees keys
// p - left ... p + right of its own chunk; a mask, where there is one, hides more of them.
struct Call {
  const std::uint8_t* q = nullptr;
  std::int64_t q_token = 0, q_head = 0;  // bytes
  Element q_element = Element::kF32;
  std::uint8_t* out = nullptr;
  std::int64_t out_token = 0, out_head = 0;  // bytes
  Element out_element = Element::kF32;
  float* lse = nullptr;  // natural, over keys alone; null: not wanted
  std::int64_t lse_token = 0, lse_head = 0;
  int batch = 0, heads = 0, kv_heads = 0, qk_dim = 0, v_dim = 0;
  const std::int32_t* q_start = nullptr;
  const std::int32_t* q_count = nullptr;
  Source cached, fresh;
  std::int64_t left = 1 << 30, right = 1 << 30, chunk = 1 << 30;
  // Bytes [query][mask_offset[i] + keys] from mask_start[i] on; 0 hides a key.
  const std::uint8_t* mask = nullptr;
  const std::int64_t* mask_start = nullptr;
  const std::int64_t* mask_offset = nullptr;
  bool mask_spares_cached = false;
  float scale = 1, cap = 0;  // cap 0: none
  int temperature_from = 0;  // positions beyond it have temperature log2(p) / log2(it); 0: none
  const std::int64_t* first_position = nullptr;  // added to positions for the temperature; null: 0
  const float* q_scale = nullptr;                // factors of scores [request][kv head]; null: 1
  const float* sinks = nullptr;                  // [head]
  const float* out_scale = nullptr;              // [kv head] factors of the result; null: 1
  // Keys of a request's splits; null: long requests of few queries are split by a rule of their length.
  const std::int32_t* keys_per_split = nullptr;
  // Where every split's normalised result and natural LSE go, by the query's row in q; null: not
  // wanted. They come without the sinks and without out_scale.
  float* partial = nullptr;
  float* partial_lse = nullptr;
  std::int64_t partial_token = 0, partial_head = 0, partial_split = 0;
  std::int64_t partial_lse_token = 0, partial_lse_head = 0, partial_lse_split = 0;
  int threads = 1;
};

}  // namespace sglab::cpu_attention
