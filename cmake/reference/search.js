// SPDX-License-Identifier: Apache-2.0
// The search. It reads searchIndex (search-index.js): [title, kind, address, text, other words], so that it needs no server.
"use strict";
(function () {
    const root = document.documentElement.dataset.root;
    const input = document.querySelector("input[type=search]");
    const list = document.getElementById("results");
    const most = 40;
    const synonyms = {cuda: ["device"], epoch: ["step"], every: ["secs", "steps"], gpu: ["device"], resume: ["restore"]};

    // The lowercase texts of an entry, made when it is searched first.
    const known = new Map();
    function texts(entry) {
        if (!known.has(entry)) {
            const title = entry[0].toLowerCase();
            const found = {
                title, kind: entry[1].toLowerCase(), text: entry[3].toLowerCase(), sought: entry[4].split(" "),
                words: [...title.split(/[^a-z0-9]+/), ...title.split(/[^a-z0-9-]+/)], isGuide: entry[1].startsWith("guide"), isPage: !entry[2].includes("#")
            };
            known.set(entry, found);
        }
        return known.get(entry);
    }

    // "training" also finds "train".
    function stem(word) {
        const short = word.replace(/(ing|ed|es|s)$/, "");
        return short.length < 3 ? word : short;
    }

    // How well a word fits; 0: not at all.
    function fit(entry, word) {
        const begin = stem(word);
        if (entry.words.includes(word))
            return 8;
        if (entry.sought.includes(word))
            return 8;
        if (entry.words.some(other => other.startsWith(begin)))
            return 6;
        if (entry.title.includes(word))
            return 4;
        if (entry.kind.includes(begin))
            return 3;
        const at = entry.text.indexOf(begin);
        return at < 0 ? 0 : at === 0 || /[^a-z0-9]/.test(entry.text[at - 1]) ? 3 : 1;
    }

    // The value of an entry for the query, and the number of its words that were found.
    function rank(found, words) {
        const entry = texts(found), query = words.join(" "), bare = entry.title.replace(/^(hs_|hooksess )/, "");
        let value = 0, hits = 0;
        for (const word of words) {
            const others = (synonyms[word] || []).map(other => fit(entry, other) / 2);
            const best = Math.max(fit(entry, word), ...others);
            value += best / words.length;
            hits += best > 0;
        }
        if (entry.title === query || bare === query || bare === words.join("_"))
            value += 100;
        else if (entry.title.startsWith(query) || bare.startsWith(query))
            value += 40;
        else if (words.length > 1 && (entry.title + " " + entry.text).includes(query))
            value += 2;
        return [hits, value + (entry.isGuide ? 2 : 0) + (entry.isGuide && entry.isPage ? 1 : 0) - entry.title.length / 100];
    }

    function element(tag, text, parent) {
        const made = document.createElement(tag);
        made.textContent = text;
        parent.append(made);
        return made;
    }

    function excerpt(text, words) {
        const at = Math.max(0, ...words.map(word => text.toLowerCase().indexOf(stem(word))).filter(i => i > 40).map(i => i - 40));
        return (at > 0 ? "… " : "") + text.slice(at, at + 140) + (text.length > at + 140 ? " …" : "");
    }

    function search() {
        const words = input.value.toLowerCase().split(/\s+/).filter(word => word);
        list.replaceChildren();
        list.hidden = words.length === 0;
        if (list.hidden)
            return;
        // What lacks a word is only shown if nothing has all of them, and more than half of them were found.
        const ranked = searchIndex.map(entry => [...rank(entry, words), entry]);
        const hits = Math.max(...ranked.map(one => one[0]));
        const found = hits * 2 > words.length ? ranked.filter(one => one[0] === hits) : [];
        found.sort((a, b) => b[1] - a[1] || (a[2][0] < b[2][0] ? -1 : 1));
        for (const [, , entry] of found.slice(0, most)) {
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
