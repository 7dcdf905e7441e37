"use strict";
// The page of the service. All text from outside goes in by textContent, never as HTML.

const find = (id) => document.getElementById(id);
const AT_A_TIME = 8; // files in a request
const MOST_NAMES = 30;
const LOOK_AGAIN = 60000; // milliseconds until the service is asked for drift anew
const SVG = "http://www.w3.org/2000/svg";

let model = null;
let rows = []; // {file, url, answer} in the order in which they came
let chosen = null;
let order = { key: null, down: false };
let waiting = 0;
let clearing = new AbortController(); // ends what is asked about pictures that are cleared
let described = null; // {row, explained}: the picture whose verdict is shown, and what was said of it

// --- Talking to the service -------------------------------------------------------------------

async function ask(address, options = {}) {
  const token = sessionStorage.getItem("token");
  const headers = { Accept: "application/json", ...options.headers };
  if (token) headers.Authorization = `Bearer ${token}`;
  const answer = await fetch(address, { ...options, headers });
  if (answer.ok) return answer.json();
  const problem = await answer.json().catch(() => ({ detail: `status ${answer.status}` }));
  if (answer.status === 401) find("token-form").hidden = false;
  const error = new Error(problem.detail || problem.title);
  error.status = answer.status;
  error.wait = Number(answer.headers.get("Retry-After")) || 0;
  throw error;
}

async function askPatiently(address, options) {
  for (let trial = 0; ; trial += 1) {
    try {
      return await ask(address, options);
    } catch (error) {
      if (error.status !== 429 || trial === 5) throw error;
      await new Promise((resume) => setTimeout(resume, 1000 * Math.max(1, error.wait)));
    }
  }
}

function withDetector(address) {
  return `${address}?detector=${encodeURIComponent(find("detector").value)}`;
}

function showProblem(error) {
  const box = find("problem");
  box.hidden = !error;
  box.textContent = error ? error.message : "";
}

// --- What is served ---------------------------------------------------------------------------

async function refreshModel() {
  model = await ask("v1/model");
  const select = find("detector");
  if (select.options.length === 0) {
    for (const detector of model.detectors) select.add(new Option(detector.name, detector.name));
    find("chooser").hidden = model.detectors.length < 2;
  }
  const detector = current();
  const kinds = detector.classes.length;
  find("about").textContent = kinds === 1
    ? `Knows ${detector.classes[0]}, and what is not`
    : `Knows ${kinds} classes, and what is none of them`;
  fill("known", detector.classes.slice(0, MOST_NAMES).map((name) => element("li", "", name)));
  if (kinds > MOST_NAMES) find("known").append(element("li", "", `and ${kinds - MOST_NAMES} more`));
  showDrift(detector);
}

function current() {
  return model.detectors.find((detector) => detector.name === find("detector").value) || model.detectors[0];
}

function showDrift(detector) {
  const box = find("drift");
  const drift = detector.drift;
  box.classList.toggle("alarm", Boolean(drift && drift.alarm) || Boolean(detector.refused));
  if (detector.refused) box.textContent = "A newer detector could not be loaded; the one before is used";
  else if (!drift || drift.images === 0) box.textContent = "";
  else if (drift.alarm) box.textContent = "Drift: the pictures no longer look like those it was calibrated with";
  else box.textContent = `No drift in ${drift.images.toLocaleString()} ${drift.images === 1 ? "picture" : "pictures"}`;
}

// --- Scoring ----------------------------------------------------------------------------------

async function addFiles(files) {
  const list = [...files];
  if (list.length === 0 || !model) return;
  showProblem(null);
  const most = model.limits.file_bytes;
  const added = list.map((file) => ({ file, url: URL.createObjectURL(file), answer: null, said: null }));
  const fitting = [];
  for (const row of added) {
    if (row.file.size <= most) fitting.push(row);
    else row.answer = unread(row, `it has ${megabytes(row.file.size)}, and ${megabytes(most)} are the limit`);
  }
  rows.push(...added);
  waiting += fitting.length;
  const { signal } = clearing;
  showAll();
  for (let start = 0; start < fitting.length;) {
    const part = nextPart(fitting, start);
    start += part.length;
    await score(part, signal);
    if (signal.aborted) return;
    waiting -= part.length;
    showAll();
  }
  await refreshModel().catch(showProblem);
  const first = added.find((row) => row.answer && row.answer.reason === null);
  if (first && !signal.aborted) await choose(first);
}

