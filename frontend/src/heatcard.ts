// The card of layers × steps: one heat map, two side by side, or their difference.
import type { Range } from "./axis";
import { cellsOf, differenceOf, differenceScale, scaleOf, type Cells, type Scale } from "./cells";
import { Changes } from "./changes";
import { el, replace } from "./dom";
import { count, counted, number, percent, printable } from "./format";
import { HeatMap, type HeatEvents, type HeatView, type Mark } from "./heatmap";
import { RowLabels } from "./labels";
import { showLegend } from "./legend";
import type { Theme } from "./palette";
import { RangeBar } from "./range";
import type { Row } from "./rows";
import type { Side, Sides } from "./sides";
import { bucketAt, MEASURED, NAN, NEGINF, POSINF, type Facts, type Heat, type Quantity } from "./source";
import type { State } from "./state";

export interface HeatCardView {
  state: State;
  sides: Sides;
  rows: Row[];
  /** The place of the chosen row. */
  row: number;
  quantity: Quantity;
  range: Range;
  theme: Theme;
}

export interface HeatCardEvents extends Pick<HeatEvents, "zoom" | "walk" | "reset"> {
  change(change: Partial<State>): void;
  tell(lines: string[] | null, event: PointerEvent | null): void;
}

const EMPTY: Scale = { kind: "log", low: -3, high: 0 };

export class HeatCard {
  readonly root: HTMLElement;
  private maps: HeatMap[];
  private mapRow = el("div", { class: "maps" });
  private titles = el("div", { class: "maptitles" });
  private legend = el("div", { class: "legend" });
  private none = el("p", { class: "none" });
  private labels: RowLabels;
  private rangebar: RangeBar;
  private changes = new Changes();
  private scale: Scale | null = null;
  private scaleOf = "";
  private difference: { cells: Cells; scale: Scale } | null = null;
  private memo: ({ heat: Heat; rows: Row[]; cells: Cells } | null)[] = [null, null];
  private view: HeatCardView | null = null;

  constructor(private events: HeatCardEvents) {
    this.labels = new RowLabels((line) => events.change({ line }));
    this.rangebar = new RangeBar(events.zoom, events.reset);
    this.maps = [0, 1].map(
      (which) =>
        new HeatMap({
          pick: (row, step) => this.pick(which, row, step),
          hover: (row, step, event) => this.hover(which, row, step, event),
          zoom: events.zoom,
          walk: events.walk,
          reset: events.reset,
        }),
    );
    this.root = el(
      "section",
      { class: "card", "aria-label": "Layers and steps" },
      el("div", { class: "head" }, el("h2", {}, "Layers × steps"), this.legend),
      this.titles,
      this.none,
      el("div", { class: "scroller" }, this.labels.root, this.mapRow),
      this.rangebar.root,
    );
  }

  /** The pixels across; 0 before the first picture. */
  get width(): number {
    return this.mapRow.clientWidth;
  }

  show(view: HeatCardView): void {
    this.view = view;
    const { state, sides, rows, row, quantity, range, theme } = view;
    this.rangebar.show(sides.whole(), range);
    const a = sides.a.facts.value!;
    const b = state.other ? sides.b.facts.value : null;
    const heats = [heatOf(sides.a, state), b ? heatOf(sides.b, state) : null];
    const scale = this.shared(heats, state, quantity);
    const picture = (facts: Facts, cells: Cells | null, shown: Scale, title: string): HeatView => ({
      cells,
      scale: shown,
      range,
      rowHeight: this.rowHeight(rows),
      rows: rows.length,
      row,
      step: sides.step,
      marks: marksOf(facts, rows),
      theme,
      title,
      describe: `${quantity.label} of ${counted(rows.length, "row")} over the steps of ${title}. Arrow keys move, plus and minus zoom, 0 shows all steps.`,
    });
    let legend = scale;
    if (b && state.view === "difference") {
      const found = this.differenceOf(heats, rows, quantity);
      legend = found?.scale ?? scale;
      const title = `${b.name} against ${a.name}`;
      this.place([this.maps[0]]);
      this.maps[0].show(picture(a, found?.cells ?? null, legend, title));
      this.showTitles([title]);
    } else {
      const runs = b ? [a, b] : [a];
      this.place(this.maps.slice(0, runs.length));
      runs.forEach((facts, i) => {
        const heat = heats[i];
        const cells = heat && this.cells(i, heat, rows);
        this.maps[i].show(picture(facts, cells, scale, facts.name));
      });
      this.showTitles(b ? [a.name, b.name] : []);
    }
    this.labels.show(rows, this.rowHeight(rows), row);
    this.none.hidden = rows.length > 0;
    this.none.textContent = `No address has “${printable(state.filter)}” in it.`;
    if (this.changes.of("legend", legend.kind, legend.low, legend.high, quantity, theme)) {
      showLegend(this.legend, legend, quantity.label, theme);
    }
  }

  /** Scrolls a row into view. */
  reveal(row: number): void {
    const scroller = this.mapRow.parentElement!;
    const y = row * this.rowHeight(this.view?.rows ?? []);
    const [top, tall] = [scroller.scrollTop, scroller.clientHeight];
    if (row >= 0 && (y < top || y > top + tall - 30)) scroller.scrollTop = Math.max(0, y - tall / 2);
  }

  // how it looks --------------------------------------------------------------------------

