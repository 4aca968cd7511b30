import { ChatOpenAI, OpenAIEmbeddings } from "@langchain/openai";

const configuration = { baseURL: `${server.url}/v1` };
const chat = new ChatOpenAI({ model: pair, apiKey: key, configuration, maxRetries: 0 });
await ask("chat", true, async () => (await chat.invoke(server.text)).content);
if (server.vectors)
  await ask("embeddings", false, async () => {
    const model = new OpenAIEmbeddings({ model: server.vectors, apiKey: key, configuration, maxRetries: 0 });
    return `${(await model.embedQuery(server.text)).length} numbers`;
  });
