// What is new on a page comes by one stream of server-sent events; everything works without this script as well.
"use strict";
(() => {
  const root = document.documentElement, body = document.body;
  const $ = (selector, from = document) => from.querySelector(selector);
  root.classList.add("scripted");

  // ---------------------------------------------------------------- times that count on by themselves
  const span = (seconds) => {
    const s = Math.max(0, Math.round(seconds)), two = (n) => String(n).padStart(2, "0");
    if (s < 60) return `${s} s`;
    if (s < 600) return `${Math.floor(s / 60)} min ${two(s % 60)} s`;
    if (s < 3600) return `${Math.floor(s / 60)} min`;
    if (s < 172800) return `${Math.floor(s / 3600)} h ${two(Math.floor((s % 3600) / 60))} min`;
    return `${Math.floor(s / 86400)} d ${Math.floor((s % 86400) / 3600)} h`;
  };
  setInterval(() => {
    const now = Date.now() / 1000;
    for (const one of document.querySelectorAll("time[data-since]")) {
      const text = span(now - Number(one.dataset.since));
      if (one.textContent !== text) one.textContent = text;
    }
  }, 1000);

  // ---------------------------------------------------------------- parts of the page
  const mark = (field) => field.id || `${field.name}=${field.value}` || field.getAttribute("href");
  const replace = ({ id, html, mark: fresh }) => {
    const place = document.getElementById(id);
    if (!place || place.dataset.mark === fresh) return;
    const active = document.activeElement;
    if (active && place.contains(active) && active.matches("select, textarea, input:not([type=checkbox])")) return; // somebody chooses
    const checked = new Set([...place.querySelectorAll("input:checked")].map((one) => one.value));
    const opened = [...place.querySelectorAll("details[open] > summary")].map((one) => one.textContent);
    const focus = active && place.contains(active) ? (active.getAttribute("href") || mark(active)) : null;
    const scrolled = [...place.querySelectorAll(".trail")].map((one) => one.scrollTop);
    place.innerHTML = html;
    place.dataset.mark = fresh;
    for (const one of place.querySelectorAll("input[type=checkbox]")) one.checked = checked.has(one.value);
    for (const one of place.querySelectorAll("details > summary")) if (opened.includes(one.textContent)) one.parentElement.open = true;
    place.querySelectorAll(".trail").forEach((one, index) => { one.scrollTop = scrolled[index] || 0; });
    if (focus) {
      const again = [...place.querySelectorAll("a, button, input, summary")].find((one) => (one.getAttribute("href") || mark(one)) === focus);
      if (again) again.focus({ preventScroll: true });
    }
  };

  // ---------------------------------------------------------------- the log: a window of lines, whatever its length
  const PIECES = 24;
  const log = $("#log[data-log]");
  const pieces = [];
  const atEnd = () => log.scrollHeight - log.scrollTop - log.clientHeight < 40;
  const node = (text, attempt, start, end) => {
    const one = document.createElement("span");
    one.textContent = text;
    return { one, attempt, start, end };
  };
  let tail = true; // whether the window reaches to the end
  if (log) {
    const first = node(log.textContent, Number(log.dataset.attempt) || 1, Number(log.dataset.start), Number(log.dataset.end));
    log.textContent = "";
    if (first.one.textContent) { log.append(first.one); pieces.push(first); }
    log.scrollTop = log.scrollHeight;
    let busy = false;
    const fetchPiece = async (query) => {
      busy = true;
      try {
        const answer = await fetch(`${log.dataset.log}?${query}`, { headers: { Accept: "application/json" } });
        return answer.ok ? await answer.json() : null;
      } catch { return null; } finally { setTimeout(() => { busy = false; }, 100); }
    };
    log.addEventListener("scroll", async () => {
      if (busy || !pieces.length) return;
      const head = pieces[0], last = pieces[pieces.length - 1];
      if (log.scrollTop < 200 && head.start > 0) {
        const found = await fetchPiece(`attempt=${head.attempt}&before=${head.start}`);
        if (!found || found.end <= found.start) return;
        const made = node(found.text, head.attempt, found.start, found.end), height = log.scrollHeight;
        pieces.unshift(made);
        log.prepend(made.one);
        log.scrollTop += log.scrollHeight - height;
        while (pieces.length > PIECES) { pieces.pop().one.remove(); tail = false; }
      } else if (!tail && atEnd()) {
        const found = await fetchPiece(`attempt=${last.attempt}&after=${last.end}`);
        if (!found || found.end <= found.start) { tail = true; return; }
        const made = node(found.text, last.attempt, found.start, found.end);
        pieces.push(made);
        log.append(made.one);
        if (found.end >= found.size) tail = true;
        while (pieces.length > PIECES) { const height = log.scrollHeight; pieces.shift().one.remove(); log.scrollTop -= height - log.scrollHeight; }
      }
    });
  }
  const append = (piece) => {
    if (!log || !tail) return;
    const last = pieces[pieces.length - 1], follow = !last || atEnd();
    if (last && (piece.attempt < last.attempt || (piece.attempt === last.attempt && piece.start < last.end))) return; // seen
    const none = $("[data-no-log]");
    if (none) none.remove();
    const made = node(piece.text, piece.attempt, piece.start, piece.end);
    if (last && piece.attempt > last.attempt) {
      const line = document.createElement("span");
      line.className = "mark";
      line.textContent = `attempt ${piece.attempt}`;
      made.one.prepend(line);
    }
    pieces.push(made);
    log.append(made.one);
    while (pieces.length > PIECES && follow) pieces.shift().one.remove();
    if (follow) log.scrollTop = log.scrollHeight;
  };

  // ---------------------------------------------------------------- the stream
  const offline = $("[data-offline]");
  const say = (away) => { if (offline) offline.hidden = !away; };
  if (body.dataset.stream && window.EventSource) {
    let source, late, wait = 1500, seen = "";
    const open = () => {
      const address = new URL(body.dataset.stream, location.href);
      if (seen) address.searchParams.set("after", seen);
      source = new EventSource(address);
      const took = (event) => { if (event.lastEventId) seen = event.lastEventId; };
      source.addEventListener("open", () => { clearTimeout(late); wait = 1500; say(false); });
      source.addEventListener("parts", (event) => { took(event); JSON.parse(event.data).forEach(replace); });
      source.addEventListener("log", (event) => { took(event); append(JSON.parse(event.data)); });
      source.addEventListener("end", () => { source.close(); say(false); });
      source.addEventListener("error", () => {
        clearTimeout(late);
        late = setTimeout(() => say(true), 800);
        if (source.readyState === EventSource.CLOSED) { // refused: a browser does not come back by itself
          setTimeout(open, wait);
          wait = Math.min(wait * 2, 30000);
        }
      });
    };
    open();
    addEventListener("pagehide", () => source.close());
    addEventListener("pageshow", (event) => { if (event.persisted) location.reload(); });
  }

  // ---------------------------------------------------------------- what destroys asks first, here in a dialog
  document.addEventListener("click", (event) => {
    const link = event.target.closest("a[data-ask]"), csrf = $("input[name=csrf]");
    if (!link || !csrf || event.ctrlKey || event.metaKey || !window.HTMLDialogElement) return;
    event.preventDefault();
    const dialog = document.createElement("dialog"), form = document.createElement("form"), question = document.createElement("p");
    question.textContent = link.dataset.ask;
    question.id = "question";
    dialog.setAttribute("aria-labelledby", "question");
    form.method = "post";
    form.action = link.getAttribute("href");
    form.className = "actions";
    const button = (text, kind) => {
      const one = document.createElement("button");
      one.textContent = text;
      one.className = kind;
      form.append(one);
      return one;
    };
    const hidden = document.createElement("input");
    Object.assign(hidden, { type: "hidden", name: "csrf", value: csrf.value });
    form.append(hidden);
    button(link.textContent, "danger");
    const leave = button("Leave it", "");
    leave.type = "button";
    leave.addEventListener("click", () => dialog.close());
    dialog.append(question, form);
    dialog.addEventListener("close", () => { dialog.remove(); link.focus(); });
    body.append(dialog);
    dialog.showModal();
    leave.focus();
  });

  // ---------------------------------------------------------------- forms whose answer stands beside them
  const send = async (form, more, place, asked) => {
    place.classList.add("working");
    const data = new URLSearchParams(new FormData(form));
    for (const [key, value] of Object.entries(more)) data.set(key, value);
    try {
      const answer = await fetch(form.getAttribute("action"), { method: "POST", body: data, headers: { "X-Part": asked } });
      place.innerHTML = await answer.text();
    } catch {
      place.textContent = "The service does not answer; nothing was sent.";
    } finally { place.classList.remove("working"); }
  };
  const plan = $("form[data-plan]");
  if (plan) {
    const place = $("[data-plan-place]");
    let pending;
    plan.addEventListener("change", () => {
      clearTimeout(pending);
      pending = setTimeout(() => send(plan, { do: "plan" }, place, "plan"), 250);
    });
    plan.addEventListener("submit", (event) => {
      if (!event.submitter || event.submitter.value !== "plan") return;
      event.preventDefault();
      send(plan, { do: "plan" }, place, "plan");
    });
  }

  // ---------------------------------------------------------------- curves: the value under the pointer
  const NAMESPACE = "http://www.w3.org/2000/svg";
  document.addEventListener("pointermove", (event) => {
    const drawing = event.target.closest && event.target.closest(".chart svg:has(polyline)");
    for (const one of document.querySelectorAll(".chart .cursor")) if (one.ownerSVGElement !== drawing) forget(one.ownerSVGElement);
    if (!drawing) return;
    const chart = drawing.closest(".chart"), box = drawing.getBoundingClientRect();
    const at = Math.min(1000, Math.max(0, ((event.clientX - box.left) / box.width) * 1000));
    const { low, high, first, end } = chart.dataset;
    let cursor = $(".cursor", drawing);
    if (!cursor) { cursor = document.createElementNS(NAMESPACE, "path"); cursor.setAttribute("class", "cursor"); drawing.append(cursor); }
    cursor.setAttribute("d", `M${at.toFixed(1)} 0V1000`);
    const { points } = $("polyline", drawing), label = $("figcaption b", chart);
    let best = points.getItem(0);
    for (let i = 1; i < points.numberOfItems; i++) {
      const point = points.getItem(i);
      if (Math.abs(point.x - at) < Math.abs(best.x - at)) best = point;
    }
    if (label.dataset.last === undefined) label.dataset.last = label.textContent;
    const value = (Number(high) - (best.y / 1000) * (high - low)).toPrecision(4);
    const step = Math.round(Number(first) + (at / 1000) * (end - first)).toLocaleString("en");
    label.textContent = `${value} at ${step}`;
  });
  const forget = (drawing) => {
    $(".cursor", drawing).remove();
    for (const one of drawing.closest(".chart").querySelectorAll("b[data-last]")) one.textContent = one.dataset.last;
  };
})();
