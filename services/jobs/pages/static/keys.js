// The keyboard: / j k ? and Ctrl-K; choosing jobs by name; the focus after an action. Nothing here is needed.
"use strict";
(() => {
  const body = document.body;
  const $ = (selector, from = document) => from.querySelector(selector);
  const make = (tag, values = {}, ...inside) => {
    const one = Object.assign(document.createElement(tag), values);
    one.append(...inside);
    return one;
  };
  const open = (dialog) => {
    const before = document.activeElement;
    dialog.addEventListener("close", () => { dialog.remove(); if (before) before.focus(); });
    dialog.addEventListener("click", (event) => { if (event.target === dialog) dialog.close(); }); // beside it
    body.append(dialog);
    dialog.showModal();
    return dialog;
  };

  // ---------------------------------------------------------------- help
  const KEYS = [["/", "search"], ["j", "next row"], ["k", "row before"], ["Enter", "open the row"], ["Ctrl K", "go to a page or a job"], ["?", "these keys"], ["Esc", "close"]];
  const help = () => {
    const list = make("dl");
    for (const [key, what] of KEYS) list.append(make("dt", {}, make("kbd", { textContent: key })), make("dd", { textContent: what }));
    const leave = make("button", { textContent: "Close", type: "button" });
    const dialog = make("dialog", { className: "keys" }, make("h2", { textContent: "Keys", className: "first", id: "keys" }), list, leave);
    dialog.setAttribute("aria-labelledby", "keys");
    leave.addEventListener("click", () => dialog.close());
    open(dialog);
  };
  const button = $("[data-keys]");
  if (button) {
    button.hidden = false;
    $("button", button).addEventListener("click", help);
  }

  // ---------------------------------------------------------------- the palette: pages, and the newest jobs by name
  const pages = () => [...document.querySelectorAll(".top nav a, .who a.button")].map((one) => ({ name: one.textContent.trim(), about: "page", address: one.getAttribute("href") }));
  const palette = async () => {
    const input = make("input", { type: "text", placeholder: "Page or job", autocomplete: "off", spellcheck: false });
    const list = make("ul", { id: "found" });
    list.setAttribute("role", "listbox");
    list.setAttribute("aria-label", "Pages and jobs");
    for (const [key, value] of [["role", "combobox"], ["aria-label", "Page or job"], ["aria-expanded", "true"], ["aria-controls", "found"]]) input.setAttribute(key, value);
    const dialog = make("dialog", { className: "palette" }, input, list);
    dialog.setAttribute("aria-label", "Go to");
    let all = pages(), found = [], at = 0;
    const show = () => {
      const words = input.value.toLowerCase().split(/\s+/);
      found = all.filter((one) => words.every((word) => `${one.name} ${one.about}`.toLowerCase().includes(word))).slice(0, 50);
      at = Math.min(at, Math.max(0, found.length - 1));
      list.replaceChildren(...found.map((one, index) => {
        const row = make("li", { id: `found-${index}` }, make("span", { textContent: one.name }), make("small", { textContent: one.about }));
        row.setAttribute("role", "option");
        row.setAttribute("aria-selected", String(index === at));
        row.addEventListener("click", () => go(one));
        return row;
      }));
      input.setAttribute("aria-activedescendant", found.length ? `found-${at}` : "");
      const row = document.getElementById(`found-${at}`);
      if (row) row.scrollIntoView({ block: "nearest" });
    };
    const go = (one) => { if (one) location.assign(one.address); };
    input.addEventListener("input", () => { at = 0; show(); });
    input.addEventListener("keydown", (event) => {
      const step = { ArrowDown: 1, ArrowUp: -1 }[event.key];
      if (step && found.length) { at = (at + step + found.length) % found.length; show(); }
      else if (event.key === "Enter") go(found[at]);
      else return;
      event.preventDefault();
    });
    open(dialog);
    input.focus();
    show();
    try {
      const answer = await fetch("/recent.json"); // once, not at a keystroke
      if (answer.ok) all = [...all, ...(await answer.json()).map((one) => ({ name: one.name, about: `${one.state} · ${one.id}`, address: `/jobs/${one.id}` }))];
      show();
    } catch { /* the pages stay */ }
  };

  // ---------------------------------------------------------------- keys
  const step = (by) => {
    const rows = [...document.querySelectorAll("table.jobs tbody tr")].map((row) => $(".name a, td a", row)).filter(Boolean);
    if (!rows.length) return;
    const row = document.activeElement.closest("tr"), now = row ? rows.findIndex((one) => row.contains(one)) : -1;
    const next = now < 0 ? (by > 0 ? 0 : rows.length - 1) : Math.min(rows.length - 1, Math.max(0, now + by));
    rows[next].focus();
    rows[next].scrollIntoView({ block: "nearest" });
  };
  document.addEventListener("keydown", (event) => {
    if ($("dialog[open]") || event.altKey || event.isComposing) return;
    if ((event.ctrlKey || event.metaKey) && event.key.toLowerCase() === "k") { event.preventDefault(); palette(); return; }
    if (event.ctrlKey || event.metaKey || event.target.closest("input, select, textarea")) return;
    const field = $("input[type=search]");
    const act = { "/": field && (() => { field.focus(); field.select(); }), j: () => step(1), k: () => step(-1), "?": help }[event.key];
    if (act) { event.preventDefault(); act(); }
  });

  // ---------------------------------------------------------------- several jobs in one field with a list of choices
  document.addEventListener("input", (event) => {
    const field = event.target;
    if (!field.matches("input[data-several]")) return;
    const chosen = field.list && [...field.list.options].some((one) => one.value === field.value);
    const before = field.dataset.typed ?? field.defaultValue;
    if (chosen && event.inputType !== "insertText" && before.trim()) { // a choice takes the place of the whole text
      const kept = before.split(/[\s,]+/).filter((word) => word && word !== field.value);
      if (!/\s$/.test(before)) kept.pop(); // the word that was being typed
      field.value = [...kept, field.value].join(" ");
    }
    field.dataset.typed = field.value;
  });

  // ---------------------------------------------------------------- the focus stays with what was done
  const KEY = "dragoman-focus";
  document.addEventListener("submit", (event) => {
    const form = event.target;
    if (form.method === "post") sessionStorage.setItem(KEY, form.getAttribute("action"));
  });
  const done = $(".notice.good"), last = sessionStorage.getItem(KEY);
  sessionStorage.removeItem(KEY);
  if (done && last) {
    const again = [...document.querySelectorAll("main form")].find((one) => one.getAttribute("action") === last);
    const place = again ? $("button:not([type=button])", again) : done;
    if (place === done) done.tabIndex = -1;
    place.focus({ preventScroll: true });
  }
})();
