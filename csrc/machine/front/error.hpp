#pragma once

#include <cstdint>
#include <stdexcept>
#include <string>

namespace sglab::emu {

// PTX that is not well formed, or that names something the machine refuses. Lines and columns count from 1.
class PtxError : public std::runtime_error {
 public:
  PtxError(std::uint32_t line, std::uint32_t column, const std::string& message)
      : std::runtime_error(message), line(line), column(column) {}

  std::uint32_t line;
  std::uint32_t column;
};

}  // namespace sglab::emu
