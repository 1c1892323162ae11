#include "machine/ops/floating.hpp"
#include "machine/ops/register.hpp"

// What looks at the bits of f32 and f64 or changes their sign: abs, neg, copysign, testp.
namespace sglab::emu::SGLAB_ISA {
namespace {

using u32 = std::uint32_t;
using u64 = std::uint64_t;

constexpr Effects kAlu = does::computes(Cost::kAlu);

const Inst* absolute(Warp& w, const Inst* i) {
  u32* const d = out<u32>(w, i->d);
  const u32* const a = in<u32>(w, i->a);
  const bool ftz = i->mode & kFtz;
  each(d, [=](int l) { return (ftz ? bits_of(flush(float_of(a[l]))) : a[l]) & 0x7fffffffu; });
  return i + 1;
}

const Inst* negated(Warp& w, const Inst* i) {
  u32* const d = out<u32>(w, i->d);
  const u32* const a = in<u32>(w, i->a);
  const bool ftz = i->mode & kFtz;
  each(d, [=](int l) { return (ftz ? bits_of(flush(float_of(a[l]))) : a[l]) ^ 0x80000000u; });
  return i + 1;
}

enum Property { kFinite, kInfinite, kNumber, kNotANumber, kNormal, kSubnormal };

template <class T, class U, U Infinity, U Smallest>
const Inst* test_property(Warp& w, const Inst* i) {
  const U* const a = in<U>(w, i->a);
  const auto property = static_cast<Property>(i->imm);
  w.predicates[i->d] = mask_of([=](int l) {
    const U m = a[l] & (~U{0} >> 1);
    switch (property) {
      case kFinite:
        return m < Infinity;
      case kInfinite:
        return m == Infinity;
      case kNumber:
        return m <= Infinity;
      case kNotANumber:
        return m > Infinity;
      case kNormal:  // zero counts as normal (PTX ISA, testp)
        return (m == 0 || m >= Smallest) && m < Infinity;
      case kSubnormal:
        break;
    }
    return m < Smallest && m != 0;
  });
  return i + 1;
}

void register_properties(Table& t) {
  static constexpr const char* kNames[] = {"testp.finite.$",     "testp.infinite.$", "testp.number.$",
                                           "testp.notanumber.$", "testp.normal.$",   "testp.subnormal.$"};
  t.type("f32", 'f');
  for (int p = 0; p < 6; ++p)
    t.alu(kNames[p], "pn", kAlu, test_property<float, u32, 0x7f800000u, 0x00800000u>, p);
  t.type("f64", 'd');
  for (int p = 0; p < 6; ++p) {
    t.alu(kNames[p], "pn", kAlu, test_property<double, u64, 0x7ff0000000000000u, 0x0010000000000000u>, p);
  }
}

}  // namespace

void register_float_bits(Table& t) {
  t.alu("abs[.ftz].f32", "wf", does::computes(Cost::kFree), absolute);
  t.alu("neg[.ftz].f32", "wf", does::computes(Cost::kFree), negated);
  t.alu("abs.f64", "ld", does::computes(Cost::kFree),
        unary<[](u64 a) { return a & 0x7fffffffffffffffull; }, u64, u64>);
  t.alu("neg.f64", "ld", does::computes(Cost::kFree),
        unary<[](u64 a) { return a ^ 0x8000000000000000ull; }, u64, u64>);
  t.alu("copysign.f32", "wff", kAlu,
        binary<[](u32 a, u32 b) { return (a & 0x80000000u) | (b & 0x7fffffffu); }, u32, u32>);
  t.alu("copysign.f64", "ldd", kAlu,
        binary<[](u64 a, u64 b) { return (a & 0x8000000000000000ull) | (b & 0x7fffffffffffffffull); }, u64,
               u64>);
  register_properties(t);
}

}  // namespace sglab::emu::SGLAB_ISA
