"""The style and the script of a stand-alone page: plain, small, and asking nothing of the network.

The page is whole without the script; with it, a map, a head, a scale and a cursor can be chosen.
"""

STYLE = """
:root { color-scheme: light dark; --ink: #1b1b1b; --faint: #595959; --ground: #ffffff;
  --line: #c9c9c9; --mark: #d9480f; }
@media (prefers-color-scheme: dark) {
  :root { --ink: #ececec; --faint: #a8a8a8; --ground: #141416; --line: #3a3a3d; --mark: #ff922b; }
}
* { box-sizing: border-box; }
body { margin: 0; background: var(--ground); color: var(--ink);
  font: 15px/1.5 system-ui, "Noto Sans", "DejaVu Sans", sans-serif; }
main { max-width: 75rem; margin: 0 auto; padding: 1.5rem; }
h1 { font-size: 1.4rem; margin: 0 0 0.75rem; }
h2 { font-size: 1.1rem; margin: 1.75rem 0 0.5rem; }
h1, h2, dd, th, li { unicode-bidi: plaintext; overflow-wrap: anywhere; }
dl { display: grid; grid-template-columns: max-content 1fr; gap: 0.15rem 1rem; margin: 0 0 1rem; }
dt, footer, .readout { color: var(--faint); }
dd { margin: 0; }
svg { color: var(--ink); display: block; }
svg text { unicode-bidi: plaintext; }
.scroll { overflow: auto; }
.scroll:focus-visible, svg:focus-visible, select:focus-visible, button:focus-visible,
summary:focus-visible { outline: 3px solid var(--mark); outline-offset: 2px; }
.cursor { fill: none; stroke: var(--mark); stroke-width: 3; pointer-events: none; }
.controls { display: flex; flex-wrap: wrap; gap: 0.5rem 1rem; align-items: center; }
[hidden] { display: none; }
select, button { font: inherit; min-height: 2rem; color: inherit; background: var(--ground);
  border: 1px solid var(--line); border-radius: 0.3rem; padding: 0.1rem 0.5rem; }
.readout { min-height: 1.5em; margin: 0.5rem 0; font-variant-numeric: tabular-nums; }
.readout b { color: var(--ink); }
summary { cursor: pointer; min-height: 1.75rem; }
table { border-collapse: collapse; font-variant-numeric: tabular-nums; font-size: 0.85rem; }
caption { text-align: start; color: var(--faint); padding: 0.3rem 0; }
th, td { border: 1px solid var(--line); padding: 0.15rem 0.45rem; text-align: end; }
th { font-weight: 600; }
footer { font-size: 0.85rem; margin-top: 2rem; border-top: 1px solid var(--line); }
"""

