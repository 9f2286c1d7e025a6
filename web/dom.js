// dom: elements from descriptions, and bringing what is shown to what should be shown.
// Text is only ever set as text: nothing that comes from outside becomes markup.

const SVG = "http://www.w3.org/2000/svg";

/** @typedef {Node | string | number | null | undefined | false | any[]} Child */

/**
 * @param {Element} element
 * @param {Record<string, any>} attributes
 */
function setAll(element, attributes) {
    for (const [name, value] of Object.entries(attributes)) {
        if (value === null || value === undefined || value === false)
            continue;
        element.setAttribute(name, value === true ? "" : String(value));
    }
}

/**
 * @param {Element} element
 * @param {Child[]} children
 */
function addAll(element, children) {
    for (const child of children) {
        if (Array.isArray(child))
            addAll(element, child);
        else if (child instanceof Node)
            element.append(child);
        else if (child !== null && child !== undefined && child !== false)
            element.append(String(child));
    }
}

/**
 * An HTML element. `key` in the attributes tells it from its siblings when the view is drawn again.
 * @param {string} tag
 * @param {Record<string, any> | null} [attributes]
 * @param {...Child} children
 * @returns {HTMLElement}
 */
export function h(tag, attributes, ...children) {
    const element = document.createElement(tag);
    setAll(element, attributes ?? {});
    addAll(element, children);
    return element;
}

/**
 * An SVG element.
 * @param {string} tag
 * @param {Record<string, any> | null} [attributes]
 * @param {...Child} children
 * @returns {SVGElement}
 */
export function s(tag, attributes, ...children) {
    const element = /** @type {SVGElement} */ (document.createElementNS(SVG, tag));
    setAll(element, attributes ?? {});
    addAll(element, children);
    return element;
}

/** What stands for an element that keeps its own state. @type {WeakMap<Node, Element>} */
const owned = new WeakMap();

/**
 * A place for an element that keeps its own state, such as a log: it is drawn once, and morph() leaves its inside alone.
 * @param {HTMLElement} element
 * @returns {HTMLElement}
 */
export function own(element) {
    const place = h("div", { "data-own": true });
    owned.set(place, element);
    return place;
}

/**
 * @typedef {Map<string, {inputs: any[], element: HTMLElement}>} Kept elements of a view, and what they were made of
 */

/**
 * An element that is made again only when one of its inputs is another than before: a large view costs as much as what changed.
 * @param {Kept} kept
 * @param {string} key
 * @param {any[]} inputs
 * @param {() => HTMLElement} make
 */
export function keep(kept, key, inputs, make) {
    const before = kept.get(key);
    if (before && before.inputs.every((input, i) => input === inputs[i]))
        return own(before.element);
    const element = make();
    if (before)
        morph(before.element, element);
    kept.set(key, { inputs, element: before?.element ?? element });
    return own(before?.element ?? element);
}

/** Puts the elements where their places are. @param {Node} node */
function settle(node) {
    if (node instanceof Element)
        for (const place of node.querySelectorAll("[data-own]"))
            place.replaceWith(owned.get(place) ?? place);
}

/** @param {Node} node */
const keyOf = node => node instanceof Element ? node.getAttribute("key") : null;

/**
 * @param {Element} old
 * @param {Element} wanted
 */
function morphAttributes(old, wanted) {
    for (const { name } of [...old.attributes])
        if (!wanted.hasAttribute(name) && !(name === "open" && old.tagName === "DETAILS"))
            old.removeAttribute(name);
    for (const { name, value } of [...wanted.attributes])
        if (old.getAttribute(name) !== value)
            old.setAttribute(name, value);
}

/**
 * Makes `old` look like `wanted` while elements that stay keep focus, selection and scrolling.
 * @param {Element} old
 * @param {Element} wanted
 */
export function morph(old, wanted) {
    morphAttributes(old, wanted);
    /** @type {Map<string, Element>} */
    const keyed = new Map();
    for (const child of old.children) {
        const key = child.getAttribute("key");
        if (key)
            keyed.set(key, child);
    }
    let at = old.firstChild;
    for (const next of [...wanted.childNodes]) {
        const real = owned.get(next);
        if (real) {
            if (real === at)
                at = at.nextSibling;
            else
                old.insertBefore(real, at);
            continue;
        }
        const key = keyOf(next);
        const known = key ? keyed.get(key) : undefined;
        const candidate = known ?? (at && !keyOf(at) && !key ? at : null);
        if (candidate && candidate.nodeType === next.nodeType && candidate.nodeName === next.nodeName) {
            if (candidate === at)
                at = at.nextSibling;
            else
                old.insertBefore(candidate, at);
            if (candidate instanceof Element && next instanceof Element)
                morph(candidate, next);
            else if (candidate.nodeValue !== next.nodeValue)
                candidate.nodeValue = next.nodeValue;
        } else {
            old.insertBefore(next, at);
            settle(next);
        }
    }
    while (at) {
        const gone = at;
        at = at.nextSibling;
        gone.remove();
    }
}
