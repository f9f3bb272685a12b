// The global norm and its kin over the steps, with clipping and findings marked.
import uPlot from "uplot";
import { powers, ticks, type Range } from "./axis";
import { el } from "./dom";
import { count, number, power } from "./format";
import type { Theme } from "./palette";
import { NAN, POSINF, NEGINF, type Curves, type Finding } from "./source";

export const CURVES: [string, string, boolean][] = [
  ["global_norm", "global norm", true],
  ["update_ratio", "update ratio", true],
  ["loss", "loss", true],
  ["learning_rate", "learning rate", true],
  ["loss_scale", "loss scale", true],
];

export interface CurvesView {
  runs: { name: string; curves: Curves }[];
  curve: string;
  range: Range;
  step: number | null;
  findings: Finding[];
  theme: Theme;
  left: number;
}

export interface CurvesEvents {
  pick(step: number): void;
  hover(step: number | null): void;
  zoom(range: Range): void;
  reset(): void;
  finding(finding: Finding): void;
}

const HEIGHT = 168;

export class CurvesChart {
  readonly root = el("div", { class: "curves" });
  private readout = el("div", { class: "readout", "aria-live": "off" });
  private host = el("div", { class: "plot", role: "img" });
  private plot: uPlot | null = null;
  private key = "";
  private drawn: Curves[] = [];
  private view: CurvesView | null = null;

  constructor(private events: CurvesEvents) {
    this.root.append(this.host, this.readout);
  }

  show(view: CurvesView): void {
    this.view = view;
    const width = this.root.clientWidth;
    if (!width) return;
    const label = CURVES.find(([name]) => name === view.curve)?.[1] ?? view.curve;
    this.host.setAttribute("aria-label", `${label} over the steps ${this.newest()}`);
    const key = [view.curve, view.runs.map((r) => r.name), view.theme.dark, width, view.left].join();
    const drawn = view.runs.map((run) => run.curves);
    const news = drawn.length !== this.drawn.length || drawn.some((c, i) => c !== this.drawn[i]);
    this.drawn = drawn;
    if (key !== this.key || !this.plot) {
      this.plot?.destroy();
      this.host.replaceChildren();
      this.key = key;
      this.plot = new uPlot(this.options(width), this.data(), this.host);
    } else if (news) {
      this.plot.setData(this.data(), false);
    }
    const { min, max } = this.plot.scales.x;
    if (news || min !== view.range[0] || max !== view.range[1]) {
      this.plot.setScale("x", { min: view.range[0], max: view.range[1] });
    } else this.plot.redraw(false, false);
    this.read(null);
  }

  private newest(): string {
    const run = this.view?.runs[0];
    if (!run) return "";
    const row = run.curves.names.indexOf(this.view!.curve);
    const n = run.curves.first.length;
    return `, last ${number(run.curves.values[row * n + n - 1])}`;
  }

  /** Steps of all runs together; each has two lines, the smallest and largest of a bucket. */
  private data(): uPlot.AlignedData {
    const view = this.view!;
    const tables = view.runs.map(({ curves }) => {
      const n = curves.first.length;
      const row = curves.names.indexOf(view.curve);
      const xs: number[] = [];
      const low: (number | null)[] = [];
      const high: (number | null)[] = [];
      for (let i = 0; i < n; i++) {
        if (curves.first[i] < 0) continue;
        xs.push(curves.last[i]);
        low.push(drawn(curves.least[row * n + i]));
        high.push(drawn(curves.values[row * n + i]));
      }
      return [xs, high, low] as uPlot.AlignedData;
    });
    if (!tables.length) return [[], []] as unknown as uPlot.AlignedData;
    return tables.length === 1 ? tables[0] : uPlot.join(tables);
  }

