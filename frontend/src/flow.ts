// Gradient flow along depth at one step: the mean of |g|, and a bar up to the largest.
import { drawPowers, FONT } from "./axis";
import { el, sharp } from "./dom";
import { foldAll } from "./format";
import type { Theme } from "./palette";
import { blocksOf, type Row } from "./rows";
import { MEASURED, type Kind, type Snapshot } from "./source";

export interface FlowView {
  rows: Row[];
  kind: Kind;
  snapshots: { snapshot: Snapshot; which: "a" | "b" }[];
  row: number;
  theme: Theme;
}

interface Point {
  state: "value" | "zero" | "missing";
  typical: number;
  largest: number;
  alarm: boolean;
}

const HEIGHT = 256;
const BOX = { left: 44, top: 18, right: 10, bottom: 58 };
const VECTORS = /(bias|beta|gamma|scale)$/;

export class FlowChart {
  readonly root = el("div", { class: "flow" });
  private canvas = el("canvas", { role: "img", tabindex: 0, class: "pickable" });
  private view: FlowView | null = null;
  private extent: [number, number] | null = null;
  private key = "";

  constructor(private events: { pick(row: number): void; hover(row: number, event: PointerEvent | null): void }) {
    this.root.append(this.canvas);
    const rowAt = (event: PointerEvent) => {
      const { left, width } = this.canvas.getBoundingClientRect();
      const rows = this.view?.rows.length ?? 0;
      const inner = width - BOX.left - BOX.right;
      const row = Math.floor(((event.clientX - left - BOX.left) / inner) * rows);
      return row >= 0 && row < rows ? row : -1;
    };
    this.canvas.addEventListener("pointermove", (e) => events.hover(rowAt(e), e));
    this.canvas.addEventListener("pointerleave", () => events.hover(-1, null));
    this.canvas.addEventListener("click", (e) => {
      const row = rowAt(e as PointerEvent);
      if (row >= 0) events.pick(row);
    });
    this.canvas.addEventListener("keydown", (e) => {
      const by = { ArrowLeft: -1, ArrowRight: 1 }[e.key];
      if (!by || !this.view) return;
      e.preventDefault();
      const next = Math.min(Math.max(this.view.row + by, 0), this.view.rows.length - 1);
      this.events.pick(next);
    });
  }

  show(view: FlowView): void {
    this.view = view;
    const width = this.root.clientWidth;
    if (!width) return;
    const context = sharp(this.canvas, width, HEIGHT);
    const { theme, rows } = view;
    const box = {
      left: BOX.left,
      top: BOX.top,
      width: width - BOX.left - BOX.right,
      height: HEIGHT - BOX.top - BOX.bottom,
    };
    const runs = view.snapshots.map(({ snapshot, which }) =>
      rows.map((row) => pointOf(row[which], snapshot)),
    );
    const first = view.snapshots[0]?.snapshot;
    this.canvas.setAttribute(
      "aria-label",
      first ? `gradient flow along depth at step ${first.step}` : "gradient flow",
    );
    // While it plays the axis only grows, so that movement is that of the gradients.
    const key = [view.kind, view.snapshots.length, rows.map((r) => r.label)].join();
    if (key !== this.key) [this.key, this.extent] = [key, null];
    this.extent = extentOf(runs.flat(), this.extent);
    const [low, high] = this.extent ?? [-3, 0];
    const spot = (i: number) => box.left + ((i + 0.5) / Math.max(1, rows.length)) * box.width;
    const level = (v: number) => box.top + box.height * (1 - (Math.log10(v) - low) / (high - low));
    this.blocks(context, box, spot);
    drawPowers(context, low, high, box, theme);
    if (view.row >= 0) {
      context.fillStyle = theme.accent;
      context.globalAlpha = 0.14;
      const wide = Math.max(6, box.width / rows.length);
      context.fillRect(spot(view.row) - wide / 2, box.top, wide, box.height);
      context.globalAlpha = 1;
    }
    runs.forEach((points, i) => this.points(context, points, i, spot, level, box));
    context.font = FONT;
    context.fillStyle = theme.muted;
    context.textAlign = "left";
    context.textBaseline = "top";
    context.fillText("mean |g|, bar up to the largest", box.left, 1);
    context.textAlign = "right";
    context.fillText("input → output", width - BOX.right, 1);
  }

  private points(
    context: CanvasRenderingContext2D,
    points: Point[],
    run: number,
    spot: (i: number) => number,
    level: (v: number) => number,
    box: { top: number; height: number; width: number },
  ): void {
    const { rows, kind, theme } = this.view!;
    const looks = points.map((_, i) => lookOf(rows[i], kind, theme));
    const second = run > 0;
    const size = Math.min(4.5, Math.max(2, (box.width / points.length) * 0.3));
    // A thin line through the main group: a gradient without a value breaks it.
    context.lineWidth = 1.2;
    context.globalAlpha = 0.45;
    context.strokeStyle = second ? theme.second : looks.find((l) => l.trend)?.colour ?? theme.ink;
    context.setLineDash(second ? [4, 3] : []);
    context.beginPath();
    let pen = false;
    points.forEach((point, i) => {
      if (!looks[i].trend) return;
      if (point.state !== "value") pen = false;
      else if (pen) context.lineTo(spot(i), level(point.typical));
      else {
        context.moveTo(spot(i), level(point.typical));
        pen = true;
      }
    });
    context.stroke();
    context.setLineDash([]);
    points.forEach((point, i) => {
      const colour = second ? theme.second : looks[i].colour;
      const x = spot(i) + (second ? Math.min(3, size) : 0);
      context.globalAlpha = 1;
      if (point.state === "value") {
        context.globalAlpha = 0.4;
        context.fillStyle = colour;
        context.fillRect(x - 1, level(point.largest), 2, level(point.typical) - level(point.largest));
        context.globalAlpha = 1;
        shape(context, looks[i].shape, x, level(point.typical), size, colour, second, theme);
      } else if (point.state === "zero") {
        context.strokeStyle = theme.ink;
        context.lineWidth = 1.2;
        context.beginPath();
        context.arc(x, box.top + box.height, 3, 0, 2 * Math.PI);
        context.stroke();
      } else if (!second) {
        context.fillStyle = theme.muted;
        context.fillRect(x - 3, box.top + box.height - 1, 6, 2);
      }
      if (point.alarm) cross(context, x, box.top, theme);
    });
    context.globalAlpha = 1;
  }

