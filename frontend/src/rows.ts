// The rows of a picture: lines along the depth of a model, or blocks of them.
import type { Facts, Kind } from "./source";

export interface Row {
  label: string;
  /** Its lines, by their place in the first run and in the other one; -1 if absent. */
  a: number[];
  b: number[];
  names: string[];
}

/** The names of both runs in one order: those of the second come after their neighbours. */
export function union(first: string[], second: string[]): string[] {
  const found = [...first];
  const known = new Set(first);
  let at = 0;
  for (const name of second) {
    if (known.has(name)) at = found.indexOf(name) + 1;
    else {
      found.splice(at, 0, name);
      known.add(name);
      at += 1;
    }
  }
  return found;
}

export function rowsOf(
  a: Facts | null,
  b: Facts | null,
  kind: Kind,
  filter: string,
  grouped: boolean,
): Row[] {
  const [inA, inB] = [a?.lines[kind]?.names ?? [], b?.lines[kind]?.names ?? []];
  const placeA = new Map(inA.map((name, i) => [name, i]));
  const placeB = new Map(inB.map((name, i) => [name, i]));
  const wanted = matcher(filter);
  const names = union(inA, inB).filter(wanted);
  const one = (label: string, members: string[]): Row => ({
    label,
    names: members,
    a: members.map((name) => placeA.get(name) ?? -1),
    b: members.map((name) => placeB.get(name) ?? -1),
  });
  if (!grouped) return names.map((name) => one(name, [name]));
  // Finer than half as many would be the lines again, under other names.
  const blocks = blocksOf(names, Math.min(40, Math.max(2, Math.floor(names.length / 2))));
  if (!blocks.length) return names.map((name) => one(name, [name]));
  return blocks.map(({ label, first, last }) => one(label, names.slice(first, last + 1)));
}

/** Words that must all be in an address; `*` stands for anything. */
export function matcher(filter: string): (name: string) => boolean {
  const words = filter.toLowerCase().split(/\s+/).filter(Boolean);
  const tests = words.map((word) => {
    const pattern = word.split("*").map((part) => part.replace(/[.+?^${}()|[\]\\]/g, "\\$&"));
    return new RegExp(pattern.join(".*"));
  });
  return (name) => tests.every((test) => test.test(name.toLowerCase()));
}

export interface Block {
  label: string;
  first: number;
  last: number;
}

/** Neighbours with one start of their addresses: the finest cut of at most so many. */
export function blocksOf(names: string[], most = 26): Block[] {
  const depth = 1 + Math.max(0, ...names.map((name) => name.split("/").length - 1));
  let best: Block[] = [];
  for (let parts = 1; parts <= depth; parts++) {
    for (const words of [1, 2, 3, Infinity]) {
      const blocks: Block[] = [];
      names.forEach((name, i) => {
        const label = start(name, parts, words);
        const last = blocks[blocks.length - 1];
        if (last && last.label === label) last.last = i;
        else blocks.push({ label, first: i, last: i });
      });
      if (blocks.length > best.length && blocks.length <= most) best = blocks;
    }
  }
  return best.length > 1 ? best : [];
}

function start(name: string, parts: number, words: number): string {
  const kept = name.split("/").slice(0, parts);
  const last = kept.pop() ?? "";
  return [...kept, last.split("_").slice(0, words).join("_")].join("/");
}
