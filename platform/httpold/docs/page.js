
"use strict";

// Draws the contract at openapi.json and sends what the forms say. Everything
// that comes from the contract or from an answer is put in as text, never as HTML.

const methods = ["get", "head", "post", "put", "patch", "delete", "options"];
let contract;

// element makes a tag with properties and children; strings become text.
function element(tag, properties, ...children) {
  const made = Object.assign(document.createElement(tag), properties);
  made.append(...children.filter((child) => child !== null && child !== undefined));
  return made;
}

// resolve follows $ref within the contract.
function resolve(thing) {
  for (let hops = 0; thing && thing.$ref && hops < 16; hops++) {
    thing = thing.$ref.replace(/^#\//, "").split("/")
      .map((part) => part.replace(/~1/g, "/").replace(/~0/g, "~"))
      .reduce((at, part) => (at ? at[part] : undefined), contract);
  }
  return thing || {};
}

// sample makes a value that fits a schema.
function sample(schema, depth = 0) {
  schema = resolve(schema);
  if (schema.example !== undefined) return schema.example;
  if (schema.examples && schema.examples.length) return schema.examples[0];
  if (schema.default !== undefined) return schema.default;
  if (schema.enum) return schema.enum[0];
  if (schema.allOf) return Object.assign({}, ...schema.allOf.map((part) => sample(part, depth + 1)));
  const either = schema.oneOf || schema.anyOf;
  if (either) return sample(either[0], depth + 1);
  const type = Array.isArray(schema.type) ? schema.type[0] : schema.type;
  if (depth > 8) return null;
  if (type === "object" || schema.properties) {
    return Object.fromEntries(Object.entries(schema.properties || {})
      .map(([name, property]) => [name, sample(property, depth + 1)]));
  }
  if (type === "array") return [sample(schema.items, depth + 1)];
  if (type === "integer" || type === "number") return schema.minimum ?? 0;
  if (type === "boolean") return false;
  return "";
}

// typeOf says in a few words what a schema allows.
function typeOf(schema) {
  schema = resolve(schema);
  if (schema.enum) return schema.enum.map((value) => JSON.stringify(value)).join(" | ");
  let text = [schema.type || "any"].flat().join(" | ");
  if (schema.format) text += " (" + schema.format + ")";
  if (text === "array") text = "array of " + typeOf(schema.items);
  const limits = [["minimum", "≥"], ["maximum", "≤"], ["minLength", "length ≥"], ["maxLength", "length ≤"],
    ["minItems", "items ≥"], ["maxItems", "items ≤"], ["pattern", "like"]];
  for (const [key, sign] of limits) if (schema[key] !== undefined) text += ", " + sign + " " + schema[key];
  if (schema.default !== undefined) text += ", default " + JSON.stringify(schema.default);
  return text;
}

function paragraphs(text) {
  return (text || "").trim().split(/\n\s*\n/).filter(Boolean).map((part) => element("p", {}, part));
}

// parametersOf are those of the path and of the operation, which wins.
function parametersOf(item, operation) {
  const all = new Map();
  for (const parameter of [...(item.parameters || []), ...(operation.parameters || [])].map(resolve)) {
    all.set(parameter.in + " " + parameter.name, parameter);
  }
  return [...all.values()];
}

function isList(parameter) { return resolve(parameter.schema).type === "array"; }

// segment encodes a value as one segment of a path. The dots of "." and ".." are
// no letters to encodeURIComponent, but "/../" means another path. Browsers take
// even %2E%2E for one ("double-dot URL path segment" of the URL Standard), so
// what this makes is for curl; see fromBrowser.
function segment(value) {
  return /^\.\.?$/.test(value) ? value.replace(/\./g, "%2E") : encodeURIComponent(value);
}

// fromBrowser tells whether a browser sends that path, and not a shorter one.
function fromBrowser(url) { return new URL(url, location.href).pathname === url.split("?")[0]; }

// request reads a form: what is to be sent.
function request(method, path, parameters, form) {
  const query = [];
  const headers = {};
  for (const parameter of parameters) {
    const value = form.elements["parameter " + parameter.in + " " + parameter.name].value;
    const name = encodeURIComponent(parameter.name);
    if (parameter.in === "path") {
      path = path.replace("{" + parameter.name + "}", segment(value));
    } else if (parameter.in === "query" && (value !== "" || parameter.required)) {
      const values = isList(parameter) ? value.split("\n").filter(Boolean) : [value];
      query.push(...values.map((each) => name + "=" + encodeURIComponent(each)));
    } else if (parameter.in === "header" && value !== "") {
      headers[parameter.name] = value;
    }
  }
  const made = { method: method.toUpperCase(), url: path + (query.length ? "?" + query.join("&") : ""), headers };
  const body = form.elements["body"];
  if (body && body.value !== "") {
    made.body = body.value;
    headers["Content-Type"] = form.elements["type"].value;
  }
  return made;
}

function quote(text) { return "'" + text.replace(/'/g, "'\\''") + "'"; }

// curl is the same request for a shell.
function curl(made) {
  const words = ["curl", "-i"];
  if (made.method === "HEAD") words.push("--head");
  else if (made.method !== "GET") words.push("-X", made.method);
  words.push("--path-as-is", quote(location.origin + made.url)); // URL would take the dots out
  for (const [name, value] of Object.entries(made.headers)) words.push("-H", quote(name + ": " + value));
  if (made.body !== undefined) words.push("--data-binary", quote(made.body));
  return words.join(" ");
}

function pretty(text, type) {
  if (!/\bjson\b/.test(type || "")) return text;
  // Only white space is changed: JSON.parse would round integers beyond 2^53.
  let indent = 0;
  return text.trim().replace(/"(?:[^"\\]|\\.)*"|[{}[\],:]|[^"{}[\],:\s]+|\s+/g, (token) => {
    const line = () => "\n" + "  ".repeat(indent);
    if (/^\s+$/.test(token)) return "";
    if (token === "{" || token === "[") { indent++; return token + line(); }
    if (token === "}" || token === "]") { indent--; return line() + token; }
    if (token === ",") return token + line();
    return token === ":" ? ": " : token;
  }).replace(/([{[])\s+([}\]])/g, "$1$2");
}

