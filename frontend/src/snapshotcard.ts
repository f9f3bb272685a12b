// One recorded step in full: the flow along depth with its slider, and the histogram.
import type { Range } from "./axis";
import { Changes } from "./changes";
import { el, replace } from "./dom";
import { FlowChart, pointOf } from "./flow";
import { count, fold, number, printable } from "./format";
import { HistogramChart } from "./histogram";
import type { Theme } from "./palette";
import type { Row } from "./rows";
import type { Sides } from "./sides";
import { stepsOf, type Snapshot } from "./source";
import type { State } from "./state";

export interface SnapshotCardView {
  state: State;
  sides: Sides;
  rows: Row[];
  row: number;
  range: Range;
  theme: Theme;
}

export interface SnapshotCardEvents {
  change(change: Partial<State>): void;
  tell(lines: string[] | null, event: PointerEvent | null): void;
}

/** While playing: so many milliseconds a picture, and about so many pictures in all. */
const PACE = 80;
const PICTURES = 200;

export class SnapshotCard {
  readonly root: HTMLElement;
  private flow: FlowChart;
  private histogram: HistogramChart;
  private histogramTitle = el("h2", {}, "Histogram");
  private histogramNone = el("p", { class: "none" });
  private histogramCard: HTMLElement;
  private slider = el("input", { type: "range", min: 0, class: "slider", "aria-label": "Recorded step" });
  private playButton = el("button", { type: "button", class: "icon", "aria-label": "Play" }, "▶");
  private stepText = el("output", { class: "steptext" });
  private playing = 0;
  private changes = new Changes();
  private view: SnapshotCardView | null = null;

  constructor(private events: SnapshotCardEvents) {
    this.flow = new FlowChart({
      pick: (row) => events.change({ line: this.view!.rows[row]?.names[0] ?? null }),
      hover: (row, event) => this.hover(row, event),
    });
    this.histogram = new HistogramChart({ hover: events.tell });
    this.playButton.addEventListener("click", () => this.play());
    this.slider.addEventListener("input", () => events.change({ at: { index: Number(this.slider.value) } }));
    const flow = el(
      "section",
      { class: "card", "aria-label": "Flow" },
      el("h2", {}, "Gradient flow along depth"),
      this.flow.root,
      this.stepper(),
    );
    this.histogramCard = el(
      "section",
      { class: "card", "aria-label": "Histogram" },
      this.histogramTitle,
      this.histogram.root,
      this.histogramNone,
    );
    this.root = el("div", { class: "pair" }, flow, this.histogramCard);
  }

  show(view: SnapshotCardView): void {
    this.view = view;
    const { state, sides, rows, row, theme } = view;
    const snapshots: { snapshot: Snapshot; which: "a" | "b" }[] = [];
    if (sides.a.snapshot.value) snapshots.push({ snapshot: sides.a.snapshot.value, which: "a" });
    if (state.other && sides.b.snapshot.value) snapshots.push({ snapshot: sides.b.snapshot.value, which: "b" });
    const pictured = snapshots.map(({ snapshot }) => snapshot);
    const width = this.flow.root.clientWidth;
    if (this.changes.of("flow", rows, state.kind, row, theme, width, ...pictured)) {
      this.flow.show({ rows, kind: state.kind, snapshots, row, theme });
    }
    this.showStep();
    this.showHistogram();
  }

  /** Goes so many records on, or back. */
  step(by: number): void {
    const records = this.records;
    if (!records) return;
    const { state, sides } = this.view!;
    const now = state.at?.index ?? sides.a.snapshot.value?.index ?? records - 1;
    this.events.change({ at: { index: Math.min(Math.max(now + by, 0), records - 1) } });
  }

  private get records(): number {
    return this.view?.sides.a.facts.value?.records ?? 0;
  }

  private stepper(): HTMLElement {
    const icon = (text: string, label: string, act: () => void) =>
      el("button", { type: "button", class: "icon", "aria-label": label, title: label, onclick: act }, text);
    return el(
      "div",
      { class: "stepper", role: "group", "aria-label": "Recorded step" },
      this.playButton,
      icon("◂", "Record before", () => this.step(-1)),
      this.slider,
      icon("▸", "Next record", () => this.step(1)),
      this.stepText,
    );
  }

  private showStep(): void {
    const { state, sides } = this.view!;
    const first = sides.a.snapshot.value;
    this.slider.max = String(Math.max(0, this.records - 1));
    this.slider.value = String(state.at?.index ?? first?.index ?? this.records - 1);
    this.slider.setAttribute("aria-valuetext", first ? `step ${first.step}` : "");
    this.stepText.textContent = first ? stepsOf(first) : "";
  }

  private showHistogram(): void {
    const { state, sides, range, theme } = this.view!;
    const found = sides.histograms.value;
    const data = found && found.name === state.line ? found : null;
    this.histogram.show({ data, range, step: sides.step, theme });
    const facts = sides.a.facts.value;
    const { line: chosen } = state;
    const absent = Boolean(facts && chosen && !facts.lines.weight?.names.includes(chosen));
    const none = absent || Boolean(data && !data.steps.length);
    this.histogramNone.hidden = !none;
    this.histogramNone.textContent = absent
      ? `${printable(facts!.name)} does not have it.`
      : "No histogram was recorded of it.";
    this.histogram.root.hidden = none;
    this.histogramCard.hidden = state.kind !== "weight";
    this.root.classList.toggle("alone", this.histogramCard.hidden);
    const line = el("small", { title: printable(state.line ?? "") }, fold(state.line ?? "", 44));
    replace(this.histogramTitle, "Histogram ", line);
  }

  private play(): void {
    if (this.playing) {
      window.clearInterval(this.playing);
      this.playing = 0;
    } else {
      if (!this.records) return;
      const by = Math.max(1, Math.round(this.records / PICTURES));
      if (Number(this.slider.value) >= this.records - 1) this.events.change({ at: { index: 0 } });
      this.playing = window.setInterval(() => {
        if (Number(this.slider.value) >= this.records - 1) return this.play();
        if (!this.view!.sides.a.snapshot.waiting) this.step(by);
      }, PACE);
    }
    this.playButton.textContent = this.playing ? "❚❚" : "▶";
    this.playButton.setAttribute("aria-label", this.playing ? "Pause" : "Play");
  }

  private hover(row: number, event: PointerEvent | null): void {
    const { state, sides, rows } = this.view!;
    if (row < 0 || !rows[row]) return this.events.tell(null, null);
    const lines = [printable(rows[row].label)];
    sides.both.forEach(({ snapshot, facts }, i) => {
      const found = snapshot.value;
      const own = rows[row][i ? "b" : "a"];
      if (!found || !own.some((line) => line >= 0) || (i && !state.other)) return;
      const { state: known, typical, largest, alarm } = pointOf(own, found);
      const [mean, most] = [typical, largest].map((v) => (known === "missing" ? "—" : number(v)));
      const name = state.other ? `${printable(facts.value?.name ?? "")}, ` : "";
      lines.push(`${name}step ${count(found.step)}`, `mean |g| ${mean}, largest ${most}`);
      if (alarm) lines.push("holds what is not finite");
    });
    this.events.tell(lines, event);
  }
}