  private options(width: number): uPlot.Options {
    const view = this.view!;
    const { theme } = view;
    const colours = [theme.accent, theme.second];
    const series: uPlot.Series[] = [{}];
    view.runs.forEach(({ name }, i) => {
      const stroke = colours[i];
      // A line of one point would not be seen.
      const points = { show: (plot: uPlot) => plot.data[0].length === 1, size: 8, fill: stroke };
      const common = { stroke, spanGaps: true, points };
      series.push({ ...common, label: name, width: 1.5 });
      series.push({ ...common, label: `${name} (smallest)`, width: 0.75 });
    });
    const bands = view.runs.map((_, i) => ({
      series: [2 * i + 1, 2 * i + 2] as [number, number],
      fill: colours[i] + "33",
    }));
    const font = "11px ui-sans-serif, system-ui, sans-serif";
    return {
      width,
      height: HEIGHT,
      padding: [14, 0, 0, 0],
      legend: { show: false },
      series,
      bands,
      cursor: {
        y: false,
        points: { show: false },
        drag: { x: true, y: false, setScale: false },
      },
      scales: {
        x: { time: false, range: () => this.view!.range as any },
        y: { distr: 3, range: (_u, low, high) => room(low, high) },
      },
      axes: [
        {
          font,
          stroke: theme.muted,
          grid: { stroke: theme.grid, width: 1 },
          ticks: { stroke: theme.grid, size: 4 },
          values: (_u, at) => at.map((v) => (Number.isInteger(v) && this.fits(v) ? count(v) : "")),
          size: 26,
          gap: 3,
        },
        {
          font,
          stroke: theme.muted,
          grid: { stroke: theme.grid, width: 1 },
          ticks: { show: false },
          size: view.left,
          gap: 6,
          splits: (_u, _axis, low, high) => levels(low, high),
          filter: (_u, at) => at,
          values: (_u, at) => labels(at),
        },
      ],
      hooks: {
        draw: [(u) => this.decorate(u)],
        setCursor: [
          (u) => {
            const left = u.cursor.left ?? -1;
            const step = left >= 0 ? u.posToVal(left, "x") : null;
            this.events.hover(step);
            this.read(step);
          },
        ],
        setSelect: [
          (u) => {
            const { left, width: wide } = u.select;
            u.setSelect({ left: 0, width: 0, top: 0, height: 0 }, false);
            if (wide > 4) {
              this.events.zoom([u.posToVal(left, "x"), u.posToVal(left + wide, "x")]);
            }
          },
        ],
        ready: [
          (u) => {
            u.over.addEventListener("dblclick", () => this.events.reset());
            u.over.addEventListener("click", (event) => this.click(u, event));
          },
        ],
      },
    };
  }

  /** Whether there is room for a label at a step: cut off, it would be another number. */
  private fits(step: number): boolean {
    const { range, left } = this.view!;
    const across = this.root.clientWidth - left;
    return ((range[1] - step) / (range[1] - range[0])) * across > 4 * count(step).length;
  }

  private click(u: uPlot, event: MouseEvent): void {
    const found = this.view!.findings.find((finding) => {
      const x = u.valToPos(finding.since ?? finding.step, "x");
      return event.offsetY < 16 && Math.abs(event.offsetX - x) < 8;
    });
    if (found) this.events.finding(found);
    else this.events.pick(u.posToVal(event.offsetX, "x"));
  }

  private decorate(u: uPlot): void {
    const view = this.view!;
    const { theme } = view;
    const context = u.ctx;
    const ratio = window.devicePixelRatio || 1;
    const { left, top, width, height } = u.bbox;
    context.save();
    context.beginPath();
    context.rect(left, 0, width, top + height);
    context.clip();
    view.runs.forEach(({ curves }, i) => {
      this.rug(u, curves, i, ratio);
      this.alarms(u, curves, ratio);
    });
    for (const finding of view.findings) {
      const x = u.valToPos(finding.since ?? finding.step, "x", true);
      context.fillStyle = theme.nan;
      context.fillRect(x - 0.5 * ratio, 8 * ratio, ratio, top + height - 8 * ratio);
      context.beginPath();
      context.moveTo(x - 5 * ratio, 2 * ratio);
      context.lineTo(x + 5 * ratio, 2 * ratio);
      context.lineTo(x, 11 * ratio);
      context.fill();
    }
    if (view.step !== null) {
      const x = u.valToPos(view.step, "x", true);
      context.fillStyle = theme.accent;
      context.fillRect(x - 0.75 * ratio, top, 1.5 * ratio, height);
    }
    context.restore();
  }

  /** Clipped steps: a mark along the lower edge, the stronger the more of them. */
  private rug(u: uPlot, curves: Curves, run: number, ratio: number): void {
    const { left, top, width, height } = u.bbox;
    const wide = Math.max(1.5 * ratio, width / Math.max(1, curves.first.length));
    const tall = 6 * ratio;
    for (let i = 0; i < curves.first.length; i++) {
      if (!curves.clipped[i]) continue;
      const x = u.valToPos(curves.last[i], "x", true);
      if (x < left - wide || x > left + width + wide) continue;
      u.ctx.globalAlpha = 0.25 + 0.75 * (curves.clipped[i] / Math.max(1, curves.updates[i]));
      u.ctx.fillStyle = this.view!.theme.posinf;
      u.ctx.fillRect(x - wide / 2, top + height - tall * (run + 1), wide, tall - ratio);
    }
    u.ctx.globalAlpha = 1;
  }

