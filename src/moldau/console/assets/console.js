// What pages do by themselves: refresh, keys, the theme, live tails and searches.
// Everything works without it but live tails. What others wrote reaches the page as text, escaped by the server.
"use strict";
(() => {
  const root = document.documentElement;
  const find = (selector) => document.querySelector(selector);
  const REFRESH_MS = 5000;

  // --- the theme: the system's, unless one was chosen
  const chosen = () => { try { return localStorage.getItem("moldau-theme"); } catch { return null; } };
  if (chosen()) root.dataset.theme = chosen();
  const turnTheme = () => {
    const dark = root.dataset.theme ? root.dataset.theme === "dark" : matchMedia("(prefers-color-scheme: dark)").matches;
    root.dataset.theme = dark ? "light" : "dark";
    try { localStorage.setItem("moldau-theme", root.dataset.theme); } catch { /* a private window */ }
  };

  // --- refreshing: only parts that nobody types into, never while something in them is selected
  let paused = false;
  const busy = (part) => {
    const selection = getSelection();
    return part.contains(document.activeElement) && document.activeElement !== part
      || (selection && !selection.isCollapsed && part.contains(selection.anchorNode));
  };
  const stale = find("#stale");
  const pause = () => {
    paused = !paused;
    if (stale) { stale.textContent = "Refreshing is paused: p goes on."; stale.hidden = !paused; }
  };
  let shown = new Date();
  const refresh = async () => {
    const parts = [...document.querySelectorAll("[data-live]")], waiting = find("[data-retry]");
    if (!parts.length && !waiting) return;
    let answer = null;
    try { answer = await fetch(location.href, { headers: { Accept: "text/html", "X-Moldau-Refresh": "1" } }); } catch { /* said below */ }
    const good = answer && answer.ok && !answer.redirected;
    if (good && waiting) { location.reload(); return; }
    if (stale && parts.length) {
      stale.hidden = good && !paused;
      const why = !answer ? "the console does not answer. It is tried again by itself."
        : answer.redirected ? "log in again."
        : answer.status === 404 ? "it is not there any more."
        : "the cluster or a service does not answer. It is tried again by itself.";
      if (!good) stale.textContent = `This is as of ${shown.toLocaleTimeString()}: ${why}`;
    }
    if (!good) return;
    shown = new Date();
    const fresh = new DOMParser().parseFromString(await answer.text(), "text/html");
    for (const part of parts) {
      const next = fresh.getElementById(part.id);
      if (!next || busy(part) || next.innerHTML === part.innerHTML) continue;
      const open = [...part.querySelectorAll("details")].map((each) => each.open);
      const scrolled = [...part.querySelectorAll(".scroll")].map((each) => each.scrollLeft);
      part.replaceChildren(...next.childNodes);
      part.querySelectorAll("details").forEach((each, place) => { if (open[place]) each.open = true; });
      part.querySelectorAll(".scroll").forEach((each, place) => { each.scrollLeft = scrolled[place] || 0; });
    }
  };
  const tick = async () => {
    if (!paused && !document.hidden) await refresh();
    setTimeout(tick, REFRESH_MS);
  };
  setTimeout(tick, REFRESH_MS);

  // --- keys
  const help = find("#help");
  let after = "";
  document.addEventListener("keydown", (event) => {
    const typing = event.target.closest("input, textarea, select, [contenteditable]");
    if (event.key === "Escape" && typing) { event.target.blur(); return; }
    if (typing || event.ctrlKey || event.metaKey || event.altKey) return;
    if (after === "g") {
      const entry = [...document.querySelectorAll("[data-key]")].find((each) => each.dataset.key === event.key);
      after = "";
      if (entry) { event.preventDefault(); entry.click(); }
      return;
    }
    const actions = {
      "/": () => { const field = find("[data-search]"); if (field) { field.focus(); field.select(); } },
      "g": () => { after = "g"; setTimeout(() => { after = ""; }, 1500); },
      "r": refresh, "p": pause, "d": turnTheme, "?": () => help && help.showModal(),
    };
    if (actions[event.key]) { event.preventDefault(); actions[event.key](); }
  });
  for (const [id, action] of [["#theme", turnTheme], ["#keys", () => help && help.showModal()]]) {
    const button = find(id);
    if (button) { button.hidden = false; button.addEventListener("click", action); }
  }

  // --- where one is, in rows of links that are wider than a phone
  for (const here of document.querySelectorAll(".pages a.here, .tabs a.here")) {
    const row = here.parentElement;
    row.scrollLeft = here.offsetLeft - row.offsetLeft - (row.clientWidth - here.offsetWidth) / 2;
  }

  // --- streams: live tails and searches
  const stream = find("[data-stream]");
  if (stream) {
    const status = find("#stream-status"), bar = find("#stream-progress"), stop = find("#stream-stop");
    const body = stream.querySelector("tbody");
    const most = Number(stream.dataset.most || 500);
    const source = new EventSource(stream.dataset.stream);
    const end = (words) => { source.close(); if (stop) stop.disabled = true; if (words) status.textContent = words; };
    source.addEventListener("rows", (event) => {
      const parsed = new DOMParser().parseFromString(`<table><tbody>${event.data}</tbody></table>`, "text/html");
      for (const row of [...parsed.querySelectorAll("tbody > tr")]) {
        row.classList.add("fresh");
        if (stream.dataset.order === "newest") body.prepend(row); else body.append(row);
      }
      while (body.children.length > most) body.lastElementChild.remove();
    });
    source.addEventListener("progress", (event) => {
      const now = JSON.parse(event.data);
      status.textContent = now.words;
      if (bar) bar.value = now.share;
    });
    source.addEventListener("end", (event) => end(event.data));
    source.addEventListener("more", (event) => {
      const more = find("#stream-more");
      if (more) { more.href = event.data; more.hidden = false; }
    });
    // A live page goes on when the way is there again; a search would begin anew, and show everything twice.
    source.addEventListener("error", () => {
      if (source.readyState === EventSource.CLOSED || stream.dataset.order !== "newest") end("The connection has ended: load the page again.");
    });
    if (stop) { stop.disabled = false; stop.addEventListener("click", () => end("Stopped.")); }
  }
})();
