// What a report has for other programs: saves it as a file, or hands a trace to Perfetto. The page asks nobody for anything:
// the reader's click opens Perfetto's own page in a window, and the trace goes to that window as a message.

const PERFETTO = "https://ui.perfetto.dev", PATIENCE_MS = 30000;

async function attachment(id) {
  const element = at(id);
  return { name: element.dataset.name, octets: await inflate(element.textContent) };
}

async function save(id) {
  const { name, octets } = await attachment(id), link = document.createElement("a");
  link.href = URL.createObjectURL(new Blob([octets]));
  link.download = name;
  link.click();
  setTimeout(() => URL.revokeObjectURL(link.href), 60000);
  return `${name} is among your downloads.`;
}

// Perfetto answers PING with PONG once it can take a trace.
function handOver(other, { name, octets }) {
  return new Promise((done, failed) => {
    const end = (outcome) => {
      clearInterval(asking);
      removeEventListener("message", hear);
      outcome();
    };
    const hear = (event) => {
      if (event.source !== other || event.origin !== PERFETTO || event.data !== "PONG") return;
      other.postMessage({ perfetto: { buffer: octets.buffer, title: name, fileName: name } }, PERFETTO);
      end(() => done(`${name} is in Perfetto's window.`));
    };
    const late = performance.now() + PATIENCE_MS;
    const asking = setInterval(() => {
      if (other.closed) end(() => failed(new Error("Perfetto's window was closed.")));
      else if (performance.now() > late) {
        end(() => failed(new Error(`${PERFETTO} does not answer. Save the trace, and open the file there.`)));
      } else other.postMessage("PING", PERFETTO);
    }, 50);
    addEventListener("message", hear);
  });
}

async function openPerfetto(id) {
  const other = window.open(PERFETTO); // at once, or the browser does not take it for the reader's wish
  if (!other) throw new Error(`The browser opens no window. Save the trace, and open the file at ${PERFETTO}.`);
  return handOver(other, await attachment(id));
}

for (const [key, action] of [["save", save], ["perfetto", openPerfetto]]) {
  for (const button of document.querySelectorAll(`button[data-${key}]`)) {
    const row = button.closest(".others"), status = row.querySelector("[role=status]");
    row.hidden = false;
    button.addEventListener("click", () => {
      action(button.dataset[key]).then((words) => { status.textContent = words; }, (error) => { status.textContent = error.message; });
    });
  }
}
