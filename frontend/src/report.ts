// The charts of a report: the same ones, with the numbers that the page carries.
import { App } from "./app";
import { EmbeddedSource } from "./embedded";

/** Shows the charts in `root`, and lets the findings of the page lead to them. */
export async function renderReport(root: HTMLElement, data: string): Promise<void> {
  if (!("DecompressionStream" in window)) {
    root.textContent = "This browser is too old for the charts (it has no DecompressionStream).";
    return;
  }
  const source = await EmbeddedSource.from(data);
  const app = new App(root, source, { report: true });
  await app.start();
  for (const button of document.querySelectorAll<HTMLElement>("[data-finding]")) {
    button.hidden = false;
    button.addEventListener("click", async () => {
      const facts = source.runs[Number(button.dataset.run)];
      const { state } = app;
      if (facts.name !== state.run && facts.name !== state.other) {
        app.change({ run: facts.name, other: null });
        await new Promise((done) => setTimeout(done, 50));
      }
      app.goTo(facts.findings[Number(button.dataset.finding)]);
    });
  }
}
