// SPDX-License-Identifier: Apache-2.0
// The search. It reads searchIndex (search-index.js): [title, kind, address, text], so that it needs no server.
"use strict";
(function () {
    const root = document.documentElement.dataset.root;
    const input = document.querySelector("input[type=search]");
    const list = document.getElementById("results");
    const most = 40;

    // 0: the title; 1: it begins so; 2: it contains all words; 3: title and text contain them; -1: not found.
    function rank(entry, words) {
        const title = entry[0].toLowerCase(), query = words.join(" ");
        const bare = title.replace(/^hs_/, "");
        if (title === query || bare === query)
            return 0;
        if (title.startsWith(query) || bare.startsWith(query))
            return 1;
        if (words.every(word => title.includes(word)))
            return 2;
        const all = title + " " + entry[1] + " " + entry[3].toLowerCase();
        return words.every(word => all.includes(word)) ? 3 : -1;
    }

    function element(tag, text, parent) {
        const made = document.createElement(tag);
        made.textContent = text;
        parent.append(made);
        return made;
    }

    function excerpt(text, words) {
        const at = Math.max(0, ...words.map(word => text.toLowerCase().indexOf(word)).filter(i => i > 40).map(i => i - 40));
        return (at > 0 ? "… " : "") + text.slice(at, at + 140) + (text.length > at + 140 ? " …" : "");
    }

    function search() {
        const words = input.value.toLowerCase().split(/\s+/).filter(word => word);
        list.replaceChildren();
        list.hidden = words.length === 0;
        if (list.hidden)
            return;
        const found = searchIndex.map(entry => [rank(entry, words), entry]).filter(pair => pair[0] >= 0);
        found.sort((a, b) => a[0] - b[0] || a[1][0].length - b[1][0].length || (a[1][0] < b[1][0] ? -1 : 1));
        for (const [, entry] of found.slice(0, most)) {
            const item = element("li", "", list);
            element("a", entry[0], item).href = root + entry[2];
            element("span", " " + entry[1], item).className = "kind";
            element("p", excerpt(entry[3], words), item);
        }
        if (found.length !== 1)
            element("li", found.length === 0 ? "Nothing found" : found.length > most ? `${found.length} found, ${most} shown` : `${found.length} found`, list);
    }

    input.addEventListener("input", search);
    input.form.addEventListener("submit", event => {
        event.preventDefault();
        const first = list.querySelector("a");
        if (first)
            location.href = first.href;
    });
    list.addEventListener("click", event => {
        if (event.target.closest("a"))
            list.hidden = true;
    });
    document.addEventListener("keydown", event => {
        if (event.key === "/" && event.target !== input) {
            event.preventDefault();
            input.focus();
        } else if (event.key === "Escape") {
            list.hidden = true;
        }
    });
    const query = new URLSearchParams(location.search).get("q");
    if (query) {
        input.value = query;
        search();
    }
})();
