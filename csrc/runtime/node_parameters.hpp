// Between what programs say of nodes and work.
#pragma once

#include "runtime/abi.hpp"
#include "runtime/work.hpp"

namespace sglab::runtime {

Status work_from(const KernelNodeParameters& said, KernelWork& work);
Status work_from(const CopyParameters& said, CopyWork& work);
Status work_from(const FillParameters& said, FillWork& work);
Status work_from(const HostParameters& said, HostWork& work);
// Any kind that a node may have; fills in what the program asks back, such as an allocation's address.
Status work_from(NodeParameters& said, Work& work);

// The packed arguments in the list `extra` of a launch; null: there are none.
const void* buffer_of(void* const* extra);

CopyParameters said_of(const CopyWork& work);
FillParameters said_of(const FillWork& work);

}  // namespace sglab::runtime
