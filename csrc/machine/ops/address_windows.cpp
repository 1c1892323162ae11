#include "isa/aperture.hpp"
#include "machine/engine/cluster.hpp"
#include "machine/engine/registers.hpp"
#include "machine/ops/register.hpp"
#include "machine/program/builder.hpp"
#include "machine/program/image.hpp"

// Address windows: between generic addresses and those of a space, or of another CTA.
namespace sglab::emu {
namespace {

std::uint64_t aperture_of(const Builder& b) {
  if (b.has("shared") || b.has("shared::cta") || b.has("shared::cluster")) return kSharedAperture;
  if (b.has("local")) return kLocalAperture;
  if (b.has("param") || b.has("param::entry")) return kParamAperture;
  return 0;
}

const Inst* cvta(Warp& w, const Inst* i) {
  const auto* const a = read_register<std::uint64_t>(w, i->a);
  auto* const d = write_register<std::uint64_t>(w, i->d);
  const auto base = static_cast<std::uint64_t>(i->imm);
  for (int l = 0; l < 32; ++l) d[l] = a[l] | base;
  return i + 1;
}

const Inst* cvta_to(Warp& w, const Inst* i) {
  const auto* const a = read_register<std::uint64_t>(w, i->a);
  auto* const d = write_register<std::uint64_t>(w, i->d);
  const auto base = static_cast<std::uint64_t>(i->imm);
  for (int l = 0; l < 32; ++l) d[l] = a[l] & ~base;
  return i + 1;
}

// cvta{.to}.space.u64 d, a; where a may be a variable.
void build_cvta(Builder& b) {
  b.expect_count(2, 2);
  b.use(Field::kA, b.operand(1), 'l');
  b.def(Field::kD, b.operand(0), 'l');
  b.inst.imm = static_cast<std::int64_t>(aperture_of(b));
  b.lanewise('l', b.has("to") ? cvta_to : cvta);
}

// Constant memory has no window of its own: it is the part of the module's image that is only read.
bool is_constant(const Warp& w, std::uint64_t address) {
  const Image& image = *w.program->image;
  return address >= image.constants_begin() && address < image.constants_end();
}

const Inst* isspacep(Warp& w, const Inst* i) {
  const auto* const a = read_register<std::uint64_t>(w, i->a);
  const auto base = static_cast<std::uint64_t>(i->imm);
  const auto wanted = static_cast<Space>(i->mode);
  std::uint32_t result = 0;
  for (int l = 0; l < 32; ++l) {
    bool inside = (a[l] & kApertureMask) == base;
    if (wanted == Space::kShared)
      inside = inside && without_aperture(a[l]) >> kSharedRankShift == w.cta->rank;
    if (base == 0) inside = inside && is_constant(w, a[l]) == (wanted == Space::kConst);
    result |= static_cast<std::uint32_t>(inside) << l;
  }
  w.predicates[i->d] = result;
  return i + 1;
}

void build_isspacep(Builder& b) {
  b.expect_count(2, 2);
  b.use(Field::kA, b.operand(1), 'l');
  b.def(Field::kD, b.operand(0), 'p');
  b.inst.target = 2;
  const bool own = b.has("shared") || b.has("shared::cta");
  b.inst.imm = static_cast<std::int64_t>(aperture_of(b));
  b.inst.mode = static_cast<std::uint8_t>(own              ? Space::kShared
                                          : b.has("const") ? Space::kConst
                                                           : Space::kGeneric);
  b.lanewise('p', isspacep);
}

// mapa: the same shared variable in the CTA of another rank. Generic addresses keep their aperture.
template <class T>
const Inst* mapa(Warp& w, const Inst* i) {
  const T* const a = read_register<T>(w, i->a);
  const auto* const rank = read_register<std::uint32_t>(w, i->b);
  T* const d = write_register<T>(w, i->d);
  constexpr T kRanks = static_cast<T>(0xff) << kSharedRankShift;
  for (int l = 0; l < 32; ++l) d[l] = (a[l] & ~kRanks) | static_cast<T>(rank[l] & 0xff) << kSharedRankShift;
  return i + 1;
}

template <class T>
const Inst* getctarank(Warp& w, const Inst* i) {
  const T* const a = read_register<T>(w, i->a);
  auto* const d = write_register<std::uint32_t>(w, i->d);
  for (int l = 0; l < 32; ++l) d[l] = static_cast<std::uint32_t>(a[l] >> kSharedRankShift) & 0xff;
  return i + 1;
}

}  // namespace

void register_address_windows(Table& t) {
  t.family("Address windows", InstClass::kMove);
  t.row("cvta[.to].{global|shared|shared::cta|shared::cluster|local|const|param|param::entry}.u64",
        does::computes(Cost::kFree).yielding(Value::kCopy), build_cvta);
  t.row("isspacep.{global|shared|shared::cta|shared::cluster|local|const|param}", does::computes(Cost::kAlu),
        build_isspacep);
  t.effects(does::computes(Cost::kAlu));
  t.alu("mapa[.shared::cluster].u32", "www", does::computes(Cost::kAlu).yielding(Value::kCopy),
        mapa<std::uint32_t>);
  t.alu("mapa[.shared::cluster].u64", "llw", does::computes(Cost::kAlu).yielding(Value::kCopy),
        mapa<std::uint64_t>);
  t.alu("getctarank[.shared::cluster].u32", "ww", getctarank<std::uint32_t>);
  t.alu("getctarank[.shared::cluster].u64", "wl", getctarank<std::uint64_t>);
}

}  // namespace sglab::emu
