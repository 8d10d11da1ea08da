// The calculators' page. The answers are Python's; this collects what was typed, asks the worker, and shows what it says.
"use strict";

(() => {
  const HERE = document.currentScript.src;
  const SOON_MS = 350, LONGEST_LINK = 6000;
  const forms = [...document.querySelectorAll("form.calculator")];
  const waiting = new Map(), asked = new Map();
  let worker = null, ready = false, failed = "", number = 0;

  const all = (kind, text) => forms.forEach((form) => { form.querySelector(kind).textContent = text; });

  function start() {
    if (worker || failed) return;
    if (location.protocol === "file:") {
      return fail("A browser lets no page that was opened as a file load Python. Serve the folder: ./xoff docs --serve, or python3 -m http.server in it.");
    }
    if (typeof WebAssembly !== "object" || typeof Worker !== "function") {
      return fail("This browser has no WebAssembly, in which Python runs. The commands below the answers give the same.");
    }
    all(".status", "Loading Python: 0 %");
    worker = new Worker(new URL("worker.js", HERE), { type: "module" });
    worker.onmessage = ({ data }) => {
      if (data.kind === "progress" && !ready) all(".status", `Loading Python: ${Math.round(100 * data.part)} %`);
      if (data.kind === "ready") {
        ready = true;
        all(".status", "");
        for (const form of waiting.keys()) send(form);
        waiting.clear();
      }
      if (data.kind === "answer") show(data);
      if (data.kind === "failed") fail(`Python cannot be loaded (${data.why}). The commands below the answers give the same.`);
    };
    worker.onerror = (event) => {
      event.preventDefault();
      if (!ready) fail("Python cannot be loaded. The commands below the answers give the same.");
    };
  }

  function fail(why) {
    failed = why;
    worker?.terminate();
    all(".status", "");
    for (const form of waiting.keys()) refuse(form, failed);
    waiting.clear();
  }

  function refuse(form, why) {
    const error = form.querySelector(".error");
    error.textContent = why;
    error.hidden = false;
    form.querySelector(".answer").classList.add("old");
  }

  async function values(form) {
    const found = {};
    for (const field of form.elements) {
      if (!field.name) continue;
      if (field.type === "file") {
        const files = [...field.files], text = form.querySelector(`[data-text-of="${field.name}"]`).value;
        const pairs = files.length ? await Promise.all(files.map(async (file) => [file.name, await file.text()])) : text.trim() ? [["config_db.json", text]] : [];
        found[field.name] = pairs.map(([name, content]) => `${name}\0${content}\0`).join("");
      } else found[field.name] = field.type === "checkbox" ? (field.checked ? "yes" : "") : field.value.trim();
    }
    return found;
  }

  function compute(form) {
    if (failed) return refuse(form, failed);
    start();
    if (failed) return refuse(form, failed);
    if (!ready) return waiting.set(form, true);
    send(form);
  }

  async function send(form) {
    const own = ++number;
    asked.set(form, own);
    const given = await values(form);
    if (asked.get(form) !== own) return;
    form.setAttribute("aria-busy", "true");
    worker.postMessage({ number: own, name: form.dataset.calculator, values: given });
  }

  function show({ number: own, answer }) {
    const form = forms.find((one) => asked.get(one) === own);
    if (!form) return; // a newer question was asked meanwhile
    form.removeAttribute("aria-busy");
    if (answer.command) form.querySelector(".command").textContent = answer.command;
    form.dataset.answered = own;
    if (answer.error) return refuse(form, answer.error);
    form.querySelector(".error").hidden = true;
    const place = form.querySelector(".answer"), opened = [...place.querySelectorAll("details[open] > summary")].map((one) => one.textContent);
    place.innerHTML = answer.html; // made by tools/calculators, which escapes what was typed
    for (const one of place.querySelectorAll("summary")) one.parentElement.open = opened.includes(one.textContent);
    place.classList.remove("old");
    form.querySelector(".data pre").textContent = answer.json;
    form.querySelector(".status").textContent = "Computed.";
  }

  // A link to a computation: #calculator=headroom&rate=100Gb/s has what is not as it was at first.
  function link(form) {
    const parts = new URLSearchParams({ calculator: form.dataset.calculator });
    for (const field of form.elements) {
      if (!field.name || field.type === "file") continue;
      const value = field.type === "checkbox" ? (field.checked ? "yes" : "") : field.value;
      if (value !== (field.first ?? "")) parts.set(field.name, value);
    }
    const text = String(parts);
    return text.length <= LONGEST_LINK ? `#${text}` : "";
  }

  function keep(form) {
    history.replaceState(null, "", link(form) || location.pathname + location.search);
  }

  function follow() {
    const parts = new URLSearchParams(location.hash.slice(1));
    const form = forms.find((one) => one.dataset.calculator === parts.get("calculator"));
    if (!form) return;
    for (const field of form.elements) {
      if (!field.name || field.type === "file") continue;
      const value = parts.has(field.name) ? parts.get(field.name) : field.first ?? "";
      if (field.type === "checkbox") field.checked = Boolean(value);
      else field.value = value;
      if (parts.has(field.name)) field.closest("details")?.setAttribute("open", "");
    }
    form.closest("section")?.scrollIntoView();
    compute(form);
  }

  for (const form of forms) {
    let timer = 0;
    for (const field of form.elements) {
      if (field.name && field.type !== "file") field.first = field.type === "checkbox" ? "" : field.value;
    }
    form.addEventListener("focusin", start, { once: true });
    form.addEventListener("submit", (event) => {
      event.preventDefault();
      clearTimeout(timer);
      keep(form);
      compute(form);
    });
    form.addEventListener("input", (event) => {
      const text = event.target.dataset.textOf;
      if (text) form.elements[text].value = ""; // what is typed goes before a file
      clearTimeout(timer);
      timer = setTimeout(() => {
        keep(form);
        compute(form);
      }, SOON_MS);
    });
    const button = form.querySelector(".link");
    if (form.dataset.calculator !== "check") button.hidden = false;
    button.addEventListener("click", async () => {
      const target = link(form), status = form.querySelector(".status");
      if (!target) return void (status.textContent = "This is too long for a link.");
      history.replaceState(null, "", target);
      try {
        await navigator.clipboard.writeText(location.href);
        status.textContent = "The link is copied.";
      } catch {
        status.textContent = "The link is this page's address now.";
      }
    });
  }
  window.addEventListener("hashchange", follow);
  follow();
})();
