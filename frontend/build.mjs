// Builds what the wheel carries. `npm ci && npm run build` gives the committed bytes.
import { createHash } from "node:crypto";
import { readdirSync, readFileSync, writeFileSync } from "node:fs";
import { build } from "esbuild";

const OUT = "../src/gradwatch/show/static/gradwatch.js";

const { outputFiles } = await build({
  bundle: true,
  minify: true,
  target: "es2022",
  charset: "utf8",
  legalComments: "none",
  loader: { ".css": "text" },
  entryPoints: ["src/main.ts"],
  format: "esm",
  write: false,
});
const code = outputFiles[0].text;

// A test without Node computes the same: it fails when a source or the bundle has changed
// since the build. Names before contents, so that a renamed file counts as a change.
const digest = createHash("sha256");
const sources = readdirSync("src").map((name) => `src/${name}`);
const settings = ["build.mjs", "package-lock.json", "package.json", "tsconfig.json"];
for (const path of [...settings, ...sources.sort()]) {
  digest.update(`${path}\0`).update(readFileSync(path)).update("\0");
}
digest.update(code);

// The licence stands in the bundle, because a report carries the bundle and no other file.
const licence = readFileSync("node_modules/uplot/LICENSE", "utf8").trim();
const banner = `/* gradwatch, Apache-2.0; built from frontend/ (sha256 ${digest.digest("hex")}).
It contains uPlot:

${licence}
*/
`;
writeFileSync(OUT, banner + code);
