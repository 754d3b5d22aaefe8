// The menu on a phone, light and dark, and the place of search results.
const menu = document.getElementById("menu"), pages = document.getElementById("pages");
menu.addEventListener("click", () => {
  const open = pages.classList.toggle("open");
  menu.setAttribute("aria-expanded", open);
});

document.getElementById("theme").addEventListener("click", () => {
  const root = document.documentElement;
  const isDark = root.dataset.theme ? root.dataset.theme === "dark" : matchMedia("(prefers-color-scheme: dark)").matches;
  root.dataset.theme = isDark ? "light" : "dark";
  localStorage.setItem("theme", root.dataset.theme);
});

const query = document.getElementById("mkdocs-search-query"), results = document.getElementById("mkdocs-search-results");
function showResults() {
  results.hidden = query.value.trim() === "";
}
query.addEventListener("input", showResults);
new MutationObserver(showResults).observe(results, {childList: true});
addEventListener("keydown", (event) => {
  if (event.key === "Escape") {
    query.value = "";
    showResults();
    pages.classList.remove("open");
  } else if (event.key === "/" && document.activeElement !== query) {
    event.preventDefault();
    query.focus();
  }
});

const here = document.querySelector("#pages [aria-current]");  // in the middle of the list, without moving the page
if (here) pages.scrollTop = here.offsetTop - pages.clientHeight / 2;
