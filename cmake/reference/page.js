// SPDX-License-Identifier: Apache-2.0
// A button for each block of code that copies it, and the contents of the page, open where there is room beside it.
"use strict";
(function () {
    // What a reader wants of a block: of a console the commands alone, of a diff the new lines.
    function wanted(block) {
        const lines = block.textContent.replace(/\n$/, "").split("\n"), language = block.dataset.language;
        if (language === "console") {
            const commands = lines.filter((line, i) => line.startsWith("$ ") || (line.startsWith("> ") && /^[$>] /.test(lines[i - 1] || "")));
            return commands.map(line => line.slice(2)).join("\n");
        }
        if (language === "diff")
            return lines.filter(line => !/^(-|\+\+\+|@@)/.test(line)).map(line => line.slice(1)).join("\n");
        return lines.join("\n");
    }

    for (const block of document.querySelectorAll("main pre:not(.declaration)")) {
        const frame = document.createElement("div"), button = document.createElement("button");
        frame.className = "code";
        block.before(frame);
        frame.append(block, button);
        button.type = "button";
        button.textContent = "Copy";
        button.addEventListener("click", () => navigator.clipboard.writeText(wanted(block)).then(
            () => button.textContent = "Copied",
            () => button.textContent = "Not copied"));
    }

    const contents = document.querySelector("aside details");
    if (contents)
        contents.open = matchMedia("(min-width: 80rem)").matches;
})();
