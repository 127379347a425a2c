"""The look and the behaviour of the report page: one style sheet, one short script, no outside resource.

The policy in `CSP` makes a browser refuse any request the page might make: it can be opened in a hospital.
"""

from __future__ import annotations

CSP = "default-src 'none'; style-src 'unsafe-inline'; script-src 'unsafe-inline'; img-src data:"

STYLE = """
:root{color-scheme:light dark;--ink:#16202b;--soft:#54626f;--rule:#d5dce3;--paper:#fff;--tint:#f2f5f8;
--main:#1d5fa6;--other:#6d7884;--warm:#b4530a;--good:#1c7345;--warn:#8f5c00;--bad:#a8201a}
@media screen and (prefers-color-scheme:dark){:root{--ink:#e8edf2;--soft:#a7b3bf;--rule:#3a4652;--paper:#12181f;
--tint:#1b242d;--main:#74b2f0;--other:#98a4b0;--warm:#f0a062;--good:#6fcf97;--warn:#e7b850;--bad:#ff8a80}}
*{box-sizing:border-box}
body{margin:0;font:1rem/1.55 system-ui,-apple-system,"Segoe UI",sans-serif;color:var(--ink);background:var(--paper)}
.skip{position:absolute;left:-99rem}
.skip:focus{left:1rem;top:.5rem;background:var(--paper);padding:.4rem .8rem;z-index:9}
main{max-width:62rem;margin:0 auto;padding:2.2rem 1.25rem 4rem}
h1{font-size:1.05rem;font-weight:600;color:var(--soft);margin:0 0 .3rem}
h2{font-size:1.3rem;margin:3rem 0 .3rem;padding-top:1.1rem;border-top:1px solid var(--rule)}
h3{font-size:1rem;margin:1.6rem 0 .2rem}
p{margin:.45rem 0;max-width:46rem}
.answer{font-size:clamp(2.6rem,7vw,4.2rem);line-height:1.1;font-weight:650;letter-spacing:-.02em;margin:.1rem 0 .2rem;
font-variant-numeric:tabular-nums;max-width:none}
.answer small{font-size:.36em;font-weight:450;color:var(--soft);letter-spacing:0;line-height:1.3;display:inline-block}
.lead{font-size:1.15rem;max-width:44rem}
.soft,figcaption{color:var(--soft);font-size:.92rem}
.cards{display:grid;grid-template-columns:repeat(auto-fit,minmax(13rem,1fr));gap:.8rem;margin:1.2rem 0}
.card{border:1px solid var(--rule);border-left:5px solid var(--other);border-radius:6px;
padding:.7rem .9rem;background:var(--tint)}
.card.good{border-left-color:var(--good)}.card.warn{border-left-color:var(--warn)}.card.bad{border-left-color:var(--bad)}
.card .soft,.card .verdict,.card b{display:block}.card b{font-size:1.4rem;font-variant-numeric:tabular-nums}
.card .verdict{font-weight:600}.good .verdict{color:var(--good)}
.warn .verdict{color:var(--warn)}.bad .verdict{color:var(--bad)}
.card p{margin:.15rem 0 0;font-size:.88rem;line-height:1.4}
.alert.red{border-color:var(--bad);font-size:1.05em}.alert.note{border-color:var(--line)}.answer.doubtful{opacity:.55}
.alert{border:1px solid var(--warn);border-left:5px solid var(--warn);border-radius:6px;padding:.5rem .9rem;
margin:.8rem 0;max-width:46rem}
.pair{display:grid;grid-template-columns:repeat(auto-fit,minmax(min(22rem,100%),1fr));gap:1.6rem}
figure{margin:1rem 0;min-width:0}figcaption{max-width:46rem}
svg{width:100%;height:auto;max-width:42rem;display:block}
svg text{font:12px system-ui,sans-serif;fill:var(--soft)}svg .name{fill:var(--ink);font-size:13px}
svg .strong{font-weight:650}
@media screen and (max-width:40rem){svg .tick,svg .axis{font-size:13.5px}svg .name,
svg[aria-label=Estimates] text{font-size:17px}}
.grid{stroke:var(--rule);stroke-width:.7}.frame{stroke:var(--soft)}
.dot{fill:var(--other)}.dot.main{fill:var(--main)}.dot.warm{fill:var(--warm)}
.whisker{stroke:var(--other);stroke-width:2}.whisker.main{stroke:var(--main);stroke-width:3.5}.whisker.warm{stroke:var(--warm)}
.line{fill:none;stroke:var(--other);stroke-width:1.4;opacity:.65}.line.main{stroke:var(--main);stroke-width:2.2;opacity:1}
.line.off{opacity:.55;stroke-width:1}
.c0{--c:#1d5fa6}.c1{--c:#b4530a}.c2{--c:#1c7345}.c3{--c:#8a2f86}.c4{--c:#7a6200}.c5{--c:#b02a55}
@media screen and (prefers-color-scheme:dark){.c0{--c:#74b2f0}.c1{--c:#f0a062}.c2{--c:#6fcf97}.c3{--c:#d99ad6}
.c4{--c:#e0c85a}.c5{--c:#ff93b0}}
.line[class*=" c"]{stroke:var(--c)}svg text[class*=" c"]{fill:var(--c)}
.unsure{color:var(--soft)}.unsure .meter i{opacity:.4}
details{margin:.6rem 0}summary{cursor:pointer;font-weight:600}
.line.warm{stroke:var(--warm);stroke-width:2;opacity:1}.line.dash{stroke-dasharray:5 4}
.band{fill:var(--main);opacity:.16}.band.inner{opacity:.32}
.better{color:var(--good);font-weight:600}.worse{color:var(--bad);font-weight:600}
.bar{fill:var(--main);opacity:.8}.bar.warm{fill:var(--warm)}
svg [tabindex]:hover,svg [tabindex]:focus{opacity:1;outline:none;stroke:var(--ink);stroke-width:2.5}
table{border-collapse:collapse;width:100%;margin:.8rem 0;font-size:.93rem;font-variant-numeric:tabular-nums}
.scroll{overflow-x:auto}
th,td{padding:.34rem .6rem;border-bottom:1px solid var(--rule);text-align:right;vertical-align:middle}
th:first-child,caption{text-align:left}caption{color:var(--soft);padding:.2rem 0}
td{white-space:nowrap}tbody th{font-weight:450;min-width:10rem;overflow-wrap:anywhere}
thead th{border-bottom:2px solid var(--soft);white-space:nowrap}
th button{all:unset;cursor:pointer;font-weight:650}
th button:focus-visible{outline:3px solid var(--main);outline-offset:2px}
th button::after{content:"\\2195";color:var(--soft);padding-left:.35em;font-size:.85em}
th[aria-sort=ascending] button::after{content:"\\2191";color:var(--ink)}
th[aria-sort=descending] button::after{content:"\\2193";color:var(--ink)}
tbody tr:hover{background:var(--tint)}
.meter{display:inline-block;width:7rem;height:.62rem;position:relative;background:var(--tint);vertical-align:middle}
.meter i{position:absolute;top:0;bottom:0;background:var(--main)}.meter i.neg{background:var(--warm)}
.meter::after{content:"";position:absolute;left:50%;top:-.15rem;bottom:-.15rem;border-left:1px solid var(--soft)}
dl{display:grid;grid-template-columns:minmax(8rem,auto) 1fr;gap:.25rem 1.2rem;max-width:50rem}
dt{font-weight:600}dd{margin:0;overflow-wrap:anywhere}h1,.alert{overflow-wrap:anywhere}
@media(max-width:40rem){.answer small,dl{display:block}.hint{display:none}
dd{margin:0 0 .5rem}.meter{width:4rem}th,td{padding:.34rem .4rem}}
#tip{position:fixed;pointer-events:none;background:var(--ink);color:var(--paper);font-size:.85rem;line-height:1.35;
padding:.35rem .6rem;border-radius:4px;max-width:20rem;z-index:8}
#tip[hidden]{display:none}
a{color:var(--main)}:focus-visible{outline:3px solid var(--main);outline-offset:2px}
nav{font-size:.92rem;margin:1rem 0 0}nav a{margin-right:1.1rem;white-space:nowrap}
@media print{html{font-size:12px}body{line-height:1.4}main{max-width:none;padding:0}nav,.skip,#tip,.hint{display:none}
h2{margin:1.2rem 0 .3rem;padding-top:.7rem;break-after:avoid}h3{break-after:avoid}
.cards{grid-template-columns:repeat(4,1fr)}.pair{grid-template-columns:1fr 1fr}figure{margin:.6rem 0}
figure,.card,.alert,tr,dt,dd{break-inside:avoid}
svg{max-width:34rem}.scroll{overflow:visible}th,td{padding:.14rem .4rem}th button::after{content:""}
.card,.meter,.meter i{print-color-adjust:exact;-webkit-print-color-adjust:exact}}
"""

SCRIPT = """
(function () {
  "use strict";
  function value(cell) {
    var raw = cell.dataset.sort;
    return raw === undefined ? cell.textContent.trim().toLowerCase() : parseFloat(raw);
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
"""
