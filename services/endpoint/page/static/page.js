// The page of the endpoint. Without it the form posts; with it the answer comes beside the text.
"use strict";
(() => {
  const $ = (selector, within = document) => within.querySelector(selector);
  const form = $("#translate");
  if (!form) return;
  document.documentElement.classList.add("with-script");
  const text = $("#text"), mirror = $("#mirror"), source = $("#source"), target = $("#target"), answer = $("#answer");
  const looked = $("#looked"), said = $("#said"), key = $("#key"), most = Number(form.dataset.most);
  const OTHER = "Words of an alternative show nothing that they looked at.";
  const PAUSE = 700, HINT = looked.textContent, WORD = /[\p{L}\p{M}\p{N}]+|[^\s\p{L}\p{M}\p{N}]/gu;

  // ---------------------------------------------------------------- the API key stays in this tab
  if (key) {
    try { key.value = sessionStorage.getItem("api_key") || ""; } catch { /* no storage: it is typed again */ }
    key.addEventListener("change", () => { try { sessionStorage.setItem("api_key", key.value); } catch { /* as above */ } });
  }

  // ---------------------------------------------------------------- one request a pause, the older one aborted
  let pending, current, asked = "";
  const values = () => new URLSearchParams(new FormData(form));
  const problem = (message) => {
    const pane = document.createElement("div"), notice = document.createElement("p");
    pane.className = "pane out";
    notice.className = "notice bad";
    notice.setAttribute("role", "alert");
    notice.textContent = message;
    pane.append(notice);
    answer.replaceChildren(pane);
  };
  const empty = () => {
    const pane = document.createElement("div"), place = document.createElement("div"), foot = document.createElement("div");
    [pane.className, place.className, foot.className] = ["pane out", "translation empty", "foot"];
    place.textContent = "Translation";
    pane.append(place, foot);
    answer.replaceChildren(pane);
  };
  const translate = async () => {
    clearTimeout(pending);
    if (current) current.abort();
    current = undefined;
    forget();
    const body = values();
    if (!text.value.trim()) { asked = ""; empty(); return; }
    asked = body.toString();
    const mine = current = new AbortController();
    answer.classList.add("working");
    try {
      const reply = await fetch(location.pathname, { method: "POST", body, headers: { "X-Part": "answer" }, signal: mine.signal });
      const html = await reply.text();
      if (mine !== current) return;
      if ((reply.headers.get("Content-Type") || "").startsWith("text/html")) answer.innerHTML = html;
      else problem(JSON.parse(html).error);
      said.textContent = reply.ok ? "Translated." : "";
      draw(); choices(); offer();
    } catch (trouble) {
      if (mine !== current || trouble.name === "AbortError") return;
      asked = "";
      problem("The server does not answer. Ctrl+Enter tries again.");
    } finally {
      if (mine === current) { answer.classList.remove("working"); current = undefined; }
    }
  };
  const soon = () => {
    clearTimeout(pending);
    pending = setTimeout(() => { if (values().toString() !== asked) translate(); }, PAUSE);
  };
  const count = () => {
    const size = [...text.value].length;
    $("#count").textContent = `${size.toLocaleString("en")} / ${most.toLocaleString("en")}`;
    $("#count").classList.toggle("bad", size > most);
  };
  text.addEventListener("input", () => { forget(); count(); program(); soon(); });
  $("#terms").addEventListener("input", () => { forget(); program(); soon(); });
  form.addEventListener("change", (event) => {
    if (event.target === source) limit();
    program();
    if (event.target !== text) soon();
  });
  form.addEventListener("submit", (event) => { event.preventDefault(); translate(); });
  document.addEventListener("keydown", (event) => {
    if (event.key !== "Enter" || !(event.ctrlKey || event.metaKey)) return;
    event.preventDefault();
    translate();
  });

  // ---------------------------------------------------------------- languages
  const limit = () => { // the targets of the source; with detection, all
    const into = source.selectedOptions[0].dataset.targets;
    for (const one of target.options) one.hidden = one.disabled = into !== undefined && !into.split(" ").includes(one.value);
    if (target.selectedOptions[0] && target.selectedOptions[0].disabled) target.value = [...target.options].find((one) => !one.disabled).value;
  };
  $("#swap").addEventListener("click", () => {
    const shown = $("#translation"), from = source.value === "auto" ? shown && shown.dataset.source : source.value;
    const has = (list, code) => [...list.options].some((one) => one.value === code);
    if (!from) { looked.textContent = "The language of the text is not known yet."; return; }
    if (!has(source, target.value)) { looked.textContent = `No model translates from ${target.selectedOptions[0].text}.`; return; }
    source.value = target.value;
    limit();
    if (has(target, from)) target.value = from;
    if (shown) text.value = shown.dataset.text || shown.textContent;
    forget(); count(); program(); translate();
  });

  // ---------------------------------------------------------------- what a word looked at, both ways
  let maps, asking, tried = "", sides; // sides: {source: [span of each token], target: [...]}, both over all sentences
  const spans = (place, written, tokens) => { // a span for each token that stands in the text, in its order
    const found = tokens.map(() => null);
    let at = 0, done = 0;
    place.replaceChildren();
    const lower = written.toLowerCase().length === written.length ? written.toLowerCase() : written;
    tokens.forEach((token, index) => {
      const plain = token.replace(/^[\u2581\u0120]+/u, "").replace(/(@@|<\/w>)$/u, "");
      if (!plain) return;
      const start = lower.indexOf(lower === written ? plain : plain.toLowerCase(), at);
      if (start < 0 || start > at + 200) return;
      const span = document.createElement("span");
      span.className = "word";
      span.dataset.index = index;
      span.textContent = written.slice(start, start + plain.length);
      place.append(written.slice(done, start), span);
      found[index] = span;
      at = done = start + plain.length;
    });
    place.append(written.slice(done), place === mirror ? "\u200b" : ""); // the mirror is as high as the text
    return found;
  };
  const words = (place, written) => { // what was kept is one word
    const kept = JSON.parse(($("#translation") || {dataset: {}}).dataset.kept || "[]");
    const units = kept.map((unit) => unit.replace(/[.*+?^${}()|[\]\\]/g, "\\$&"));
    spans(place, written, written.match(new RegExp([...units, WORD.source].join("|"), "gu")) || []);
  };
  const draw = () => { // words to point at, before it is known what they looked at
    const shown = $("#translation");
    maps = sides = undefined;
    looked.textContent = HINT;
    words(mirror, text.value);
    if (!shown) return;
    const written = shown.textContent;
    words(shown, written);
    shown.dataset.text = written;
  };
  const forget = () => {
    maps = sides = undefined;
    if (asking) asking.abort();
    asking = undefined;
    tried = "";
    mirror.textContent = `${text.value}\u200b`;
    for (const one of document.querySelectorAll(".word")) one.classList.remove("lit", "at");
    looked.textContent = HINT;
  };
  const load = async () => { // once a text, when a word is first pointed at
    const shown = $("#translation"), body = Object.fromEntries(values());
    if (maps || asking || current || !shown || !shown.dataset.text || tried === asked || values().toString() !== asked) return;
    const mine = asking = new AbortController();
    tried = asked;
    looked.textContent = "Reading what the words looked at …";
    try {
      const reply = await fetch("translate", {
        method: "POST", headers: { "Content-Type": "application/json" }, signal: mine.signal,
        body: JSON.stringify({ ...body, source: shown.dataset.source || body.source, alignment: true }),
      });
      const found = await reply.json();
      if (mine !== asking) return;
      if (!reply.ok) { looked.textContent = found.error; return; }
      if (found.translatedText !== shown.dataset.text) { looked.textContent = "The network that shows its attention translates this text otherwise."; return; }
      maps = found.alignment;
      const flat = (side) => maps.flatMap((one) => one[side]);
      sides = { source: spans(mirror, text.value, flat("source_tokens")), target: spans(shown, shown.dataset.text, flat("target_tokens")) };
      looked.textContent = maps.length ? HINT : "No word of this text was given to the model.";
      if (again) again();
    } catch (trouble) {
      if (trouble.name !== "AbortError") looked.textContent = "The server does not answer.";
    } finally { if (mine === asking) asking = undefined; }
  };
  let again; // lights what was pointed at before the answer came
  const light = (side, at) => { // at: the token's place over all sentences
    if (!maps) { load(); return; }
    const other = side === "source" ? "target" : "source";
    for (const one of document.querySelectorAll(".word")) one.classList.remove("lit", "at");
    let first = { source: 0, target: 0 };
    for (const one of maps) {
      const size = { source: one.source_tokens.length, target: one.target_tokens.length };
      const place = at - first[side];
      if (place < size[side]) {
        const row = side === "target" ? one.weights[place] : one.weights.map((weights) => weights[place]);
        const tokens = one[`${other}_tokens`];
        const seen = row.map((weight, index) => ({ weight, index, token: tokens[index] })).filter((word) => word.token !== "</s>");
        const name = one[`${side}_tokens`][place];
        if (sides[side][at]) sides[side][at].classList.add("at");
        for (const { weight, index } of seen) {
          const span = sides[other][first[other] + index];
          if (!span || weight < 0.05) continue;
          span.classList.add("lit");
          span.style.setProperty("--weight", Math.min(1, weight).toFixed(3));
        }
        const best = seen.filter((word) => word.weight >= 0.05).sort((a, b) => b.weight - a.weight).slice(0, 4);
        const bold = document.createElement("b");
        bold.textContent = name;
        const list = best.map((word) => `${word.token} ${Math.round(word.weight * 100)} %`).join(", ");
        looked.replaceChildren(bold, side === "target" ? ` looked at: ${list || "no word in particular"}` : ` was looked at by: ${list || "no word in particular"}`);
        return;
      }
      first = { source: first.source + size.source, target: first.target + size.target };
    }
  };
  const point = (event) => {
    const word = document.elementsFromPoint(event.clientX, event.clientY).find((one) => one.classList.contains("word"));
    if (!word) return;
    again = () => point(event);
    light(mirror.contains(word) ? "source" : "target", Number(word.dataset.index));
  };
  form.addEventListener("pointermove", point);
  form.addEventListener("click", point);
  document.addEventListener("selectionchange", () => { // the caret in the text
    if (document.activeElement !== text) return;
    if (!maps) { again = undefined; load(); return; }
    let seen = 0;
    for (const node of mirror.childNodes) {
      const end = seen + node.textContent.length;
      if (node.dataset && seen <= text.selectionStart && text.selectionStart <= end) { light("source", Number(node.dataset.index)); return; }
      seen = end;
    }
  });
  form.addEventListener("keydown", (event) => { // arrows over the words of the translation
    const step = { ArrowRight: 1, ArrowLeft: -1 }[event.key], shown = $("#translation");
    if (step === undefined || event.target !== shown || shown.isContentEditable || event.ctrlKey || event.metaKey) return;
    event.preventDefault();
    const all = [...shown.querySelectorAll(".word")];
    const at = all.findIndex((one) => one.classList.contains("at"));
    const next = all[at < 0 ? (step > 0 ? 0 : all.length - 1) : Math.min(all.length - 1, Math.max(0, at + step))];
    again = () => light("target", 0);
    if (!next) return;
    if (!maps) { // nothing is known of what it looked at
      if (at >= 0) all[at].classList.remove("at");
      next.classList.add("at");
    }
    light("target", Number(next.dataset.index));
  });

  // ---------------------------------------------------------------- a file: texts into the pane, documents as they are
  const FORMATS = { html: "html", htm: "html", xml: "xml", md: "markdown", txt: "text" };
  const read = async (file) => {
    const ending = file.name.split(".").pop().toLowerCase();
    if (!(ending in FORMATS) && file.name.includes(".")) { send(file); return; }
    if (file.size > most * 4) { problem(`${file.name} is longer than ${most.toLocaleString("en")} characters.`); return; }
    text.value = await file.text();
    $("#format").value = FORMATS[ending] || "text";
    forget(); count(); program(); translate();
  };
  const send = async (file) => {
    if (current) current.abort();
    clearTimeout(pending);
    const mine = current = new AbortController(), body = new FormData();
    for (const name of ["source", "target"]) body.append(name, $(`#${name}`).value);
    if (key) body.append("api_key", key.value);
    body.append("file", file);
    empty();
    const place = $(".translation", answer);
    place.textContent = `Translating ${file.name} …`;
    try {
      const reply = await fetch("translate_file", { method: "POST", body, signal: mine.signal });
      const found = await reply.json();
      if (mine !== current) return;
      if (!reply.ok) { problem(found.error); return; }
      const link = document.createElement("a");
      link.href = new URL(found.translatedFileUrl).pathname;
      link.textContent = `Download ${file.name}, translated`;
      link.download = "";
      place.classList.remove("empty");
      place.replaceChildren(link);
      said.textContent = ["Translated.", ...(found.notes || [])].join(" ");
    } catch (trouble) {
      if (mine === current && trouble.name !== "AbortError") problem("The server does not answer.");
    } finally { if (mine === current) current = undefined; }
  };
  const holds = (event) => [...event.dataTransfer.types].includes("Files");
  form.addEventListener("dragover", (event) => { if (holds(event)) { event.preventDefault(); form.classList.add("dropping"); } });
  form.addEventListener("dragleave", () => form.classList.remove("dropping"));
  form.addEventListener("drop", (event) => {
    form.classList.remove("dropping");
    if (!holds(event)) return;
    event.preventDefault();
    if (event.dataTransfer.files[0]) read(event.dataTransfer.files[0]);
  });
  $("#open").addEventListener("click", () => $("#file").click());
  $("#file").addEventListener("change", (event) => {
    if (event.target.files[0]) read(event.target.files[0]);
    event.target.value = "";
  });

  // ---------------------------------------------------------------- terms, alternatives
  const terms = $("#terms");
  const used = () => {
    const lines = terms.value.split("\n").filter((line) => line.trim()).length;
    $("#used").textContent = lines ? ` · ${lines} ${lines === 1 ? "term" : "terms"}` : "";
  };
  form.addEventListener("input", used);
  const choices = () => { // an alternative becomes the translation, and that an alternative
    for (const one of document.querySelectorAll("#others li")) {
      const button = document.createElement("button");
      button.type = "button";
      button.title = "Take this translation";
      button.dataset.choice = "";
      button.append(...one.childNodes);
      one.append(button);
    }
  };
  const choose = (button) => {
    const shown = $("#translation"), before = shown.dataset.text || shown.textContent;
    shown.textContent = button.textContent;
    button.textContent = before;
    draw();
    looked.textContent = OTHER;
    tried = asked; // nothing to ask for
    said.textContent = "Taken.";
  };

  // ---------------------------------------------------------------- a better translation, for the next training
  const offer = () => {
    const button = $("#better");
    if (button) button.hidden = !("suggestions" in form.dataset);
  };
  const better = async (button) => {
    const shown = $("#translation");
    if (!shown.isContentEditable) {
      forget();
      shown.textContent = shown.dataset.text || shown.textContent;
      shown.contentEditable = "plaintext-only";
      shown.removeAttribute("aria-readonly");
      shown.focus();
      button.textContent = "Send";
      return;
    }
    const body = { q: text.value, s: shown.textContent, source: shown.dataset.source, target: target.value };
    if (key) body.api_key = key.value;
    try {
      const reply = await fetch("suggest", { method: "POST", headers: { "Content-Type": "application/json" }, body: JSON.stringify(body) });
      if (!reply.ok) { looked.textContent = (await reply.json()).error; return; }
      shown.contentEditable = "false";
      shown.setAttribute("aria-readonly", "true");
      draw();
      button.textContent = "Suggest a better one";
      looked.textContent = said.textContent = "Thank you: it is kept for the next training.";
    } catch { looked.textContent = "The server does not answer."; }
  };

  // ---------------------------------------------------------------- copying, and the same from a program
  const code = $("#code"), tabs = $("#tabs");
  const program = () => {
    const body = Object.fromEntries([...values()].filter(([name, value]) => value && name !== "api_key"));
    if (body.format === "text") delete body.format;
    if (key) body.api_key = "YOUR_KEY";
    const address = new URL("translate", location.href).href, json = JSON.stringify(body, null, 2);
    code.textContent = {
      curl: () => `curl -s '${address}' -H 'Content-Type: application/json' \\\n     -d '${JSON.stringify(body).replaceAll("'", "'\\''")}'`,
      python: () => `import json\nimport urllib.request\n\nbody = ${json}\nrequest = urllib.request.Request(\n    ${JSON.stringify(address)}, json.dumps(body).encode(), {"Content-Type": "application/json"}\n)\nwith urllib.request.urlopen(request) as answer:\n    print(json.load(answer)["translatedText"])`,
      javascript: () => `const answer = await fetch(${JSON.stringify(address)}, {\n  method: "POST",\n  headers: { "Content-Type": "application/json" },\n  body: JSON.stringify(${json.replaceAll("\n", "\n  ")}),\n});\nconsole.log((await answer.json()).translatedText);`,
    }[$("[aria-pressed=true]", tabs).dataset.code]();
  };
  document.addEventListener("click", async (event) => {
    const button = event.target.closest("button");
    if (!button) return;
    if ("choice" in button.dataset) choose(button);
    else if (button.id === "better") better(button);
    else if (button.dataset.code) {
      for (const one of tabs.querySelectorAll("[data-code]")) one.setAttribute("aria-pressed", String(one === button));
      program();
    } else if (button.dataset.copy) {
      const place = $(`#${button.dataset.copy}`);
      try {
        await navigator.clipboard.writeText(place.dataset.text || place.textContent);
        button.textContent = "Copied";
      } catch { // not over plain HTTP from another machine: it is selected
        getSelection().selectAllChildren(place);
        button.textContent = "Selected";
      }
      setTimeout(() => { button.textContent = "Copy"; }, 1500);
    }
  });

  // a browser may have restored the form, or the server answered it without script
  limit(); count(); program(); draw(); choices(); offer(); used();
  if ($("#translation")) asked = values().toString();
  else if (text.value.trim() && !$(".notice", answer)) translate();
})();
