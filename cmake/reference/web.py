# SPDX-License-Identifier: Apache-2.0
"""Writes the reference and the pages of docs/ as static HTML, with a search that needs no server. README.md is the first page."""
import html
import json
import os
import pathlib
import re
import shutil

import headers
import markup

HERE = pathlib.Path(__file__).resolve().parent
DOCUMENTS = ("README.md", "docs/**/*.md", "examples/**/README.md", "python/README.md", "CHANGELOG.md", "CONTRIBUTING.md", "SECURITY.md")
NAME = re.compile(r"(?<![\w./-])(?:docs/[\w/-]+\.md|(?:\w+/)?\w+\.h(?:pp)?\b|hs_\w+|HS_\w+)(?:\.\w+)?")
# Words by which a reader may search for a page that says it in others.
SOUGHT = {
    "docs/guide/your-loop.md": "quickstart tutorial getting started introduction minimal",
    "docs/guide/checkpoints.md": "resume restart continue restore crash",
    "docs/guide/hooks.md": "stop end early stopping training log evaluate schedule",
    "docs/guide/values.md": "gpu cuda device",
    "docs/guide/signals.md": "stop training preemption sigterm ctrl-c kill",
    "docs/guide/several-processes.md": "distributed multi-gpu data parallel ddp allreduce",
    "docs/guide/launching.md": "torchrun slurm mpirun",
    "docs/guide/python.md": "jupyter notebook dataframe matplotlib",
    "docs/install.md": "download build setup package apt",
    "docs/errors.md": "troubleshooting debug problem",
}


def e(text):
    return html.escape(text, quote=True)


class Site:
    def __init__(self, root, found, command, version):
        self.root, self.found, self.command, self.version = root, found, command, version
        self.index = []  # of the search: title, kind, address, text, other words
        self.names = {}  # of the API -> address
        self.documents = {}  # path in the repository -> address
        self.images, self.files = set(), set()  # paths in the repository to which documents link
        for pattern in DOCUMENTS:
            for path in sorted(root.glob(pattern)):
                name = path.relative_to(root).as_posix()
                self.documents[name] = ("overview/" if "/" not in name else "") + name[: -len(".md")] + ".html"
        self.documents["README.md"] = "index.html"
        if missing := sorted(set(SOUGHT) - set(self.documents)):
            raise ValueError(f"SOUGHT names documents that do not exist: {missing}")
        for header in found:
            address = self.address(header)
            self.names[header.path] = address
            for d in header.declarations():
                if d.name:
                    self.names[d.name] = f"{address}#{d.name}"
                for member in d.members:
                    for name in member.names:
                        self.names[name if d.kind == "enum" else f"{d.name}.{name}"] = f"{address}#{anchor(d, name)}"

    @staticmethod
    def address(header):
        return f"reference/{header.path.replace('/', '-')}.html"


def anchor(declaration, name):
    return name if declaration.kind == "enum" else f"{declaration.name}.{name}"


