// The page in a frame, as the cell of a notebook has it: a page around it may set the time, and hears of the time of the
// slider, of what held then, and of the height that the page takes. It says nothing before it is asked.

function converse(around) {
  let last = "";
  const tell = () => {
    const told = {
      t_ns: Math.round(cursor / timeScale), words: reports[0].state.textContent,
      height: Math.ceil(document.documentElement.getBoundingClientRect().height),
    };
    const text = JSON.stringify(told);
    if (text !== last) around.postMessage({ xoff: told }, "*"); // the frame has no origin, and does not know that of the page
    last = text;
  };
  let listening = false;
  addEventListener("message", (event) => {
    if (event.source !== around || !event.data || !("xoffTime" in event.data)) return;
    const t = event.data.xoffTime === null ? cursor : Number(event.data.xoffTime) * timeScale;
    if (Number.isFinite(t) && Math.round(t / timeScale) !== Math.round(cursor / timeScale)) {
      stop();
      const length = view.end - view.start;
      if (t < view.start || t > view.end) zoomTo(t - length / 2, t + length / 2);
      setCursor(Math.min(Math.max(t, whole.start), whole.end));
    }
    if (!listening) {
      listening = true;
      new MutationObserver(tell).observe(reports[0].state, { childList: true, characterData: true, subtree: true });
      new ResizeObserver(tell).observe(document.documentElement);
    }
    tell();
  });
}

if (parent !== window) page.loaded.then(() => converse(parent), () => {});
