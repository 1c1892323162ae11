// Lab 08: moe_align_block_size. The model solution.
extern "C" __global__ void moe_align(const int* topk_ids, int* sorted_ids, int* expert_ids, int* num_post_pad,
                                     int choices, int experts, int block) {
  __shared__ int count[64], start[65], next[64];
  for (int e = threadIdx.x; e < experts; e += blockDim.x) count[e] = 0;
  __syncthreads();  // counts are zero
  for (int i = threadIdx.x; i < choices; i += blockDim.x) atomicAdd(&count[topk_ids[i]], 1);
  __syncthreads();  // counts are complete
  if (threadIdx.x == 0) {
    start[0] = 0;
    for (int e = 0; e < experts; ++e) {
      next[e] = start[e];
      start[e + 1] = start[e] + (count[e] + block - 1) / block * block;
    }
    *num_post_pad = start[experts];
  }
  __syncthreads();  // starts are there
  for (int i = threadIdx.x; i < start[experts]; i += blockDim.x) sorted_ids[i] = choices;
  for (int e = threadIdx.x; e < experts; e += blockDim.x) {
    for (int slot = start[e]; slot < start[e + 1]; slot += block) expert_ids[slot / block] = e;
  }
  __syncthreads();  // padding is written before choices
  for (int i = threadIdx.x; i < choices; i += blockDim.x) sorted_ids[atomicAdd(&next[topk_ids[i]], 1)] = i;
}