  /** One scale for both runs, which only grows while the question stays the same. */
  private shared(heats: (Heat | null)[], state: State, quantity: Quantity): Scale {
    const key = [state.run, state.other, state.kind, state.quantity].join();
    if (key !== this.scaleOf) [this.scaleOf, this.scale] = [key, null];
    const known = heats.filter((heat) => heat !== null);
    if (known.length && this.changes.of("scale", key, ...known)) {
      this.scale = scaleOf(known, quantity, this.scale);
    }
    return this.scale ?? EMPTY;
  }

  private differenceOf(heats: (Heat | null)[], rows: Row[], quantity: Quantity) {
    const [first, second] = heats;
    if (!first || !second) return null;
    if (this.changes.of("difference", first, second, rows)) {
      const cells = differenceOf(this.cells(0, first, rows), this.cells(1, second, rows), quantity.scale);
      this.difference = { cells, scale: differenceScale(cells, quantity) };
    }
    return this.difference;
  }

  private cells(which: number, heat: Heat, rows: Row[]): Cells {
    const known = this.memo[which];
    if (known && known.heat === heat && known.rows === rows) return known.cells;
    const cells = cellsOf(heat, rows, which ? "b" : "a");
    this.memo[which] = { heat, rows, cells };
    return cells;
  }

  private rowHeight(rows: Row[]): number {
    const room = Math.min(Math.max(window.innerHeight * 0.5, 240), 560);
    const fits = Math.floor(room / Math.max(1, rows.length));
    return Math.min(Math.max(fits, 3), 20);
  }

  private place(maps: HeatMap[]): void {
    const roots = maps.map((map) => map.root);
    const now = this.mapRow.children;
    if (roots.length !== now.length || roots.some((root, i) => root !== now[i])) {
      this.mapRow.replaceChildren(...roots);
    }
  }

  private showTitles(titles: string[]): void {
    this.titles.hidden = !titles.length;
    const both = titles.length > 1;
    const dot = (i: number) => (both ? el("span", { class: `dot run${i}` }) : null);
    replace(this.titles, ...titles.map((title, i) => el("span", {}, dot(i), printable(title))));
  }

  // what is done --------------------------------------------------------------------------

  /** A click on a cell goes to the record that the cell shows: the worst of its bucket. */
  private pick(which: number, row: number, step: number): void {
    const { state, sides, rows } = this.view!;
    const heat = sides.both[which].heat.value;
    const { names } = rows[row];
    const at = heat ? bucketAt(heat, step) : -1;
    if (!heat || at < 0) return this.events.change({ line: names[0] });
    let [worst, most] = [0, -Infinity];
    rows[row][which ? "b" : "a"].forEach((line, i) => {
      if (line < 0) return;
      const cell = line * heat.buckets + at;
      const alarm = heat.flags[cell] & (NAN | POSINF | NEGINF) ? Infinity : 0;
      const value = Math.max(alarm, heat.values[cell] || 0);
      if (value > most) [worst, most] = [i, value];
    });
    const span = { from: heat.first[at], to: heat.last[at], line: names[worst], quantity: state.quantity };
    this.events.change({ line: names[worst], finding: null, at: { step: heat.last[at], ...span } });
  }

  private hover(which: number, row: number, step: number | null, event: PointerEvent | null): void {
    const { state, sides, rows, quantity } = this.view!;
    if (row < 0 || step === null || !rows[row]) return this.events.tell(null, null);
    const both = state.other && state.view === "difference";
    const lines = [printable(rows[row].label)];
    for (const i of both ? [0, 1] : [which]) {
      const heat = sides.both[i].heat.value;
      const at = heat ? bucketAt(heat, step) : -1;
      if (!heat || at < 0) continue;
      const [first, last] = [heat.first[at], heat.last[at]];
      const where = first === last ? `step ${count(first)}` : `steps ${count(first)} to ${count(last)}`;
      const { values, flags } = this.cells(i, heat, rows);
      const cell = row * heat.buckets + at;
      const name = both ? `${printable(sides.both[i].facts.value?.name ?? "")}, ` : "";
      const text = words(quantity, values[cell], flags[cell], first === last);
      lines.push(`${name}${where}`, `${quantity.label} ${text}`);
    }
    this.events.tell(lines, event);
  }
}

/** The heat that answers the present question; an older answer may still be there. */
function heatOf(side: Side, state: State): Heat | null {
  return side.heat.of.includes(`|${state.kind}|${state.quantity}|`) ? side.heat.value : null;
}

function marksOf(facts: Facts, rows: Row[]): Mark[] {
  if (!facts.findings.length) return [];
  const place = new Map<string, number>();
  rows.forEach((row, i) => row.names.forEach((name) => place.set(name, i)));
  return facts.findings.flatMap((finding) => {
    const found = new Set((finding.addresses ?? []).flatMap((name) => place.get(name) ?? []));
    const since = finding.since ?? finding.step;
    return [...found].map((row) => ({ row, since, step: finding.step, label: finding.symptom }));
  });
}

function words(quantity: Quantity, value: number, flags: number, single: boolean): string {
  const marks = [flags & NAN && "NaN", flags & POSINF && "+∞", flags & NEGINF && "−∞"].filter(Boolean);
  const alarm = marks.length ? ` · holds ${marks.join(", ")}` : "";
  if (!(flags & MEASURED)) return `not measured${alarm}`;
  const text = quantity.scale === "share" ? `${percent(value)} %` : number(value);
  return `${single ? "" : "up to "}${text}${alarm}`;
}