class Page:
    """Text of one page, with links relative to it."""

    def __init__(self, site, address, source=""):
        self.site, self.address, self.source = site, address, source
        self.used = set()  # anchors

    def to(self, address):
        path, _, fragment = address.partition("#")
        relative = os.path.relpath(path, os.path.dirname(self.address) or ".") if path != self.address else ""
        return relative + (f"#{fragment}" if fragment else "") or "#"

    def linked(self, text, but=()):
        """Escaped text in which names of the API, headers and documents are links. `but`: names that are not."""
        at, parts = 0, []
        for m in NAME.finditer(text):
            word = m[0]
            target = self.site.names.get(word) or self.site.documents.get(word)
            if not target and "." in word and word.startswith(("hs_", "HS_")):
                word = word.split(".")[0]
                target = self.site.names.get(word)
            if not target or word in but or target == self.address:
                continue
            end = m.start() + len(word)
            parts += [e(text[at : m.start()]), f'<a href="{self.to(target)}">{e(word)}</a>']
            at = end
        return "".join(parts) + e(text[at:])

    def target(self, link):
        """The address of a link in a document. None: it leads to a directory."""
        if re.match(r"\w+:", link):
            return link
        path, _, fragment = link.partition("#")
        if not path:
            return "#" + fragment
        name = os.path.normpath(os.path.join(os.path.dirname(self.source), path))
        page = self.site.documents.get(name) or self.site.documents.get(name + "/README.md")
        if not page and name.startswith("include/hooksess/"):
            page = self.site.names.get(name[len("include/hooksess/") :])
        if not page and (self.site.root / name).is_file():
            self.site.files.add(name)
            page = f"files/{name}.html"
        return self.to(page + (f"#{fragment}" if fragment else "")) if page else None

    def image(self, link):
        name = os.path.normpath(os.path.join(os.path.dirname(self.source), link))
        self.site.images.add(name)
        return self.to("images/" + name.replace("/", "-"))

    def spans(self, spans):
        parts = []
        for span in spans:
            if span[0] == "text":
                parts.append(self.linked(span[1]))
            elif span[0] == "code":
                parts.append(f"<code>{self.linked(span[1])}</code>")
            elif span[0] in ("strong", "em"):
                parts.append(f"<{span[0]}>{self.spans(span[1])}</{span[0]}>")
            elif span[0] == "image":
                source = span[2] if re.match(r"\w+:", span[2]) else self.image(span[2])
                parts.append(f'<img src="{e(source)}" alt="{e(span[1])}">')
            else:
                inside = re.sub(r"</?a\b[^>]*>", "", self.spans(span[1]))
                target = self.target(span[2])
                parts.append(f'<a href="{e(target)}">{inside}</a>' if target else inside)
        return "".join(parts)

    def blocks(self, blocks):
        return "\n".join(self.block(block) for block in blocks)

    def block(self, block):
        if isinstance(block, markup.Paragraph):
            return f"<p>{self.spans(block.spans)}</p>"
        if isinstance(block, markup.Code):
            return f'<pre data-language="{e(block.language)}"><code>{self.code(block)}</code></pre>'
        if isinstance(block, markup.Heading):
            return f'<h{block.level} id="{e(block.ident)}">{self.spans(block.spans)}</h{block.level}>'
        if isinstance(block, markup.Items):
            tag = "ol" if block.numbered else "ul"
            items = "".join(f"<li>{self.tight(item)}</li>\n" for item in block.items)
            return f"<{tag}>\n{items}</{tag}>"
        if isinstance(block, markup.Table):
            head = f"<thead>{self.row(block.head, 'th')}</thead>" if block.head else ""
            rows = "\n".join(self.row(row, "td") for row in block.rows)
            return f'<div class="wide"><table>{head}<tbody>\n{rows}\n</tbody></table></div>'
        sources = re.sub(r'\bsrc="(?!\w+:)([^"]+)"', lambda m: f'src="{self.image(m[1])}"', block.text)
        return re.sub(r'\bhref="(?!\w+:)([^"]+)"', lambda m: f'href="{self.target(m[1]) or "#"}"', sources)

    def code(self, block):
        if block.language == "diff":
            kinds = {"+": "added", "-": "removed"}
            lines = [(kinds.get(line[:1]), self.linked(line)) for line in block.text.split("\n")]
            return "\n".join(f'<span class="{kind}">{line}</span>' if kind else line for kind, line in lines)
        return self.linked(block.text) if block.language in ("c", "cpp", "text") else e(block.text)

    def tight(self, item):
        return self.spans(item[0].spans) if len(item) == 1 and isinstance(item[0], markup.Paragraph) else self.blocks(item)

    def row(self, cells, tag):
        return "<tr>" + "".join(f"<{tag}>{self.spans(cell)}</{tag}>" for cell in cells) + "</tr>"

    def new_anchor(self, ident):
        """' id="..."', or nothing if the page has this anchor."""
        if ident in self.used:
            return ""
        self.used.add(ident)
        return f' id="{e(ident)}"'


def text_of(blocks):
    """The words of blocks, for the search."""
    parts = []
    for block in blocks:
        if isinstance(block, (markup.Paragraph, markup.Heading)):
            parts.append(markup.plain(block.spans))
        elif isinstance(block, markup.Items):
            parts += [text_of(item) for item in block.items]
        elif isinstance(block, markup.Table):
            parts += [markup.plain(cell) for row in [block.head] + block.rows for cell in row]
        elif isinstance(block, markup.Code):
            parts.append(block.text)
    return re.sub(r"\s+", " ", " ".join(parts))


def declaration_html(page, d):
    """The declaration, with an anchor for its name and for members without a comment."""
    text = page.linked(d.text if "\n" in d.text or d.kind == "macro" else markup.wrapped_at_commas(d.text, 96, "    "), but=(d.name,))
    for member in d.members:
        for name in member.names if not member.blocks else ():
            ident = page.new_anchor(anchor(d, name))
            if ident:
                pattern = rf"(?<![\w.#&>\"])(?:<a [^>]*>)?{re.escape(name)}(?:</a>)?(?=[\s,;)\[=])"
                text = re.sub(pattern, lambda m: f"<span{ident}>{e(name)}</span>", text, count=1)
    bare = e(d.name.split("::")[-1])
    return re.sub(rf"(?<![\w#.\"]){bare}\b", f"<b{page.new_anchor(d.name)}>{bare}</b>", text, count=1) if bare else text


