/* What the theme leaves out for those who use keys and screen readers. */
document$.subscribe(() => requestAnimationFrame(() => {
  document.querySelector(".md-search").setAttribute("aria-label", "Search");
  // a table that is wider than the text is scrolled with the keys
  for (const table of document.querySelectorAll(".md-typeset__scrollwrap")) {
    if (table.scrollWidth > table.clientWidth) {
      table.tabIndex = 0;
      table.setAttribute("role", "region");
      table.setAttribute("aria-label", "Table");
    }
  }
}));
