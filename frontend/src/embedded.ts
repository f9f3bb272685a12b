// A report carries its numbers: all steps in as many buckets as there is room for.
import {
  curvesOf,
  heatOf,
  MEASURED,
  type Curves,
  type Facts,
  type Heat,
  type Histograms,
  type Kind,
  type Snapshot,
  type Quantity,
  type Source,
  type Span,
} from "./source";
import { unpack, type Packed } from "./wire";

export class EmbeddedSource implements Source {
  live = false;

  private constructor(private data: Packed) {}

  static async from(text: string): Promise<EmbeddedSource> {
    const bytes = Uint8Array.from(atob(text.trim()), (c) => c.charCodeAt(0));
    const stream = new Blob([bytes]).stream().pipeThrough(new DecompressionStream("deflate"));
    return new EmbeddedSource(unpack(await new Response(stream).arrayBuffer()));
  }

  get runs(): Facts[] {
    return this.data.facts.runs;
  }

  private place(run: string): number {
    return this.runs.findIndex((facts) => facts.name === run);
  }

  /** The arrays of one picture: those whose names start with its own. */
  private part(start: string): Packed {
    const arrays: Packed["arrays"] = {};
    const shapes: Packed["shapes"] = {};
    for (const name of Object.keys(this.data.arrays)) {
      if (!name.startsWith(start)) continue;
      arrays[name.slice(start.length)] = this.data.arrays[name];
      shapes[name.slice(start.length)] = this.data.shapes[name];
    }
    return { facts: this.data.facts, arrays, shapes };
  }

  async list() {
    const runs = this.runs.map((facts) => facts.name);
    const sick = this.runs.find((facts) => facts.findings.length);
    const quantities: Quantity[] = this.data.facts.quantities;
    return { runs, quantities, begin: (sick ?? this.runs[0])?.name ?? null };
  }

  async facts(run: string) {
    return this.runs[this.place(run)];
  }

  heatNow(run: string, kind: Kind, quantity: string): Heat {
    const at = this.place(run);
    const part = this.part(`${at}/heat/${kind}/${quantity}/`);
    const steps = this.part(`${at}/steps/`);
    const { low, high } = this.data.facts.spans[at];
    Object.assign(part.arrays, steps.arrays);
    return heatOf({ ...part, facts: { low, high } });
  }

  async heat(run: string, kind: Kind, quantity: string) {
    return this.heatNow(run, kind, quantity);
  }

  async curves(run: string): Promise<Curves> {
    return curvesOf(this.part(`${this.place(run)}/curves/`));
  }

  async snapshot(run: string, kind: Kind, at: { index?: number; step?: number }): Promise<Snapshot> {
    const place = this.place(run);
    const quantities = (this.data.facts.quantities as Quantity[])
      .map((quantity) => quantity.name)
      .filter((name) => `${place}/heat/${kind}/${name}/values` in this.data.arrays);
    const heats = quantities.map((name) => this.heatNow(run, kind, name));
    const lines = this.runs[place].lines[kind]!.names.length;
    const first = heats[0];
    const filled = Array.from(first.first.keys()).filter((i) => first.first[i] >= 0);
    let index = at.index ?? filled.length - 1;
    if (at.step !== undefined) {
      index = 0;
      while (index + 1 < filled.length && first.first[filled[index + 1]] <= at.step) index++;
    }
    const bucket = filled[Math.min(index, filled.length - 1)];
    const values = new Float32Array(quantities.length * lines);
    const flags = new Uint8Array(quantities.length * lines);
    heats.forEach((heat, q) => {
      for (let line = 0; line < lines; line++) {
        values[q * lines + line] = heat.values[line * heat.buckets + bucket];
        // What the tensors hold is told by the counts; here only what was measured.
        flags[q * lines + line] = heat.flags[line * heat.buckets + bucket] & MEASURED;
      }
    });
    const counts = new Float32Array(3 * lines);
    const cells = this.data.arrays[`${place}/bad/${kind}`];
    for (let i = 0; cells && i < cells.length; i += 5) {
      if (cells[i + 1] !== bucket) continue;
      for (let k = 0; k < 3; k++) counts[k * lines + cells[i]] = cells[i + 2 + k];
    }
    const [step, until] = [first.first[bucket], first.last[bucket]];
    return { index, step, until, lines, quantities, values, flags, counts };
  }

  async histograms(run: string, name: string, _span: Span, _count: number): Promise<Histograms> {
    const at = this.place(run);
    const { lowest, highest } = this.data.facts;
    const octaves = highest - lowest + 1;
    const line = this.runs[at].lines.weight?.names.indexOf(name) ?? -1;
    const steps = (this.data.arrays[`${at}/histograms/steps`] ?? new Float64Array()) as Float64Array;
    const all = this.data.arrays[`${at}/histograms/counts`];
    const size = steps.length * 2 * octaves;
    const counts = Float64Array.from(all && line >= 0 ? all.subarray(line * size, (line + 1) * size) : []);
    return { name, lowest, octaves, steps: all && line >= 0 ? steps : new Float64Array(), counts };
  }
}