SCRIPT = """
"use strict";
(() => {
  const data = JSON.parse(document.getElementById("data").textContent);
  const anchors = data.colours.map((c) => [1, 3, 5].map((i) => parseInt(c.slice(i, i + 2), 16)));
  const scales = {
    linear: (share) => share,
    sqrt: Math.sqrt,
    log: (share) => (share > 0 ? Math.max(0, 1 + Math.log10(share) / 4) : 0),
  };

  function colour(share) {
    const place = Math.min(1, Math.max(0, share)) * (anchors.length - 1);
    const low = Math.min(Math.floor(place), anchors.length - 2);
    const mixed = anchors[low].map((a, i) => a + (anchors[low + 1][i] - a) * (place - low));
    return "#" + mixed.map((c) => Math.floor(c + 0.5).toString(16).padStart(2, "0")).join("");
  }

  function numbers(base64) {
    const bytes = Uint8Array.from(atob(base64), (c) => c.charCodeAt(0));
    return new Float32Array(bytes.buffer);
  }

  function element(name, text) {
    const made = document.createElement(name);
    made.textContent = text;
    return made;
  }

  function begin(section, map) {
    const weights = numbers(map.weights);
    const Q = map.queries.length, K = map.keys.length;
    const svg = section.querySelector("svg");
    const rects = Array.from(section.querySelectorAll("rect.cell"));
    const tds = Array.from(section.querySelectorAll("td"));
    const cursor = section.querySelector("rect.cursor");
    const readout = section.querySelector("p.readout");
    const most = section.querySelector("text.most");
    const choice = (name) => section.querySelector("select." + name);
    const chosen = (name) => (choice(name) ? Number(choice(name).value) : 0);
    const place = new Map(rects.map((rect, i) => [rect, i]));
    let now = -1;

    const head = () => {
      const start = (chosen("layer") * map.heads + chosen("head")) * Q * K;
      return weights.subarray(start, start + Q * K);
    };

    function draw() {
      const w = head();
      const top = Math.max(1e-6, w.reduce((a, b) => Math.max(a, b), 0));
      const scale = scales[choice("scale").value];
      most.textContent = top.toFixed(4);
      w.forEach((v, i) => {
        const q = map.queries[Math.floor(i / K)], k = map.keys[i % K];
        rects[i].setAttribute("fill", colour(scale(v / top)));
        rects[i].querySelector("title").textContent = `${q} \\u2192 ${k}: ${v.toFixed(4)}`;
        tds[i].textContent = v.toFixed(4);
      });
      tell(now);
    }

    function tell(i) {
      now = i;
      cursor.setAttribute("visibility", i < 0 ? "hidden" : "visible");
      if (i < 0) return;
      for (const name of ["x", "y"]) cursor.setAttribute(name, rects[i].getAttribute(name));
      const w = head(), q = Math.floor(i / K);
      const sum = w.subarray(q * K, q * K + K).reduce((a, b) => a + b, 0);
      readout.replaceChildren(
        element("bdi", map.queries[q]), " \\u2192 ", element("bdi", map.keys[i % K]), ": ",
        element("b", w[i].toFixed(4)), ` (the row sums to ${sum.toFixed(4)})`);
    }

    function turn(name, by) {
      const select = choice(name);
      if (!select) return;
      const n = select.children.length;
      select.value = String((Number(select.value) + by + n) % n);
      draw();
    }

    function move(down, across) {
      const q = now < 0 ? 0 : Math.min(Q - 1, Math.max(0, Math.floor(now / K) + down));
      const k = now < 0 ? 0 : Math.min(K - 1, Math.max(0, (now % K) + across));
      tell(q * K + k);
    }

    const keys = {
      ArrowUp: () => move(-1, 0), ArrowDown: () => move(1, 0),
      ArrowLeft: () => move(0, -1), ArrowRight: () => move(0, 1),
      Home: () => move(0, -K), End: () => move(0, K), Escape: () => tell(-1),
      "[": () => turn("head", -1), "]": () => turn("head", 1),
      "{": () => turn("layer", -1), "}": () => turn("layer", 1),
    };
    svg.addEventListener("keydown", (event) => {
      if (event.metaKey || event.ctrlKey || !Object.hasOwn(keys, event.key)) return;
      event.preventDefault();
      keys[event.key]();
    });
    svg.addEventListener("focus", () => { if (now < 0) tell(0); });
    svg.addEventListener("pointerover", (event) => {
      if (place.has(event.target)) tell(place.get(event.target));
    });
    for (const name of ["layer", "head", "scale"])
      if (choice(name)) choice(name).addEventListener("change", draw);
    section.querySelector("button.save").addEventListener("click", () => {
      const copy = svg.cloneNode(true);
      copy.querySelector("rect.cursor").remove();
      const text = new XMLSerializer().serializeToString(copy);
      const link = document.createElement("a");
      link.href = URL.createObjectURL(new Blob([text], { type: "image/svg+xml" }));
      link.download = map.id + ".svg";
      link.click();
      setTimeout(() => URL.revokeObjectURL(link.href), 1000);
    });
    section.querySelector("div.controls").hidden = false;
    draw();
  }

  const sections = Array.from(document.querySelectorAll("section.map"));
  sections.forEach((section, n) => begin(section, data.maps[n]));
  const maps = document.querySelector("select.maps");
  if (maps) {
    const show = () => sections.forEach((section, n) => {
      section.hidden = n !== Number(maps.value);
    });
    maps.addEventListener("change", show);
    document.querySelector("div.maps").hidden = false;
    show();
  }
})();
"""
