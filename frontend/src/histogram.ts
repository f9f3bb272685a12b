// The histogram of one weight over time: |g| on a log scale, and both signs at one step.
import { drawPowers, drawSteps, FONT, type Range } from "./axis";
import { el, sharp } from "./dom";
import { count, number, percent } from "./format";
import type { Theme } from "./palette";
import type { Histograms } from "./source";

export interface HistogramView {
  data: Histograms | null;
  range: Range;
  step: number | null;
  theme: Theme;
}

const HEIGHT = 256;
const SIDE = 120;
const LOG = Math.log10(2);
const BOX = { left: 44, top: 18, bottom: 22 };

export class HistogramChart {
  readonly root = el("div", { class: "histogram" });
  private canvas = el("canvas", { role: "img" });
  private view: HistogramView | null = null;

  constructor(private events: { hover(text: string[] | null, event: PointerEvent | null): void }) {
    this.root.append(this.canvas);
    this.canvas.addEventListener("pointermove", (event) => this.hover(event));
    this.canvas.addEventListener("pointerleave", () => this.events.hover(null, null));
  }

  show(view: HistogramView): void {
    this.view = view;
    const width = this.root.clientWidth;
    if (!width) return;
    const context = sharp(this.canvas, width, HEIGHT);
    const { data, theme } = view;
    this.canvas.setAttribute(
      "aria-label",
      data ? `histograms of the gradient of ${data.name} at ${data.steps.length} steps` : "",
    );
    if (!data || !data.steps.length) return;
    const used = this.used(data);
    if (!used) return;
    const [bottom, top] = used;
    const box = this.box(width);
    const [low, high] = [(data.lowest + bottom) * LOG, (data.lowest + top + 1) * LOG];
    this.density(context, data, bottom, top, box);
    drawPowers(context, low, high, box, theme);
    drawSteps(context, view.range, box.left, box.width, box.top + box.height, theme);
    this.bars(context, data, bottom, top, box, width);
    context.font = FONT;
    context.fillStyle = theme.muted;
    context.textBaseline = "top";
    context.textAlign = "left";
    context.fillText("|g|, share of the elements", box.left, 1);
  }

  private box(width: number) {
    return {
      left: BOX.left,
      top: BOX.top,
      width: width - BOX.left - SIDE - 16,
      height: HEIGHT - BOX.top - BOX.bottom,
    };
  }

  /** The octaves that any step uses, with one to spare on each side. */
  private used(data: Histograms): [number, number] | null {
    const n = data.octaves;
    let [low, high] = [n, -1];
    for (let i = 0; i < data.counts.length; i++) {
      if (!data.counts[i]) continue;
      const octave = octaveOf(i % (2 * n), n);
      low = Math.min(low, octave);
      high = Math.max(high, octave);
    }
    return high < 0 ? null : [Math.max(0, low - 1), Math.min(n - 1, high + 1)];
  }

  private at(step: number): number {
    const { steps } = this.view!.data!;
    let at = -1;
    while (at + 1 < steps.length && steps[at + 1] <= step) at++;
    return at;
  }

