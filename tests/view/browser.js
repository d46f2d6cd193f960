// A few lines that stand in for a browser: just enough of a document to run a page's script.
"use strict";
const fs = require("fs");

class Element {
  constructor(name) { Object.assign(this, { name, attributes: {}, children: [], heard: {} }); }
  get textContent() {
    return this.children.map((c) => (typeof c === "string" ? c : c.textContent)).join("");
  }
  set textContent(text) { this.children = [text]; }
  get value() {
    const options = this.children.filter((c) => c.name === "option");
    const chosen = options.find((o) => "selected" in o.attributes) || options[0];
    return this.picked ?? chosen.attributes.value;
  }
  set value(text) { this.picked = text; }
  get hidden() { return "hidden" in this.attributes; }
  set hidden(whether) {
    if (whether) this.attributes.hidden = ""; else delete this.attributes.hidden;
  }
  getAttribute(name) { return this.attributes[name]; }
  setAttribute(name, value) { this.attributes[name] = value; }
  replaceChildren(...children) { this.children = children; }
  addEventListener(type, hear) { this.heard[type] = hear; }
  fire(type, event = {}) { this.heard[type]({ preventDefault() {}, target: this, ...event }); }
  querySelectorAll(selector) {
    const [name, kind] = selector.split(".");
    const found = [];
    for (const child of this.children.filter((c) => typeof c !== "string")) {
      const kinds = (child.attributes.class ?? "").split(" ");
      if (child.name === name && (!kind || kinds.includes(kind))) found.push(child);
      found.push(...child.querySelectorAll(selector));
    }
    return found;
  }
  querySelector(selector) { return this.querySelectorAll(selector)[0] ?? null; }
}

function grown([name, attributes, children]) {
  const made = new Element(name);
  made.attributes = attributes;
  made.children = children.map((c) => (typeof c === "string" ? c : grown(c)));
  return made;
}

const { tree, script, actions } = JSON.parse(fs.readFileSync(0, "utf8"));
const document = grown(tree);
document.createElement = (name) => new Element(name);
document.getElementById = () => document.querySelectorAll("script")[0];
new Function("document", script)(document);
new Function("section", "page", actions)(document.querySelector("section.map"), document);
const texts = (selector) => document.querySelectorAll(selector).map((e) => e.textContent);
const cells = document.querySelectorAll("rect.cell");
const cursor = document.querySelector("rect.cursor").attributes;
const under = cells.findIndex((c) => c.attributes.x === cursor.x && c.attributes.y === cursor.y);
console.log(JSON.stringify({
  fills: cells.map((c) => c.attributes.fill), titles: cells.map((c) => c.textContent),
  table: texts("td"), readout: texts("p.readout"), most: texts("text.most"),
  cursor: cursor.visibility === "visible" ? under : null,
  sections: document.querySelectorAll("section.map").map((c) => !c.hidden),
  hidden: document.querySelectorAll("div.controls").map((c) => c.hidden),
}));