function nextPart(list, start) {
  const part = [];
  let bytes = 0;
  for (const row of list.slice(start, start + Math.min(AT_A_TIME, model.limits.files))) {
    bytes += row.file.size;
    if (part.length > 0 && bytes > model.limits.request_bytes / 2) break;
    part.push(row);
  }
  return part;
}

async function score(part, signal) {
  try {
    const answer = await askPatiently(withDetector("v1/score"), { method: "POST", body: formOf(part), signal });
    part.forEach((row, place) => { row.answer = { ...answer.images[place], name: row.file.name }; });
  } catch (error) {
    if (signal.aborted) return;
    showProblem(error);
    for (const row of part) row.answer = unread(row, error.message);
  }
}

function formOf(part) {
  const form = new FormData();
  for (const row of part) form.append("files", row.file, row.file.name);
  return form;
}

function unread(row, reason) {
  return { name: row.file.name, reason, score: null, p_value: null, anomalous: null, class_name: null };
}

function megabytes(bytes) {
  return `${(bytes / 2 ** 20).toFixed(1)} MB`;
}

// --- One picture ------------------------------------------------------------------------------

async function choose(row) {
  chosen = row;
  showRows();
  if (row.answer.reason !== null) {
    find("detail").hidden = true;
    showProblem(new Error(`${row.answer.name}: ${row.answer.reason}`));
    return;
  }
  try {
    const explained = await askPatiently(withDetector("v1/explain"), { method: "POST", body: formOf([row]) });
    if (chosen === row) showDetail(row, explained);
  } catch (error) {
    if (chosen === row) showProblem(error);
  }
}

function showDetail(row, explained) {
  described = { row, explained };
  const image = explained.image;
  const detail = find("detail");
  detail.classList.toggle("anomalous", image.anomalous === true);
  detail.classList.toggle("normal", image.anomalous === false);
  find("picture").src = row.url;
  find("picture").alt = `The picture ${row.answer.name}`;
  find("name").textContent = row.answer.name;
  find("headline").textContent = explained.headline;
  find("rarity").textContent = explained.rarity;
  find("because").textContent = explained.because;
  find("say").hidden = !model.feedback || image.anomalous === null;
  showSaid(row);
  detail.hidden = false; // the strip is as wide as its place
  showStrip(explained);
  showClasses(image.probabilities || {});
  find("views-part").hidden = explained.views.length === 0;
  find("views-title").textContent = explained.views.length === 1 ? "Its one view" : `Its ${explained.views.length} views`;
  find("views-note").textContent = `and how far ${explained.views.length === 1 ? "it" : "each"} is from the nearest class`;
  fill("views", explained.views.map((view) => pictureItem(view.picture, view.name, [view.name, `distance ${shown(view.distance)}`])));
  find("neighbours-part").hidden = explained.neighbours.length === 0;
  fill("neighbours", explained.neighbours.map((near) =>
    pictureItem(near.picture, `Training image of ${near.class_name}`, [near.class_name, near.distance], near.file_name)));
}

function showClasses(probabilities) {
  const likeliest = Object.entries(probabilities).sort((one, other) => other[1] - one[1]);
  const most = 10;
  find("classes-title").textContent = likeliest.length > most
    ? `The likeliest ${most} of ${likeliest.length} classes` : "How likely each class is";
  fill("classes", likeliest.slice(0, most).map(([name, share], place) => {
    const item = element("li", place === 0 ? "first" : "");
    const bar = element("span", "bar");
    const part = element("span");
    part.style.width = `${100 * share}%`;
    bar.append(part);
    bar.setAttribute("aria-hidden", "true");
    item.append(element("span", "", name), bar, element("span", "value", percent(share)));
    return item;
  }));
}

