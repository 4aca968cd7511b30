import { translate } from "libretranslate";

const { text: query, source, target } = server;
await ask("translate", true, () => translate({ query, source, target, apiurl: server.url, apiKey: server.key }));