def header_html(site, header):
    page = Page(site, site.address(header), f"include/hooksess/{header.path}")
    site.index.append((header.path, "header", page.address, header.summary + " " + text_of(header.blocks), ""))
    parts = [f"<h1>{e(header.path)}</h1>", f'<p class="summary">{e(header.summary)}</p>',
             f"<pre><code>#include &lt;hooksess/{e(header.path)}&gt;</code></pre>", page.blocks(header.blocks)]
    for entry in header.entries:
        if entry.title:
            parts.append(f'<h2{page.new_anchor(section_anchor(entry.title))}>{e(entry.title)}</h2>')
        if not entry.declarations:
            parts.append(page.blocks(entry.blocks))
            continue
        body = text_of(entry.blocks) or header.summary
        for d in entry.declarations:
            if d.name:
                site.index.append((d.name, d.kind, f"{page.address}#{d.name}", body, ""))
            for member in d.members:
                for name in member.names:
                    if name != "size" and not name.startswith("reserved"):
                        site.index.append((anchor(d, name), "constant" if d.kind == "enum" else "field",
                                           f"{page.address}#{anchor(d, name)}", text_of(member.blocks), ""))
        code = "\n".join(declaration_html(page, d) for d in entry.declarations)
        parts.append(f'<section class="entry"><pre class="declaration"><code>{code}</code></pre>\n{page.blocks(entry.blocks)}')
        members = [(d, m) for d in entry.declarations for m in d.members if m.blocks]
        if members:
            parts.append("<dl>")
            for d, m in members:
                idents = [page.new_anchor(anchor(d, name)) for name in m.names]
                extra = "".join(f"<span{ident}></span>" for ident in idents[1:])
                parts.append(f"<dt{idents[0] if idents else ''}>{extra}<code>{page.linked(m.text, but=m.names)}</code></dt>"
                             f"<dd>{page.tight(m.blocks)}</dd>")
            parts.append("</dl>")
        parts.append("</section>")
    return page, header.path, "\n".join(parts)


def section_anchor(title):
    return "section-" + re.sub(r"\W+", "-", title.lower()).strip("-")


def document_html(site, name):
    page = Page(site, site.documents[name], name)
    blocks = markup.markdown_blocks((site.root / name).read_text())
    title = next((markup.plain(b.spans) for b in blocks if isinstance(b, markup.Heading)), name)
    kind = "guide" if name.startswith(("docs/guide/", "docs/cookbook", "docs/install", "README")) else "page"
    starts = [i for i, block in enumerate(blocks) if isinstance(block, markup.Heading)]
    for n, (start, end) in enumerate(zip(starts, [*starts[1:], len(blocks)])):
        heading, text = blocks[start], text_of(blocks[start + 1 : end])
        if n == 0:
            site.index.append((title, kind, page.address, text, SOUGHT.get(name, "")))
        else:
            site.index.append((markup.plain(heading.spans), f"{kind}: {title}", f"{page.address}#{heading.ident}", text, ""))
    return page, title, page.blocks(blocks)


def tool_html(site):
    page = Page(site, "reference/hooksess.1.html")
    tool = site.command
    parts = ["<h1>The command hooksess</h1>", f"<p>{e(tool.about)}</p>"] + [f"<p>{e(note)}</p>" for note in tool.notes]
    site.index.append(("hooksess", "command", page.address, tool.about, ""))
    for command in tool.commands:
        ident = command.words.replace(" ", "-")
        parts.append(f'<h2 id="{e(ident)}">{e(command.words)}</h2><pre><code>hooksess {e(command.words)} {e(command.synopsis)}</code></pre>')
        parts.append(page.blocks(command.blocks))
        site.index.append((f"hooksess {command.words}", "command", f"{page.address}#{ident}", command.summary + " " + text_of(command.blocks),
                           ""))
    parts.append('<h2 id="exit-status">Exit status</h2><dl>')
    parts += [f"<dt><code>{e(status)}</code></dt><dd>{e(meaning)}</dd>" for status, meaning in tool.statuses]
    parts.append("</dl>")
    return page, "hooksess(1)", "\n".join(parts)


def headers_html(site):
    page = Page(site, "reference/headers.html")
    rows = "\n".join(f'<tr><td><a href="{page.to(site.address(h))}">{e(h.path)}</a></td><td>{page.linked(h.summary)}</td></tr>'
                     for h in first_header_first(site.found))
    return page, "All headers", f'<h1>All headers</h1>\n<div class="wide"><table class="list">{rows}</table></div>'


def first_header_first(found):
    return sorted(found, key=lambda header: header.path != "hooksess.h")


