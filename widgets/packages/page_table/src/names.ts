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

/** The request that a search text names, by its whole name or the short one, and the token after it. */
export function requestIn<T extends { name: string }>(
  text: string,
  requests: readonly T[],
): { request?: T | undefined; token?: number | undefined } {
  const named = (words: string) =>
    requests.find(({ name }) =>
      [name, shortName(name)].some((each) => each.toLowerCase() === words.trim().toLowerCase()),
    );
  const whole = named(text);
  if (whole) return { request: whole };
  const [, words = "", token] = /^(.+?)[\s,:]+(?:token\s*)?(\d+)$/i.exec(text) ?? [];
  const request = named(words);
  return request ? { request, token: Number(token) } : {};
}

/** A heading for a request: "Request r3", and not "Request request 2". */
export function headingOf(name: string): string {
  return /^request\b/i.test(name) ? `R${name.slice(1)}` : `Request ${name}`;
}
