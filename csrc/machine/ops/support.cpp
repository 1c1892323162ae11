#include "machine/ops/lanes.hpp"
#include "machine/ops/register.hpp"

namespace sglab::emu::SGLAB_ISA {
namespace {

struct alignas(16) Wide {
  std::uint64_t low, high;
};

inline std::uint32_t guard_mask(const Warp& w, const Inst* i) {
  return w.mask & (w.predicates[i->guard >> 1] ^ (0u - (i->guard & 1u)));
}

const Inst* guarded(Warp& w, const Inst* i) {
  const std::uint32_t lanes = guard_mask(w, i);
  if (lanes == 0) return i + 1;
  w.mask = lanes;
  const Inst* const next = i->body(w, i);
  w.mask = w.group_mask;
  return next;
}

template <class T>
inline const Inst* merge(Warp& w, const Inst* i, std::uint32_t lanes) {
  alignas(64) T saved[kLanes];
  T* const d = out<T>(w, i->d);
  std::memcpy(saved, d, sizeof saved);
  i->body(w, i);
  keep(d, saved, lanes);
  return i + 1;
}

template <class T>
const Inst* merged(Warp& w, const Inst* i) {
  return merge<T>(w, i, w.mask);
}

template <class T>
const Inst* guarded_merged(Warp& w, const Inst* i) {
  const std::uint32_t lanes = guard_mask(w, i);
  if (lanes == 0) return i + 1;
  if (lanes == w.live) return i->body(w, i);
  w.mask = lanes;
  merge<T>(w, i, lanes);
  w.mask = w.group_mask;
  return i + 1;
}

// Predicate instructions write Inst::d and Inst::target.
inline const Inst* merge_predicates(Warp& w, const Inst* i, std::uint32_t lanes) {
  const std::uint32_t d = w.predicates[i->d], q = w.predicates[i->target];
  i->body(w, i);
  w.predicates[i->d] = (w.predicates[i->d] & lanes) | (d & ~lanes);
  w.predicates[i->target] = (w.predicates[i->target] & lanes) | (q & ~lanes);
  return i + 1;
}

const Inst* merged_predicates(Warp& w, const Inst* i) {
  return merge_predicates(w, i, w.mask);
}

const Inst* guarded_predicates(Warp& w, const Inst* i) {
  return merge_predicates(w, i, guard_mask(w, i));
}

}  // namespace

void register_support(Support& s) {
  s.guarded = guarded;
  s.merged[0] = merged_predicates;
  s.merged[1] = merged<std::uint8_t>;
  s.merged[2] = merged<std::uint16_t>;
  s.merged[3] = merged<std::uint32_t>;
  s.merged[4] = merged<std::uint64_t>;
  s.merged[5] = merged<Wide>;
  s.guarded_merged[0] = guarded_predicates;
  s.guarded_merged[1] = guarded_merged<std::uint8_t>;
  s.guarded_merged[2] = guarded_merged<std::uint16_t>;
  s.guarded_merged[3] = guarded_merged<std::uint32_t>;
  s.guarded_merged[4] = guarded_merged<std::uint64_t>;
  s.guarded_merged[5] = guarded_merged<Wide>;
}

}  // namespace sglab::emu::SGLAB_ISA
