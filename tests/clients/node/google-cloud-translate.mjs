import { v2 } from "@google-cloud/translate";

process.env.GOOGLE_CLOUD_TRANSLATE_ENDPOINT = `${server.url}/language/translate/v2`;
const client = new v2.Translate({ key, projectId: "any", autoRetry: false });
const wanted = { from: server.source, to: server.target };
await ask("translate", true, async () => (await client.translate(server.text, { ...wanted, format: "text" }))[0]);
await ask("translate HTML", false, async () => (await client.translate(`<p>${server.text}</p>`, wanted))[0]);
await ask("languages", false, async () => (await client.getLanguages())[0].map((one) => one.code));
await ask("detect", false, async () => (await client.detect(server.text))[0]);
