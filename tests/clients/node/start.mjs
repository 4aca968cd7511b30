// Put before each client's script: the server that is asked, and how an answer is said. A line of JSON for each.
const server = JSON.parse(process.argv[1]);
const key = server.key || "none";
const deeplTarget = { en: "en-US", pt: "pt-PT" }[server.target] ?? server.target;

async function ask(asked, translates, question) {
  const line = { asked, translates };
  try {
    const answer = await question();
    line.answer = typeof answer === "string" ? answer : JSON.stringify(answer);
  } catch (problem) {
    line.error = `${problem?.name ?? "Error"}: ${problem?.message ?? problem}`;
  }
  console.log(JSON.stringify(line));
}
