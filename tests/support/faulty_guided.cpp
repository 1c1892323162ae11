// A target for libFuzzer that does not bear one statement, for the test of the search.
#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <string_view>

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  const std::string_view text(reinterpret_cast<const char*>(data), size);
  if (text.find("\ntcgen05.alloc") != text.npos || text.substr(0, 13) == "tcgen05.alloc") std::abort();
  return 0;
}
