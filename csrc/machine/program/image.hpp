#pragma once

#include <cstdint>
#include <memory>
#include <vector>

#include "machine/front/module.hpp"

namespace sglab::emu {

// Memory that may be read or written: [begin, end).
struct Allocation {
  std::uint64_t begin = 0;
  std::uint64_t end = 0;
  std::string name;
};

// A parsed module with memory for its .global and .const variables, initialised as the PTX says.
class Image {
 public:
  explicit Image(Module module);

  const Module& module() const { return module_; }
  // Host address of a .global or .const symbol.
  std::uint64_t address(std::uint32_t symbol) const { return addresses_[symbol]; }
  const std::vector<Allocation>& allocations() const { return allocations_; }
  // Value of an initialiser that refers to a function: an index into Module::functions after
  // kFunctionAperture.
  static std::uint64_t function_address(std::uint32_t function);

 private:
  void initialise(std::uint32_t symbol);

  Module module_;
  std::vector<std::uint64_t> addresses_;
  std::unique_ptr<std::uint8_t[]> memory_;
  std::vector<Allocation> allocations_;
};

}  // namespace sglab::emu
