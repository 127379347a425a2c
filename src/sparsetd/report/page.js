(function () {
  "use strict";
  function value(cell) {
    // A bar has its size; other cells begin with a number, in the way the page writes it, or are words.
    var bar = cell.querySelector("[data-sort]"), text = cell.textContent.trim();
    if (bar) return parseFloat(bar.dataset.sort);
    if (text === "\u2013") return NaN;
    var number = cell.tagName === "TD" ? parseFloat(text.replace(/\u2212/g, "-").replace(/[+,]/g, "")) : NaN;
    return isNaN(number) ? text.toLowerCase() : number;
  }
  function order(a, b) {
    if (typeof a === "string") return a.localeCompare(String(b), undefined, {numeric: true});
    if (isNaN(a)) return isNaN(b) ? 0 : 1;
    return isNaN(b) ? -1 : a - b;
  }
  document.querySelectorAll("table.sortable th button").forEach(function (button) {
    button.addEventListener("click", function () {
      var head = button.closest("th"), table = head.closest("table"), body = table.tBodies[0];
      var rows = Array.from(body.rows), now = head.getAttribute("aria-sort");
      // Names begin at A, numbers with the largest; a second click turns the order round.
      var down = now ? now === "ascending" : rows.length && typeof value(rows[0].cells[head.cellIndex]) === "number";
      rows.sort(function (r, s) {
        var x = value(r.cells[head.cellIndex]), y = value(s.cells[head.cellIndex]);
        return down && !(x !== x || y !== y) ? order(y, x) : order(x, y);
      });
      table.querySelectorAll("th").forEach(function (other) { other.removeAttribute("aria-sort"); });
      head.setAttribute("aria-sort", down ? "descending" : "ascending");
      rows.forEach(function (row) { body.appendChild(row); });
    });
  });
  var tip = document.getElementById("tip");
  function show(mark, x, y) {
    tip.textContent = mark.getAttribute("aria-label");
    tip.hidden = false;
    var box = tip.getBoundingClientRect();
    tip.style.left = Math.max(4, Math.min(x + 12, innerWidth - box.width - 8)) + "px";
    tip.style.top = (y - box.height - 12 < 4 ? y + 16 : y - box.height - 12) + "px";
  }
  document.querySelectorAll("svg [aria-label][tabindex]").forEach(function (mark) {
    var title = mark.querySelector("title");
    if (title) title.remove();
    mark.addEventListener("mousemove", function (e) { show(mark, e.clientX, e.clientY); });
    mark.addEventListener("mouseleave", function () { tip.hidden = true; });
    mark.addEventListener("focus", function () {
      var box = mark.getBoundingClientRect();
      show(mark, box.left + box.width / 2, box.top);
    });
    mark.addEventListener("blur", function () { tip.hidden = true; });
  });
  document.addEventListener("keydown", function (e) { if (e.key === "Escape") tip.hidden = true; });
})();
