// Axes that are drawn by hand, and the stretch of steps that pictures share.
import { count, power } from "./format";
import type { Theme } from "./palette";

export type Range = [number, number];

export const FONT = '11px ui-sans-serif, system-ui, "Segoe UI", Roboto, sans-serif';

/** Round numbers between two, about so many. */
export function ticks(low: number, high: number, most: number, whole = false): number[] {
  const rough = (high - low) / Math.max(1, most);
  const base = 10 ** Math.floor(Math.log10(rough || 1));
  let step = [1, 2, 5, 10].map((k) => k * base).find((k) => k >= rough) ?? rough;
  if (whole) step = Math.max(1, Math.round(step));
  const found = [];
  for (let at = Math.ceil(low / step) * step; at <= high + 1e-9 * step; at += step) {
    found.push(Math.abs(at) < 1e-12 ? 0 : at);
  }
  return found;
}

/** Whole powers of ten between two exponents, about so many. */
export function powers(low: number, high: number, most: number): number[] {
  const every = Math.max(1, Math.ceil((high - low) / Math.max(1, most)));
  const found = [];
  for (let at = Math.ceil(low / every) * every; at <= high + 1e-9; at += every) found.push(at);
  return found;
}

export function drawSteps(
  context: CanvasRenderingContext2D,
  range: Range,
  left: number,
  width: number,
  top: number,
  theme: Theme,
): void {
  context.font = FONT;
  context.fillStyle = theme.muted;
  context.strokeStyle = theme.grid;
  context.textBaseline = "top";
  for (const step of ticks(range[0], range[1], width / 90, true)) {
    const x = left + ((step - range[0]) / (range[1] - range[0])) * width;
    if (x < left || x > left + width) continue;
    context.fillRect(Math.round(x), top, 1, 4);
    const text = count(step);
    const half = context.measureText(text).width / 2;
    context.textAlign = "center";
    context.fillText(text, Math.min(Math.max(x, left + half), left + width - half), top + 6);
  }
}

export function drawPowers(
  context: CanvasRenderingContext2D,
  low: number,
  high: number,
  box: { left: number; top: number; width: number; height: number },
  theme: Theme,
): void {
  context.font = FONT;
  context.textBaseline = "middle";
  context.textAlign = "right";
  for (const at of powers(low, high, box.height / 26)) {
    const y = box.top + box.height * (1 - (at - low) / (high - low));
    context.fillStyle = theme.grid;
    context.fillRect(box.left, Math.round(y), box.width, 1);
    context.fillStyle = theme.muted;
    context.fillText(power(at), box.left - 6, y);
  }
}