function showStrip(explained) {
  const calibration = current().calibration;
  find("strip-part").hidden = !calibration || explained.threshold === null;
  if (find("strip-part").hidden) return;
  const { low, high, counts } = calibration.scores;
  const score = explained.image.score;
  const threshold = explained.threshold;
  const span = (high - low) || 1;
  const end = Math.min(Math.max(high, threshold + 0.4 * span, score + 0.1 * span), high + 3 * span);
  const begin = Math.min(low, score) - 0.03 * span;
  const width = find("strip").clientWidth, top = 26, bottom = 118;
  const place = (value) => (width * (Math.min(value, end) - begin)) / (end - begin);
  const drawing = svg("svg", { viewBox: `0 0 ${width} 142`, width, height: 142, role: "img" });
  const where = score > threshold ? "above" : "not above";
  const title = svg("title");
  title.textContent = `The score ${shown(score)} is ${where} the threshold ${shown(threshold)}; `
    + `the ${calibration.images} normal images lie between ${shown(low)} and ${shown(high)}.`;
  drawing.append(title, svg("rect", {
    class: "strip-odd", x: place(threshold), y: top, width: width - place(threshold), height: bottom - top, rx: 4,
  }));
  const highest = Math.max(...counts);
  counts.forEach((count, bin) => {
    const left = place(low + (span * bin) / counts.length);
    const right = place(low + (span * (bin + 1)) / counts.length);
    const height = ((bottom - top) * count) / highest;
    drawing.append(svg("rect", {
      class: "strip-normal", x: left, y: bottom - height, width: Math.max(1, right - left - 1), height, rx: 1,
    }));
  });
  drawing.append(
    svg("line", { class: "strip-axis", x1: 0, x2: width, y1: bottom, y2: bottom }),
    svg("line", { class: "strip-threshold", x1: place(threshold), x2: place(threshold), y1: top, y2: bottom }),
    svg("line", { class: "strip-score", x1: place(score), x2: place(score), y1: top - 6, y2: bottom }),
    label(`threshold ${shown(threshold)}`, place(threshold), 136, width),
    label(`this picture ${shown(score)}${score > end ? " →" : ""}`, place(score), 14, width, "strip-this"),
  );
  find("strip").replaceChildren(drawing);
}

function label(words, x, y, width, kind = "") {
  const anchor = x < 90 ? "start" : x > width - 90 ? "end" : "middle";
  const text = svg("text", { x, y, "text-anchor": anchor, class: kind });
  text.textContent = words;
  return text;
}

async function say(isRight) {
  const { row, explained } = described; // an adaptive detector may have scored it otherwise, by fewer views
  const said = explained.image.anomalous === isRight ? "anomalous" : "normal";
  try {
    await ask("v1/feedback", {
      method: "POST",
      headers: { "Content-Type": "application/json" },
      body: JSON.stringify({ sha256: row.answer.sha256, said, detector: find("detector").value }),
    });
    row.said = said;
    if (described.row === row) showSaid(row);
  } catch (error) {
    showProblem(error);
  }
}

function showSaid(row) {
  const words = { normal: "Stored: you say it is normal.", anomalous: "Stored: you say it is odd." };
  find("said").textContent = row.said ? words[row.said] : "";
}

async function lookAt(row) {
  showProblem(null);
  await choose(row);
  const place = find(row.answer.reason === null ? "headline" : "problem");
  if (chosen === row) place.focus(); // which may be above what is seen, and is read aloud
}

// --- All pictures -----------------------------------------------------------------------------

