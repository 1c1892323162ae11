// tensormap.replace, tensormap.cp_fenceproxy; reading tensor maps.

#include <cstring>

#include "machine/engine/launch.hpp"
#include "machine/memory/access.hpp"
#include "machine/ops/tensor_families.hpp"
#include "machine/ops/tensor_map_access.hpp"

namespace sglab::emu {
namespace {

// The 128 bytes of a map.
std::uint8_t* map_bytes(const Warp& w, const Inst* i, const AddressOperand& at, int lane, Use use,
                        MapPlace where) {
  const std::uint64_t address = address_of(w, at, lane);
  const bool shared = where == MapPlace::kShared || at.mode == AddressMode::kOwnCta ||
                      at.mode == AddressMode::kReg32 || (address & kApertureMask) == kSharedAperture;
  if (shared && where == MapPlace::kGlobal) {
    raise_fault(w, i, lane, "out_of_bounds",
                "a tensor map at " + hex(address) + " does not lie in global memory");
  }
  if (address % 64 != 0) {
    raise_fault(w, i, lane, "misaligned", "a tensor map at " + hex(address) + " is not aligned to 64 bytes");
  }
  if (shared) return shared_bytes(w, i, lane, checked_shared(w, i, lane, address), sizeof(TensorMapBytes));
  if ((address & kApertureMask) == kParamAperture) {
    std::vector<std::uint8_t>& parameters = w.launch->config.parameters;
    const std::uint64_t offset = without_aperture(address);
    if (use == Use::kWrite)
      raise_fault(w, i, lane, "read_only", "a tensor map among the kernel's parameters is only read");
    if (offset > parameters.size() || sizeof(TensorMapBytes) > parameters.size() - offset) {
      raise_fault(w, i, lane, "out_of_bounds",
                  "a tensor map at " + hex(address) + " leaves the kernel's parameters");
    }
    return parameters.data() + offset;
  }
  const Allocation* found = w.launch->find(address, sizeof(TensorMapBytes));
  if (found == nullptr) {
    raise_fault(w, i, lane, "out_of_bounds",
                "a tensor map at " + hex(address) + " " + w.launch->nearest(address));
  }
  if (use == Use::kWrite && found->read_only)
    raise_fault(w, i, lane, "read_only", "a tensor map in constant memory is only read");
  return reinterpret_cast<std::uint8_t*>(address);
}

struct ReplaceOperands {
  TensorMapField field;
  int ordinal;
  bool wide;  // the value has 64 bits
};

const Inst* replace(Warp& w, const Inst* i) {
  const auto [field, ordinal, wide] = payload<ReplaceOperands>(i);
  for (std::uint32_t rest = w.mask; rest != 0; rest &= rest - 1) {
    const int lane = first_lane(rest);
    std::uint8_t* place =
        map_bytes(w, i, main_address(i), lane, Use::kWrite, static_cast<MapPlace>(i->target));
    TensorMapBytes bytes;
    std::memcpy(&bytes, place, sizeof(bytes));
    const std::uint64_t value = wide ? lanes64(w, i->b)[lane] : lanes32(w, i->b)[lane];
    try {
      replace_tensor_map_field(bytes, field, ordinal, value);
    } catch (const TensorMapError& error) {
      raise_fault(w, i, lane, "tensor_map", error.what());
    }
    std::memcpy(place, &bytes, sizeof(bytes));
  }
  return i + 1;
}

void build_replace(Builder& b) {
  constexpr std::string_view kFields[] = {
      "global_address", "rank",     "box_dim",           "global_dim",   "global_stride",
      "element_stride", "elemtype", "interleave_layout", "swizzle_mode", "swizzle_atomicity",
      "fill_mode"};
  int field = 0;
  while (!b.has(kFields[field])) ++field;
  const bool indexed = field >= static_cast<int>(TensorMapField::kBoxDim) &&
                       field <= static_cast<int>(TensorMapField::kElementStride);
  b.expect_count(indexed ? 3 : 2, indexed ? 3 : 2);
  b.address(b.operand(0));
  b.inst.target = static_cast<std::uint32_t>(b.has("shared::cta") ? MapPlace::kShared
                                             : b.has("global")    ? MapPlace::kGlobal
                                                                  : MapPlace::kAnywhere);
  const bool wide = b.form.parts.back() == "b64";
  b.extra().payload = ReplaceOperands{
      static_cast<TensorMapField>(field),
      indexed ? static_cast<int>(b.integer(b.operand(1), 0, TensorMap::kMaxRank - 1, "the ordinal")) : 0,
      wide};
  b.use(Field::kB, b.operand(indexed ? 2 : 1), wide ? 'l' : 'w');
}

// Copies a tensor map from shared to global memory; the proxy fence it includes needs nothing here.
const Inst* copy_fenceproxy(Warp& w, const Inst* i) {
  if (!gather_warp(w, i)) return block_for_lanes(w, i, 0xffffffffu);
  const int lane = first_lane(w.mask);
  const auto& plan = payload<MapCopyOperands>(i);
  std::uint8_t* const target =
      map_bytes(w, i, extra_address(i, plan.target), lane, Use::kWrite, MapPlace::kGlobal);
  const std::uint8_t* const source =
      map_bytes(w, i, extra_address(i, plan.source), lane, Use::kRead, MapPlace::kShared);
  std::memcpy(target, source, sizeof(TensorMapBytes));
  return i + 1;
}

void build_copy_fenceproxy(Builder& b) {
  b.expect_count(3, 3);
  const ExtraAddress target = b.address_extra(b.operand(0));
  b.extra().payload = MapCopyOperands{target, b.address_extra(b.operand(1))};
  if (b.integer(b.operand(2)) != 128) b.refuse("the size must be 128");
}

}  // namespace

TensorMap read_tensor_map(const Warp& w, const Inst* i, const AddressOperand& at, int lane) {
  TensorMapBytes bytes;
  std::memcpy(&bytes, map_bytes(w, i, at, lane, Use::kRead, MapPlace::kAnywhere), sizeof(bytes));
  try {
    return decode_tensor_map(bytes);
  } catch (const TensorMapError& error) {
    raise_fault(w, i, lane, "tensor_map", error.what());
  }
}

void register_tensor_maps(Table& t) {
  t.family("Asynchronous copies: tensor maps", InstClass::kAsync);
  t.row("tensormap.replace.tile.{global_address|global_stride}[.global|.shared::cta].b1024.b64",
        does::keeps_map(Act::kReplaceMap), build_replace, replace);
  t.row(
      "tensormap.replace.tile.{rank|box_dim|global_dim|element_stride|elemtype|interleave_layout|swizzle_mode"
      "|swizzle_atomicity|fill_mode}[.global|.shared::cta].b1024.b32",
      does::keeps_map(Act::kReplaceMap), build_replace, replace);
  t.row(
      "tensormap.cp_fenceproxy.global.shared::cta.tensormap::generic.release.{cta|cluster|gpu|sys}.sync."
      "aligned",
      does::keeps_map(Act::kCopyMap), build_copy_fenceproxy, copy_fenceproxy);
}

}  // namespace sglab::emu
