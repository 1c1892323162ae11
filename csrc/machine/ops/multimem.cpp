#include "machine/ops/memory_builders.hpp"
#include "machine/ops/register.hpp"

// multimem: the address is that of a multicast object with one device, so what is loaded is one replica, and
// what is stored or reduced changes one.
namespace sglab::emu::SGLAB_ISA {

void register_multimem(Table& t) {
  t.family("Loads and stores: multimem", InstClass::kGlobal);
  static constexpr const char* kLoads[] = {
      "add.{u32|s32|u64|f32|f64}",
      "{min|max}.{u32|s32|u64|s64}",
      "{and|or|xor}.{b32|b64}",
      "add.{v2|v4}.f32",
      "add[.acc::f32].{f16x2|bf16x2}",
      "add[.acc::f32].{v2|v4}.{f16|bf16|f16x2|bf16x2}",
      "add[.acc::f32].v8.{f16|bf16}",
      "add[.acc::f16].{e4m3x4|e5m2x4}",
      "add[.acc::f16].{v2|v4}.{e4m3x2|e5m2x2|e4m3x4|e5m2x4}",
      "add[.acc::f16].v8.{e4m3|e5m2|e4m3x2|e5m2x2}",
      "add[.acc::f16].v4.{e4m3|e5m2}",
      "{min|max}.{f16x2|bf16x2|e4m3x4|e5m2x4}",
      "{min|max}.{v2|v4}.{f16|bf16|f16x2|bf16x2|e4m3x2|e5m2x2|e4m3x4|e5m2x4}",
      "{min|max}.v8.{f16|bf16|e4m3|e5m2|e4m3x2|e5m2x2}",
      "{min|max}.v4.{e4m3|e5m2}",
  };
  static constexpr const char* kStores[] = {
      "{u32|s32|u64|s64|b32|b64|f32|f64|f16x2|bf16x2|e4m3x4|e5m2x4}",
      "{v2|v4}.{f32|f16|bf16|f16x2|bf16x2|e4m3x2|e5m2x2|e4m3x4|e5m2x4}",
      "v8.{f16|bf16|e4m3|e5m2|e4m3x2|e5m2x2}",
      "v4.{e4m3|e5m2}",
  };
  char pattern[200];
  const auto rows = [&](const char* opcode, const char* order, const char* tail, Effects does, Build build) {
    __builtin_snprintf(pattern, sizeof pattern, "%s[.weak][.global].%s", opcode, tail);
    t.row(pattern, does, build);
    __builtin_snprintf(pattern, sizeof pattern, "%s.{relaxed|%s}.{cta|cluster|gpu|sys}[.global].%s", opcode,
                       order, tail);
    t.row(pattern, does, build);
  };
  for (const char* tail : kLoads) rows("multimem.ld_reduce", "acquire", tail, does::loads(), build_load);
  for (const char* tail : kStores) rows("multimem.st", "release", tail, does::stores(), build_store);
}

}  // namespace sglab::emu::SGLAB_ISA
