// Programmatic dependent launch: a kernel that starts while the one before it in the stream ends.
//
// Parallel Synchronization and Communication Instructions: griddepcontrol
// https://docs.nvidia.com/cuda/parallel-thread-execution/#parallel-synchronization-and-communication-instructions-griddepcontrol
#pragma once

namespace ptx {

// Waits until the kernel that this one was launched to overlap with has ended and its writes can be seen.
__device__ inline void griddepcontrol_wait() {
  asm volatile("griddepcontrol.wait;" ::: "memory");
}

// Lets the dependent kernel start once every CTA has called this.
__device__ inline void griddepcontrol_launch_dependents() {
  asm volatile("griddepcontrol.launch_dependents;" ::: "memory");
}

}  // namespace ptx
