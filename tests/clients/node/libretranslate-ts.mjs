import { libreTranslate } from "libretranslate-ts";

libreTranslate.setApiEndpoint(server.url);
libreTranslate.setApiKey(server.key);
await ask("translate", true, async () => {
  const found = await libreTranslate.translate(server.text, server.source, server.target);
  return found.translatedText ?? found;
});
await ask("detect", false, () => libreTranslate.detect(server.text));