function showAll() {
  find("drop").classList.toggle("small", rows.length > 0);
  find("all").hidden = rows.length === 0;
  find("known").hidden = rows.length > 0;
  const done = rows.filter((row) => row.answer);
  const odd = done.filter((row) => row.answer.anomalous === true).length;
  const unreadable = done.filter((row) => row.answer.reason !== null).length;
  const count = (number, word) => `${number} ${word}`;
  if (waiting > 0) find("progress").textContent = `Looking at ${waiting} ${waiting === 1 ? "picture" : "pictures"} …`;
  else if (rows.length === 0) find("progress").textContent = "";
  else {
    const parts = [count(done.length, done.length === 1 ? "picture" : "pictures"), count(odd, "odd")];
    if (unreadable) parts.push(count(unreadable, "unreadable"));
    find("progress").textContent = parts.join(", ");
  }
  showRows();
}

function verdictOf(answer) {
  if (answer.reason !== null) return "none";
  return answer.anomalous === null ? "none" : answer.anomalous ? "anomalous" : "normal";
}

function sorted() {
  const done = rows.filter((row) => row.answer);
  if (!order.key) return done;
  const value = (row) => (order.key === "verdict" ? verdictOf(row.answer) : row.answer[order.key]);
  return done.sort((one, other) => {
    const [a, b] = [value(one), value(other)];
    if (a === null || b === null) return (a === null) - (b === null); // what is not known comes last
    const compared = typeof a === "string" ? a.localeCompare(b) : a - b;
    return order.down ? -compared : compared;
  });
}

function showRows() {
  fill("rows", sorted().map((row) => {
    const answer = row.answer;
    const line = element("tr", row === chosen ? "chosen" : "");
    const head = element("th");
    head.scope = "row";
    const open = element("button");
    open.type = "button";
    if (row === chosen) open.setAttribute("aria-current", "true");
    const small = element("img");
    small.alt = "";
    if (answer.reason === null) small.src = row.url;
    else small.hidden = true;
    open.append(small, element("span", "", answer.name));
    head.append(open);
    const kind = verdictOf(answer);
    const words = { normal: "normal", anomalous: "odd", none: answer.reason === null ? "scored" : "unreadable" };
    const verdict = element("td");
    verdict.append(element("span", `pill ${kind}`, words[kind]));
    line.append(head, verdict);
    if (answer.reason === null) {
      line.append(element("td", "", answer.class_name), element("td", "number", shown(answer.score)),
        element("td", "number", answer.p_value === null ? "" : shown(answer.p_value)));
    } else {
      const reason = element("td", "reason", answer.reason);
      reason.colSpan = 3;
      line.append(reason);
    }
    line.addEventListener("click", () => lookAt(row));
    return line;
  }));
}

function sortBy(button) {
  const key = button.dataset.key;
  order = { key, down: order.key === key ? !order.down : key === "score" };
  for (const other of document.querySelectorAll("thead button")) other.parentElement.removeAttribute("aria-sort");
  button.parentElement.setAttribute("aria-sort", order.down ? "descending" : "ascending");
  showRows();
}

function cell(value) {
  if (value === null || value === undefined) return "";
  if (typeof value !== "string") return String(value);
  const harmless = /^[=+\-@\t\r]/.test(value) ? `'${value}` : value; // a spreadsheet would run it
  return `"${harmless.replaceAll('"', '""')}"`;
}

function downloadCSV() {
  const columns = ["name", "class_name", "score", "p_value", "anomalous", "reason", "sha256"];
  const lines = sorted().map((row) => columns.map((column) => cell(row.answer[column])).join(","));
  const file = new Blob([[columns.join(","), ...lines].join("\r\n"), "\r\n"], { type: "text/csv" });
  const link = document.createElement("a");
  link.href = URL.createObjectURL(file);
  link.download = "scores.csv";
  link.click();
  setTimeout(() => URL.revokeObjectURL(link.href), 10000);
}

function clearAll() {
  clearing.abort();
  clearing = new AbortController();
  for (const row of rows) URL.revokeObjectURL(row.url);
  rows = [];
  waiting = 0;
  chosen = null;
  find("detail").hidden = true;
  showProblem(null);
  showAll();
  find("choose").focus();
}

// --- The camera -------------------------------------------------------------------------------

async function openCamera() {
  try {
    const stream = await navigator.mediaDevices.getUserMedia({ video: { facingMode: "environment" } });
    find("video").srcObject = stream;
    find("camera").hidden = false;
    find("take").focus();
  } catch (error) {
    showProblem(new Error(`the camera cannot be used: ${error.message}`));
  }
}

