// What is known of the two runs that can be shown, and what to ask for next.
import type { Range } from "./axis";
import { Latest } from "./latest";
import type { Curves, Facts, Heat, Histograms, Snapshot, Source, Span } from "./source";
import type { State } from "./state";

export interface Side {
  facts: Latest<Facts>;
  heat: Latest<Heat>;
  curves: Latest<Curves>;
  snapshot: Latest<Snapshot>;
}

export class Sides {
  readonly a: Side;
  readonly b: Side;
  /** Of the chosen line, in the first run. */
  readonly histograms: Latest<Histograms>;

  constructor(
    private source: Source,
    changed: () => void,
    failed: (error: unknown) => void,
  ) {
    const side = (): Side => ({
      facts: new Latest(changed, failed),
      heat: new Latest(changed, failed),
      curves: new Latest(changed, failed),
      snapshot: new Latest(changed, failed),
    });
    [this.a, this.b] = [side(), side()];
    this.histograms = new Latest(changed, failed);
  }

  get both(): [Side, Side] {
    return [this.a, this.b];
  }

  get facts(): Facts[] {
    return this.both.flatMap(({ facts }) => (facts.value ? [facts.value] : []));
  }

  /** The step that is shown in full. */
  get step(): number | null {
    return this.a.snapshot.value?.step ?? null;
  }

  forget(which: 0 | 1): void {
    const { facts, heat, curves, snapshot } = this.both[which];
    for (const part of [facts, heat, curves, snapshot]) part.forget();
    if (which === 0) this.histograms.forget();
  }

  /** All steps of both runs. */
  whole(): Range {
    const known = this.facts.filter((facts) => facts.records);
    if (!known.length) return [0, 1];
    return [
      Math.min(...known.map((facts) => facts.first)),
      Math.max(...known.map((facts) => facts.last)) + 1,
    ];
  }

  /** Looks whether the runs have grown; the next `ask` then asks for what is new. */
  async refresh(state: State, runs: string[]): Promise<void> {
    for (const [i, name] of [state.run, state.other].entries()) {
      if (!name || !runs.includes(name)) continue;
      const fresh = await this.source.facts(name);
      const { facts } = this.both[i];
      if (facts.of === name) facts.value = fresh;
    }
  }

  /** Asks for what a picture of so many pixels needs and is not there yet. */
  ask(state: State, pixels: number): void {
    const span = this.span(state.range);
    // In steps of 64, so that a scroll bar that comes or goes asks for nothing new.
    const wanted = (pixels / 1.5) * (state.range ? 2 : 1);
    const buckets = Math.min(2048, 64 * Math.ceil(wanted / 64));
    this.askOf(this.a, state.run, state, span, buckets);
    this.askOf(this.b, state.other, state, span, buckets);
    const facts = this.a.facts.value;
    const { line } = state;
    if (facts && state.kind === "weight" && line && facts.lines.weight?.names.includes(line)) {
      const { name } = facts;
      this.histograms.want(`${name}|${facts.version}|${line}|${span}`, () =>
        this.source.histograms(name, line, span, 160),
      );
    }
  }

  private askOf(side: Side, name: string | null, state: State, span: Span, buckets: number): void {
    if (!name) return;
    const { kind, quantity } = state;
    side.facts.want(name, () => this.source.facts(name));
    const facts = side.facts.of === name ? side.facts.value : null;
    if (!facts || !facts.records) return;
    const at = `${name}|${facts.version}`;
    side.curves.want(`${at}|${span}|${buckets}`, () => this.source.curves(name, span, buckets));
    if (!facts.lines[kind]) return;
    side.heat.want(`${at}|${kind}|${quantity}|${span}|${buckets}`, () =>
      this.source.heat(name, kind, quantity, span, buckets),
    );
    const last = { index: facts.records - 1 };
    const first = this.a.snapshot.value;
    const wish = side === this.a ? (state.at ?? last) : first ? { step: first.step } : last;
    const newest = state.at ? "" : facts.version;
    side.snapshot.want(`${name}|${kind}|${JSON.stringify(wish)}|${newest}`, () =>
      this.source.snapshot(name, kind, wish),
    );
  }

  /** Half a screen more on either side, so that panning has something to show at once. */
  private span(range: Range | null): Span {
    if (!range) return null;
    const [low, high] = this.whole();
    const margin = (range[1] - range[0]) / 2;
    return [
      Math.max(low, Math.floor(range[0] - margin)),
      Math.min(high, Math.ceil(range[1] + margin)),
    ];
  }
}
