"use strict";
// The OpenAPI description of the service as a page, with an example of every request.

function element(kind, className = "", words = "") {
  const made = document.createElement(kind);
  if (className) made.className = className;
  made.textContent = words;
  return made;
}

function code(text) {
  const block = element("pre");
  block.tabIndex = 0;
  block.append(element("code", "", text));
  return block;
}

function resolved(schema, all) {
  if (!schema) return {};
  if (schema.$ref) return resolved(all[schema.$ref.split("/").pop()], all);
  if (schema.anyOf) return resolved(schema.anyOf[0], all);
  return schema;
}

function example(schema, all) {
  const known = resolved(schema, all);
  if (known.example !== undefined) return known.example;
  if (known.const !== undefined) return known.const;
  if (known.enum) return known.enum[0];
  if (known.type === "array") return [example(known.items, all)];
  if (known.type === "object" && known.properties) {
    return Object.fromEntries(Object.entries(known.properties).map(([name, part]) => [name, example(part, all)]));
  }
  if (known.type === "object") return { name: example(known.additionalProperties, all) };
  return { string: "…", integer: 1, number: 0.5, boolean: true }[known.type] ?? null;
}

function addressOf(path) {
  return new URL(`.${path}`, location.href).href; // the service may lie below a path of its own
}

function command(path, method, operation, all) {
  const address = addressOf(path);
  const content = operation.requestBody?.content;
  if (content?.["multipart/form-data"]) return `curl -F files=@photo.jpg ${address}`;
  if (content) {
    const body = JSON.stringify(example(content["application/json"].schema, all));
    return `curl -H 'Content-Type: application/json' -d '${body}' ${address}`;
  }
  return method === "get" ? `curl ${address}` : `curl -X ${method.toUpperCase()} ${address}`;
}

function jsonCommand(path, operation) {
  const examples = operation.requestBody?.content?.["application/json"]?.examples;
  if (!examples) return null;
  const body = JSON.stringify(Object.values(examples)[0].value);
  return `curl -H 'Content-Type: application/json' -d '${body}' ${addressOf(path)}`;
}

function section(path, method, operation, all) {
  const card = element("section", "card");
  const title = element("h2");
  title.append(element("code", "method", method.toUpperCase()), element("code", "", path));
  card.append(title);
  for (const part of (operation.description || "").split("\n\n")) card.append(element("p", "", part));
  card.append(code(command(path, method, operation, all)));
  const json = jsonCommand(path, operation);
  if (json) card.append(code(json));
  const parameters = element("dl");
  for (const parameter of operation.parameters || []) {
    parameters.append(element("dt", "", parameter.name), element("dd", "", parameter.description || ""));
  }
  if (parameters.childElementCount) card.append(parameters);
  const success = Object.entries(operation.responses).find(([status]) => status.startsWith("2"));
  const schema = success?.[1].content?.["application/json"]?.schema;
  if (schema) {
    const more = element("details");
    more.append(element("summary", "", "An answer"), code(JSON.stringify(example(schema, all), null, 2)));
    card.append(more);
  }
  const problems = Object.keys(operation.responses).filter((status) => status >= "4");
  if (problems.length) card.append(element("p", "quiet", `Problems (RFC 9457): ${problems.join(", ")}`));
  return card;
}

async function show() {
  const description = await (await fetch("openapi.json")).json();
  document.getElementById("summary").textContent = description.info.summary;
  const all = description.components.schemas;
  const place = document.getElementById("operations");
  for (const [path, methods] of Object.entries(description.paths)) {
    for (const [method, operation] of Object.entries(methods)) place.append(section(path, method, operation, all));
  }
}

show();
