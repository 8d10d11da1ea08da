// The view of a notebook's widget: the page of a result in a frame, which can reach nothing of the notebook. `framed.js`
// is the other end of the conversation; the trait `t_ns` is the time of the slider.

function render({ model, el }) {
  const frame = document.createElement("iframe");
  frame.setAttribute("sandbox", "allow-scripts");
  frame.title = model.get("title");
  frame.style.cssText = "width: 100%; height: 36rem; border: 0; display: block";
  const isDark = () => getComputedStyle(el).color.match(/\d+/g)?.slice(0, 3).every((part) => Number(part) > 128) ?? false;
  const ask = () => frame.contentWindow?.postMessage({ xoffTime: model.get("t_ns"), dark: isDark() }, "*");
  const hear = (event) => {
    if (event.source !== frame.contentWindow || !event.data?.xoff) return;
    const { t_ns: time, words, height } = event.data.xoff;
    frame.style.height = `${height}px`;
    if (model.get("t_ns") === time && model.get("words") === words) return;
    model.set("t_ns", time);
    model.set("words", words);
    model.save_changes();
  };
  frame.addEventListener("load", ask);
  window.addEventListener("message", hear);
  model.on("change:t_ns", ask);
  frame.srcdoc = model.get("page");
  el.append(frame);
  return () => {
    window.removeEventListener("message", hear);
    model.off("change:t_ns", ask);
  };
}

export default { render };
