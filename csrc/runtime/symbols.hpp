#pragma once

#include <cstddef>

namespace sglab::runtime {

// Where the bytes [offset, offset + bytes) of a registered variable lie; null, with an error recorded, if
// they are not all in it.
void* part_of(const void* symbol, std::size_t offset, std::size_t bytes);

}  // namespace sglab::runtime
