import translate from "translate";

translate.engine = "libre";
translate.url = `${server.url}/translate`;
translate.key = key;
await ask("translate", true, () => translate(server.text, { from: server.source, to: server.target }));