async function send(made, output) {
  output.replaceChildren(element("h3", {}, "The request"), element("pre", {}, curl(made)));
  if (!fromBrowser(made.url)) {
    output.append(element("p", { className: "failed" },
      "Not sent: a browser takes . and .. out of a path, even as %2E, and would call another one. The line above calls the right one."));
    return;
  }
  const start = performance.now();
  try {
    const answer = await fetch(made.url, { method: made.method, headers: made.headers, body: made.body, redirect: "manual" });
    const text = await answer.text();
    const took = (performance.now() - start).toFixed(1);
    const headers = [...answer.headers].map(([name, value]) => name + ": " + value).join("\n");
    output.append(
      element("h3", { className: answer.ok ? "" : "failed" }, `${answer.status} ${answer.statusText} in ${took} ms`),
      element("pre", {}, headers),
      text === "" ? null : element("pre", {}, pretty(text, answer.headers.get("Content-Type"))));
  } catch (error) {
    output.append(element("p", { className: "failed" }, "No answer: " + error.message));
  }
}

// encoding is what to know beside an input: the contract describes the URL, and
// what is typed here is not encoded yet.
function encoding(parameter) {
  if (parameter.in !== "path" && parameter.in !== "query") return null;
  return element("p", { className: "quiet" }, "Type it as it is, a/b and not a%2Fb: this page encodes it for the URL.");
}

function field(parameter) {
  const name = "parameter " + parameter.in + " " + parameter.name;
  const value = parameter.example ?? sample(parameter.schema);
  const text = isList(parameter) ? [].concat(value).join("\n") : String(value ?? "");
  const note = `${parameter.in}, ${typeOf(parameter.schema)}${parameter.required ? "" : ", optional"}`;
  const input = isList(parameter)
    ? element("textarea", { name, rows: 3, value: text, title: "one per line" })
    : element("input", { name, value: parameter.required ? text : "", autocomplete: "off", spellcheck: false });
  return element("label", {}, element("b", {}, parameter.name), " ", element("span", { className: "quiet" }, note),
    ...paragraphs(parameter.description), encoding(parameter), input);
}

