// Layers × steps on a canvas: zoom by dragging, pan with shift, walk with the arrows.
import { drawSteps, type Range } from "./axis";
import { alarmColour, isAlarm, paint, type Cells, type Painted, type Scale } from "./cells";
import { el, sharp } from "./dom";
import type { Theme } from "./palette";
import { bucketAt, NAN, POSINF } from "./source";

export interface Mark {
  row: number;
  since: number;
  step: number;
  label: string;
}

export interface HeatView {
  cells: Cells | null;
  scale: Scale;
  range: Range;
  rowHeight: number;
  rows: number;
  row: number;
  step: number | null;
  marks: Mark[];
  theme: Theme;
  title: string;
  describe: string;
}

export interface HeatEvents {
  pick(row: number, step: number): void;
  hover(row: number, step: number | null, event: PointerEvent | null): void;
  zoom(range: Range): void;
  walk(rows: number, records: number): void;
  reset(): void;
}

const AXIS = 22;

export class HeatMap {
  readonly root: HTMLElement;
  private canvas: HTMLCanvasElement;
  private over: HTMLCanvasElement;
  private steps: HTMLCanvasElement;
  private view: HeatView | null = null;
  private painted: Painted | null = null;
  private paintedOf: unknown[] = [];
  private drag: { from: number; to: number; range: Range; pan: boolean; moved: boolean } | null =
    null;
  private hovered: { row: number; x: number } | null = null;

  constructor(private events: HeatEvents) {
    this.canvas = el("canvas", {
      class: "heat",
      tabindex: 0,
      role: "img",
      "aria-roledescription": "heat map",
    });
    this.over = el("canvas", { class: "over", "aria-hidden": "true" });
    // By itself: of a map that scrolls, the steps stay in sight.
    this.steps = el("canvas", { class: "steps", "aria-hidden": "true" });
    this.root = el("div", { class: "heatbox" }, this.canvas, this.over, this.steps);
    this.listen();
  }

  show(view: HeatView): void {
    this.view = view;
    this.canvas.setAttribute("aria-label", view.describe);
    this.draw();
  }

  private get printing(): boolean {
    return this.root.closest(".printing") !== null;
  }

  private get width(): number {
    return this.root.clientWidth;
  }

  private stepAt(x: number, range = this.view!.range): number {
    return range[0] + (x / this.width) * (range[1] - range[0]);
  }

  private xAt(step: number): number {
    const [low, high] = this.view!.range;
    return ((step - low) / (high - low)) * this.width;
  }

  /** Where the cell of a step begins (0), or ends (1). */
  private edge(step: number, end: 0 | 1): number {
    const heat = this.view!.cells?.heat;
    if (!heat) return this.xAt(step + end);
    const wide = (heat.high - heat.low) / heat.buckets;
    return this.xAt(heat.low + (Math.floor((step - heat.low) / wide + 1e-9) + end) * wide);
  }

  draw(): void {
    const view = this.view;
    if (!view || !this.width) return;
    const { theme, cells, rowHeight } = view;
    const height = view.rows * rowHeight;
    this.root.style.height = `${height + AXIS}px`;
    const context = sharp(this.canvas, this.width, height);
    if (cells) {
      const key = [cells, view.scale, theme];
      if (key.some((part, i) => part !== this.paintedOf[i])) {
        this.painted = paint(cells, view.scale, theme);
        this.paintedOf = key;
      }
      const [left, right] = [this.xAt(cells.heat.low), this.xAt(cells.heat.high)];
      if (this.painted?.holes) hatch(context, left, right - left, height, theme);
      context.imageSmoothingEnabled = false;
      if (this.painted) context.drawImage(this.painted.image, left, 0, right - left, height);
      if (rowHeight >= 7) {
        context.fillStyle = theme.page;
        context.globalAlpha = rowHeight >= 12 ? 1 : 0.6;
        for (let r = 1; r < view.rows; r++) context.fillRect(0, r * rowHeight - 0.5, this.width, 1);
        context.globalAlpha = 1;
      }
      this.alarms(context, cells, rowHeight, theme);
    }
    this.drawAxis();
    this.drawOver();
  }

  private drawAxis(): void {
    const { range, step, theme } = this.view!;
    const context = sharp(this.steps, this.width, AXIS);
    drawSteps(context, range, 0, this.width, 0, theme);
    const x = step === null ? -1 : this.xAt(step + 0.5);
    if (x < -1 || x > this.width + 1) return;
    context.fillStyle = theme.accent;
    context.beginPath();
    context.moveTo(x - 4, 6);
    context.lineTo(x + 4, 6);
    context.lineTo(x, 0);
    context.fill();
  }

