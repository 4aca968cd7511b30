import { mkdtemp, readFile, rm } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import * as deepl from "deepl-node";

const client = new deepl.DeepLClient(key, { serverUrl: server.url });
const term = "Dragoman";
const wait = (milliseconds) => new Promise((resolve) => setTimeout(resolve, milliseconds));

async function withGlossary(entries, use) {
  const given = new deepl.GlossaryEntries({ entries });
  const stored = await client.createGlossary("dragoman clients", server.source, server.target, given);
  try {
    return await use(stored);
  } finally {
    await client.deleteGlossary(stored);
  }
}

async function translateDocument() {
  const content = Buffer.from(server.text);
  const handle = await client.uploadDocument(content, server.source, deeplTarget, { filename: "text.txt" });
  let status = await client.getDocumentStatus(handle);
  for (; status.ok() && !status.done(); status = await client.getDocumentStatus(handle)) await wait(100);
  if (!status.ok()) throw new Error(status.errorMessage);
  const folder = await mkdtemp(join(tmpdir(), "dragoman-"));
  try {
    await client.downloadDocument(handle, join(folder, "text.txt"));
    return await readFile(join(folder, "text.txt"), "utf8");
  } finally {
    await rm(folder, { recursive: true });
  }
}

await ask("translate", true, async () => (await client.translateText(server.text, server.source, deeplTarget)).text);
if (server.documents) await ask("document", true, translateDocument);
await ask("languages", false, async () => (await client.getTargetLanguages()).map((one) => one.code));
await ask("usage", false, async () => (await client.getUsage()).character);
await ask("glossary", false, () =>
  withGlossary({ [term]: term }, async (stored) => (await client.getGlossaryEntries(stored)).toTsv()),
);
await ask("glossary, version 3", false, async () => {
  const entries = new deepl.GlossaryEntries({ entries: { [term]: term } });
  const given = [{ sourceLangCode: server.source, targetLangCode: server.target, entries }];
  const stored = await client.createMultilingualGlossary("dragoman clients", given);
  try {
    return stored.dictionaries;
  } finally {
    await client.deleteMultilingualGlossary(stored);
  }
});
await ask("translate with a glossary", false, () => {
  const longest = server.text.match(/[\p{L}\p{N}]+/gu).reduce((one, other) => (other.length > one.length ? other : one));
  return withGlossary({ [longest]: term }, async (stored) => {
    const options = { glossary: stored.glossaryId };
    const { text } = await client.translateText(server.text, server.source, deeplTarget, options);
    return text.includes(term) ? text : "";
  });
});
