// Lab 08: moe_align_block_size.
//
// topk_ids[i], i < choices: the expert that choice i goes to, 0 to experts - 1 (at most 64).
// sorted_ids: the choices' numbers expert after expert, in any order within an expert, each expert's padded with the
//   value `choices` to whole blocks of `block`; an expert without choices has no block.
// expert_ids: of each block the expert. *num_post_pad: slots of all blocks.
// What is beyond num_post_pad stays as it is. The launch: one CTA of 128 threads.
extern "C" __global__ void moe_align(const int* topk_ids, int* sorted_ids, int* expert_ids, int* num_post_pad,
                                     int choices, int experts, int block) {
}
