#pragma once

#include <cstdint>
#include <cstdlib>
#include <memory>
#include <vector>

#include "machine/front/module.hpp"

namespace sglab::emu {

// What calloc gave: zeros that take no memory until they are touched.
struct Freed {
  void operator()(std::uint8_t* bytes) const { std::free(bytes); }
};

// Memory that may be read or written: [begin, end).
struct Allocation {
  std::uint64_t begin = 0;
  std::uint64_t end = 0;
  std::string name;
  bool read_only = false;
};

// A parsed module with memory for its .global and .const variables, initialised as the PTX says.
class Image {
 public:
  explicit Image(Module module);

  const Module& module() const { return module_; }
  // Host address of a .global or .const symbol.
  std::uint64_t address(std::uint32_t symbol) const { return addresses_[symbol]; }
  const std::vector<Allocation>& allocations() const { return allocations_; }
  // Where constant memory lies: [begin, end).
  std::uint64_t constants_begin() const { return constants_begin_; }
  std::uint64_t constants_end() const { return constants_end_; }
  // Value of an initialiser that refers to a function: an index into Module::functions after
  // kFunctionAperture.
  static std::uint64_t function_address(std::uint32_t function);

 private:
  std::uint64_t place(Space space, std::uint64_t at);
  void initialise(std::uint32_t symbol);

  Module module_;
  std::vector<std::uint64_t> addresses_;
  std::unique_ptr<std::uint8_t, Freed> memory_;  // zeros that take no memory until they are touched
  std::uint64_t constants_begin_ = 0, constants_end_ = 0;
  std::vector<Allocation> allocations_;
};

}  // namespace sglab::emu
