#include "machine/front/special.hpp"

#include <array>
#include <unordered_map>

namespace sglab::emu {
namespace {

constexpr std::array<std::string_view, static_cast<std::size_t>(Special::kCount)> kSpecialNames{
    "%tid.x",
    "%tid.y",
    "%tid.z",
    "%ntid.x",
    "%ntid.y",
    "%ntid.z",
    "%ctaid.x",
    "%ctaid.y",
    "%ctaid.z",
    "%nctaid.x",
    "%nctaid.y",
    "%nctaid.z",
    "%clusterid.x",
    "%clusterid.y",
    "%clusterid.z",
    "%nclusterid.x",
    "%nclusterid.y",
    "%nclusterid.z",
    "%cluster_ctaid.x",
    "%cluster_ctaid.y",
    "%cluster_ctaid.z",
    "%cluster_nctaid.x",
    "%cluster_nctaid.y",
    "%cluster_nctaid.z",
    "%cluster_ctarank",
    "%cluster_nctarank",
    "%is_explicit_cluster",
    "%laneid",
    "%warpid",
    "%nwarpid",
    "%smid",
    "%nsmid",
    "%gridid",
    "%lanemask_eq",
    "%lanemask_le",
    "%lanemask_lt",
    "%lanemask_ge",
    "%lanemask_gt",
    "%clock",
    "%clock_hi",
    "%clock64",
    "%globaltimer",
    "%globaltimer_lo",
    "%globaltimer_hi",
    "%dynamic_smem_size",
    "%total_smem_size",
    "%aggr_smem_size",
    "%reserved_smem_offset_begin",
    "%reserved_smem_offset_end",
    "%reserved_smem_offset_cap",
    "%reserved_smem_offset_0",
    "%reserved_smem_offset_1",
    "%envreg0",
    "%envreg1",
    "%envreg2",
    "%current_graph_exec",
    "WARP_SZ",
};

}  // namespace

Special special_from_name(std::string_view name) {
  static const auto* const index = [] {
    auto* map = new std::unordered_map<std::string_view, Special>;
    for (std::size_t i = 0; i < kSpecialNames.size(); ++i)
      map->emplace(kSpecialNames[i], static_cast<Special>(i));
    return map;
  }();
  const auto found = index->find(name);
  return found == index->end() ? Special::kCount : found->second;
}

}  // namespace sglab::emu
