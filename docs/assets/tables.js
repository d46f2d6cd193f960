/* A table that is wider than the text can be scrolled with the keys as well. */
document$.subscribe(() => requestAnimationFrame(() => {
  for (const table of document.querySelectorAll(".md-typeset__scrollwrap")) {
    if (table.scrollWidth > table.clientWidth) {
      table.tabIndex = 0;
      table.setAttribute("role", "region");
      table.setAttribute("aria-label", "table");
    }
  }
}));
