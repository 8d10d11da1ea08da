// The page in a frame, as the cell of a notebook has it: a page around it may set the time and whether it is dark, and hears
// of the time of the slider, of what held then, and of the height that the page takes. It says nothing before it is asked.

// A frame has the scheme of the desktop, and a notebook one of its own.
function setScheme(dark) {
  document.documentElement.style.colorScheme = dark ? "dark" : "light";
  for (const rule of [...document.styleSheets].flatMap((sheet) => [...sheet.cssRules])) {
    if (rule.conditionText === "(prefers-color-scheme: dark)") rule.media.mediaText = dark ? "all" : "not all";
  }
  redraw();
}

function converse(around) {
  let last = "", listening = false;
  const tell = () => {
    const told = {
      t_ns: Math.round(cursor / timeScale), words: reports[0].state.textContent,
      height: Math.ceil(document.documentElement.getBoundingClientRect().height),
    };
    const text = JSON.stringify(told);
    if (text !== last) around.postMessage({ xoff: told }, "*"); // the frame has no origin, and does not know that of the page
    last = text;
  };
  const show = ({ xoffTime, dark }) => {
    const t = xoffTime === null ? cursor : Number(xoffTime) * timeScale;
    if (Number.isFinite(t) && Math.round(t / timeScale) !== Math.round(cursor / timeScale)) {
      stop();
      const length = view.end - view.start;
      if (t < view.start || t > view.end) zoomTo(t - length / 2, t + length / 2);
      setCursor(Math.min(Math.max(t, whole.start), whole.end));
    }
    if (!listening) {
      listening = true;
      setScheme(Boolean(dark));
      new MutationObserver(tell).observe(reports[0].state, { childList: true, characterData: true, subtree: true });
      new ResizeObserver(tell).observe(document.documentElement);
    }
    tell();
  };
  addEventListener("message", (event) => {
    if (event.source !== around || !event.data || !("xoffTime" in event.data)) return;
    page.loaded.then(() => show(event.data), () => {}); // the first message comes before the page can draw
  });
}

if (parent !== window) converse(parent);