function bodyFields(operation) {
  const body = resolve(operation.requestBody);
  const types = Object.keys(body.content || {});
  if (types.length === 0) return [];
  const text = (type) => {
    const media = body.content[type];
    const named = Object.values(media.examples || {}).map(resolve)[0];
    const value = media.example ?? (named ? named.value : sample(media.schema));
    return typeof value === "string" ? value : JSON.stringify(value, null, 2);
  };
  const area = element("textarea", { name: "body", rows: 5, value: text(types[0]), spellcheck: false });
  const choice = element("select", { name: "type" }, ...types.map((type) => element("option", {}, type)));
  choice.addEventListener("change", () => { area.value = text(choice.value); });
  return [element("label", {}, element("b", {}, "Body"), " ",
    element("span", { className: "quiet" }, body.required ? "required" : "optional: empty it to send none"),
    ...paragraphs(body.description), choice, area)];
}

function responses(operation) {
  const rows = Object.entries(operation.responses || {}).map(([status, response]) => {
    response = resolve(response);
    const shapes = Object.entries(response.content || {}).map(([type, media]) =>
      element("details", {}, element("summary", {}, type),
        element("pre", {}, JSON.stringify(media.example ?? sample(media.schema), null, 2))));
    return element("tr", {}, element("td", {}, element("code", {}, status)),
      element("td", {}, ...paragraphs(response.description), ...shapes));
  });
  return element("table", {}, element("tbody", {}, ...rows));
}

function card(path, item, method, operation) {
  const parameters = parametersOf(item, operation);
  const output = element("div", { ariaLive: "polite" });
  const form = element("form", {}, ...parameters.filter((parameter) => parameter.in !== "cookie").map(field),
    ...bodyFields(operation), element("button", { type: "submit" }, "Send"));
  form.addEventListener("submit", (event) => {
    event.preventDefault();
    send(request(method, path, parameters.filter((parameter) => parameter.in !== "cookie"), form), output);
  });
  const id = operation.operationId || method + path;
  return element("details", { className: "operation", id },
    element("summary", {}, element("span", { className: "method " + method }, method.toUpperCase()),
      element("code", {}, path), " ", element("span", { className: "quiet" }, operation.summary || "")),
    element("div", {}, ...paragraphs(operation.description), form, output, element("h3", {}, "Answers"), responses(operation)));
}

function draw() {
  const info = contract.info || {};
  document.getElementById("about").replaceChildren(
    element("h1", {}, info.title || document.title, " ", element("small", { className: "quiet" }, info.version || "")),
    ...paragraphs(info.description));
  const sections = new Map((contract.tags || []).map((tag) => [tag.name, { about: tag.description, cards: [] }]));
  const links = [];
  for (const [path, item] of Object.entries(contract.paths || {})) {
    for (const method of Object.keys(item).filter((key) => methods.includes(key))) {
      const operation = item[method];
      const tag = (operation.tags || [""])[0];
      if (!sections.has(tag)) sections.set(tag, { cards: [] });
      const made = card(path, item, method, operation);
      sections.get(tag).cards.push(made);
      links.push(element("li", {}, element("a", { href: "#" + encodeURIComponent(made.id) }, operation.summary || method.toUpperCase() + " " + path)));
    }
  }
  document.getElementById("index").replaceChildren(element("ul", {}, ...links));
  document.getElementById("operations").replaceChildren(...[...sections].filter(([, section]) => section.cards.length)
    .flatMap(([name, section]) => [element("h2", {}, name), ...paragraphs(section.about), ...section.cards]));
}

// reveal opens the operation that the address names.
function reveal() {
  const named = document.getElementById(decodeURIComponent(location.hash.slice(1)));
  if (named && named.tagName === "DETAILS") {
    named.open = true;
    named.scrollIntoView();
  }
}

fetch("openapi.json").then((answer) => answer.json()).then((loaded) => {
  contract = loaded;
  draw();
  reveal();
  window.addEventListener("hashchange", reveal);
}).catch((error) => {
  document.getElementById("about").replaceChildren(element("h1", { className: "failed" }, "The contract did not load: " + error.message));
});
