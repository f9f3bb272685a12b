// Builds what the wheel carries. `npm ci && npm run build` gives the committed bytes.
import { readFileSync } from "node:fs";
import { build } from "esbuild";

// The bundle goes where its licence file would not: into a page.
const licence = readFileSync("node_modules/uplot/LICENSE", "utf8").trim();

const common = {
  bundle: true,
  minify: true,
  target: "es2022",
  charset: "utf8",
  legalComments: "none",
  loader: { ".css": "text" },
  banner: {
    js: `/* gradwatch, Apache-2.0; built from frontend/. It contains uPlot:\n\n${licence}\n*/`,
  },
};
await build({
  ...common,
  entryPoints: ["src/tab.ts"],
  format: "esm",
  outfile: "../src/gradwatch/tensorboard/static/index.js",
});
await build({
  ...common,
  entryPoints: ["src/report.ts"],
  format: "iife",
  outfile: "../src/gradwatch/show/static/report.js",
});
