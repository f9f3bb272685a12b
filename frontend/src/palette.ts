// The colours of show/palette.py; a test compares the two.
export const BLUE = "#0072B2";
export const ORANGE = "#E69F00";
export const GREEN = "#009E73";
export const VERMILION = "#D55E00";
export const SKY = "#56B4E9";
export const PURPLE = "#CC79A7";
export const INK = "#1F2328";
export const MUTED = "#6E7781";
export const ALARM = "#C1121F";
export const ALARM_DARK = "#FF7B72";

// A heat map from small to large. One end is near the page, so that what is small recedes.
export const RAMP_LIGHT = ["#F2F6E4", "#A9DCC6", "#43AAC6", "#0072B2", "#0A2A5C"];
export const RAMP_DARK = ["#12243F", "#0072B2", "#43AAC6", "#A9DCC6", "#FBFBE3"];
// A difference: less, equal, more.
export const FORK_LIGHT = ["#084A80", "#5AA6D6", "#F4F4F2", "#F0A43C", "#9A4A00"];
export const FORK_DARK = ["#8FD0F5", "#1F78B4", "#22262B", "#C77B12", "#FFC872"];

export interface Theme {
  dark: boolean;
  page: string;
  ink: string;
  muted: string;
  grid: string;
  band: string;
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

const LIGHT: Theme = {
  dark: false,
  page: "#FFFFFF",
  ink: INK,
  muted: MUTED,
  grid: "#80889038",
  band: "#80889014",
  accent: BLUE,
  second: VERMILION,
  nan: ALARM,
  posinf: ORANGE,
  neginf: PURPLE,
  zero: "#D5CFC8",
  unmeasured: "#80889055",
  warn: "#8A5A00",
  ramp: ramp(RAMP_LIGHT),
  fork: ramp(FORK_LIGHT),
};

const DARK: Theme = {
  dark: true,
  page: "#181B20",
  ink: "#E6EAEE",
  muted: "#9AA4AF",
  grid: "#80889045",
  band: "#80889018",
  accent: SKY,
  second: "#FF9B57",
  nan: "#FF4B4B",
  posinf: ORANGE,
  neginf: PURPLE,
  zero: "#4C4741",
  unmeasured: "#80889066",
  warn: "#F2B84B",
  ramp: ramp(RAMP_DARK),
  fork: ramp(FORK_DARK),
};

export function theme(dark: boolean): Theme {
  return dark ? DARK : LIGHT;
}

export function css(pixelValue: number): string {
  return `rgb(${pixelValue & 255},${(pixelValue >> 8) & 255},${(pixelValue >> 16) & 255})`;
}
