// Python in a worker: it loads Pyodide and Xoff's own code, which lie beside this file, and then answers questions.

const REACHES_OUT = ["fetch", "XMLHttpRequest", "WebSocket", "WebSocketStream", "WebTransport", "EventSource", "importScripts"];
let ask = null;

const say = (message) => self.postMessage(message);

// Each file that is fetched from here on says how far it is.
const WHOLE = 12.5e6, whole = self.fetch;
let length = 0;
self.fetch = async (...given) => {
  const answer = await whole(...given);
  if (!answer.ok) throw new Error(`${answer.url.split("/").pop()}: ${answer.status}`);
  const counted = answer.body.pipeThrough(new TransformStream({
    transform(part, out) {
      length += part.length;
      say({ kind: "progress", part: Math.min(0.99, length / WHOLE) });
      out.enqueue(part);
    },
  }));
  return new Response(counted, { status: answer.status, headers: answer.headers });
};

async function begin() {
  if (typeof WebAssembly !== "object") throw new Error("this browser has no WebAssembly");
  const folder = new URL("pyodide/", self.location).href;
  const { loadPyodide } = await import(`${folder}pyodide.mjs`).catch(() => {
    throw new Error("this site has none, ./xoff docs --calculators puts it there");
  });
  const code = fetch(new URL("xoff.zip", self.location)).then((answer) => answer.arrayBuffer());
  const python = await loadPyodide({ indexURL: folder });
  python.unpackArchive(await code, "zip", { extractDir: "/xoff" });
  ask = python.runPython("import sys\nsys.path.insert(0, '/xoff')\nfrom tools.calculators.table import ask\nask");
  for (const name of REACHES_OUT) { // what is typed from now on has no way out of this worker
    try { Object.defineProperty(self, name, { value: undefined, writable: false }); } catch { self[name] = undefined; }
  }
  say({ kind: "ready" });
}

self.onmessage = ({ data }) => {
  try {
    say({ kind: "answer", number: data.number, answer: JSON.parse(ask(data.name, JSON.stringify(data.values))) });
  } catch (error) {
    say({ kind: "answer", number: data.number, answer: { error: `Python stopped: ${String(error.message).trim().split("\n").pop()}` } });
  }
};

begin().catch((error) => say({ kind: "failed", why: error.message }));
