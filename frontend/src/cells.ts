// What a heat map shows in each of its cells, and in which colour.
import { pixel, type Theme } from "./palette";
import type { Row } from "./rows";
import { bucketAt, MEASURED, NAN, NEGINF, POSINF, type Heat, type Quantity } from "./source";

export interface Cells {
  heat: Heat;
  rows: number;
  values: Float32Array;
  flags: Uint8Array;
}

const ALARMS = NAN | POSINF | NEGINF;

export function isAlarm(flags: number): boolean {
  return (flags & ALARMS) !== 0;
}

export function alarmColour(flags: number, theme: Theme): string {
  if (flags & NAN) return theme.nan;
  return flags & POSINF ? theme.posinf : theme.neginf;
}

/** The worst of each row's lines. */
export function cellsOf(heat: Heat, rows: Row[], which: "a" | "b"): Cells {
  const n = heat.buckets;
  const all = rows.length * n === heat.values.length;
  if (all && rows.every((row, i) => row[which].length === 1 && row[which][0] === i)) {
    return { heat, rows: rows.length, values: heat.values, flags: heat.flags };
  }
  const values = new Float32Array(rows.length * n).fill(NaN);
  const flags = new Uint8Array(rows.length * n);
  rows.forEach((row, r) => {
    for (const line of row[which]) {
      if (line < 0 || (line + 1) * n > heat.values.length) continue;
      for (let j = 0, from = line * n, to = r * n; j < n; j++, from++, to++) {
        flags[to] |= heat.flags[from];
        const value = heat.values[from];
        if (!(values[to] >= value) && value === value) values[to] = value;
      }
    }
  });
  return { heat, rows: rows.length, values, flags };
}

/** The second over the first (as a power of ten), or the second minus the first. */
export function differenceOf(a: Cells, b: Cells, scale: Quantity["scale"]): Cells {
  const heat = a.heat;
  const n = heat.buckets;
  const values = new Float32Array(a.values.length).fill(NaN);
  const flags = new Uint8Array(a.values.length);
  for (let j = 0; j < n; j++) {
    const own = heat.held[j];
    const step = heat.low + ((j + 0.5) / n) * (heat.high - heat.low);
    const other = bucketAt(b.heat, step);
    if (own < 0 || other < 0) continue;
    for (let r = 0; r < a.rows; r++) {
      const [i, k] = [r * n + own, r * b.heat.buckets + other];
      const to = r * n + j;
      flags[to] = (a.flags[i] | b.flags[k]) & ALARMS;
      if (!(a.flags[i] & b.flags[k] & MEASURED)) continue;
      const [x, y] = [a.values[i], b.values[k]];
      if (scale === "share") values[to] = y - x;
      else if (x > 0 && y > 0) values[to] = Math.log10(y / x);
      else if (x === 0 && y === 0) values[to] = 0;
      else if (x === x && y === y) values[to] = y > x ? 99 : -99;
      if (values[to] === values[to]) flags[to] |= MEASURED;
    }
  }
  const held = Int32Array.from(heat.held, (h, j) => (h < 0 ? -1 : j));
  return { heat: { ...heat, held }, rows: a.rows, values, flags };
}

export interface Scale {
  kind: "log" | "share" | "ratio" | "change";
  low: number;
  high: number;
}

/** From small to large, the rare extremes left out; at least one power of ten. */
export function scaleOf(heats: Heat[], quantity: Quantity, before: Scale | null): Scale {
  if (quantity.scale === "share") return { kind: "share", low: 0, high: 1 };
  const found: number[] = [];
  for (const heat of heats) {
    // An odd stride, so that it does not meet the same buckets again and again.
    const stride = Math.max(1, Math.floor(heat.values.length / 8000)) | 1;
    for (let i = 0; i < heat.values.length; i += stride) {
      if (heat.values[i] > 0) found.push(Math.log10(heat.values[i]));
    }
  }
  const logs = Float64Array.from(found).sort();
  if (!logs.length) return before ?? { kind: "log", low: -3, high: 0 };
  let low = Math.floor(2 * logs[Math.floor(0.005 * (logs.length - 1))]) / 2;
  let high = Math.ceil(2 * logs[Math.ceil(0.995 * (logs.length - 1))]) / 2;
  if (before) [low, high] = [Math.min(low, before.low), Math.max(high, before.high)];
  if (high - low < 1) [low, high] = [low - 0.5, high + 0.5];
  return { kind: "log", low, high };
}

export function differenceScale(cells: Cells, quantity: Quantity): Scale {
  const sizes = Array.from(cells.values, Math.abs)
    .filter((v) => v < 90)
    .sort((x, y) => x - y);
  const most = sizes.length ? sizes[Math.ceil(0.98 * (sizes.length - 1))] : 1;
  if (quantity.scale === "share") {
    const high = Math.min(1, Math.max(0.05, Math.ceil(most * 20) / 20));
    return { kind: "change", low: -high, high };
  }
  const high = Math.max(0.5, Math.ceil(most * 2) / 2);
  return { kind: "ratio", low: -high, high };
}

export interface Painted {
  image: HTMLCanvasElement;
  /** Whether some cell was not measured, and is transparent. */
  holes: boolean;
}

/** Paints the cells, a pixel each. */
export function paint(cells: Cells, scale: Scale, theme: Theme): Painted | null {
  const { heat, rows, values, flags } = cells;
  const n = heat.buckets;
  if (!rows || !n) return null;
  const image = new ImageData(n, rows);
  const pixels = new Uint32Array(image.data.buffer);
  const forked = scale.kind === "ratio" || scale.kind === "change";
  const ramp = forked ? theme.fork : theme.ramp;
  const zero = pixel(theme.zero);
  const log = scale.kind === "log";
  const steep = 255 / (scale.high - scale.low);
  let holes = false;
  for (let r = 0; r < rows; r++) {
    for (let j = 0; j < n; j++) {
      const held = heat.held[j];
      const at = r * n + held;
      const value = values[at];
      if (held < 0) holes = true;
      else if (flags[at] & ALARMS) pixels[r * n + j] = pixel(alarmColour(flags[at], theme));
      else if (value !== value) holes = true;
      else if (value === 0 && log) pixels[r * n + j] = zero;
      else {
        const level = ((log ? Math.log10(value) : value) - scale.low) * steep;
        pixels[r * n + j] = ramp[level <= 0 ? 0 : level >= 255 ? 255 : (level + 0.5) | 0];
      }
    }
  }
  const canvas = document.createElement("canvas");
  [canvas.width, canvas.height] = [n, rows];
  canvas.getContext("2d")!.putImageData(image, 0, 0);
  return { image: canvas, holes };
}
