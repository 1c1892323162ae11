// What a request's name says: its colour, and itself in few pixels.

const BY_THE_ENGINE = /^request (\d+)/;

/** The number in a name; the engine's own names count from 1, and its widgets colour requests from 0. */
export function hueOf(name: string, index: number): number {
  const counted = BY_THE_ENGINE.exec(name);
  return counted ? Number(counted[1]) - 1 : Number(/\d+$/.exec(name)?.[0] ?? index);
}

/** A name for a cell that is narrow: "request 12" is "req 12", and of others the beginning stays. */
export function shortName(name: string): string {
  const short = name.replace(BY_THE_ENGINE, "req $1");
  return short.length <= 7 ? short : `${short.slice(0, 6)}…`;
}
