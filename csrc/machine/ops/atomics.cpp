#define SGLAB_ISA generic
#include <bit>

#include "isa/aperture.hpp"
#include "machine/engine/cluster.hpp"
#include "machine/engine/launch.hpp"
#include "machine/memory/access.hpp"
#include "machine/ops/floating.hpp"
#include "machine/ops/register.hpp"
#include "machine/program/builder.hpp"

// atom and red: lanes take effect one after the other, lowest first.
namespace sglab::emu {
namespace {

using namespace generic;
using u16 = std::uint16_t;
using u32 = std::uint32_t;
using u64 = std::uint64_t;
struct alignas(16) u128 {
  u64 low, high;
  bool operator==(const u128&) const = default;
};

enum Op { kExch, kCas, kAddOp, kInc, kDec, kMin, kMax, kAnd, kOr, kXor };

template <class T>
T floating(Op op, bool ftz, T x, T y) {
  if constexpr (sizeof(T) == 4) {
    if (ftz && op == kAddOp) return flush(canonical(flush(x) + flush(y)));
  }
  switch (op) {
    case kMin:
      return x < y || y != y ? x : y;
    case kMax:
      return x > y || y != y ? x : y;
    default:
      if constexpr (sizeof(T) == 8) return propagated(x + y, x, y);
      return canonical(x + y);
  }
}

float half_result(Op op, float x, float y) {
  return op == kMin ? extreme<false>(x, y) : op == kMax ? extreme<true>(x, y) : x + y;
}

u16 f16_result(Op op, u16 x, u16 y) {
  return f16_from_f32(half_result(op, f32_from_f16(x), f32_from_f16(y)));
}
u16 bf16_result(Op op, u16 x, u16 y) {
  return bf16_from_f32(half_result(op, f32_from_bf16(x), f32_from_bf16(y)));
}

template <class U, class S>
U integral(Op op, bool is_signed, U x, U y) {
  switch (op) {
    case kExch:
      return y;
    case kAddOp:
      return static_cast<U>(x + y);
    case kInc:
      return x >= y ? 0 : static_cast<U>(x + 1);
    case kDec:
      return x == 0 || x > y ? y : static_cast<U>(x - 1);
    case kMin:
      return is_signed ? (static_cast<S>(x) < static_cast<S>(y) ? x : y) : (x < y ? x : y);
    case kMax:
      return is_signed ? (static_cast<S>(x) > static_cast<S>(y) ? x : y) : (x > y ? x : y);
    case kAnd:
      return x & y;
    case kOr:
      return x | y;
    default:
      return x ^ y;
  }
}

u16 combine(Op op, Type type, bool, u16 x, u16 y) {
  if (type == Type::kF16) return f16_result(op, x, y);
  if (type == Type::kBf16) return bf16_result(op, x, y);
  return integral<u16, std::int16_t>(op, false, x, y);
}

u32 combine(Op op, Type type, bool ftz, u32 x, u32 y) {
  switch (type) {
    case Type::kF32:
      return op == kExch ? y : bits_of(floating(op, ftz, float_of(x), float_of(y)));
    case Type::kF16x2:
      return f16_result(op, static_cast<u16>(x), static_cast<u16>(y)) |
             static_cast<u32>(f16_result(op, static_cast<u16>(x >> 16), static_cast<u16>(y >> 16))) << 16;
    case Type::kBf16x2:
      return bf16_result(op, static_cast<u16>(x), static_cast<u16>(y)) |
             static_cast<u32>(bf16_result(op, static_cast<u16>(x >> 16), static_cast<u16>(y >> 16))) << 16;
    default:
      return integral<u32, std::int32_t>(op, type == Type::kS32, x, y);
  }
}

u64 combine(Op op, Type type, bool ftz, u64 x, u64 y) {
  if (type == Type::kF64) return bits_of(floating(op, ftz, double_of(x), double_of(y)));
  return integral<u64, std::int64_t>(op, type == Type::kS64, x, y);
}

// Returns what was there. Compare-and-swap only writes when it matches, so that it never undoes a plain
// store.
template <class T>
T update(bool concurrent, std::uint8_t* bytes, Op op, Type type, bool ftz, T operand, T desired) {
  T* const p = reinterpret_cast<T*>(bytes);
  if (!concurrent) {
    const T old = *p;
    if (op == kCas) {
      if (old == operand) *p = desired;
    } else {
      *p = combine(op, type, ftz, old, operand);
    }
    return old;
  }
  T old = __atomic_load_n(p, __ATOMIC_SEQ_CST);
  for (;;) {
    if (op == kCas && old != operand) return old;
    const T next = op == kCas ? desired : combine(op, type, ftz, old, operand);
    if (__atomic_compare_exchange_n(p, &old, next, false, __ATOMIC_SEQ_CST, __ATOMIC_SEQ_CST)) return old;
  }
}

u128 update128(Launch& launch, std::uint8_t* bytes, Op op, u128 operand, u128 desired) {
  const std::lock_guard lock(launch.mutex);
  u128* const p = reinterpret_cast<u128*>(bytes);
  const u128 old = *p;
  if (op == kExch)
    *p = operand;
  else if (old == operand)
    *p = desired;
  return old;
}

// Inst::target: operation, type, space, how many elements, whether the old value is wanted.
struct Kind {
  u32 bits;
  static Kind pack(Op op, Type type, Space space, unsigned count, bool result) {
    return {static_cast<u32>(op) | static_cast<u32>(type) << 4 | static_cast<u32>(space) << 12 | count << 16 |
            (result ? 1u : 0u) << 24};
  }
  Op op() const { return static_cast<Op>(bits & 0xf); }
  Type type() const { return static_cast<Type>(bits >> 4 & 0xff); }
  Space space() const { return static_cast<Space>(bits >> 12 & 0xf); }
  unsigned count() const { return bits >> 16 & 0xff; }
  bool result() const { return bits >> 24 & 1; }
};

// Extra::refs: results (if wanted), then operands, then the value to swap in.
template <class T>
const Inst* atomic(Warp& w, const Inst* i) {
  const Kind k{i->target};
  u64 addresses[32];
  Places places;
  lane_addresses(w, i, addresses);
  const unsigned bytes = sizeof(T) * k.count();
  const auto find = k.space() == Space::kGlobal   ? global_places
                    : k.space() == Space::kShared ? shared_places
                                                  : generic_places;
  find(w, i, addresses, w.mask, bytes, bytes, places);
  const Ref* const refs = i->extra->refs.data();
  const unsigned first = k.result() ? k.count() : 0;
  for (u32 m = w.mask; m != 0; m &= m - 1) {
    const int l = std::countr_zero(m);
    // f32 additions in global memory flush subnormals, those in shared memory do not.
    const bool ftz = k.space() == Space::kGlobal ||
                     (k.space() == Space::kGeneric && (addresses[l] & kApertureMask) != kSharedAperture);
    for (unsigned e = 0; e < k.count(); ++e) {
      const T operand = in<T>(w, refs[first + e])[l];
      const T desired = k.op() == kCas ? in<T>(w, refs[first + 1])[l] : T{};
      T old;
      if constexpr (sizeof(T) == 16)
        old = update128(*w.launch, places.at[l], k.op(), operand, desired);
      else
        old = update<T>(w.launch->concurrent, places.at[l] + e * sizeof(T), k.op(), k.type(), ftz, operand,
                        desired);
      if (k.result()) out<T>(w, refs[e])[l] = old;
    }
  }
  ++w.cluster->events;
  return i + 1;
}

Op op_of(const Builder& b) {
  constexpr std::pair<const char*, Op> kOps[] = {{"exch", kExch}, {"cas", kCas}, {"add", kAddOp},
                                                 {"inc", kInc},   {"dec", kDec}, {"min", kMin},
                                                 {"max", kMax},   {"and", kAnd}, {"or", kOr}};
  for (const auto& [name, op] : kOps) {
    if (b.has(name)) return op;
  }
  return kXor;
}

void build(Builder& b) {
  const bool result = b.form.mnemonic.substr(0, 4) == "atom";
  const Op op = op_of(b);
  const Type type = b.type();
  const char letter = letter_of(type);
  const char source = type == Type::kF32 ? 'f' : type == Type::kF64 ? 'd' : letter;
  const unsigned hint = b.has("L2::cache_hint") ? 1 : 0;
  unsigned at = 0;
  const Operand* const to = result ? &b.operand(at++) : nullptr;
  const Operand& address = b.operand(at++);
  const Operand& value = b.operand(at++);
  const Operand* const desired = op == kCas ? &b.operand(at++) : nullptr;
  b.expect_count(at + hint, at + hint);
  const Space named = b.address(address);
  const Space space =
      b.has("global") || named == Space::kGlobal ? Space::kGlobal
      : b.has("shared") || b.has("shared::cta") || b.has("shared::cluster") || named == Space::kShared
          ? Space::kShared
          : Space::kGeneric;
  const unsigned count = value.kind == OperandKind::kVector ? value.count : 1;
  const unsigned wanted = b.has("v2") ? 2 : b.has("v4") ? 4 : b.has("v8") ? 8 : 1;
  if (count != wanted) b.refuse("the vector has the wrong number of elements");
  if (to != nullptr && b.def_vector(*to, letter) != count) b.refuse("the vectors differ in length");
  b.use_vector(value, source);
  if (desired != nullptr) b.use_extra(*desired, source);
  b.inst.target = Kind::pack(op, type, space, count, result).bits;
  const bool is_int = type == Type::kU32 || type == Type::kS32;
  b.effects.counts = op == kAddOp && is_int && value.kind == OperandKind::kInteger && b.integer(value) == 1;
  b.effects.space = space;
  switch (letter) {
    case 'h':
      b.inst.body = atomic<u16>;
      break;
    case 'w':
      b.inst.body = atomic<u32>;
      break;
    case 'l':
      b.inst.body = atomic<u64>;
      break;
    default:
      b.inst.body = atomic<u128>;
      break;
  }
}

#define SGLAB_ORDER "[.relaxed|.acquire|.release|.acq_rel][.cta|.cluster|.gpu|.sys]"
#define SGLAB_SPACE "[.global|.shared|.shared::cta|.shared::cluster]"

}  // namespace

void register_atomics(Table& t) {
  t.family("Atomics and reductions", InstClass::kAtomic);
  t.row("atom" SGLAB_ORDER SGLAB_SPACE ".{and|or|xor}[.L2::cache_hint].{b32|b64}", does::updates(), build);
  t.row("atom" SGLAB_ORDER SGLAB_SPACE ".exch[.L2::cache_hint].{b32|b64|b128}", does::updates(), build);
  t.row("atom" SGLAB_ORDER SGLAB_SPACE ".cas[.L2::cache_hint].{b16|b32|b64|b128}", does::updates(), build);
  t.row("atom" SGLAB_ORDER SGLAB_SPACE ".add[.L2::cache_hint].{u32|s32|u64|s64|f32|f64}", does::updates(),
        build);
  t.row("atom" SGLAB_ORDER SGLAB_SPACE ".{inc|dec}[.L2::cache_hint].u32", does::updates(), build);
  t.row("atom" SGLAB_ORDER SGLAB_SPACE ".{min|max}[.L2::cache_hint].{u32|s32|u64|s64}", does::updates(),
        build);
  t.row("atom" SGLAB_ORDER SGLAB_SPACE ".add.noftz[.L2::cache_hint].{f16|f16x2|bf16|bf16x2}", does::updates(),
        build);
  t.row("atom" SGLAB_ORDER
        "[.global].{add|min|max}[.noftz][.L2::cache_hint].{v2|v4|v8}.{f16|bf16|f16x2|bf16x2|f32}",
        does::updates(), build);
  t.row("red" SGLAB_ORDER SGLAB_SPACE ".{and|or|xor}[.L2::cache_hint].{b32|b64}", does::reduces(), build);
  t.row("red" SGLAB_ORDER SGLAB_SPACE ".add[.L2::cache_hint].{u32|s32|u64|s64|f32|f64}", does::reduces(),
        build);
  t.row("red" SGLAB_ORDER SGLAB_SPACE ".{inc|dec}[.L2::cache_hint].u32", does::reduces(), build);
  t.row("red" SGLAB_ORDER SGLAB_SPACE ".{min|max}[.L2::cache_hint].{u32|s32|u64|s64}", does::reduces(),
        build);
  t.row("red" SGLAB_ORDER SGLAB_SPACE ".add.noftz[.L2::cache_hint].{f16|f16x2|bf16|bf16x2}", does::reduces(),
        build);
  t.row("red" SGLAB_ORDER
        "[.global].{add|min|max}[.noftz][.L2::cache_hint].{v2|v4|v8}.{f16|bf16|f16x2|bf16x2|f32}",
        does::reduces(), build);
  // Asynchronous, but nothing tells when they are done.
  for (const char* tail :
       {"add.{u32|s32|u64|s64}", "{min|max}.{u32|s32}", "{inc|dec}.u32", "{and|or|xor}.b32"})
    t.row((std::string("red.async[.mmio].release.{gpu|sys}[.global].") + tail).c_str(), does::reduces(),
          build);
  // Of a multicast object with one device.
  for (const char* tail :
       {"add.{u32|s32|u64|f32|f64|f16x2|bf16x2}", "{min|max}.{u32|s32|u64|s64}", "{and|or|xor}.{b32|b64}",
        "{add|min|max}.{v2|v4}.{f16|bf16|f16x2|bf16x2}", "{add|min|max}.v8.{f16|bf16}", "add.{v2|v4}.f32"}) {
    t.row((std::string("multimem.red[.global].") + tail).c_str(), does::reduces(), build);
    t.row((std::string("multimem.red.{relaxed|release}.{cta|cluster|gpu|sys}[.global].") + tail).c_str(),
          does::reduces(), build);
  }
}

}  // namespace sglab::emu
