// The one entry. TensorBoard imports this module into its frame and calls `render`; a
// report has it as an inline script beside its data, and then it starts by itself.
import { App } from "./app";
import { renderReport } from "./report";
import { ServerSource } from "./source";

/** Shows the tab; the server that gave this module gives the numbers as well. */
export async function render(): Promise<void> {
  document.title = "Gradients";
  const app = new App(document.body, new ServerSource(import.meta.url), { report: false });
  await app.start();
}

const data = document.getElementById("gradwatch-data");
const root = document.getElementById("gradwatch-charts");
if (data && root) void renderReport(root, data.textContent ?? "");