  private density(
    context: CanvasRenderingContext2D,
    data: Histograms,
    bottom: number,
    top: number,
    box: { left: number; top: number; width: number; height: number },
  ): void {
    const { range, theme, step } = this.view!;
    const x = (at: number) =>
      box.left + ((at - range[0]) / (range[1] - range[0])) * box.width;
    context.save();
    context.beginPath();
    context.rect(box.left, box.top, box.width, box.height);
    context.clip();
    const tall = box.height / (top - bottom + 1);
    const last = data.steps.length - 1;
    const gap = last > 0 ? (data.steps[last] - data.steps[0]) / last : 1;
    for (let i = 0; i <= last; i++) {
      const from = x(data.steps[i]);
      const to = x(i < last ? data.steps[i + 1] : data.steps[i] + gap);
      if (to < box.left || from > box.left + box.width) continue;
      const sums = both(data, i);
      const total = sums.reduce((p, q) => p + q, 0);
      if (!total) continue;
      for (let octave = bottom; octave <= top; octave++) {
        const share = sums[octave] / total;
        if (!share) continue;
        const level = theme.ramp[Math.round(255 * Math.min(1, Math.sqrt(share / 0.3)))];
        context.fillStyle = `rgb(${level & 255},${(level >> 8) & 255},${(level >> 16) & 255})`;
        const y = box.top + box.height - (octave - bottom + 1) * tall;
        context.fillRect(from, y, Math.max(1, to - from + 0.5), tall + 0.5);
      }
    }
    if (step !== null) {
      context.fillStyle = theme.accent;
      context.fillRect(x(step) - 0.75, box.top, 1.5, box.height);
    }
    context.restore();
  }

  /** At the chosen step: negative to the left, positive to the right. */
  private bars(
    context: CanvasRenderingContext2D,
    data: Histograms,
    bottom: number,
    top: number,
    box: { left: number; top: number; width: number; height: number },
    width: number,
  ): void {
    const { theme, step } = this.view!;
    const at = step === null ? data.steps.length - 1 : Math.max(0, this.at(step));
    const n = data.octaves;
    const row = data.counts.subarray(at * 2 * n, (at + 1) * 2 * n);
    const most = Math.max(1, ...row);
    const middle = width - SIDE / 2 - 2;
    const half = SIDE / 2 - 4;
    const tall = box.height / (top - bottom + 1);
    for (let octave = bottom; octave <= top; octave++) {
      const y = box.top + box.height - (octave - bottom + 1) * tall;
      const high = Math.max(1, tall - 1);
      const [plus, minus] = [row[n + octave], row[n - 1 - octave]];
      context.fillStyle = theme.accent;
      context.fillRect(middle, y, (plus / most) * half, high);
      context.fillStyle = theme.hues[1];
      context.fillRect(middle - (minus / most) * half, y, (minus / most) * half, high);
    }
    context.fillStyle = theme.muted;
    context.fillRect(middle - 0.5, box.top, 1, box.height);
    context.font = FONT;
    context.textBaseline = "top";
    context.textAlign = "center";
    context.fillText(`− at step ${count(data.steps[at])} +`, middle, 1);
  }

  private hover(event: PointerEvent): void {
    const view = this.view;
    const used = view?.data?.steps.length ? this.used(view.data) : null;
    if (!view?.data || !used) return;
    const { left, top, width } = this.canvas.getBoundingClientRect();
    const box = this.box(width);
    const share = (event.clientX - left - box.left) / box.width;
    const depth = 1 - (event.clientY - top - box.top) / box.height;
    if (share < 0 || share > 1 || depth < 0 || depth >= 1) return this.events.hover(null, null);
    const at = this.at(view.range[0] + share * (view.range[1] - view.range[0]));
    if (at < 0) return this.events.hover(null, null);
    const octave = used[0] + Math.floor(depth * (used[1] - used[0] + 1));
    const sums = both(view.data, at);
    const total = sums.reduce((p, q) => p + q, 0);
    const from = 2 ** (view.data.lowest + octave);
    this.events.hover(
      [
        `step ${count(view.data.steps[at])}`,
        `|g| from ${number(from, 3)} to ${number(2 * from, 3)}`,
        `${percent(total ? sums[octave] / total : 0)} % of what is not zero`,
      ],
      event,
    );
  }
}

function octaveOf(bucket: number, octaves: number): number {
  return bucket >= octaves ? bucket - octaves : octaves - 1 - bucket;
}

function both(data: Histograms, at: number): number[] {
  const n = data.octaves;
  const row = data.counts.subarray(at * 2 * n, (at + 1) * 2 * n);
  return Array.from({ length: n }, (_, k) => row[n + k] + row[n - 1 - k]);
}
