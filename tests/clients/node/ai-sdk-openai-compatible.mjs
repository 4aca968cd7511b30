import { createOpenAICompatible } from "@ai-sdk/openai-compatible";
import { generateText } from "ai";

const provider = createOpenAICompatible({ name: "dragoman", baseURL: `${server.url}/v1`, apiKey: key });
await ask("chat", true, async () => (await generateText({ model: provider(pair), prompt: server.text })).text);
