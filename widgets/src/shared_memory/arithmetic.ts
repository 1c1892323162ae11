// What the tests compare with the emulator's own descriptor and tensor-map code.

export { decodeInstructionDescriptor, shapeProblem } from "../memory/instruction_descriptor";
export { chunkAddresses, decodeSmemDescriptor } from "../memory/smem_descriptor";
export { swizzleAddress } from "../memory/swizzle";
export { boxChunks, mapProblems } from "../memory/tensor_map";
export { bankUse } from "./banks";
