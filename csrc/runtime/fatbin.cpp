#include "runtime/fatbin.hpp"

#include <dlfcn.h>

#include <cstdint>
#include <cstdlib>
#include <cstring>
#include <string_view>

namespace sglab::runtime {
namespace {

constexpr std::uint32_t kWrapperMagic = 0x466243b1, kFatbinMagic = 0xba55ed50;
constexpr std::uint16_t kPtx = 1, kElf = 2;
constexpr std::uint64_t kZstd = 0x8000, kLz4 = 0x2000;

struct Wrapper {
  std::uint32_t magic, version;
  const std::uint8_t* data;
  void* rest;
};

struct Header {
  std::uint32_t magic;
  std::uint16_t version, header_bytes;
  std::uint64_t bytes;
};

struct Entry {
  std::uint16_t kind, version;
  std::uint32_t header_bytes;
  std::uint64_t bytes;  // of the body, padded
  std::uint32_t compressed_bytes, options;
  std::uint16_t minor, major;
  std::uint32_t capability;
  std::uint64_t name;
  std::uint64_t flags;
  std::uint64_t unused;
  std::uint64_t uncompressed_bytes;
};
static_assert(sizeof(Entry) == 64);

// zstd is loaded where a program brings compressed PTX; it is on practically every Linux, but not needed
// to build.
std::string unpack_zstd(const std::uint8_t* body, std::size_t bytes, std::size_t expected,
                        std::string& problem) {
  using Decompress = std::size_t (*)(void*, std::size_t, const void*, std::size_t);
  static void* const library = dlopen("libzstd.so.1", RTLD_NOW | RTLD_LOCAL);
  const auto decompress =
      library == nullptr ? nullptr : reinterpret_cast<Decompress>(dlsym(library, "ZSTD_decompress"));
  if (decompress == nullptr) {
    problem =
        "its PTX is compressed and libzstd.so.1 is not there; install it, or compile with nvcc --no-compress";
    return {};
  }
  std::string text(expected, '\0');
  if (decompress(text.data(), text.size(), body, bytes) != expected) {
    problem = "its compressed PTX is damaged";
    return {};
  }
  return text;
}

std::string text_of(const Entry& entry, const std::uint8_t* body, std::string& problem) {
  if (entry.compressed_bytes == 0) return {reinterpret_cast<const char*>(body), entry.bytes};
  if (entry.flags & kZstd)
    return unpack_zstd(body, entry.compressed_bytes, entry.uncompressed_bytes, problem);
  problem = entry.flags & kLz4 ? "its PTX is compressed with LZ4; compile with nvcc --no-compress"
                               : "its PTX is compressed in an unknown way; compile with nvcc --no-compress";
  return {};
}

}  // namespace

Fatbin read_fatbin(const void* wrapper) {
  Fatbin fatbin;
  Wrapper outer;
  std::memcpy(&outer, wrapper, sizeof(outer));
  Header header;
  if (outer.magic == kWrapperMagic) std::memcpy(&header, outer.data, sizeof(header));
  if (outer.magic != kWrapperMagic || header.magic != kFatbinMagic) {
    fatbin.problem = "it is no fat binary";
    return fatbin;
  }
  const std::uint8_t* at = outer.data + header.header_bytes;
  const std::uint8_t* const end = at + header.bytes;
  while (at + sizeof(Entry) <= end) {
    Entry entry;
    std::memcpy(&entry, at, sizeof(entry));
    const std::uint8_t* const body = at + entry.header_bytes;
    if (entry.header_bytes < sizeof(Entry) || body + entry.bytes > end) break;
    if (entry.kind == kElf) ++fatbin.machine_code_entries;
    if (entry.kind == kPtx) {
      std::string text = text_of(entry, body, fatbin.problem);
      text.resize(std::strlen(text.c_str()));  // bodies are padded with zeros
      if (!text.empty()) fatbin.ptx.push_back({static_cast<int>(entry.capability), std::move(text)});
    }
    at = body + entry.bytes;
  }
  return fatbin;
}

Fatbin read_image(const void* image) {
  std::uint32_t magic;
  std::memcpy(&magic, image, sizeof(magic));
  if (magic == kWrapperMagic) return read_fatbin(image);
  if (magic == kFatbinMagic) {
    const Wrapper wrapper{kWrapperMagic, 1, static_cast<const std::uint8_t*>(image), nullptr};
    return read_fatbin(&wrapper);
  }
  Fatbin fatbin;
  constexpr std::uint32_t kElfMagic = 0x464c457f;
  if (magic == kElfMagic) {
    fatbin.machine_code_entries = 1;
    return fatbin;
  }
  std::string text = static_cast<const char*>(image);
  constexpr std::string_view kTarget = ".target sm_";
  const std::size_t at = text.find(kTarget);
  if (at == std::string::npos) {
    fatbin.problem = "it is neither PTX (no .target sm_…) nor a fat binary";
    return fatbin;
  }
  const int capability = std::atoi(text.c_str() + at + kTarget.size());
  fatbin.ptx.push_back({capability, std::move(text)});
  return fatbin;
}

}  // namespace sglab::runtime