def groups(site, titles):
    """The pages in the order in which a reader needs them: (heading, [(title, address)])."""
    overview = site.root / "docs/guide/README.md"  # its links are in the order in which to read
    order = [f"docs/guide/{link}" for link in re.findall(r"\]\(([\w-]+\.md)\)", overview.read_text())] if overview.exists() else []

    def pages(test):
        names = [name for name in site.documents if test(name)]
        names.sort(key=lambda name: order.index(name) if name in order else -1 if name == "docs/guide/README.md" else len(order))
        return [(titles[name], site.documents[name]) for name in names]

    begin = ("README.md", "docs/install.md")
    command = [("hooksess(1)", "reference/hooksess.1.html")] if site.command else []
    headers = [("All headers", "reference/headers.html"), *((h.path, site.address(h)) for h in first_header_first(site.found))]
    found = [
        ("Begin here", pages(lambda name: name in begin)),
        ("Guide", pages(lambda name: name.startswith("docs/guide/") or name == "docs/cookbook.md")),
        ("Examples", pages(lambda name: name.startswith(("examples/", "python/")))),
        ("Command", command),
        ("More", pages(lambda name: re.match(r"docs/[^/]+$", name) and name not in (*begin, "docs/cookbook.md"))),
        ("Headers", headers),
        ("Project", pages(lambda name: "/" not in name and name not in begin)),
    ]
    return [(heading, links) for heading, links in found if links]


FRAME = """<!DOCTYPE html>
<html lang="en" data-root="{root}">
<head>
<meta charset="utf-8">
<meta name="viewport" content="width=device-width, initial-scale=1">
<meta name="color-scheme" content="light dark">
<title>{title}</title>
<link rel="stylesheet" href="{root}style.css">
</head>
<body>
<header>
<a class="home" href="{root}index.html">libhooksess {version}</a>
<form role="search" action="{root}index.html"><input type="search" name="q" placeholder="Search (/)" aria-label="Search" autocomplete="off"></form>
<a class="menu" href="#pages">Pages</a>
</header>
<ol id="results" hidden></ol>
{contents}<main>
{body}
</main>
<nav id="pages" aria-label="Pages">
{pages}
</nav>
<script src="{root}search-index.js" defer></script>
<script src="{root}search.js" defer></script>
<script src="{root}page.js" defer></script>
</body>
</html>
"""


def navigation(page, found):
    """All pages. The headers, which are many, are folded on pages that are no headers."""
    parts = []
    for heading, links in found:
        is_here = any(address == page.address for _, address in links)
        items = "".join(
            f'<li><a href="{page.to(address)}"{" aria-current=page" if address == page.address else ""}>{e(title)}</a></li>\n'
            for title, address in links)
        if heading == "Headers":
            parts.append(f"<details{' open' if is_here else ''}><summary>{heading}</summary>\n<ul>\n{items}</ul></details>")
        else:
            parts.append(f"<h2>{e(heading)}</h2>\n<ul>\n{items}</ul>")
    return "\n".join(parts)


def contents(body):
    """The headings of a page and the names that it declares, as links. Nothing for a short page."""
    found = re.findall(r'<h([23])[^>]* id="([^"]+)">(.*?)</h\1>|<b id="([^"]+)">([^<]+)</b>', body)
    if len(found) < 3:
        return ""
    items = "".join(
        f'<li class="level{level or 3}"><a href="#{ident or name}">{re.sub("<[^>]+>", "", text) or bare}</a></li>\n'
        for level, ident, text, name, bare in found)
    return f'<aside aria-label="On this page"><details><summary>On this page</summary>\n<ul>\n{items}</ul></details></aside>\n'


def write(output, root, found, command, version):
    site = Site(root, found, command, version)
    documents = {name: document_html(site, name) for name in site.documents}
    titles = {name: title for name, (_, title, _) in documents.items()}
    pages = [*documents.values(), *(header_html(site, header) for header in found)]
    if command:
        pages.append(tool_html(site))
    pages.append(headers_html(site))
    for name in sorted(site.files):
        page = Page(site, f"files/{name}.html", name)
        pages.append((page, name, f"<h1>{e(name)}</h1>\n<pre><code>{page.linked((root / name).read_text())}</code></pre>"))
    links = groups(site, titles)
    for page, title, body in pages:
        path = output / page.address
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(FRAME.format(
            root="../" * page.address.count("/"), title=e(title if title == "libhooksess" else f"{title} - libhooksess"),
            version=version, body=body, contents=contents(body), pages=navigation(page, links)))
    for name in site.images:
        if (root / name).is_file():
            (output / "images").mkdir(exist_ok=True)
            shutil.copy(root / name, output / "images" / name.replace("/", "-"))
    for name in ("style.css", "search.js", "page.js"):
        shutil.copy(HERE / name, output)
    entries = ",\n".join(json.dumps(entry) for entry in dict.fromkeys(site.index))
    (output / "search-index.js").write_text(f"var searchIndex = [\n{entries}\n];\n")
