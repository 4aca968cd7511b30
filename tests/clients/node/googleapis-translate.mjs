import { translate } from "@googleapis/translate";

const client = translate({ version: "v2", auth: key, rootUrl: `${server.url}/` });
await ask("translate", true, async () => {
  const wanted = { q: [server.text], source: server.source, target: server.target, format: "text" };
  return (await client.translations.list(wanted)).data.data.translations[0].translatedText;
});