  /** What is not finite is seen at any zoom: at least four pixels, and its own sign. */
  private alarms(
    context: CanvasRenderingContext2D,
    cells: Cells,
    rowHeight: number,
    theme: Theme,
  ): void {
    const { heat, flags } = cells;
    const bucket = (this.xAt(heat.high) - this.xAt(heat.low)) / heat.buckets;
    const [wide, tall] = [Math.max(4, bucket), Math.max(4, rowHeight - (rowHeight >= 7 ? 1 : 0))];
    context.textAlign = "center";
    context.textBaseline = "middle";
    context.font = `bold ${Math.min(12, rowHeight - 1)}px ui-sans-serif, system-ui, sans-serif`;
    for (let at = 0; at < flags.length; at++) {
      if (!isAlarm(flags[at])) continue;
      const row = Math.floor(at / heat.buckets);
      const x = this.xAt(heat.low) + (at % heat.buckets) * bucket + bucket / 2;
      if (x < -wide || x > this.width + wide) continue;
      const y = row * rowHeight + rowHeight / 2;
      context.fillStyle = alarmColour(flags[at], theme);
      context.fillRect(x - wide / 2, y - tall / 2, wide, tall);
      if (rowHeight >= 9 && wide >= 8) {
        context.fillStyle = "#fff";
        const sign = flags[at] & NAN ? "×" : flags[at] & POSINF ? "+" : "−";
        context.fillText(sign, x, y + 0.5);
      }
    }
  }

  private drawOver(): void {
    const view = this.view!;
    const { theme, rowHeight } = view;
    const height = view.rows * rowHeight;
    // On paper a canvas hides what is below it, so both share one there.
    const context = this.printing
      ? this.canvas.getContext("2d")!
      : sharp(this.over, this.width, height);
    const heat = view.cells?.heat;
    const bucket = heat ? (this.xAt(heat.high) - this.xAt(heat.low)) / heat.buckets : 0;
    for (const mark of view.marks) {
      const left = Math.max(0, this.edge(mark.since, 0));
      const right = Math.min(this.width, Math.max(this.edge(mark.step, 1), left + Math.max(4, bucket)));
      if (right < 0 || left > this.width) continue;
      const y = mark.row * rowHeight;
      frame(context, left, y, right - left, rowHeight, theme);
    }
    if (view.step !== null) {
      const x = this.xAt(view.step + 0.5);
      if (x >= -1 && x <= this.width + 1) {
        // Not over the chosen cell itself, whose colour may be what one came for.
        const gap = view.row >= 0 ? view.row * rowHeight : height;
        line(context, x, 0, gap, theme);
        line(context, x, gap + rowHeight, height - gap - rowHeight, theme);
      }
    }
    if (view.row >= 0) {
      context.strokeStyle = theme.accent;
      context.lineWidth = 1.5;
      const y = view.row * rowHeight;
      context.strokeRect(0.75, y - 0.25, this.width - 1.5, Math.max(3, rowHeight - 0.5));
    }
    if (this.hovered && !this.drag) {
      context.fillStyle = theme.ink;
      context.globalAlpha = 0.45;
      context.fillRect(this.hovered.x, 0, 1, height);
      context.globalAlpha = 1;
    }
    if (this.drag?.moved && !this.drag.pan) {
      const [from, to] = [this.drag.from, this.drag.to].sort((x, y) => x - y);
      context.fillStyle = theme.accent;
      context.globalAlpha = 0.25;
      context.fillRect(from, 0, to - from, height);
      context.globalAlpha = 1;
    }
  }

  /** The steps of the bucket that is shown at a step. */
  stepsAt(step: number): [number, number] | null {
    const heat = this.view?.cells?.heat;
    const at = heat ? bucketAt(heat, step) : -1;
    return heat && at >= 0 ? [heat.first[at], heat.last[at]] : null;
  }

  private place(event: PointerEvent): { x: number; row: number } {
    const box = this.canvas.getBoundingClientRect();
    const x = Math.min(Math.max(event.clientX - box.left, 0), this.width - 1);
    return { x, row: Math.floor((event.clientY - box.top) / this.view!.rowHeight) };
  }

