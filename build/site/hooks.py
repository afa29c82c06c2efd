"""Hooks of mkdocs: the navigation comes from docs/pages.md, and links out of docs/ lead to the repository."""

import os
import posixpath
import re
import unicodedata

LINK = re.compile(r"(?<!!)\[([^\]]+)\]\(([^)\s]+)\)")
FENCED = re.compile(r"(^ *(```+|~~~+).*?^ *\2[^\n]*$)", re.M | re.S)


def slugify(text, separator="-"):
    """Returns the anchor that GitHub gives a heading, so that links work on both."""
    kept = (c for c in text if c in " -_" or unicodedata.category(c)[0] in "LMN")
    return "".join(kept).lower().replace(" ", separator)


def on_config(config):
    """Sets the navigation: the sections of docs/pages.md with the pages to which they link."""
    with open(os.path.join(config["docs_dir"], "pages.md"), encoding="utf-8") as f:
        sections = re.split(r"^## (.+)$", f.read(), flags=re.M)
    nav, seen = [{"Start": "README.md"}, {"All pages": "pages.md"}], set()
    for title, text in zip(sections[1::2], sections[2::2]):
        pages = []
        for label, target in LINK.findall(text):
            page = target.split("#")[0]
            if page.endswith(".md") and not page.startswith("..") and page not in seen:
                seen.add(page)
                pages.append({label: page})
        if pages:
            nav.append({title: pages})
    config["nav"] = nav
    return config


def on_page_content(html, page, **_):
    """Marks the content of the front, whose list site.css shows as buttons."""
    return f'<div class="front">{html}</div>' if page.file.src_path == "README.md" else html


def on_page_markdown(markdown, page, config, **_):
    """Makes links to files outside of docs/ links to the repository."""
    folder = posixpath.dirname(page.file.src_path)

    def repository(match):
        label, target = match.groups()
        path = posixpath.normpath(posixpath.join("docs", folder, target))
        if ":" in target or target.startswith("#") or path.startswith("docs/"):
            return match.group(0)
        return f"[{label}]({config['extra']['repository']}/blob/main/{path})"

    parts = FENCED.split(markdown)
    # Every third part is text, followed by a block of code and its fence.
    return "".join(LINK.sub(repository, part) if i % 3 == 0 else part for i, part in enumerate(parts) if i % 3 != 2)
