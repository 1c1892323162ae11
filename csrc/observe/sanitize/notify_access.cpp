#include <algorithm>

#include "isa/aperture.hpp"
#include "machine/ops/operands.hpp"
#include "machine/ops/tensor_map_access.hpp"
#include "machine/ops/wmma_operands.hpp"
#include "observe/sanitize/sanitizer.hpp"

// Which memory an instruction read or wrote, for detectors.
namespace sglab::emu {
namespace {

constexpr std::uint32_t kMapBytes = 128;

Space space_of_address(std::uint64_t address) {
  switch (address & kApertureMask) {
    case 0:
      return Space::kGlobal;
    case kSharedAperture:
      return Space::kShared;
    case kLocalAperture:
      return Space::kLocal;
    default:
      return Space::kParam;
  }
}

// Access::following, of lanes of these addresses.
std::uint32_t following(const std::uint64_t* address, std::uint32_t lanes, std::uint32_t bytes) {
  const std::uint32_t both = lanes & lanes << 1;
  if (both == 0) return 0;
  std::uint32_t found = 0;
  std::uint64_t high = address[0];
  for (std::uint32_t lane = 1; lane < 32; ++lane) {
    found |= (address[lane] - address[lane - 1] == bytes ? 1u : 0u) << lane;
    high |= address[lane];
  }
  found &= both;
  // None goes on beyond the last address of all.
  for (std::uint32_t rest = high >> 63 != 0 ? found : 0; rest != 0; rest &= rest - 1) {
    const int lane = first_lane(rest);
    if (address[lane] < bytes) found &= ~(1u << lane);
  }
  return found;
}

}  // namespace

// The lanes whose bytes lie where detectors can follow them, whatever a wrong kernel makes of its operands.
std::uint32_t Sanitizer::inside(const Warp& w, const Access& access) {
  const Space space = access.space;
  const std::uint64_t* const address = access.address;
  const std::uint32_t lanes = access.lanes, bytes = access.bytes;
  // Mostly all of them lie in one stretch of memory.
  const auto holds = [&](std::uint64_t begin, std::uint64_t end) {
    if (bytes > end - begin) return false;
    const std::uint64_t room = end - begin - bytes;
    if (const std::uint32_t count = access.row(lanes); Access::after(lanes, count) == 0) {
      const std::uint64_t more = std::uint64_t{count - 1} * bytes;
      return more <= room && address[first_lane(lanes)] - begin <= room - more;
    }
    if (lanes == 0xffffffffu && room >> 63 == 0) {
      std::uint64_t beyond = 0;  // the top bit: of a lane before the first or after the last place
      for (std::uint32_t lane = 0; lane < 32; ++lane) {
        const std::uint64_t offset = address[lane] - begin;
        beyond |= offset | (room - offset);
      }
      return beyond >> 63 == 0;
    }
    // The first and the last of those that lie side by side.
    const std::uint32_t on = access.following & lanes & lanes << 1;
    for (std::uint32_t rest = lanes & ~(on & on >> 1); rest != 0; rest &= rest - 1) {
      if (address[first_lane(rest)] - begin > room) return false;
    }
    return true;
  };
  if (space == Space::kShared && holds(w.cta->window, std::uint64_t{w.cta->window} + w.cluster->shared_bytes))
    return lanes;
  if (space == Space::kGlobal) {
    const auto hit = [&] { return allocation_ != nullptr && holds(allocation_->begin, allocation_->end); };
    if (hit()) return lanes;
    allocation_ = launch_->find(address[first_lane(lanes)], bytes);
    if (hit()) return lanes;
  }
  const auto fits = [&](std::uint64_t at, std::uint64_t limit) { return at <= limit && bytes <= limit - at; };
  std::uint32_t found = 0;
  for (std::uint32_t rest = lanes; rest != 0; rest &= rest - 1) {
    const int lane = first_lane(rest);
    const std::uint64_t at = address[lane];
    bool good = true;
    if (space == Space::kShared) {
      good = at >> kSharedRankShift < w.cluster->ctas.size() && fits(offset_of(at), w.cluster->shared_bytes);
    } else if (space == Space::kLocal) {
      good = fits(at, w.program->local_bytes);
    } else if (space == Space::kGlobal) {
      allocation_ = launch_->find(at, bytes);
      good = allocation_ != nullptr;
    }
    found |= good ? 1u << lane : 0u;
  }
  return found;
}

void Sanitizer::notify_one_access(const Actor& actor, Space space, const std::uint64_t* address,
                                  std::uint32_t lanes, std::uint32_t bytes, bool reads, bool writes) {
  if (lanes == 0) return;
  const Effects& m = program_->effects[static_cast<std::size_t>(actor.inst - actor.warp->code)];
  const Order order = m.act == Act::kAccess ? m.order : Order::kWeak;
  Access access{space,   reads, writes, m.atomic, order,
                m.scope, lanes, bytes,  address,  m.act == Act::kTmemAlloc};
  access.following = following(address, lanes, bytes);
  access.lanes = inside(*actor.warp, access);
  if (access.lanes == 0) return;
  access.following &= access.lanes & access.lanes << 1;
  all([&](Detector& d) { d.accessed(actor, access); });
}

void Sanitizer::notify_access(const Actor& actor, const Effects& m) {
  if (m.act == Act::kMatrixRows) {
    const std::uint32_t rows = m.rows >= 32 ? 0xffffffffu : (1u << m.rows) - 1;
    for (std::uint64_t& address : before_.address) address = without_aperture(address);
    return notify_one_access(actor, m.space, before_.address, rows, m.bytes, m.reads, m.writes);
  }
  if (m.space != Space::kGeneric)
    return notify_one_access(actor, m.space, before_.address, actor.lanes, m.bytes, m.reads, m.writes);
  notify_by_aperture(actor, before_.address, actor.lanes, m.bytes, m.reads, m.writes);
}

void Sanitizer::notify_by_aperture(const Actor& actor, const std::uint64_t* address, std::uint32_t lanes,
                                   std::uint32_t bytes, bool reads, bool writes) {
  std::uint64_t plain[32]{};
  for (const Space space : {Space::kGlobal, Space::kShared, Space::kLocal}) {
    std::uint32_t found = 0;
    for (std::uint32_t rest = lanes; rest != 0; rest &= rest - 1) {
      const int lane = first_lane(rest);
      if (space_of_address(address[lane]) != space) continue;
      plain[lane] = without_aperture(address[lane]);
      found |= 1u << lane;
    }
    notify_one_access(actor, space, plain, found, bytes, reads, writes);
  }
}

// Each lane's elements, one after the other.
void Sanitizer::notify_tile(const Actor& actor, const Effects& m) {
  const auto& move = payload<MoveOperands>(actor.inst);
  const auto bytes = static_cast<std::uint32_t>(move.fragment.bytes);
  std::uint64_t addresses[32];
  for (int slot = 0; slot < move.fragment.per_lane(); ++slot) {
    tile_addresses(move, before_.address[0], before_.second[0], slot, addresses);
    if (move.space == Space::kGeneric) {
      notify_by_aperture(actor, addresses, actor.lanes, bytes, m.reads, m.writes);
      continue;
    }
    for (std::uint64_t& address : addresses) address = without_aperture(address);
    notify_one_access(actor, move.space, addresses, actor.lanes, bytes, m.reads, m.writes);
  }
}

void Sanitizer::notify_clear(const Actor& actor) {
  for (std::uint32_t rest = actor.lanes; rest != 0; rest &= rest - 1) {
    const int lane = first_lane(rest);
    if (before_.second[lane] == 0) continue;
    before_.address[lane] = without_aperture(before_.address[lane]);
    notify_one_access(actor, Space::kShared, before_.address, 1u << lane,
                      static_cast<std::uint32_t>(before_.second[lane]), false, true);
  }
}

// tensormap.replace and tensormap.cp_fenceproxy.
void Sanitizer::notify_maps(const Actor& actor, const Effects& m) {
  const std::uint32_t first = actor.lanes & (0u - actor.lanes);
  const std::uint32_t lanes = m.act == Act::kCopyMap ? first : actor.lanes;
  const std::uint64_t at = before_.address[first_lane(first) & 31];
  const bool in_shared =
      m.act == Act::kReplaceMap && (static_cast<MapPlace>(actor.inst->target) == MapPlace::kShared ||
                                    at >> 32 == 0 || space_of_address(at) == Space::kShared);
  const Space space = in_shared ? Space::kShared : Space::kGlobal;
  for (std::uint64_t& address : before_.address) address = without_aperture(address);
  if (m.act == Act::kCopyMap) {
    for (std::uint64_t& address : before_.second) address = without_aperture(address);
    notify_one_access(actor, Space::kShared, before_.second, lanes, kMapBytes, true, false);
  }
  if (at >> 56 == kParamAperture >> 56) return;
  notify_one_access(actor, space, before_.address, lanes, kMapBytes, m.act == Act::kReplaceMap, true);
  if (m.act != Act::kCopyMap) return;
  const Fence fence{Fence::Kind::kProxyTensormap, Order::kRelease, Scope::kGpu, Space::kGlobal};
  all([&](Detector& d) { d.fenced(actor, fence); });
}

void Sanitizer::notify_map_use(const Actor& actor) {
  Access access{Space::kGlobal, true, false, false, Order::kWeak, Scope::kGpu, 0, kMapBytes, before_.address};
  for (std::uint32_t rest = actor.lanes; rest != 0; rest &= rest - 1) {
    const int lane = first_lane(rest);
    if (space_of_address(before_.address[lane]) == Space::kGlobal) access.lanes |= 1u << lane;
  }
  access.lanes = inside(*actor.warp, access);
  if (access.lanes != 0) all([&](Detector& d) { d.map_used(actor, access); });
}

}  // namespace sglab::emu
