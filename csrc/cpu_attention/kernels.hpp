#pragma once

#include <cstddef>
#include <cstdint>

#include "cpu_attention/call.hpp"

namespace sglab::cpu_attention {

// One piece of work: rows of one KV head and request over a range of its keys; where rows are few, of several
// heads that lie side by side, so that memory is read in long pieces. A row is a query of one head: row r is
// query r / group of head kv_head * group + r % group.
struct Unit {
  int request = 0, kv_head = 0, kv_heads = 1;
  int first_row = 0, rows = 0;
  int split = -1;  // whose partial result this is; -1: the result is final
  std::int64_t first_key = 0, end_key = 0;
  std::int64_t partial_row = 0;  // of the request's first query in call.partial
};

constexpr int kUnitRows = 64;    // most rows of a unit
constexpr int kFewRows = 8;      // most rows of a unit whose vectors hold dims
constexpr int kMostHeads = 8;    // most heads of such a unit
constexpr int kBlockKeys = 128;  // keys whose scores exist at once

// What the instruction sets differ in. Every one runs units alone and in a fixed order of operations, so a
// unit's bits do not depend on who runs it.
struct Kernels {
  const char* name;
  // Bytes of scratch memory that `run` wants for a call, 64-byte aligned.
  std::size_t (*scratch)(const Call& call);
  void (*run)(const Call& call, const Unit& unit, void* scratch);
  void (*narrow)(Element element, const float* source, std::uint8_t* target, int count);
};

extern const Kernels kBaseline;
extern const Kernels kAvx2;
extern const Kernels kAvx512;
extern const Kernels kAvx512Bf16;
extern const Kernels kAmx;
extern const Kernels kAmxModel;

}  // namespace sglab::cpu_attention
