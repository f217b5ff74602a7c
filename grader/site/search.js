// Looks for all words of ?q= in ENTRIES (search-index.js); entries with them in the title come first.
const MOST = 40, AROUND = 90;
const asked = new URLSearchParams(location.search).get("q") || "";
const words = asked.toLowerCase().split(/\s+/).filter(Boolean);
const list = document.getElementById("found"), said = document.getElementById("said");
document.querySelector("nav input").value = asked;

function score(entry) {
  const title = entry.title.toLowerCase(), text = entry.text.toLowerCase();
  if (!words.every(word => title.includes(word) || text.includes(word))) return 0;
  return 1 + 10 * words.filter(word => title.includes(word)).length + (text.includes(words.join(" ")) ? 5 : 0);
}

function excerpt(entry) {
  const at = Math.max(0, entry.text.toLowerCase().indexOf(words[0]));
  const start = Math.max(0, at - AROUND), end = at + AROUND;
  return (start ? "… " : "") + entry.text.slice(start, end) + (end < entry.text.length ? " …" : "");
}

const hits = words.length ? ENTRIES.map(entry => [score(entry), entry]).filter(([points]) => points) : [];
hits.sort((a, b) => b[0] - a[0]);
const shown = hits.length > MOST ? `The first ${MOST} of ${hits.length} places` : `${hits.length} place${hits.length > 1 ? "s" : ""}`;
said.textContent = !words.length ? "Type what you look for." : hits.length ? shown : `Nothing has “${asked}”.`;
for (const [, entry] of hits.slice(0, MOST)) {
  const item = document.createElement("li"), link = document.createElement("a"), text = document.createElement("small");
  link.href = entry.at;
  link.textContent = entry.title;
  text.textContent = excerpt(entry);
  item.append(link, document.createElement("br"), text);
  list.append(item);
}
