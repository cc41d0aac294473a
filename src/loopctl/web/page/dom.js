/**
 * Owns making DOM nodes.
 *
 * Rules: what is shown becomes a text node, never markup; an attribute that runs or styles something cannot be set here.
 */

/**
 * Make an element. `props`: attributes; `on…` with a function is a listener; true and false switch an attribute;
 * null and undefined leave it out. Children: nodes, texts, nested lists; null, undefined and false are left out.
 */
export function h(tag, props = {}, ...children) {
  return fill(document.createElement(tag), props, children);
}

const SVG = "http://www.w3.org/2000/svg";

/** Make an element of a drawing. */
export function svg(tag, props = {}, ...children) {
  return fill(document.createElementNS(SVG, tag), props, children);
}

function fill(element, props, children) {
  for (const [name, value] of Object.entries(props)) set(element, name, value);
  element.append(...flat(children));
  return element;
}

function set(element, name, value) {
  if (value === null || value === undefined || value === false) return;
  if (typeof value === "function") element.addEventListener(name.slice(2), value);
  else if (name.startsWith("on") || name === "style") throw new Error(`not an attribute for text: ${name}`);
  else element.setAttribute(name, value === true ? "" : String(value));
}

function flat(children) {
  return children.flat(Infinity).filter((child) => child !== null && child !== undefined && child !== false);
}

/** Put `children` into `element` in place of what is there. */
export function put(element, ...children) {
  element.replaceChildren(...flat(children));
  return element;
}

const ICONS = {
  check: "M3.5 8.5l3 3 6-7",
  cross: "M4.5 4.5l7 7m0-7l-7 7",
  square: "M4.5 4.5h7v7h-7z",
  dot: "M8 5.5a2.5 2.5 0 1 0 0 5 2.5 2.5 0 0 0 0-5z",
  ring: "M8 4.75a3.25 3.25 0 1 0 0 6.5 3.25 3.25 0 0 0 0-6.5z",
  question: "M5.25 5.6a2.75 2.75 0 1 1 4 2.4c-.8.45-1.25.9-1.25 1.8m0 3v.1",
  arrow: "M8 12.5v-9m-4 4l4-4 4 4",
  down: "M8 3.5v9m-4-4l4 4 4-4",
  open: "M4.5 6.5l3.5 3.5 3.5-3.5",
  slash: "M4 12l8-8",
};

/** Draw one of our few pictures; the words beside it carry the meaning. */
export function icon(name, kind = "") {
  const isSolid = name === "square" || name === "dot";
  return svg(
    "svg",
    { class: `icon ${kind}`, viewBox: "0 0 16 16", width: 16, height: 16, "aria-hidden": "true", focusable: "false" },
    svg("path", {
      d: ICONS[name],
      fill: isSolid ? "currentColor" : "none",
      stroke: "currentColor",
      "stroke-width": 1.75,
      "stroke-linecap": "round",
      "stroke-linejoin": "round",
    }),
  );
}
