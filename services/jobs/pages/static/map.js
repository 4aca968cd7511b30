// Moving in a map of words: drag, wheel, two fingers, keys; the word under the pointer. The picture is there without it.
"use strict";
(() => {
  const box = document.querySelector("[data-map]");
  if (!box) return;
  const svg = box.querySelector("svg"), group = svg.querySelector("g"), told = document.querySelector("[data-word]");
  const WHOLE = [-40, -40, 1080], LETTERS = 13, LEAST = 20; // pixels of a letter; units of the smallest part
  const words = [...group.children].map((one) => ({ one, text: one.textContent, x: Number(one.getAttribute("x")), y: Number(one.getAttribute("y")), marked: one.matches(".here, .near") }));
  words.sort((a, b) => b.marked - a.marked); // the rest stays in the order of frequency
  let [x, y, wide] = svg.getAttribute("viewBox").split(" ").map(Number);
  let due = 0;

  const tall = () => wide * svg.clientHeight / svg.clientWidth;
  const draw = () => {
    due = 0;
    const unit = wide / svg.clientWidth, line = 1.25 * LETTERS * unit, rows = new Map();
    svg.setAttribute("viewBox", `${x} ${y} ${wide} ${tall()}`);
    group.setAttribute("font-size", LETTERS * unit);
    for (const word of words) {
      const row = Math.floor(word.y / line), right = word.x + (word.text.length + 1) * 0.55 * LETTERS * unit;
      const inside = right > x && word.x < x + wide && word.y > y - line && word.y < y + tall() + line;
      const free = inside && [row - 1, row, row + 1].every((near) => (rows.get(near) || []).every((other) => Math.abs(other.y - word.y) >= line || other.x >= right || other.right <= word.x));
      if (free) rows.set(row, [...(rows.get(row) || []), { x: word.x, y: word.y, right }]);
      if (!word.marked) word.one.classList.toggle("off", !free);
    }
  };
  const later = () => { due = due || requestAnimationFrame(draw); };
  const zoom = (factor, atX = x + wide / 2, atY = y + tall() / 2) => {
    const next = Math.min(WHOLE[2] * 1.5, Math.max(LEAST, wide * factor)), part = next / wide;
    x = atX - (atX - x) * part;
    y = atY - (atY - y) * part;
    wide = next;
    later();
  };
  const whole = () => {
    wide = WHOLE[2] * Math.max(1, svg.clientWidth / svg.clientHeight);
    x = WHOLE[0] - (wide - WHOLE[2]) / 2;
    y = WHOLE[1];
    later();
  };
  const place = (event) => {
    const edge = svg.getBoundingClientRect();
    return [x + (event.clientX - edge.left) / edge.width * wide, y + (event.clientY - edge.top) / edge.height * tall()];
  };

  // ---------------------------------------------------------------- the word under the pointer
  let hovered = null;
  const nearest = (event) => {
    const [atX, atY] = place(event), unit = wide / svg.clientWidth;
    let best = null, least = 18 * unit;
    for (const word of words) {
      const shown = !word.one.classList.contains("off");
      const aside = Math.max(0, word.x - atX, atX - word.x - (shown ? word.text.length * 0.55 * LETTERS * unit : 0));
      const far = Math.hypot(aside, word.y - atY);
      if (far < least) { least = far; best = word; }
    }
    return best;
  };
  const hover = (word) => {
    if (word === hovered) return;
    if (hovered) hovered.one.classList.remove("hover");
    hovered = word;
    if (word) { word.one.classList.add("hover"); group.append(word.one); } // on top of the others
    told.textContent = word ? word.text : "";
  };

  // ---------------------------------------------------------------- pointers: one drags, two zoom, a click asks
  const down = new Map();
  let moved = 0;
  svg.addEventListener("pointerdown", (event) => { down.set(event.pointerId, event); if (down.size === 1) moved = 0; svg.setPointerCapture(event.pointerId); });
  svg.addEventListener("pointermove", (event) => {
    const before = down.get(event.pointerId), unit = wide / svg.clientWidth;
    if (!before) { hover(nearest(event)); return; }
    const other = [...down.values()].find((one) => one.pointerId !== event.pointerId);
    moved += Math.abs(event.clientX - before.clientX) + Math.abs(event.clientY - before.clientY);
    if (other) {
      const apart = (one) => Math.hypot(one.clientX - other.clientX, one.clientY - other.clientY) || 1;
      zoom(apart(before) / apart(event), ...place(other));
    } else {
      x -= (event.clientX - before.clientX) * unit;
      y -= (event.clientY - before.clientY) * unit;
      later();
    }
    down.set(event.pointerId, event);
  });
  svg.addEventListener("pointerup", (event) => {
    down.delete(event.pointerId);
    const word = moved < 6 && !down.size ? nearest(event) : null;
    if (!word) return;
    const address = new URL(location.href);
    address.searchParams.set("word", word.text);
    location.href = address;
  });
  for (const name of ["pointercancel", "lostpointercapture"]) svg.addEventListener(name, (event) => down.delete(event.pointerId));
  svg.addEventListener("pointerleave", () => hover(null));
  box.addEventListener("wheel", (event) => {
    if (document.activeElement !== box && !event.ctrlKey) return; // the page scrolls until somebody clicks the map
    event.preventDefault();
    zoom(Math.exp(event.deltaY / 400), ...place(event));
  }, { passive: false });
  svg.addEventListener("pointerdown", () => box.focus({ preventScroll: true }));

  // ---------------------------------------------------------------- keys and buttons
  const KEYS = { ArrowLeft: [-1, 0], ArrowRight: [1, 0], ArrowUp: [0, -1], ArrowDown: [0, 1] };
  box.addEventListener("keydown", (event) => {
    const way = KEYS[event.key];
    if (event.ctrlKey || event.metaKey || event.altKey) return;
    if (way) { x += way[0] * wide / 8; y += way[1] * wide / 8; later(); }
    else if (event.key === "+" || event.key === "=") zoom(0.7);
    else if (event.key === "-") zoom(1 / 0.7);
    else if (event.key === "0") whole();
    else return;
    event.preventDefault();
  });
  const hand = document.querySelector("[data-hand]");
  hand.hidden = false;
  for (const one of hand.querySelectorAll("[data-zoom]")) one.addEventListener("click", () => { if (Number(one.dataset.zoom)) zoom(Number(one.dataset.zoom)); else whole(); });

  // the server's part of the map is square; the window's form decides how much of it stands beside
  const form = () => { y += (wide - tall()) / 2; later(); };
  if (wide === WHOLE[2]) whole(); else form();
  new ResizeObserver(later).observe(svg);
})();
