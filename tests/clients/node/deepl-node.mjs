import * as deepl from "deepl-node";

const client = new deepl.DeepLClient(key, { serverUrl: server.url });

await ask("translate", true, async () => (await client.translateText(server.text, server.source, deeplTarget)).text);
await ask("languages", false, async () => (await client.getTargetLanguages()).map((one) => one.code));
await ask("usage", false, async () => (await client.getUsage()).character);