  private listen(): void {
    const canvas = this.canvas;
    canvas.addEventListener("pointerdown", (event) => {
      if (!this.view || event.button > 1) return;
      const { x } = this.place(event);
      const pan = event.shiftKey || event.button === 1;
      this.drag = { from: x, to: x, range: this.view.range, pan, moved: false };
      canvas.setPointerCapture(event.pointerId);
    });
    canvas.addEventListener("pointermove", (event) => {
      if (!this.view) return;
      const { x, row } = this.place(event);
      const drag = this.drag;
      if (drag) {
        drag.to = x;
        drag.moved ||= Math.abs(drag.to - drag.from) > 4;
        if (drag.pan && drag.moved) {
          const by = ((drag.from - x) / this.width) * (drag.range[1] - drag.range[0]);
          this.events.zoom([drag.range[0] + by, drag.range[1] + by]);
        }
      }
      const inside = row >= 0 && row < this.view.rows;
      this.hovered = inside ? { row, x } : null;
      this.events.hover(inside ? row : -1, this.stepAt(x), event);
      this.drawOver();
    });
    canvas.addEventListener("pointerup", (event) => {
      const drag = this.drag;
      this.drag = null;
      if (!this.view || !drag) return;
      const { x, row } = this.place(event);
      if (!drag.moved) {
        if (row >= 0 && row < this.view.rows) this.events.pick(row, this.stepAt(x));
      } else if (!drag.pan) {
        const ends = [this.stepAt(drag.from), this.stepAt(x)].sort((p, q) => p - q);
        this.events.zoom(ends as Range);
      }
      this.drawOver();
    });
    canvas.addEventListener("pointerleave", () => {
      this.hovered = null;
      this.events.hover(-1, null, null);
      if (this.view) this.drawOver();
    });
    canvas.addEventListener("dblclick", () => this.events.reset());
    canvas.addEventListener(
      "wheel",
      (event) => {
        if (!this.view) return;
        const [low, high] = this.view.range;
        const sideways = Math.abs(event.deltaX) > Math.abs(event.deltaY);
        if (sideways) {
          const by = (event.deltaX / this.width) * (high - low);
          this.events.zoom([low + by, high + by]);
        } else if (event.ctrlKey || event.metaKey) {
          const at = this.stepAt(event.offsetX);
          const factor = Math.exp(Math.sign(event.deltaY) * 0.25);
          this.events.zoom([at - (at - low) * factor, at + (high - at) * factor]);
        } else return;
        event.preventDefault();
      },
      { passive: false },
    );
    canvas.addEventListener("keydown", (event) => this.key(event));
  }

  private key(event: KeyboardEvent): void {
    if (!this.view) return;
    const [low, high] = this.view.range;
    const [middle, half] = [(low + high) / 2, (high - low) / 2];
    const by = event.shiftKey ? 10 : 1;
    const actions: Record<string, () => void> = {
      ArrowUp: () => this.events.walk(-1, 0),
      ArrowDown: () => this.events.walk(1, 0),
      ArrowLeft: () => this.events.walk(0, -by),
      ArrowRight: () => this.events.walk(0, by),
      Home: () => this.events.walk(0, -Infinity),
      End: () => this.events.walk(0, Infinity),
      PageUp: () => this.events.zoom([low - half, high - half]),
      PageDown: () => this.events.zoom([low + half, high + half]),
      "+": () => this.events.zoom([middle - half / 2, middle + half / 2]),
      "=": () => this.events.zoom([middle - half / 2, middle + half / 2]),
      "-": () => this.events.zoom([middle - 2 * half, middle + 2 * half]),
      "0": () => this.events.reset(),
    };
    const action = actions[event.key];
    if (!action || event.ctrlKey || event.metaKey || event.altKey) return;
    event.preventDefault();
    action();
  }
}

function hatch(
  context: CanvasRenderingContext2D,
  left: number,
  width: number,
  height: number,
  theme: Theme,
): void {
  context.save();
  context.beginPath();
  context.rect(left, 0, width, height);
  context.clip();
  context.strokeStyle = theme.unmeasured;
  context.lineWidth = 1;
  context.beginPath();
  for (let x = Math.max(left, 0) - height; x < Math.min(left + width, 4000); x += 6) {
    context.moveTo(x, height);
    context.lineTo(x + height, 0);
  }
  context.stroke();
  context.restore();
}

function frame(
  context: CanvasRenderingContext2D,
  x: number,
  y: number,
  width: number,
  height: number,
  theme: Theme,
): void {
  // Around the cells and not over them: their colour is what the mark points at.
  const tall = Math.max(5, height - 1);
  const box = (out: number) =>
    context.strokeRect(x - out, y + (height - tall) / 2, width + 2 * out, tall);
  context.lineWidth = 1.5;
  context.strokeStyle = theme.page;
  box(2);
  context.strokeStyle = theme.nan;
  box(0.75);
}

function line(
  context: CanvasRenderingContext2D,
  x: number,
  y: number,
  height: number,
  theme: Theme,
): void {
  if (height <= 0) return;
  context.fillStyle = theme.page;
  context.fillRect(x - 1.5, y, 3, height);
  context.fillStyle = theme.accent;
  context.fillRect(x - 0.75, y, 1.5, height);
}
