#pragma once

#include <cstdint>

namespace sglab::emu {

struct Warp;
struct Inst;

// Executes one decoded instruction for the lanes in Warp::mask and returns the next one, or nullptr when the
// warp's current group of lanes stops here (blocked, exited, or set aside); see engine/warp.hpp.
using Handler = const Inst* (*)(Warp&, const Inst*);

// Where an operand is: a byte offset into the warp's registers, or with kConstant into the program's
// constants. Predicates: an index into Warp::preds, with kNegated for !p.
using Ref = std::uint32_t;
constexpr Ref kConstantRef = 0x80000000u;
constexpr Ref kNegatedRef = 0x80000000u;

// Predicates 0 and 1 are the constants false and true.
constexpr Ref kFalseRef = 0;
constexpr Ref kTrueRef = 1;

enum class InstClass : std::uint8_t {
  kInteger,
  kFloat,
  kHalf,
  kConvert,
  kMove,
  kCompare,
  kControl,
  kGlobal,
  kShared,
  kLocal,
  kParam,
  kAtomic,
  kWarp,
  kBarrier,
  kAsync,
  kMatrix,
  kTensorMemory,
  kOther,
  kCount,
};
const char* class_name(InstClass value);

// How a memory instruction forms its address (Inst::mode): Inst::imm plus …
enum class AddressMode : std::uint8_t {
  kAbsolute,  // nothing
  kOwnCta,    // the CTA's shared-memory window
  kReg32,     // register Inst::a
  kReg64,
};

struct Extra;  // isa/extra.hpp

struct alignas(64) Inst {
  Handler fn[2];  // [0]: all live lanes run together; [1]: the warp has diverged
  Handler body;   // what a guarded or diverged instruction does once its lanes are known
  Ref d, a, b, c;
  std::int64_t imm;  // address offset, or an instruction's own use
  const Extra* extra;
  std::uint32_t target;  // branch target, or an instruction's own use
  std::uint16_t guard;   // predicate << 1 | negated; kNoGuard
  std::uint8_t mode;     // see FpMode; or an instruction's own use
  InstClass kind;
};
static_assert(sizeof(Inst) == 64);

constexpr std::uint16_t kNoGuard = 0xffff;

}  // namespace sglab::emu
