// All pictures of a run together: one state, one stretch of steps, one chosen line.
import uplotCss from "uplot/dist/uPlot.min.css";
import type { Range } from "./axis";
import { Changes } from "./changes";
import { CurvesCard } from "./curvescard";
import { showAbout, showDetails } from "./details";
import { el, replace } from "./dom";
import { FindingsList } from "./findings";
import { counted } from "./format";
import { HeatCard } from "./heatcard";
import { SnapshotCard } from "./snapshotcard";
import { PROPERTIES, theme, type Theme } from "./palette";
import { rowsOf, type Row } from "./rows";
import { Sides } from "./sides";
import type { Facts, Finding, Kind, Quantity, Source } from "./source";
import { SHOWS, START, type State } from "./state";
import styleCss from "./style.css";
import { Themes } from "./themes";
import { Toolbar } from "./toolbar";
import { Tooltip } from "./tooltip";

const KINDS: Kind[] = ["weight", "activation", "value"];

export class App {
  state: State = { ...START };
  private runs: string[] = [];
  private quantities: Quantity[] = [];
  private rows: Row[] = [];
  private sides: Sides;
  private changes = new Changes();
  private frame = 0;
  /** Why there is nothing new; null while all is well. */
  private trouble: string | null = null;
  private themes: Themes;
  private theme: Theme = theme(false);
  private toolbar: Toolbar;
  private curves: CurvesCard;
  private heat: HeatCard;
  private snapshot: SnapshotCard;
  private findings: FindingsList;
  private details = el("section", { class: "card details", "aria-label": "Numbers" });
  private about = el("section", { class: "card about", "aria-label": "What was trained" });
  private tooltip = new Tooltip();
  private content = el("div", { class: "content" });
  private empty = el("div", { class: "empty" });

  constructor(
    private root: HTMLElement,
    private source: Source,
    private options: { report: boolean },
  ) {
    this.sides = new Sides(source, () => this.later(), (error) => this.failed(error));
    this.themes = new Themes(() => {
      this.theme = theme(this.themes.dark);
      const name = this.themes.dark ? "dark" : "light";
      this.root.dataset.theme = document.documentElement.dataset.theme = name;
      this.later();
    });
    const events = {
      change: (change: Partial<State>) => this.change(change),
      pick: (step: number) => this.change({ at: { step: Math.round(step) } }),
      hover: () => {},
      zoom: (range: Range) => this.zoom(range),
      reset: () => this.change({ range: null }),
      walk: (rows: number, records: number) => this.walk(rows, records),
      finding: (finding: Finding) => this.goTo(finding),
      tell: (lines: string[] | null, event: PointerEvent | null) => this.tooltip.show(lines, event),
    };
    this.toolbar = new Toolbar(events.change, () => this.themes.toggle());
    this.curves = new CurvesCard(events);
    this.heat = new HeatCard(events);
    this.snapshot = new SnapshotCard(events);
    this.findings = new FindingsList(events.finding);
    this.layout();
  }

  private layout(): void {
    document.head.append(el("style", {}, uplotCss), el("style", {}, PROPERTIES + styleCss));
    const main = el("main", { class: "main" }, this.curves.root, this.heat.root, this.snapshot.root);
    const aside = el("aside", { class: "aside" }, this.findings.root, this.details, this.about);
    if (this.options.report) aside.replaceChildren(this.details);
    this.content.append(main, aside);
    this.root.classList.add("gradwatch-app");
    if (this.options.report) this.root.classList.add("in-report");
    this.root.replaceChildren(this.toolbar.root, this.empty, this.content, this.tooltip.root);
    new ResizeObserver(() => this.later()).observe(this.root);
    this.themes.start();
    // On paper at once: a browser takes its picture when this returns.
    const paper = (on: boolean) => () => {
      this.root.classList.toggle("printing", on);
      this.show();
    };
    window.addEventListener("beforeprint", paper(true));
    window.addEventListener("afterprint", paper(false));
  }

  // where it begins, and what is new ------------------------------------------------------

