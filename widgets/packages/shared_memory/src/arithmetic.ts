// What the tests compare with the emulator's own descriptor and tensor-map code.

export { bankUse } from "@sglab/memory/banks";
export { decodeInstructionDescriptor, shapeProblem } from "@sglab/memory/instruction_descriptor";
export { chunkAddresses, decodeSmemDescriptor } from "@sglab/memory/smem_descriptor";
export { swizzleAddress } from "@sglab/memory/swizzle";
export { boxChunks, mapProblems } from "@sglab/memory/tensor_map";