  /** Bands and names of blocks: an axis of five hundred addresses nobody can read. */
  private blocks(
    context: CanvasRenderingContext2D,
    box: { left: number; top: number; width: number; height: number },
    spot: (i: number) => number,
  ): void {
    const { rows, theme } = this.view!;
    const names = rows.map((row) => row.label);
    const found = blocksOf(names, Math.max(2, Math.floor(box.width / 26)));
    const blocks = found.length
      ? found
      : names.map((label, i) => ({ label, first: i, last: i }));
    const folded = foldAll(blocks.map(({ label }) => label), 11);
    const half = box.width / rows.length / 2;
    context.font = FONT;
    context.textBaseline = "middle";
    let free = -Infinity;
    blocks.forEach(({ label, first, last }, i) => {
      const [from, to] = [spot(first) - half, spot(last) + half];
      if (i % 2) {
        context.fillStyle = theme.band;
        context.fillRect(from, box.top, to - from, box.height);
      }
      const middle = (from + to) / 2;
      if (middle - free < 13) return;
      free = middle;
      context.save();
      context.translate(middle, box.top + box.height + 8);
      context.fillStyle = theme.muted;
      const fits = context.measureText(label).width < to - from - 6;
      if (fits) {
        context.textAlign = "center";
        context.fillText(label, 0, 4);
      } else {
        context.rotate(-Math.PI / 5);
        context.textAlign = "right";
        context.fillText(folded[i], 0, 4);
      }
      context.restore();
    });
  }
}

/** What a row shows at a step: the largest of its lines. */
export function pointOf(lines: number[], snapshot: Snapshot): Point {
  const typical = snapshot.quantities.indexOf("mean_abs") * snapshot.lines;
  const largest = snapshot.quantities.indexOf("largest") * snapshot.lines;
  const point: Point = { state: "missing", typical: 0, largest: 0, alarm: false };
  for (const line of lines) {
    if (line < 0 || line >= snapshot.lines) continue;
    for (let kind = 0; kind < 3; kind++) {
      if (snapshot.counts[kind * snapshot.lines + line] > 0) point.alarm = true;
    }
    if (!(snapshot.flags[typical + line] & MEASURED)) continue;
    const value = snapshot.values[typical + line];
    if (value > point.typical) point.typical = value;
    const top = snapshot.values[largest + line];
    if (top > point.largest) point.largest = top;
    if (value > 0) point.state = "value";
    else if (point.state === "missing" && value === 0) point.state = "zero";
  }
  point.largest = Math.max(point.largest, point.typical);
  return point;
}

function extentOf(points: Point[], before: [number, number] | null): [number, number] | null {
  let [low, high] = before ?? [Infinity, -Infinity];
  for (const point of points) {
    if (point.state !== "value") continue;
    low = Math.min(low, Math.floor(Math.log10(point.typical) - 0.05));
    high = Math.max(high, Math.ceil(Math.log10(point.largest) + 0.05));
  }
  if (low > high) return before;
  return high - low < 2 ? [low - 1, Math.max(high, low + 1)] : [low, high];
}

function lookOf(row: Row, kind: Kind, theme: Theme): { shape: string; colour: string; trend: boolean } {
  if (kind === "activation") return { shape: "square", colour: theme.hues[2], trend: true };
  if (kind === "value") return { shape: "triangle", colour: theme.accent, trend: true };
  const vector = row.names.length === 1 && VECTORS.test(row.names[0]);
  if (vector) return { shape: "diamond", colour: theme.hues[1], trend: false };
  return { shape: "circle", colour: theme.accent, trend: true };
}

function shape(
  context: CanvasRenderingContext2D,
  kind: string,
  x: number,
  y: number,
  size: number,
  colour: string,
  hollow: boolean,
  theme: Theme,
): void {
  context.beginPath();
  if (kind === "circle") context.arc(x, y, size, 0, 2 * Math.PI);
  else if (kind === "square") context.rect(x - size * 0.85, y - size * 0.85, size * 1.7, size * 1.7);
  else if (kind === "diamond") {
    context.moveTo(x, y - size);
    context.lineTo(x + size, y);
    context.lineTo(x, y + size);
    context.lineTo(x - size, y);
    context.closePath();
  } else {
    context.moveTo(x, y - size);
    context.lineTo(x + size, y + size * 0.8);
    context.lineTo(x - size, y + size * 0.8);
    context.closePath();
  }
  context.fillStyle = hollow ? theme.page : colour;
  context.strokeStyle = hollow ? colour : theme.page;
  context.lineWidth = hollow ? 1.4 : 0.75;
  context.fill();
  context.stroke();
}

function cross(context: CanvasRenderingContext2D, x: number, y: number, theme: Theme): void {
  context.strokeStyle = theme.nan;
  context.lineWidth = 2;
  context.beginPath();
  context.moveTo(x - 4, y - 4);
  context.lineTo(x + 4, y + 4);
  context.moveTo(x + 4, y - 4);
  context.lineTo(x - 4, y + 4);
  context.stroke();
}