  async start(): Promise<void> {
    try {
      const { runs, quantities, begin } = await this.source.list();
      this.runs = runs;
      this.quantities = quantities;
      this.state.run = begin;
      if (this.options.report) this.state.other = runs.find((run) => run !== begin) ?? null;
    } catch (error) {
      this.failed(error);
    }
    this.later();
    if (this.source.live) this.poll();
  }

  /** Looks for news: at once while a run is still being read, else every few seconds. */
  private poll(): void {
    const facts = this.sides.a.facts.value;
    const reading = facts !== null && facts.read < 1;
    window.setTimeout(
      async () => {
        if (!document.hidden) {
          await this.news(reading).catch((error) => this.failed(error));
          this.later();
        }
        this.poll();
      },
      reading ? 30 : 2000,
    );
  }

  private async news(reading: boolean): Promise<void> {
    if (!reading) {
      const { runs, begin } = await this.source.list();
      this.runs = runs;
      this.state.run ??= begin;
    }
    await this.sides.refresh(this.state, this.runs);
    this.trouble = null;
  }

  private failed(error: unknown): void {
    this.trouble = error instanceof Error ? error.message : String(error);
    this.later();
  }

  // what is asked for ---------------------------------------------------------------------

  change(change: Partial<State>): void {
    if ("run" in change && change.run !== this.state.run) {
      this.sides.forget(0);
      Object.assign(this.state, { at: null, range: null, finding: null });
      if (change.run === this.state.other) change.other = null;
    }
    if ("other" in change && change.other !== this.state.other) this.sides.forget(1);
    if (change.kind && change.kind !== this.state.kind) this.state.line = null;
    Object.assign(this.state, change);
    const known = this.quantities.find((q) => q.name === this.state.quantity);
    if (known && !known.kinds.includes(this.state.kind)) this.state.quantity = "norm";
    this.later();
  }

  zoom(range: Range): void {
    const [low, high] = this.sides.whole();
    const least = Math.min(high - low, Math.max(4, (high - low) / 5000));
    const width = Math.min(Math.max(range[1] - range[0], least), high - low);
    let from = (range[0] + range[1]) / 2 - width / 2;
    from = Math.min(Math.max(from, low), high - width);
    this.change({ range: width >= high - low ? null : [from, from + width] });
  }

  private walk(rows: number, records: number): void {
    const next = this.rows[Math.min(Math.max(this.row + rows, 0), this.rows.length - 1)];
    if (rows && next) this.change({ line: next.names[0] });
    if (records) this.snapshot.step(records);
  }

  /** Goes to the layer and the step of a finding. */
  goTo(finding: Finding): void {
    const a = this.sides.a.facts.value;
    if (!a) return;
    const since = finding.since ?? finding.step;
    const change: Partial<State> = { finding, at: { step: since }, filter: "", grouped: false };
    const address = finding.addresses?.[0];
    if (address) {
      const kinds = [this.state.kind, ...KINDS];
      const kind = kinds.find((k) => a.lines[k]?.names.includes(address));
      if (kind) change.kind = kind;
    }
    const quantity = SHOWS[finding.symptom] ?? "norm";
    if (this.quantities.some((q) => q.name === quantity)) change.quantity = quantity;
    this.change(change);
    if (address) this.change({ line: address });
    const [low, high] = this.sides.whole();
    const wide = Math.max((high - low) / 4, finding.step - since + (high - low) / 10);
    this.zoom([since - wide / 3, since + (2 * wide) / 3]);
    this.toolbar.clearFilter();
    requestAnimationFrame(() => {
      this.heat.reveal(this.rows.findIndex((row) => row.names.includes(address ?? "")));
      if (this.options.report) this.content.scrollIntoView({ block: "start" });
    });
  }

  private ask(): void {
    // Before the first picture there is no place for it yet: about what it will have.
    const { clientWidth } = this.root;
    const room = this.heat.width || clientWidth - (clientWidth > 1080 ? 620 : 280);
    const side = this.state.other && this.state.view === "side";
    this.sides.ask(this.state, Math.max(200, Math.round(room / (side ? 2 : 1))));
  }

