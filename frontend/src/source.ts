// Where numbers come from: TensorBoard's server, or what a report carries.
import { count } from "./format";
import { unpack, type Packed } from "./wire";

export const NAN = 1;
export const POSINF = 2;
export const NEGINF = 4;
export const MEASURED = 8;

export type Kind = "weight" | "activation" | "value";
export type Span = [number, number] | null;

export interface Quantity {
  name: string;
  label: string;
  scale: "log" | "share";
  kinds: Kind[];
  meaning: string;
  /** A share that is shown in per cent. */
  percent: boolean;
}

export interface Finding {
  symptom: string;
  title: string;
  text: string;
  addresses?: string[];
  since?: number;
  /** The last step at which it still held; absent or null while it holds. */
  until?: number | null;
  step: number;
  evidence?: Record<string, number | string>;
  healthy?: string;
  confidence?: number;
  try_first?: string;
}

export interface Facts {
  name: string;
  version: number;
  read: number;
  records: number;
  first: number;
  last: number;
  lines: Partial<Record<Kind, { names: string[]; sizes: number[] }>>;
  findings: Finding[];
  notes: Record<string, any>;
}

export interface Heat {
  low: number;
  high: number;
  buckets: number;
  first: Float64Array;
  last: Float64Array;
  values: Float32Array;
  flags: Uint8Array;
  /** The bucket to show at each bucket: a record holds until the next. -1 before any. */
  held: Int32Array;
}

export interface Curves {
  names: string[];
  first: Float64Array;
  last: Float64Array;
  /** The smallest finite number of each curve and bucket. */
  least: Float64Array;
  /** The largest, likewise. */
  values: Float64Array;
  flags: Uint8Array;
  updates: Float64Array;
  clipped: Float64Array;
  skipped: Float64Array;
}

export interface Snapshot {
  index: number;
  step: number;
  /** In a report: the last of the steps that it stands for. */
  until?: number;
  lines: number;
  quantities: string[];
  values: Float32Array;
  flags: Uint8Array;
  counts: Float32Array;
}

export interface Histograms {
  name: string;
  lowest: number;
  octaves: number;
  steps: Float64Array;
  counts: Float64Array;
}

export interface Source {
  live: boolean;
  /** The runs, what can be shown of them, and with which to begin. */
  list(): Promise<{ runs: string[]; quantities: Quantity[]; begin: string | null }>;
  facts(run: string): Promise<Facts>;
  heat(run: string, kind: Kind, quantity: string, span: Span, buckets: number): Promise<Heat>;
  curves(run: string, span: Span, buckets: number): Promise<Curves>;
  snapshot(run: string, kind: Kind, at: { index?: number; step?: number }): Promise<Snapshot>;
  histograms(run: string, name: string, span: Span, count: number): Promise<Histograms>;
}

export function heatOf({ facts, arrays, shapes }: Packed): Heat {
  const first = arrays.first as Float64Array;
  const held = new Int32Array(first.length);
  let before = -1;
  for (let i = 0; i < first.length; i++) held[i] = before = first[i] >= 0 ? i : before;
  return {
    low: facts.low,
    high: facts.high,
    buckets: shapes.values[1],
    first,
    last: arrays.last as Float64Array,
    values: arrays.values as Float32Array,
    flags: arrays.flags as Uint8Array,
    held,
  };
}

export function curvesOf({ facts, arrays }: Packed): Curves {
  return { names: facts.curves, ...(arrays as any) };
}

export function snapshotOf({ facts, arrays, shapes }: Packed): Snapshot {
  return {
    index: facts.index,
    step: facts.step,
    quantities: facts.quantities,
    lines: shapes.values[1],
    ...(arrays as any),
  };
}

export function histogramsOf({ facts, arrays }: Packed): Histograms {
  const octaves = facts.highest - facts.lowest + 1;
  return { name: facts.name, lowest: facts.lowest, octaves, ...(arrays as any) };
}

export function stepsOf({ step, until }: Snapshot): string {
  if (until === undefined || until === step) return `step ${count(step)}`;
  return `steps ${count(step)} to ${count(until)}`;
}

/** The bucket that is shown at a step; -1 if there is none. */
export function bucketAt(heat: Heat, step: number): number {
  if (step < heat.low || step >= heat.high) return -1;
  const at = Math.floor(((step - heat.low) * heat.buckets) / (heat.high - heat.low));
  return heat.held[Math.min(at, heat.buckets - 1)];
}

export class ServerSource implements Source {
  live = true;

  constructor(private base: string) {}

  private async get(route: string, query: Record<string, unknown>): Promise<Response> {
    const url = new URL(route, this.base);
    for (const [key, value] of Object.entries(query)) {
      if (value !== undefined && value !== null) url.searchParams.set(key, String(value));
    }
    const answer = await fetch(url).catch(() => {
      throw new Error("TensorBoard does not answer. Is it still running?");
    });
    if (!answer.ok) throw new Error(`${route}: ${answer.status} ${await answer.text()}`);
    return answer;
  }

  private async packed(route: string, query: Record<string, unknown>): Promise<Packed> {
    return unpack(await (await this.get(route, query)).arrayBuffer());
  }

  async list() {
    return (await this.get("runs", {})).json();
  }

  async facts(run: string) {
    return (await this.get("run", { run })).json();
  }

  async heat(run: string, kind: Kind, quantity: string, span: Span, buckets: number) {
    const query = { run, kind, quantity, from: span?.[0], to: span?.[1], buckets };
    return heatOf(await this.packed("heat", query));
  }

  async curves(run: string, span: Span, buckets: number) {
    return curvesOf(await this.packed("curves", { run, from: span?.[0], to: span?.[1], buckets }));
  }

  async snapshot(run: string, kind: Kind, at: { index?: number; step?: number }) {
    return snapshotOf(await this.packed("snapshot", { run, kind, ...at }));
  }

  async histograms(run: string, name: string, span: Span, count: number) {
    const query = { run, name, from: span?.[0], to: span?.[1], count };
    return histogramsOf(await this.packed("histograms", query));
  }
}
