import type { Range } from "./axis";
import type { Finding, Kind } from "./source";

export interface State {
  run: string | null;
  other: string | null;
  view: "side" | "difference";
  quantity: string;
  kind: Kind;
  filter: string;
  grouped: boolean;
  /** The steps that are shown; null for all, also those to come. */
  range: Range | null;
  /** The recorded step that is shown in full; null for the newest. */
  at: { index?: number; step?: number } | null;
  line: string | null;
  curve: string;
  finding: Finding | null;
}

export const START: State = {
  run: null,
  other: null,
  view: "side",
  quantity: "norm",
  kind: "weight",
  filter: "",
  grouped: false,
  range: null,
  at: null,
  line: null,
  curve: "global_norm",
  finding: null,
};

// Which picture shows a symptom best.
export const SHOWS: Record<string, string> = {
  "dead-units": "zeros",
  "dead-layer": "zeros",
  unreached: "zeros",
  underflow: "underflow",
  "small-updates": "update_ratio",
  "large-updates": "update_ratio",
  "not-frozen": "update_ratio",
  frozen: "update_ratio",
  noise: "noise",
};
