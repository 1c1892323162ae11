#include "machine/memory/access.hpp"

#include <bit>

#include "isa/aperture.hpp"
#include "machine/engine/cluster.hpp"
#include "machine/engine/launch.hpp"
#include "machine/program/builder.hpp"

namespace sglab::emu {
namespace {

[[noreturn]] void misaligned(const Warp& w, const Inst* i, int lane, const char* space, std::uint64_t address,
                             unsigned align) {
  raise_fault(
      w, i, lane, "misaligned",
      std::string(space) + " address " + hex(address) + " is not a multiple of " + std::to_string(align));
}

int first_misaligned(const std::uint64_t* addresses, std::uint32_t lanes, unsigned align) {
  for (std::uint32_t m = lanes; m != 0; m &= m - 1) {
    const int lane = std::countr_zero(m);
    if (addresses[lane] & (align - 1)) return lane;
  }
  return -1;
}

template <class F>
void for_lanes(std::uint32_t lanes, F f) {
  for (std::uint32_t m = lanes; m != 0; m &= m - 1) f(std::countr_zero(m));
}

Use use_of(const Warp& w, const Inst* i) {
  return w.program->effects[static_cast<std::size_t>(i - w.code)].writes ? Use::kWrite : Use::kRead;
}

std::uint8_t* shared_place(const Warp& w, const Inst* i, int lane, std::uint64_t address, unsigned bytes) {
  const std::uint64_t rank = address >> kSharedRankShift;
  const std::uint64_t offset = address & kSharedOffsetMask;
  Cluster& cluster = *w.cluster;
  if (rank >= cluster.ctas.size() || offset < w.program->first_shared() || offset > cluster.shared_bytes ||
      bytes > cluster.shared_bytes - offset) {
    const std::uint64_t first = w.program->first_shared();
    const std::string spans =
        first < cluster.shared_bytes
            ? "the CTA's shared memory spans " + hex(w.cta->window + first) + " to " +
                  hex(w.cta->window + cluster.shared_bytes)
            : "the CTA has no shared memory: the kernel declares none, and the launch asks for no dynamic "
              "shared memory";
    raise_fault(
        w, i, lane, "out_of_bounds",
        "access to " + std::to_string(bytes) + " bytes at shared address " + hex(address) + "; " + spans);
  }
  return cluster.ctas[rank].shared + offset;
}

}  // namespace

// Memory that is only read is never the warp's cached allocation, which serves stores as well.
std::uint8_t* find_global(Warp& w, const Inst* i, int lane, std::uint64_t address, std::uint64_t bytes,
                          Use use) {
  const Allocation* const found = w.launch->find(address, bytes);
  if (found == nullptr) {
    raise_fault(w, i, lane, "out_of_bounds",
                "access to " + std::to_string(bytes) + " bytes at global address " + hex(address) + ", " +
                    w.launch->nearest(address));
  }
  if (!found->read_only) {
    w.allocation_begin = found->begin;
    w.allocation_end = found->end;
  } else if (use == Use::kWrite) {
    raise_fault(w, i, lane, "read_only",
                "a store to " + hex(address) + ", in variable '" + found->name + "' of constant memory");
  }
  return reinterpret_cast<std::uint8_t*>(address);
}

void lane_addresses(const Warp& w, const Inst* i, std::uint64_t* addresses) {
  const auto offset = static_cast<std::uint64_t>(i->imm);
  const std::uint8_t* const base = w.bank[i->a >> 31] + (i->a & ~kConstantRef);
  switch (static_cast<AddressMode>(i->mode)) {
    case AddressMode::kReg64: {
      const auto* const a = reinterpret_cast<const std::uint64_t*>(base);
      for (int l = 0; l < 32; ++l) addresses[l] = a[l] + offset;
      return;
    }
    case AddressMode::kReg32: {
      const auto* const a = reinterpret_cast<const std::uint32_t*>(base);
      for (int l = 0; l < 32; ++l) addresses[l] = a[l] + static_cast<std::uint32_t>(offset);
      // 32-bit addresses wrap.
      for (int l = 0; l < 32; ++l) addresses[l] &= 0xffffffffu;
      return;
    }
    case AddressMode::kOwnCta:
      for (int l = 0; l < 32; ++l) addresses[l] = w.cta->window + offset;
      return;
    case AddressMode::kAbsolute:
      for (int l = 0; l < 32; ++l) addresses[l] = offset;
      return;
  }
}

void global_places(Warp& w, const Inst* i, const std::uint64_t* addresses, std::uint32_t lanes,
                   unsigned bytes, unsigned align, Places& places) {
  std::uint64_t low = ~std::uint64_t{0}, high = 0, all = 0;
  for_lanes(lanes, [&](int l) {
    low = addresses[l] < low ? addresses[l] : low;
    high = addresses[l] > high ? addresses[l] : high;
    all |= addresses[l];
  });
  if (all & (align - 1)) {
    const int lane = first_misaligned(addresses, lanes, align);
    misaligned(w, i, lane, "global", addresses[lane], align);
  }
  if (low < w.allocation_begin || high >= w.allocation_end || high + bytes > w.allocation_end) {
    const Use use = use_of(w, i);
    for_lanes(lanes, [&](int l) { global_bytes(w, i, l, addresses[l], bytes, use); });
  }
  for (int l = 0; l < 32; ++l) places.at[l] = reinterpret_cast<std::uint8_t*>(addresses[l]);
}

void shared_places(Warp& w, const Inst* i, const std::uint64_t* addresses, std::uint32_t lanes,
                   unsigned bytes, unsigned align, Places& places) {
  const std::uint64_t window = w.cta->window;
  const std::uint64_t first = w.program->first_shared(), limit = w.cluster->shared_bytes - first;
  // As a number: what is not known to be inside is no pointer yet.
  const std::uint64_t begin = reinterpret_cast<std::uint64_t>(w.cta->shared) - window;
  std::uint64_t all = 0;
  bool own = true;
  for_lanes(lanes, [&](int l) {
    all |= addresses[l];
    const std::uint64_t offset = addresses[l] - window - first;
    own = own && offset < limit && offset + bytes <= limit;
    places.at[l] = reinterpret_cast<std::uint8_t*>(begin + addresses[l]);
  });
  if (all & (align - 1)) {
    const int lane = first_misaligned(addresses, lanes, align);
    misaligned(w, i, lane, "shared", addresses[lane], align);
  }
  if (own) return;
  for_lanes(lanes, [&](int l) { places.at[l] = shared_place(w, i, l, addresses[l], bytes); });
}

void local_places(Warp& w, const Inst* i, const std::uint64_t* addresses, std::uint32_t lanes, unsigned bytes,
                  unsigned align, Places& places) {
  const std::uint64_t limit = w.program->local_bytes;
  for_lanes(lanes, [&](int l) {
    if (addresses[l] & (align - 1)) misaligned(w, i, l, "local", addresses[l], align);
    if (addresses[l] >= limit || addresses[l] + bytes > limit) {
      raise_fault(w, i, l, "out_of_bounds",
                  "access to " + std::to_string(bytes) + " bytes at local address " + hex(addresses[l]) +
                      "; a thread has " + std::to_string(limit) + " bytes");
    }
    places.at[l] = w.local + static_cast<std::uint64_t>(l) * limit + addresses[l];
  });
}

void param_places(Warp& w, const Inst* i, const std::uint64_t* addresses, std::uint32_t lanes, unsigned bytes,
                  unsigned align, Places& places) {
  auto& parameters = w.launch->config.parameters;
  if (lanes != 0 && use_of(w, i) == Use::kWrite) {
    raise_fault(w, i, std::countr_zero(lanes), "read_only", "a store to the kernel's parameters");
  }
  for_lanes(lanes, [&](int l) {
    const std::uint64_t offset = without_aperture(addresses[l]);
    if (offset & (align - 1)) misaligned(w, i, l, "parameter", offset, align);
    if (offset >= parameters.size() || offset + bytes > parameters.size()) {
      raise_fault(w, i, l, "out_of_bounds",
                  "access to " + std::to_string(bytes) + " bytes at parameter offset " +
                      std::to_string(offset) + "; the kernel has " + std::to_string(parameters.size()) +
                      " bytes of parameters");
    }
    places.at[l] = parameters.data() + offset;
  });
}

void generic_places(Warp& w, const Inst* i, const std::uint64_t* addresses, std::uint32_t lanes,
                    unsigned bytes, unsigned align, Places& places) {
  std::uint64_t inside[32];
  for (int l = 0; l < 32; ++l) inside[l] = without_aperture(addresses[l]);
  while (lanes != 0) {
    const std::uint64_t window = addresses[std::countr_zero(lanes)] & kApertureMask;
    std::uint32_t same = 0;
    for_lanes(lanes, [&](int l) { same |= (addresses[l] & kApertureMask) == window ? 1u << l : 0; });
    lanes &= ~same;
    Places part;
    switch (window) {
      case 0:
        global_places(w, i, inside, same, bytes, align, part);
        break;
      case kSharedAperture:
        shared_places(w, i, inside, same, bytes, align, part);
        break;
      case kLocalAperture:
        local_places(w, i, inside, same, bytes, align, part);
        break;
      case kParamAperture:
        param_places(w, i, inside, same, bytes, align, part);
        break;
      default: {
        const int lane = std::countr_zero(same);
        raise_fault(w, i, lane, "out_of_bounds",
                    "generic address " + hex(addresses[lane]) + " lies in no address space");
      }
    }
    for_lanes(same, [&](int l) { places.at[l] = part.at[l]; });
  }
}

}  // namespace sglab::emu
