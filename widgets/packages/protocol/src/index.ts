export {
  type Badge,
  COMMON,
  type Common,
  type Header,
  type PushedSlice,
  protocol,
  type Selected,
  type Selection,
  type SliceName,
} from "./common";
export {
  type Answers,
  type Command,
  type CommandName,
  command,
  type Declaration,
  extend,
  type Protocol,
  type Requests,
  type TensorName,
  type TensorSpec,
  type Tensors,
  type TraitName,
  type Traits,
  tensor,
} from "./declare";
export type {
  AnswerMessage,
  AnySource,
  CallMessage,
  Connection,
  SavedTrace,
  Source,
  SourceOf,
} from "./source";
export {
  type DType,
  decodeTensor,
  float16,
  isWireTensor,
  type Numbers,
  type NumbersOf,
  sliceTensor,
  type Tensor,
} from "./tensor";
export { bool, dict, float, int, list, none, nullable, optional, text } from "./value";
