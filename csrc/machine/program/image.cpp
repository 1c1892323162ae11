#include "machine/program/image.hpp"

#include <algorithm>
#include <cstring>
#include <string>
#include <utility>

#include "isa/aperture.hpp"
#include "machine/front/error.hpp"

namespace sglab::emu {
namespace {

constexpr std::uint64_t kLargestImage = std::uint64_t{1} << 32;
constexpr std::uint64_t kMostConstants = 64 << 10;  // as many as a GPU has

bool in_image(const Symbol& symbol) {
  return symbol.space == Space::kGlobal || symbol.space == Space::kConst;
}

}  // namespace

Image::Image(Module module) : module_(std::move(module)), addresses_(module_.symbols.size(), 0) {
  constexpr std::uint64_t kPage = 4096;
  const std::uint64_t constants = place(Space::kGlobal, 0), bytes = place(Space::kConst, constants);
  memory_.reset(static_cast<std::uint8_t*>(std::calloc(bytes + kPage, 1)));
  if (memory_ == nullptr)
    throw PtxError(1, 1, "the system refuses " + std::to_string(bytes) + " bytes for the module's variables");
  const std::uint64_t base = (reinterpret_cast<std::uint64_t>(memory_.get()) + kPage - 1) / kPage * kPage;
  constants_begin_ = base + constants;
  constants_end_ = base + bytes;
  for (std::size_t i = 0; i < module_.symbols.size(); ++i) {
    const Symbol& symbol = module_.symbols[i];
    if (!in_image(symbol)) continue;
    addresses_[i] += base;
    allocations_.push_back({addresses_[i], addresses_[i] + symbol.bytes, std::string(symbol.name),
                            symbol.space == Space::kConst});
  }
  for (std::size_t i = 0; i < module_.symbols.size(); ++i) {
    if (in_image(module_.symbols[i])) initialise(static_cast<std::uint32_t>(i));
  }
}

// Lays the variables of a space one after the other, from offset `at` on; returns where they end.
std::uint64_t Image::place(Space space, std::uint64_t at) {
  const std::uint64_t begin = at;
  for (std::size_t i = 0; i < module_.symbols.size(); ++i) {
    const Symbol& symbol = module_.symbols[i];
    if (symbol.space != space) continue;
    const std::uint64_t align = std::max<std::uint64_t>(symbol.align, 16);
    at = (at + align - 1) / align * align;
    addresses_[i] = at;
    at += symbol.bytes;
    if (at > kLargestImage) throw PtxError(symbol.line, 1, "the module's variables need more than 4 GB");
    if (space == Space::kConst && at - begin > kMostConstants)
      throw PtxError(symbol.line, 1,
                     "the module's constants take more than " + std::to_string(kMostConstants) + " bytes");
  }
  return at;
}

void Image::initialise(std::uint32_t index) {
  const Symbol& symbol = module_.symbols[index];
  auto* const bytes = reinterpret_cast<std::uint8_t*>(addresses_[index]);
  if (!symbol.initial.empty()) std::memcpy(bytes, symbol.initial.data(), symbol.initial.size());
  for (const Relocation& relocation : symbol.relocations) {
    std::uint64_t value = static_cast<std::uint64_t>(relocation.value);
    if (relocation.symbol != kNoIndex) {
      if (!in_image(module_.symbols[relocation.symbol])) {
        throw PtxError(
            symbol.line, 1,
            std::string(symbol.name) + " is initialised with the address of a variable that has none");
      }
      value += addresses_[relocation.symbol];
    } else {
      value += function_address(relocation.function);
    }
    std::memcpy(bytes + relocation.at, &value, relocation.bytes);
  }
}

std::uint64_t Image::function_address(std::uint32_t function) {
  return kFunctionAperture | function;
}

}  // namespace sglab::emu