function closeCamera() {
  const stream = find("video").srcObject;
  if (stream) for (const track of stream.getTracks()) track.stop();
  find("video").srcObject = null;
  find("camera").hidden = true;
  find("open-camera").focus();
}

function takePicture() {
  const video = find("video");
  const canvas = document.createElement("canvas");
  canvas.width = video.videoWidth;
  canvas.height = video.videoHeight;
  canvas.getContext("2d").drawImage(video, 0, 0);
  const name = `camera ${new Date().toISOString().slice(0, 19).replace("T", " ")}.png`;
  canvas.toBlob((blob) => addFiles([new File([blob], name, { type: "image/png" })]), "image/png");
}

// --- Small things -----------------------------------------------------------------------------

function element(kind, className = "", words = "") {
  const made = document.createElement(kind);
  if (className) made.className = className;
  made.textContent = words;
  return made;
}

function svg(kind, attributes = {}) {
  const made = document.createElementNS(SVG, kind);
  for (const [name, value] of Object.entries(attributes)) made.setAttribute(name, value);
  return made;
}

function fill(id, children) {
  find(id).replaceChildren(...children);
}

function pictureItem(source, alt, words, file = "") {
  const item = element("li");
  const image = element("img");
  image.src = source;
  image.alt = alt;
  item.append(image, ...words.map((word) => element("span", "", word)));
  if (file) {
    const name = element("span", "file", file);
    name.title = file;
    item.append(name);
  }
  return item;
}

function shown(value) {
  const size = Math.abs(value);
  return value.toLocaleString("en", { maximumFractionDigits: size < 0.1 ? 4 : size < 100 ? 2 : size < 1000 ? 1 : 0 });
}

function percent(share) {
  return share > 0 && share < 0.01 ? "<1%" : `${Math.round(100 * share)}%`;
}

// --- What people do ---------------------------------------------------------------------------

const drop = find("drop");
addEventListener("dragover", (event) => { event.preventDefault(); drop.classList.add("over"); });
addEventListener("dragleave", (event) => { if (!event.relatedTarget) drop.classList.remove("over"); });
addEventListener("drop", (event) => {
  event.preventDefault();
  drop.classList.remove("over");
  addFiles(event.dataTransfer.files);
});
addEventListener("paste", (event) => {
  if (event.clipboardData.files.length > 0) {
    event.preventDefault();
    addFiles(event.clipboardData.files);
  }
});
find("choose").addEventListener("click", () => find("files").click());
find("files").addEventListener("change", (event) => { addFiles(event.target.files); event.target.value = ""; });
find("open-camera").addEventListener("click", openCamera);
find("close-camera").addEventListener("click", closeCamera);
find("take").addEventListener("click", takePicture);
find("right").addEventListener("click", () => say(true));
find("wrong").addEventListener("click", () => say(false));
find("csv").addEventListener("click", downloadCSV);
find("clear").addEventListener("click", clearAll);
find("detector").addEventListener("change", () => {
  refreshModel().catch(showProblem);
  const files = rows.map((row) => row.file);
  if (files.length > 0) { clearAll(); addFiles(files); }
});
for (const button of document.querySelectorAll("thead button")) button.addEventListener("click", () => sortBy(button));
find("token-form").addEventListener("submit", (event) => {
  event.preventDefault();
  sessionStorage.setItem("token", find("token").value);
  find("token").value = "";
  find("token-form").hidden = true;
  showProblem(null);
  refreshModel().catch(showProblem);
});
addEventListener("resize", () => { if (described && !find("detail").hidden) showStrip(described.explained); });
setInterval(() => { if (model && !document.hidden) refreshModel().catch(() => {}); }, LOOK_AGAIN); // drift
find("open-camera").hidden = !(navigator.mediaDevices && navigator.mediaDevices.getUserMedia);
refreshModel().catch((error) => { if (error.status !== 401) showProblem(error); });
