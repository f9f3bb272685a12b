// The entry that TensorBoard loads into its frame.
import { App } from "./app";
import { ServerSource } from "./source";

export async function render(): Promise<void> {
  document.title = "Gradients";
  const app = new App(document.body, new ServerSource(import.meta.url), { report: false });
  await app.start();
}