  private alarms(u: uPlot, curves: Curves, ratio: number): void {
    const { theme, curve } = this.view!;
    const { top, height } = u.bbox;
    const n = curves.first.length;
    const row = curves.names.indexOf(curve);
    let written = -Infinity;
    for (let i = 0; i < n; i++) {
      const flags = curves.flags[row * n + i];
      if (!(flags & (NAN | POSINF | NEGINF))) continue;
      const x = u.valToPos(curves.last[i], "x", true);
      u.ctx.fillStyle = flags & NAN ? theme.nan : flags & POSINF ? theme.posinf : theme.neginf;
      u.ctx.globalAlpha = 0.3;
      u.ctx.fillRect(x - 1.5 * ratio, top, 3 * ratio, height);
      u.ctx.globalAlpha = 1;
      if (x - written < 22 * ratio && !(flags & NAN)) continue;
      written = x;
      u.ctx.font = `bold ${12 * ratio}px ui-sans-serif, system-ui, sans-serif`;
      u.ctx.textAlign = "center";
      u.ctx.textBaseline = "top";
      u.ctx.fillText(flags & NAN ? "×" : flags & POSINF ? "+∞" : "−∞", x, top + 2 * ratio);
    }
  }

  /** The numbers under the pointer, or those of the chosen step. */
  read(step: number | null): void {
    const view = this.view;
    if (!view) return;
    this.readout.replaceChildren();
    view.runs.forEach(({ name, curves }, i) => {
      const n = curves.first.length;
      let at = n - 1;
      step ??= view.step;
      if (step !== null) for (at = 0; at < n - 1 && !(curves.last[at] >= step); ) at++;
      while (at > 0 && curves.first[at] < 0) at--;
      if (at < 0 || curves.first[at] < 0) return;
      const row = curves.names.indexOf(view.curve);
      const [low, high] = [curves.least[row * n + at], curves.values[row * n + at]];
      const flags = curves.flags[row * n + at];
      const words: string[] = [];
      if (flags & NAN) words.push("NaN");
      if (flags & POSINF) words.push("+∞");
      if (flags & NEGINF) words.push("-∞");
      if (high === high) {
        words.push(low < high ? `${number(low)} to ${number(high)}` : number(high));
      }
      const [from, to] = [curves.first[at], curves.last[at]];
      const where = from === to ? `step ${count(to)}` : `steps ${count(from)} to ${count(to)}`;
      const clip = curves.clipped[at];
      const clipped = clip ? (curves.updates[at] > 1 ? ` · ${count(clip)} of ${count(curves.updates[at])} clipped` : " · clipped") : "";
      const dot = el("span", { class: `dot run${i}` });
      this.readout.append(
        el("span", { class: "reading" }, dot, view.runs.length > 1 ? `${name} · ` : "", `${where}: `,
          el("b", {}, words.join(", ") || "—"), clipped),
      );
    });
  }
}

function drawn(value: number): number | null {
  return value > 0 ? value : null;
}

function room(low: number | null, high: number | null): [number, number] {
  if (low === null || high === null || !(low > 0)) return [0.1, 1];
  const space = Math.max(1.3, (high / low) ** 0.08);
  return [low / space, high * space];
}

/** Where the log axis has lines: powers of ten, or round numbers where there are too few. */
export function levels(low: number, high: number): number[] {
  const [from, to] = [Math.log10(low), Math.log10(high)];
  const decades = powers(from, to, 6).map((exponent) => 10 ** exponent);
  if (decades.length > 2) return decades;
  const round = powers(Math.floor(from), to, Infinity)
    .flatMap((exponent) => [1, 2, 5].map((digit) => Number(`${digit}e${exponent}`)))
    .filter((value) => value >= low && value <= high);
  if (round.length > 2) return round;
  const few = ticks(low, high, 6);
  return few.length > 2 ? few : ticks(low, high, 8);
}

function labels(at: number[]): string[] {
  const exponents = at.map((value) => round(Math.log10(value)));
  if (exponents.every(Number.isInteger)) return exponents.map(power);
  return at.map((value) => {
    const short = Number(value.toPrecision(2));
    return short >= 1e-4 && short < 1e5 ? String(short) : short.toExponential().replace("+", "");
  });
}

function round(value: number): number {
  return Math.round(value * 1e6) / 1e6;
}
