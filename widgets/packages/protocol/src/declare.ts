// What crosses between a Python widget and its page, declared once: traits, commands, tensors. TypeScript takes its types
// from here; build.mjs writes the same as ../../protocol.json, which a Python test holds against the widget classes.

import type { DType, Tensor } from "./tensor";
import type { Carried, Fields, Value, Values } from "./value";

/** A method that the page may call by name. */
export interface Command<Request extends Values = Values, Answer extends Value = Value> {
  readonly request: Request;
  readonly answer: Answer;
}

/** `dtype` null: any; shape: a number, or the name of an extent that differs; null: any. */
export interface TensorSpec<D extends DType = DType> {
  readonly dtype: D | null;
  readonly shape: readonly (number | string)[] | null;
}

/** Names of tensors may have parts that differ: "{kernel}.moments". */
export interface Declaration {
  readonly traits: Values;
  readonly commands: Readonly<Record<string, Command>>;
  readonly tensors: Readonly<Record<string, TensorSpec>>;
}

export interface Protocol<Name extends string = string, Version extends number = number> extends Declaration {
  /** Of the bundle. */
  readonly name: Name;
  /** Counts changes of what crosses; equals `format` of the Python class. */
  readonly version: Version;
}

export function command<Request extends Values, Answer extends Value>(
  request: Request,
  answer: Answer,
): Command<Request, Answer> {
  return { request, answer };
}

export function tensor<const D extends DType>(dtype: D | null, shape: TensorSpec["shape"]): TensorSpec<D> {
  return { dtype, shape };
}

export interface Extended<Base extends Declaration, Own extends Declaration> {
  readonly traits: Omit<Base["traits"], keyof Own["traits"]> & Own["traits"];
  readonly commands: Base["commands"] & Own["commands"];
  readonly tensors: Base["tensors"] & Own["tensors"];
}

/** All of `base` and some more, or the same more exactly. */
export function extend<Base extends Declaration, Own extends Declaration>(
  base: Base,
  own: Own,
): Extended<Base, Own> {
  return {
    traits: { ...base.traits, ...own.traits } as Extended<Base, Own>["traits"],
    commands: { ...base.commands, ...own.commands },
    tensors: { ...base.tensors, ...own.tensors },
  };
}

export type TraitName<D extends Declaration> = keyof D["traits"] & string;
export type Traits<D extends Declaration> = Fields<D["traits"]>;
export type CommandName<D extends Declaration> = keyof D["commands"] & string;
export type Requests<D extends Declaration> = {
  [Name in CommandName<D>]: Fields<D["commands"][Name]["request"]>;
};
export type Answers<D extends Declaration> = {
  [Name in CommandName<D>]: Carried<D["commands"][Name]["answer"]>;
};

type Pattern<Name extends string> = Name extends `${infer Before}{${string}}${infer After}`
  ? `${Before}${string}${Pattern<After>}`
  : Name;

type TensorOf<Spec> = Spec extends TensorSpec<infer D> ? Tensor<D> : never;

/** By name, or by a pattern of names. */
export type Tensors<D extends Declaration> = {
  [Name in keyof D["tensors"] & string as Pattern<Name>]: TensorOf<D["tensors"][Name]>;
};
export type TensorName<D extends Declaration> = keyof Tensors<D> & string;
