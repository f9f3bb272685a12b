// The colours of show/palette.py, which generates palette.json.
import themes from "./palette.json";

export interface Theme {
  dark: boolean;
  page: string;
  ink: string;
  muted: string;
  grid: string;
  band: string;
  hues: string[];
  accent: string;
  second: string;
  nan: string;
  posinf: string;
  neginf: string;
  zero: string;
  unmeasured: string;
  warn: string;
  ramp: Uint32Array;
  fork: Uint32Array;
}

export function hex(colour: string): [number, number, number] {
  const value = parseInt(colour.slice(1), 16);
  return [value >> 16, (value >> 8) & 255, value & 255];
}

/** A colour as a pixel of ImageData has it (little-endian). */
export function pixel(colour: string): number {
  const [r, g, b] = hex(colour);
  return ((255 << 24) | (b << 16) | (g << 8) | r) >>> 0;
}

// Between two stops in linear light, in which equal parts look like equal parts.
function ramp(stops: string[], size = 256): Uint32Array {
  const linear = stops.map((stop) => hex(stop).map((c) => (c / 255) ** 2.2));
  return Uint32Array.from({ length: size }, (_, i) => {
    const at = (i / (size - 1)) * (stops.length - 1);
    const low = Math.min(Math.floor(at), stops.length - 2);
    const share = at - low;
    const [r, g, b] = linear[low].map((c, k) =>
      Math.round(255 * (c + (linear[low + 1][k] - c) * share) ** (1 / 2.2)),
    );
    return ((255 << 24) | (b << 16) | (g << 8) | r) >>> 0;
  });
}

function made(dark: boolean): Theme {
  const from = dark ? themes.dark : themes.light;
  return {
    dark,
    page: from.paper,
    ink: from.ink,
    muted: from.muted,
    grid: from.page.grid,
    band: from.page.band,
    hues: from.hues,
    accent: from.hues[0],
    second: from.sick,
    nan: from.nan,
    posinf: from.posinf,
    neginf: from.neginf,
    zero: from.zero,
    unmeasured: from.page.hatch,
    warn: from.warn,
    ramp: ramp(from.ramp),
    fork: ramp(from.fork),
  };
}

const LIGHT = made(false);
const DARK = made(true);

/** The custom properties that the style sheet refers to. */
export const PROPERTIES = `.gradwatch-app { ${themes.light.css} }
.gradwatch-app[data-theme="dark"] { ${themes.dark.css} color-scheme: dark; }
`;

export function theme(dark: boolean): Theme {
  return dark ? DARK : LIGHT;
}

export function css(pixelValue: number): string {
  return `rgb(${pixelValue & 255},${(pixelValue >> 8) & 255},${(pixelValue >> 16) & 255})`;
}
