"use strict";
// Words that need explaining: the first use of each in a section becomes a link to its entry in the list at the
// end, and shows the meaning on hover, focus and touch. Escape hides it. Text is only set as textContent.
(() => {
  const { element } = window.leakscope;
  const LEAVE_MS = 250; // time to move the pointer from the word to its meaning
  const EXPLAINED = "p, li, dd, th, td, caption, figcaption, strong";
  const APART = "a, button, code, pre, script, label, .plot, dialog, h1, h2, h3, #words, #records-table, .badge, .lead, .levels strong";
  const words = [...document.querySelectorAll("#words dt")].map((dt) => ({
    id: dt.parentElement.id,
    pattern: new RegExp(`(?<![\\w/-])(?:${dt.dataset.pattern})(?![\\w-])`, "i"),
    meaning: dt.nextElementSibling.textContent,
  }));
  if (!words.length) return;
  words.sort((a, b) => b.pattern.source.length - a.pattern.source.length); // "most exposed 1%" before "exposed"
  const meanings = new Map(words.map((word) => [word.id, word.meaning]));

  // ---- links ----
  function texts(section) {
    const walker = document.createTreeWalker(section, NodeFilter.SHOW_TEXT), all = [];
    while (walker.nextNode()) {
      const parent = walker.currentNode.parentElement;
      if (parent.closest(EXPLAINED) && !parent.closest(APART)) all.push(walker.currentNode);
    }
    return all;
  }
  function link(section, { id, pattern }) {
    for (const text of texts(section)) {
      const at = pattern.exec(text.data);
      if (!at) continue;
      const rest = text.splitText(at.index);
      rest.splitText(at[0].length);
      const made = element("a", rest.data, { href: `#${id}`, className: "term" });
      rest.replaceWith(made);
      return;
    }
  }
  for (const section of document.querySelectorAll("main > section:not(#words)")) words.forEach((word) => link(section, word));

  // ---- the meaning ----
  const shown = element("div", "", { id: "meaning", role: "tooltip", hidden: true });
  document.body.append(shown);
  let of = null, leaving = 0;
  function show(term) {
    clearTimeout(leaving);
    if (of && of !== term) hide();
    of = term;
    shown.textContent = meanings.get(term.hash.slice(1));
    shown.hidden = false;
    term.setAttribute("aria-describedby", "meaning");
    move();
  }
  function move() { // beside the word, within the window
    const place = of.getBoundingClientRect(), width = document.documentElement.clientWidth;
    shown.style.left = `${Math.max(8, Math.min(place.left, width - shown.offsetWidth - 8))}px`;
    const below = place.bottom + 6 + shown.offsetHeight < innerHeight;
    shown.style.top = `${below ? place.bottom + 6 : Math.max(8, place.top - shown.offsetHeight - 6)}px`;
  }
  function hide() {
    clearTimeout(leaving);
    shown.hidden = true;
    of?.removeAttribute("aria-describedby");
    of = null;
  }
  const termOf = (event) => (event.target instanceof Element ? event.target.closest("a.term") : null);
  const leave = () => { clearTimeout(leaving); leaving = setTimeout(hide, LEAVE_MS); };
  document.addEventListener("pointerover", (event) => {
    if (termOf(event)) show(termOf(event));
    else if (shown.contains(event.target)) clearTimeout(leaving);
    else if (of && document.activeElement !== of) leave();
  });
  document.addEventListener("focusin", (event) => { if (termOf(event)) show(termOf(event)); else if (of) hide(); });
  document.addEventListener("focusout", (event) => { if (termOf(event)) leave(); });
  document.addEventListener("click", (event) => {
    if (!termOf(event)) { if (of) hide(); return; } // also a tap on the meaning, which may cover the next word
    if (event.detail === 0) return; // the Enter key follows the link to the list
    event.preventDefault();
    show(termOf(event));
  });
  document.addEventListener("keydown", (event) => { if (event.key === "Escape" && of) hide(); });
  addEventListener("scroll", () => { if (of) move(); }, { passive: true }); // focus may scroll
  addEventListener("beforeprint", hide);
})();
