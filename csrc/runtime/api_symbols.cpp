// Variables of a program's modules: they lie in the emulator's image of the module, which is host memory.
#include "runtime/state.hpp"
#include "runtime/streams.hpp"
#include "runtime/symbols.hpp"

using namespace sglab::runtime;

namespace {

// Where a registered variable lies; null, with an error recorded, if that is not known.
std::uint8_t* place_of(const void* symbol, std::size_t& bytes) {
  State& state = State::get();
  const auto found = state.variables.find(symbol);
  if (found == state.variables.end()) {
    fail(kInvalidSymbol, "this variable was never registered");
    return nullptr;
  }
  const Variable& variable = found->second;
  bytes = variable.bytes;
  const FatbinPtx* const ptx = state.ptx_for(*variable.module);
  if (ptx == nullptr) return nullptr;
  if (state.finder == nullptr) {
    fail(kNotSupported,
         variable.name + ": only programs of their own (sglab.cudart.program) reach variables");
    return nullptr;
  }
  std::uint64_t found_bytes = 0;
  void* const place = state.finder(ptx->text.c_str(), ptx->text.size(), variable.name.c_str(), &found_bytes);
  if (place == nullptr) fail(kInvalidSymbol, "the program's PTX has no variable " + variable.name);
  return static_cast<std::uint8_t*>(place);
}

}  // namespace

void* sglab::runtime::part_of(const void* symbol, std::size_t offset, std::size_t bytes) {
  const std::lock_guard lock(State::get().mutex);
  std::size_t whole = 0;
  std::uint8_t* const place = place_of(symbol, whole);
  if (place == nullptr) return nullptr;
  if (offset > whole || bytes > whole - offset) {
    fail(kInvalidValue, std::to_string(bytes) + " bytes at " + std::to_string(offset) + " of a variable of " +
                            std::to_string(whole));
    return nullptr;
  }
  return place + offset;
}

namespace {

Status to_symbol(const void* symbol, const void* source, std::size_t bytes, std::size_t offset,
                 Stream stream) {
  void* const place = part_of(symbol, offset, bytes);
  return place == nullptr ? last_status(false) : submit(stream, copy_of(place, source, bytes));
}

Status from_symbol(void* target, const void* symbol, std::size_t bytes, std::size_t offset, Stream stream) {
  const void* const place = part_of(symbol, offset, bytes);
  return place == nullptr ? last_status(false) : submit(stream, copy_of(target, place, bytes));
}

}  // namespace

SGLAB_CUDA_API Status cudaMemcpyToSymbol(const void* symbol, const void* source, std::size_t bytes,
                                         std::size_t offset, int) {
  return to_symbol(symbol, source, bytes, offset, nullptr);
}
SGLAB_CUDA_API Status cudaMemcpyToSymbolAsync(const void* symbol, const void* source, std::size_t bytes,
                                              std::size_t offset, int, Stream stream) {
  return to_symbol(symbol, source, bytes, offset, stream);
}
SGLAB_CUDA_API Status cudaMemcpyFromSymbol(void* target, const void* symbol, std::size_t bytes,
                                           std::size_t offset, int) {
  return from_symbol(target, symbol, bytes, offset, nullptr);
}
SGLAB_CUDA_API Status cudaMemcpyFromSymbolAsync(void* target, const void* symbol, std::size_t bytes,
                                                std::size_t offset, int, Stream stream) {
  return from_symbol(target, symbol, bytes, offset, stream);
}
SGLAB_CUDA_API Status cudaGetSymbolAddress(void** address, const void* symbol) {
  const std::lock_guard lock(State::get().mutex);
  std::size_t bytes = 0;
  *address = place_of(symbol, bytes);
  return *address == nullptr ? last_status(false) : kSuccess;
}
SGLAB_CUDA_API Status cudaGetSymbolSize(std::size_t* bytes, const void* symbol) {
  const std::lock_guard lock(State::get().mutex);
  return place_of(symbol, *bytes) == nullptr ? last_status(false) : kSuccess;
}
