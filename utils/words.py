"""Words with `code` in them, as HTML."""

import html
import re


def in_html(text: str) -> str:
    """The text, escaped; what stands between backticks as code."""
    return re.sub("`([^`\n]+)`", r"<code>\1</code>", html.escape(text))
