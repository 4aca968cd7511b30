import OpenAI from "openai";

const client = new OpenAI({ baseURL: `${server.url}/v1`, apiKey: key });
const messages = [{ role: "user", content: server.text }];
await ask("chat", true, async () => {
  const found = await client.chat.completions.create({ model: pair, messages });
  return found.choices[0].message.content;
});
await ask("chat, streamed", true, async () => {
  let text = "";
  for await (const chunk of await client.chat.completions.create({ model: pair, messages, stream: true }))
    text += chunk.choices[0]?.delta?.content ?? "";
  return text;
});
await ask("models", false, async () => (await client.models.list()).data.map((one) => one.id));
if (server.vectors)
  await ask("embeddings", false, async () => {
    const found = await client.embeddings.create({ model: server.vectors, input: server.text });
    return `${found.data[0].embedding.length} numbers`;
  });
