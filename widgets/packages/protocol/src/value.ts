// Values as both sides know them: what kind of JSON they are, and in TypeScript what exactly.

/** Python's annotation: int, float, bool, str (or Literal), dict, list (or Sequence), None. */
export type Kind = "int" | "float" | "bool" | "text" | "dict" | "list" | "none";

export interface Value<T = unknown> {
  readonly kind: Kind;
  /** A command's argument that has a default. */
  readonly optional: boolean;
  /** For the type checker alone: nothing is stored here. */
  readonly carries?: T;
}

interface Needed<T> extends Value<T> {
  readonly optional: false;
}

interface Optional<T> extends Value<T> {
  readonly optional: true;
}

function needed<T>(kind: Kind): Needed<T> {
  return { kind, optional: false };
}

export const int = () => needed<number>("int");
export const float = () => needed<number>("float");
export const bool = () => needed<boolean>("bool");
export const text = <T extends string = string>() => needed<T>("text");
export const dict = <T extends object>() => needed<T>("dict");
export const list = <T>() => needed<T[]>("list");
export const none = () => needed<null>("none");

export function nullable<T>({ kind }: Needed<T>): Needed<T | null> {
  return { kind, optional: false };
}

export function optional<T>({ kind }: Value<T>): Optional<T> {
  return { kind, optional: true };
}

export type Values = Readonly<Record<string, Value>>;

export type Carried<V> = V extends { readonly carries?: infer T } ? Exclude<T, undefined> : never;

type OptionalNames<V extends Values> = {
  [Name in keyof V]: V[Name]["optional"] extends true ? Name : never;
}[keyof V];

/** An object with a property per value. */
export type Fields<V extends Values> = { [Name in Exclude<keyof V, OptionalNames<V>>]: Carried<V[Name]> } & {
  [Name in OptionalNames<V>]?: Carried<V[Name]>;
};
