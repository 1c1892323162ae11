// Cividis (Nuñez, Anderton, Renslow 2018): even steps of lightness, the same to colour-blind eyes.

const STOPS = [
  0x00224e, 0x002c69, 0x123570, 0x2c3f6e, 0x3b496c, 0x49536b, 0x565d6d, 0x62676f, 0x6e7173, 0x7b7b78,
  0x898678, 0x979176, 0xa69c73, 0xb5a86e, 0xc5b567, 0xd5c25d, 0xe6cf50, 0xfde737,
];
export const NAN_COLOR = "#e6007e";

function channel(index: number, shift: number): number {
  const at = (index / 255) * (STOPS.length - 1);
  const low = Math.min(STOPS.length - 2, Math.floor(at));
  const [a, b] = [STOPS[low] as number, STOPS[low + 1] as number].map((stop) => (stop >> shift) & 0xff) as [
    number,
    number,
  ];
  return Math.round(a + (b - a) * (at - low));
}

/** 256 colours as bytes of an ImageData pixel: A B G R from the highest byte. */
const PIXELS = Uint32Array.from(
  { length: 256 },
  (_, i) => ((255 << 24) | (channel(i, 0) << 16) | (channel(i, 8) << 8) | channel(i, 16)) >>> 0,
);
export const NAN_PIXEL = ((255 << 24) | (0x7e << 16) | (0x00 << 8) | 0xe6) >>> 0;

export interface Range {
  low: number;
  high: number;
}

function step(value: number, { low, high }: Range): number {
  if (high <= low) return 128;
  return Math.max(0, Math.min(255, Math.round((255 * (value - low)) / (high - low))));
}

export function pixelOf(value: number, range: Range): number {
  return Number.isNaN(value) ? NAN_PIXEL : (PIXELS[step(value, range)] as number);
}

export function colorOf(value: number, range: Range): string {
  if (Number.isNaN(value)) return NAN_COLOR;
  const i = step(value, range);
  return `rgb(${channel(i, 16)} ${channel(i, 8)} ${channel(i, 0)})`;
}

/** Black or white, whichever reads better on the colour. */
export function inkFor(value: number, range: Range): string {
  return !Number.isNaN(value) && step(value, range) > 120 ? "#000000" : "#ffffff";
}

export function cssGradient(): string {
  return `linear-gradient(to right, ${STOPS.map((stop) => `#${stop.toString(16).padStart(6, "0")}`).join(", ")})`;
}