  // what is shown -------------------------------------------------------------------------

  private later(): void {
    this.frame ||= requestAnimationFrame(() => {
      this.frame = 0;
      this.show();
    });
  }

  private get range(): Range {
    return this.state.range ?? this.sides.whole();
  }

  /** The place of the row that holds the chosen line; -1 if none does. */
  private get row(): number {
    return this.rows.findIndex((row) => row.names.includes(this.state.line ?? ""));
  }

  private show(): void {
    const { state, sides, theme } = this;
    this.ask();
    const [a, b] = [sides.a.facts.value, state.other ? sides.b.facts.value : null];
    const kinds = KINDS.filter((kind) => a?.lines[kind] || b?.lines[kind]);
    this.toolbar.show(state, this.runs, this.quantities, kinds);
    this.showStatus(a);
    const nothing = !a || !a.records;
    this.content.hidden = nothing;
    this.empty.hidden = !nothing;
    if (nothing) return this.showEmpty(a);
    this.arrange(a, b);
    const { rows, row, range } = this;
    this.curves.show(state, sides, range, theme);
    const quantity = this.quantities.find((q) => q.name === state.quantity)!;
    this.heat.show({ state, sides, rows, row, quantity, range, theme });
    this.snapshot.show({ state, sides, rows, row, range, theme });
    this.showDetails(a, b);
    this.findings.show({ runs: b ? [a, b] : [a], chosen: state.finding });
    if (this.changes.of("about", a, b)) showAbout(this.about, b ? [a, b] : [a]);
  }

  /** Makes the rows anew where they are others, and sees to it that one is chosen. */
  private arrange(a: Facts, b: Facts | null): void {
    const { state } = this;
    const names = (facts: Facts | null) => facts?.lines[state.kind]?.names.join("\n");
    const asked = [state.kind, state.filter, state.grouped, a.name, b?.name];
    if (this.changes.of("rows", names(a), names(b), ...asked)) {
      this.rows = rowsOf(a, b, state.kind, state.filter, state.grouped);
    }
    if (this.row < 0) {
      const own = this.rows.find((row) => row.a.some((line) => line >= 0));
      state.line = (own ?? this.rows[0])?.names[0] ?? null;
      this.ask();
    }
  }

  private showStatus(a: Facts | null): void {
    const { status } = this.toolbar;
    const reading = a && a.read < 1 ? `reading ${Math.round(100 * a.read)} %` : "";
    const known = a && this.source.live ? counted(a.records, "record") : "";
    status.textContent = this.trouble ?? (reading || known);
    status.classList.toggle("bad", this.trouble !== null);
    status.classList.toggle("live", Boolean(known) && !reading && this.trouble === null);
  }

  private showEmpty(a: Facts | null): void {
    if (this.runs.length && !a) {
      replace(this.empty, el("p", { class: "quiet" }, "Reading the run…"));
      return;
    }
    if (a && !this.source.live) {
      replace(this.empty, el("h2", {}, "Nothing was recorded"));
      return;
    }
    const code = 'model.fit(x, y, callbacks=[gw.GradientMonitor("runs/a")])';
    replace(
      this.empty,
      el("h2", {}, a ? "Nothing is recorded yet" : "No gradients here yet"),
      el("p", {}, a ? "The first record of this run appears as soon as it is written." : "Watch a training, and its run appears here while it goes on:"),
      a ? null : el("pre", {}, "import gradwatch as gw\n\n", code),
    );
  }

  private showDetails(a: Facts, b: Facts | null): void {
    const { line: name, kind } = this.state;
    const place = (facts: Facts) => facts.lines[kind]?.names.indexOf(name ?? "") ?? -1;
    const runs = [{ facts: a, snapshot: this.sides.a.snapshot.value, line: place(a) }];
    if (b) runs.push({ facts: b, snapshot: this.sides.b.snapshot.value, line: place(b) });
    if (this.changes.of("details", name, kind, a, b, ...runs.map((run) => run.snapshot))) {
      showDetails(this.details, { name, kind, quantities: this.quantities, runs });
    }
  }
}
