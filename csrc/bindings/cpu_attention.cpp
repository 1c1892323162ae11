#include "bindings/cpu_attention.hpp"

#include <nanobind/stl/string.h>
#include <nanobind/stl/vector.h>

#include <cstdint>
#include <stdexcept>
#include <string>

#include "cpu_attention/attend.hpp"

namespace nb = nanobind;
using namespace nb::literals;

namespace sglab::bindings {
namespace {

using namespace sglab::cpu_attention;

Element element_of(const std::string& name) {
  if (name == "float32") return Element::kF32;
  if (name == "float16") return Element::kF16;
  if (name == "bfloat16") return Element::kBf16;
  if (name == "float8_e4m3fn") return Element::kE4m3;
  if (name == "float8_e5m2") return Element::kE5m2;
  throw std::invalid_argument("the CPU's attention has no element type '" + name + "'");
}

// Tensors come as addresses: `sglab.kernels.cpu_launch`, which alone calls this, gets them checked.
template <typename T>
T* address(std::uintptr_t value) {
  return reinterpret_cast<T*>(value);
}

Source source_of(const nb::dict& given) {
  const auto number = [&](const char* name) { return nb::cast<std::int64_t>(given[name]); };
  const auto pointer = [&](const char* name) { return nb::cast<std::uintptr_t>(given[name]); };
  Source source;
  source.k = address<const std::uint8_t>(pointer("k"));
  source.v = address<const std::uint8_t>(pointer("v"));
  source.k_page = number("k_page"), source.k_row = number("k_row"), source.k_head = number("k_head");
  source.v_page = number("v_page"), source.v_row = number("v_row"), source.v_head = number("v_head");
  source.element = element_of(nb::cast<std::string>(given["element"]));
  source.lengths = address<const std::int32_t>(pointer("lengths"));
  source.first = address<const std::int32_t>(pointer("first"));
  source.table = address<const void>(pointer("table"));
  source.wide_table = nb::cast<bool>(given["wide_table"]);
  source.table_stride = number("table_stride");
  source.table_rows = address<const std::int64_t>(pointer("table_rows"));
  source.table_start = address<const std::int32_t>(pointer("table_start"));
  source.page_size = number("page_size");
  source.k_scale = address<const float>(pointer("k_scale"));
  source.v_scale = address<const float>(pointer("v_scale"));
  source.scale_stride = number("scale_stride");
  return source;
}

Call call_of(const nb::dict& given) {
  const auto number = [&](const char* name) { return nb::cast<std::int64_t>(given[name]); };
  const auto integer = [&](const char* name) { return nb::cast<int>(given[name]); };
  const auto pointer = [&](const char* name) { return nb::cast<std::uintptr_t>(given[name]); };
  Call call;
  call.q = address<const std::uint8_t>(pointer("q"));
  call.q_token = number("q_token"), call.q_head = number("q_head");
  call.q_element = element_of(nb::cast<std::string>(given["q_element"]));
  call.out = address<std::uint8_t>(pointer("out"));
  call.out_token = number("out_token"), call.out_head = number("out_head");
  call.out_element = element_of(nb::cast<std::string>(given["out_element"]));
  call.lse = address<float>(pointer("lse"));
  call.lse_token = number("lse_token"), call.lse_head = number("lse_head");
  call.batch = integer("batch"), call.heads = integer("heads"), call.kv_heads = integer("kv_heads");
  call.qk_dim = integer("qk_dim"), call.v_dim = integer("v_dim");
  call.q_start = address<const std::int32_t>(pointer("q_start"));
  call.q_count = address<const std::int32_t>(pointer("q_count"));
  call.cached = source_of(nb::cast<nb::dict>(given["cached"]));
  if (given.contains("fresh")) call.fresh = source_of(nb::cast<nb::dict>(given["fresh"]));
  call.left = number("left"), call.right = number("right"), call.chunk = number("chunk");
  call.mask = address<const std::uint8_t>(pointer("mask"));
  call.mask_start = address<const std::int64_t>(pointer("mask_start"));
  call.mask_offset = address<const std::int64_t>(pointer("mask_offset"));
  call.mask_spares_cached = nb::cast<bool>(given["mask_spares_cached"]);
  call.scale = nb::cast<float>(given["scale"]);
  call.cap = nb::cast<float>(given["cap"]);
  call.temperature_from = integer("temperature_from");
  call.first_position = address<const std::int64_t>(pointer("first_position"));
  call.q_scale = address<const float>(pointer("q_scale"));
  call.sinks = address<const float>(pointer("sinks"));
  call.out_scale = address<const float>(pointer("out_scale"));
  call.keys_per_split = address<const std::int32_t>(pointer("keys_per_split"));
  call.partial = address<float>(pointer("partial"));
  call.partial_lse = address<float>(pointer("partial_lse"));
  call.partial_token = number("partial_token"), call.partial_head = number("partial_head");
  call.partial_split = number("partial_split");
  call.partial_lse_token = number("partial_lse_token"), call.partial_lse_head = number("partial_lse_head");
  call.partial_lse_split = number("partial_lse_split");
  call.threads = integer("threads");
  return call;
}

}  // namespace

void register_cpu_attention(nb::module_& module) {
  nb::module_ m = module.def_submodule("cpu_attention", "Attention on the host's own vector units.");
  m.def("available_isas", &available_kernels,
        "Instruction sets that `attend` has here, best first; 'amx_model' is AMX's products in plain C++.");
  m.def(
      "attend",
      [](const nb::dict& given, const std::string& isa) {
        const Call call = call_of(given);
        const nb::gil_scoped_release released;
        attend(call, isa);
      },
      "call"_a, "isa"_a = "");
}

}  // namespace sglab::bindings
